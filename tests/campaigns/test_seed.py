"""Nobody knows a round's seed while reports come in: not who chose the secret, and not who reports."""

from __future__ import annotations

from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import troth
from campaigns.shop import GOOD, run, write_campaign
from registry import SOAK
from troth.campaigns.commit import commit
from troth.campaigns.records.ledger import Ledger, LedgerError, read_ledger
from troth.campaigns.records.ledger_entries import format_of, report_root
from troth.campaigns.records.merkle import consistency_proof, extends, includes, inclusion_proof, leaf, root
from troth.campaigns.seed import Secret, derive_seed, follows
from troth.campaigns.settle import settle
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError
from troth.data.request import Report
from troth.results.pay import verify

DRAWING = GOOD.replace('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"\ndraws = 16')
BERNOULLI = troth.models.Bernoulli(1, 1)
RFC_LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]


def frame(counts: dict[str, tuple[int, int]]) -> dict[str, list[Any]]:
    who = [name for name, (ones, zeros) in counts.items() for _ in range(ones + zeros)]
    return {"who": who, "x": [x for ones, zeros in counts.values() for x in [1] * ones + [0] * zeros]}


def pay(counts: dict[str, tuple[int, int]], secret: Secret) -> troth.Result:
    rule = troth.SyntheticPeers(draws=4)
    return troth.pay(frame(counts), BERNOULLI, rule, provider="who", budget="1000.00", seed=secret)


def test_the_tree_is_that_of_rfc_6962() -> None:
    leaves = [leaf(bytes.fromhex(text)) for text in RFC_LEAVES]
    assert root(leaves) == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    assert root(leaves[:7]) == "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"


def test_proofs_are_right_and_no_other_passes() -> None:
    for size in range(1, 34 if SOAK else 12):
        leaves = [leaf(bytes([number])) for number in range(size)]
        digest = root(leaves)
        for place in range(size):
            proof = inclusion_proof(leaves, place)
            assert includes(digest, size, place, leaves[place], proof)
            assert not includes(digest, size, place, leaf(b"another"), proof)
            assert not includes(digest, size, place, leaves[place], [*proof, digest])
            assert not any(
                includes(digest, size, index, leaves[place], proof) for index in range(size) if index != place
            )
        for before in range(size + 1):
            proof = consistency_proof(leaves, before)
            assert extends(root(leaves[:before]), before, digest, size, proof)
            changed = root([leaf(b"another"), *leaves[1:before]])
            assert before == 0 or not extends(changed, before, digest, size, proof)


def reports_of(counts: dict[str, tuple[int, int]]) -> list[Report]:
    return [Report(name, None, sum(pair), np.array(pair[::-1], float)) for name, pair in counts.items()]


def earned(campaign: Campaign, counts: dict[str, tuple[int, int]], secrets: list[Secret]) -> list[float]:
    """Return Ash's share under each secret."""
    reports = reports_of(counts)
    seeds = [derive_seed(secret.link(1), [report_root(reports)]) for secret in secrets]
    return [settle(campaign, reports, seed=seed)[0].share for seed in seeds]


def test_a_secret_that_was_tried_beforehand_is_worth_nothing() -> None:
    """Who looks for the secret that pays an accomplice best must know the reports, and these come later."""
    mechanism = {"rule": "SyntheticPeers", "draws": 4}
    model = {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}}
    plain = {
        "campaign": {"name": "c", "budget": "9"},
        "model": model,
        "mechanism": mechanism,
        "data": {"provider": "who"},
    }
    campaign = Campaign.from_dict(plain)
    secrets = [Secret(sha256(str(number).encode()).hexdigest()) for number in range(200 if SOAK else 24)]
    expected = {"Ash": (6, 2), "Birch": (5, 3), "Elm": (4, 4)}
    tried = earned(campaign, expected, secrets)
    best = int(np.argmax(tried))
    assert max(tried) > 1.02 * np.mean(tried)  # there is something to be had by choosing
    better = []
    for ones in (3, 5, 6):  # another report, another order of secrets
        others = np.array(earned(campaign, {**expected, "Elm": (ones, 8 - ones)}, secrets))
        better.append(np.mean(others > others[best]))
    assert np.mean(better) > 0.1  # of three numbers that are uniform this misses one in two hundred


def test_the_seed_depends_on_every_report_and_not_on_names(tmp_path: Path) -> None:
    secret = Secret("07" * 32)
    counts = {"Ash": (6, 2), "Birch": (5, 3), "Elm": (4, 4)}
    seeds = {pay({**counts, name: (3, 3)}, secret).rounds[0].seed for name in counts}
    assert len({*seeds, pay(counts, secret).rounds[0].seed}) == 4
    swapped = pay({"Ash": (4, 4), "Birch": (5, 3), "Elm": (6, 2)}, secret)
    assert swapped.rounds[0].seed == pay(counts, secret).rounds[0].seed


def resealed(ledger: Ledger, change: Any) -> Ledger:
    entries = [
        {key: value for key, value in entry.items() if key not in ("previous", "hash")} for entry in ledger.entries
    ]
    return Ledger([change(entry) for entry in entries])


@pytest.mark.parametrize("field", ["seed", "link", "root"])
def test_verify_recomputes_what_the_seed_is_made_of(field: str) -> None:
    ledger = pay({"Ash": (6, 2), "Birch": (5, 3)}, Secret("07" * 32)).ledger
    other = Secret("08" * 32).link(1)
    value = other.removeprefix("sha256:") if field == "root" else other

    def change(entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, field: value} if entry["entry"] == "round" else entry

    verify(resealed(ledger, lambda entry: entry))
    with pytest.raises(LedgerError):
        verify(resealed(ledger, change))


