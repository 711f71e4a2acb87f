CREATE TABLE accounts (
	id TEXT NOT NULL,
	name TEXT NOT NULL,
	handle TEXT NOT NULL,
	role TEXT NOT NULL,
	password TEXT,
	created TEXT NOT NULL,
	revoked TEXT,
	PRIMARY KEY (id),
	UNIQUE (handle)
)

CREATE TABLE attempts (
	id TEXT NOT NULL,
	subject TEXT NOT NULL,
	at TEXT NOT NULL,
	PRIMARY KEY (id)
)

CREATE TABLE sessions (
	hash TEXT NOT NULL,
	account TEXT NOT NULL,
	created TEXT NOT NULL,
	expires TEXT NOT NULL,
	PRIMARY KEY (hash),
	FOREIGN KEY(account) REFERENCES accounts (id)
)

CREATE TABLE tokens (
	id TEXT NOT NULL,
	hash TEXT NOT NULL,
	account TEXT NOT NULL,
	label TEXT NOT NULL,
	scopes TEXT NOT NULL,
	created TEXT NOT NULL,
	expires TEXT NOT NULL,
	used TEXT,
	revoked TEXT,
	PRIMARY KEY (id),
	UNIQUE (hash),
	FOREIGN KEY(account) REFERENCES accounts (id)
)

CREATE TABLE campaigns (
	id TEXT NOT NULL,
	owner TEXT NOT NULL,
	plain TEXT NOT NULL,
	state TEXT NOT NULL,
	publish_at_once BOOLEAN NOT NULL,
	share_ledger BOOLEAN NOT NULL,
	created TEXT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(owner) REFERENCES accounts (id)
)

CREATE TABLE replies (
	account TEXT NOT NULL,
	"key" TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	status INTEGER NOT NULL,
	body BLOB NOT NULL,
	created TEXT NOT NULL,
	PRIMARY KEY (account, "key"),
	FOREIGN KEY(account) REFERENCES accounts (id)
)

CREATE TABLE members (
	id TEXT NOT NULL,
	campaign TEXT NOT NULL,
	name TEXT NOT NULL,
	identity TEXT NOT NULL,
	"group" TEXT,
	account TEXT,
	created TEXT NOT NULL,
	joined TEXT,
	revoked TEXT,
	PRIMARY KEY (id),
	CONSTRAINT one_name_per_campaign UNIQUE (campaign, name),
	CONSTRAINT one_membership_per_account UNIQUE (campaign, account),
	FOREIGN KEY(campaign) REFERENCES campaigns (id),
	FOREIGN KEY(account) REFERENCES accounts (id)
)

CREATE TABLE rounds (
	id TEXT NOT NULL,
	campaign TEXT NOT NULL,
	number INTEGER NOT NULL,
	day TEXT,
	state TEXT NOT NULL,
	final BOOLEAN NOT NULL,
	deadline TEXT,
	opened TEXT NOT NULL,
	closed TEXT,
	settled TEXT,
	paid TEXT,
	published TEXT,
	problem TEXT,
	amount BIGINT,
	head TEXT,
	attempts INTEGER DEFAULT '0' NOT NULL,
	attempted TEXT,
	attempt_process INTEGER,
	attempt_started TEXT,
	attempt_host TEXT,
	beacon TEXT,
	verdict TEXT,
	anyway BOOLEAN DEFAULT 0 NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT one_round_per_number UNIQUE (campaign, number),
	CONSTRAINT one_round_per_day UNIQUE (campaign, day),
	FOREIGN KEY(campaign) REFERENCES campaigns (id)
)

CREATE TABLE ledger_lines (
	campaign TEXT NOT NULL,
	number INTEGER NOT NULL,
	line BLOB NOT NULL,
	PRIMARY KEY (campaign, number),
	FOREIGN KEY(campaign) REFERENCES campaigns (id)
)

CREATE TRIGGER ledger_lines_update_refused BEFORE UPDATE ON ledger_lines
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END

CREATE TRIGGER ledger_lines_delete_refused BEFORE DELETE ON ledger_lines
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END

