"""Public data in the service: uploaded to a draft, shown in the terms, and part of the payments."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pytest

import troth
from service.test_pages import Browser, make_analyst, make_app, make_campaign
from service.world import TERMS
from troth.service import accounts, campaigns
from troth.service.errors import InvalidError

pytestmark = pytest.mark.xdist_group("pages")
REGISTER = b"clinic,improved\n" + b"Oak,1\n" * 30 + b"Yew,0\n" * 10


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    app = make_app(tmp_path_factory.mktemp("service"))
    yield app
    app.state.store.close()


class Stage:
    """A draft, its analyst and three providers."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.ana: accounts.User = make_analyst(app, f"Ana {token_hex(4)}")
        self.campaign, people = make_campaign(self.app, self.ana, ["Ash", "Birch", "Elm"], TERMS)
        self.analyst = Browser(self.app).sign_in(self.app, self.ana.account)
        self.providers = {name: Browser(self.app).sign_in(self.app, who) for name, who in people.items()}
        self.path = f"/campaigns/{self.campaign}"

    def upload(self, content: bytes, name: str = "register.csv") -> Any:
        self.analyst.get(f"{self.path}/terms")
        return self.analyst.post(f"{self.path}/public", files={"file": (name, content)})

    def pay(self) -> None:
        """Let everybody report, and close the round."""
        self.analyst.get(self.path)
        assert self.analyst.post(f"{self.path}/rounds").url.params["notice"] == "opened"
        for place, provider in enumerate(self.providers.values()):
            provider.get(f"{self.path}/rounds/1")
            content = b"improved\n" + b"1\n" * (3 + place) + b"0\n" * (2 * place + 1)
            answer = provider.post(f"{self.path}/rounds/1/submissions", files={"file": ("rows.csv", content)})
            provider.post(f"{answer.url.path}/confirm")
        self.analyst.get(f"{self.path}/rounds/1/close")
        closed = self.analyst.post(f"{self.path}/rounds/1/close", follow_redirects=False)
        assert "notice=closed" in closed.headers["location"]


@pytest.fixture
def stage(app: Any) -> Stage:
    return Stage(app)


def test_from_an_upload_to_verified_payments(stage: Stage, tmp_path: Path) -> None:
    digest = sha256(REGISTER).hexdigest()
    answer = stage.upload(REGISTER)
    assert answer.url.params["notice"] == "changed"
    assert "register.csv" in answer.text
    for browser in stage.providers.values():
        page = browser.get(stage.path).text
        assert "40 rows" in page
        assert digest in page
    terms = tomllib.loads(stage.providers["Ash"].get(f"{stage.path}/campaign.toml").text)
    assert terms["public"] == {"source": "register.csv", "digest": f"sha256:{digest}", "rows": 40, "summary": [10, 30]}
    stage.pay()
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_bytes(stage.analyst.get(f"{stage.path}/ledger.jsonl").content)
    result = troth.verify(ledger)
    assert result.campaign.public[None].rows == 40
    reports = {report.provider: report for report in result.reports}
    t = np.array([reports[name].summary[::-1] for name in ("Ash", "Birch", "Elm")])
    expected = troth.peer_log_pmi(troth.models.Bernoulli(31, 11), t).tolist()
    assert [payment.log_pmi for payment in result.rounds[0].payments] == pytest.approx(expected, abs=1e-12)
    assert "cannot change" in stage.upload(REGISTER).text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"improved\n1\n7\n", "row 2 of register.csv"),
        (b"other\n1\n", "no column"),
        (b"", "empty"),
        (b"PAR1", "Parquet"),
    ],
)
def test_what_is_no_public_data_is_refused(stage: Stage, content: bytes, message: str) -> None:
    answer = stage.upload(content)
    assert message in answer.text
    assert stage.analyst.get(stage.path).text.count("Public data") == 0


def test_no_file_of_the_server_is_read(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_bytes(REGISTER)
    terms = {**TERMS, "data": {"public": str(tmp_path / "secret.csv")}}
    with pytest.raises(InvalidError, match="cannot read your files"), stage.app.state.store.write() as tx:
        campaigns.create_campaign(tx, stage.ana, terms)


def test_sums_in_the_terms_are_checked(stage: Stage) -> None:
    with pytest.raises(InvalidError, match="public"), stage.app.state.store.write() as tx:
        campaigns.create_campaign(tx, stage.ana, {**TERMS, "public": {"rows": 3, "summary": [1, 1]}})
    with stage.app.state.store.write() as tx:
        campaigns.create_campaign(tx, stage.ana, {**TERMS, "public": {"rows": 3, "summary": [1, 2]}})