@pytest.mark.parametrize(
    ("moved", "processor", "valid"), [(1e-15, True, True), (1e-15, False, False), (1e-6, True, False)]
)
def test_last_bits_may_differ_on_another_processor_alone(moved: float, processor: bool, valid: bool) -> None:
    ledger = pay({"Ash": (6, 2), "Birch": (5, 3)}, Secret("07" * 32)).ledger

    def change(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["entry"] == "payment":
            return {**entry, "log_pmi": entry["log_pmi"] + moved}
        if entry["entry"] == "round" and processor:
            return {**entry, "versions": {**entry["versions"], "processor": "m68k"}}
        return entry

    with nullcontext() if valid else pytest.raises(LedgerError, match="log_pmi is"):
        verify(resealed(ledger, change))


def test_a_payment_that_was_raised_is_named_though_its_round_has_the_root_of_all() -> None:
    ledger = pay({"Ash": (6, 2), "Birch": (5, 3)}, Secret("07" * 32)).ledger

    def change(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["entry"] == "round":
            return {**entry, "payments": "00" * 32}
        return {**entry, "share": 1.0} if entry.get("provider") == "Birch" and entry["entry"] == "payment" else entry

    with pytest.raises(LedgerError, match="payment of 'Birch': share is 1.0"):
        verify(resealed(ledger, change))


def test_it_is_too_late_to_commit_once_payments_have_begun(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, DRAWING)
    before = campaign.read_bytes()
    troth.pay(campaign, ledger=tmp_path / "ledger.jsonl")
    with pytest.raises(DataError, match="too late to commit to a seed"):
        commit(campaign)
    assert campaign.read_bytes() == before
    assert not campaign.with_suffix(".secret").exists()


def test_a_link_is_followed_over_several_rounds() -> None:
    secret = Secret("05" * 32, rounds=9)
    assert follows(secret.link(4), secret.commitment, 4)
    assert not follows(secret.link(4), secret.commitment, 3)
    assert derive_seed(secret.link(1), ["aa" * 32]) != derive_seed(secret.link(1), ["aa" * 32], "a beacon")


def test_the_seed_depends_on_the_reports_of_every_day_that_is_compared() -> None:
    link, days = Secret("05" * 32).link(1), ["aa" * 32, "bb" * 32, "cc" * 32]
    seeds = {derive_seed(link, [*days[:day], "dd" * 32, *days[day + 1 :]]) for day in range(3)}
    assert len(seeds | {derive_seed(link, days), derive_seed(link, days[:2])}) == 5


@pytest.mark.parametrize(("name", "paid_in_all"), [("2", "203.21"), ("3", "761.53"), ("tasks", "1.53")])
def test_a_ledger_of_the_formats_before_still_verifies(name: str, paid_in_all: str) -> None:
    result = verify(Path(__file__).parent / "ledgers" / f"{name}.jsonl")
    assert result.campaign.text(result.paid) == paid_in_all


@pytest.mark.parametrize("number", [4.0, True, "4", 5, None])
def test_a_format_is_a_whole_number_that_is_known(number: object) -> None:
    ledger = Ledger()
    ledger.append({"entry": "campaign", "format": number})
    with pytest.raises(LedgerError, match=r"line 1: the ledger has format .*, but this version reads 2, 3, 4"):
        format_of(ledger)


def test_a_secret_that_was_revealed_serves_no_other_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who pays again from an older copy of the ledger, with other rows, knows the secret by then."""
    path = write_campaign(tmp_path, DRAWING)
    assert run(monkeypatch, "commit", path) == 0
    assert run(monkeypatch, "pay", path, "--no-report") == 0
    ledger = tmp_path / "ledger.jsonl"
    first = read_ledger(ledger).of("round")[0]["seed"]
    ledger.unlink()
    assert run(monkeypatch, "pay", path, "--no-report") == 0  # the same reports: the same payments
    assert read_ledger(ledger).of("round")[0]["seed"] == first
    ledger.unlink()
    rows = next(tmp_path.glob("*.csv"))
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join(lines[:-1]) + "\n")
    assert run(monkeypatch, "pay", path, "--no-report") == 1
    assert not ledger.exists()


def test_a_beacon_that_the_terms_name_is_part_of_the_seed(tmp_path: Path) -> None:
    rule = 'rule = "SyntheticPeers"'
    path = write_campaign(
        tmp_path, DRAWING.replace(rule, rule + '\nbeacon = "drand quicknet, first after the deadline"')
    )
    with pytest.raises(DataError, match="drand quicknet"):
        troth.pay(path, seed=1)
    first, second = (troth.pay(path, seed=1, beacon=value) for value in ("c0ffee", "c0ffef"))
    assert first.rounds[0].seed != second.rounds[0].seed
    first.verify()
    with pytest.raises(LedgerError):
        verify(resealed(first.ledger, lambda entry: {**entry, **({"beacon": "x"} if "beacon" in entry else {})}))
    with pytest.raises(DataError, match="these terms use no beacon"):
        troth.pay(write_campaign(tmp_path, DRAWING), seed=1, beacon="c0ffee")


def test_a_commitment_that_cannot_be_written_leaves_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = write_campaign(tmp_path, DRAWING)
    before = campaign.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("troth.campaigns.commit.write_atomic", full)
        with pytest.raises(OSError, match="no space"):
            commit(campaign)
    assert campaign.read_bytes() == before
    commit(campaign)
    assert Campaign.load(campaign).commitment is not None