CREATE TRIGGER ledger_lines_replace_refused BEFORE INSERT ON ledger_lines
WHEN EXISTS (SELECT 1 FROM ledger_lines WHERE campaign = NEW.campaign AND number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END

CREATE TABLE ledger_files (
	campaign TEXT NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY (campaign),
	FOREIGN KEY(campaign) REFERENCES campaigns (id)
)

CREATE TABLE payouts (
	id TEXT NOT NULL,
	campaign TEXT NOT NULL,
	batch INTEGER,
	state TEXT NOT NULL,
	changed TEXT NOT NULL,
	reason TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(campaign) REFERENCES campaigns (id)
)

CREATE TABLE links (
	hash TEXT NOT NULL,
	kind TEXT NOT NULL,
	account TEXT,
	member TEXT,
	created TEXT NOT NULL,
	expires TEXT NOT NULL,
	used TEXT,
	PRIMARY KEY (hash),
	FOREIGN KEY(account) REFERENCES accounts (id),
	FOREIGN KEY(member) REFERENCES members (id)
)

CREATE TABLE uploads (
	id TEXT NOT NULL,
	round TEXT NOT NULL,
	member TEXT NOT NULL,
	name TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	data_digest TEXT,
	rows BIGINT NOT NULL,
	summary TEXT NOT NULL,
	shown TEXT NOT NULL,
	created TEXT NOT NULL,
	nonce TEXT NOT NULL,
	tasks TEXT,
	dropped BIGINT DEFAULT '0' NOT NULL,
	unnamed BIGINT DEFAULT '0' NOT NULL,
	replaced TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(round) REFERENCES rounds (id),
	FOREIGN KEY(member) REFERENCES members (id)
)

CREATE TABLE queued (
	id TEXT NOT NULL,
	round TEXT NOT NULL,
	member TEXT NOT NULL,
	account TEXT NOT NULL,
	name TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	spool TEXT NOT NULL,
	bytes BIGINT NOT NULL,
	received TEXT NOT NULL,
	state TEXT NOT NULL,
	attempts INTEGER NOT NULL,
	claimed TEXT,
	done TEXT,
	milliseconds BIGINT NOT NULL,
	expanded BIGINT NOT NULL,
	status INTEGER,
	problem TEXT,
	nonce TEXT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(round) REFERENCES rounds (id),
	FOREIGN KEY(member) REFERENCES members (id),
	FOREIGN KEY(account) REFERENCES accounts (id)
)

CREATE TABLE upload_tasks (
	upload TEXT NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY (upload),
	FOREIGN KEY(upload) REFERENCES uploads (id)
)

CREATE TABLE reports (
	id TEXT NOT NULL,
	campaign TEXT NOT NULL,
	round TEXT NOT NULL,
	member TEXT NOT NULL,
	upload TEXT NOT NULL,
	confirmed TEXT NOT NULL,
	nonce TEXT,
	receipt TEXT,
	terms TEXT NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT one_report_per_provider_and_round UNIQUE (campaign, round, member),
	FOREIGN KEY(campaign) REFERENCES campaigns (id),
	FOREIGN KEY(round) REFERENCES rounds (id),
	FOREIGN KEY(member) REFERENCES members (id),
	FOREIGN KEY(upload) REFERENCES uploads (id)
)

CREATE INDEX ix_attempts_subject ON attempts (subject)

CREATE INDEX ix_campaigns_owner ON campaigns (owner)

CREATE INDEX ix_links_account ON links (account)

CREATE INDEX ix_links_member ON links (member)

CREATE INDEX ix_members_account ON members (account)

CREATE INDEX ix_members_campaign ON members (campaign)

CREATE INDEX ix_payouts_campaign ON payouts (campaign)

CREATE INDEX ix_queued_account ON queued (account)

CREATE INDEX ix_queued_member ON queued (member)

CREATE INDEX ix_queued_round ON queued (round)

CREATE INDEX ix_queued_state ON queued (state)

CREATE INDEX ix_reports_campaign ON reports (campaign)

CREATE INDEX ix_reports_member ON reports (member)

CREATE INDEX ix_reports_round ON reports (round)

CREATE INDEX ix_reports_upload ON reports (upload)

CREATE INDEX ix_rounds_campaign ON rounds (campaign)

CREATE INDEX ix_rounds_deadline ON rounds (deadline)

CREATE INDEX ix_sessions_account ON sessions (account)

CREATE INDEX ix_tokens_account ON tokens (account)

CREATE INDEX ix_uploads_member ON uploads (member)

CREATE INDEX ix_uploads_round ON uploads (round)
