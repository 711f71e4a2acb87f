"""Names that look alike are one name: eight accounts called Ash cannot join."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from service.databases import opened
from service.world import TERMS, make_world
from troth.core.errors import TrothError
from troth.service import accounts, campaigns
from troth.service.errors import ConflictError, InvalidError
from troth.service.names import skeleton, skeletons
from troth.service.schema import accounts as table

ALIKE = [
    *("ASH", "\uff21sh", "\U0001d5a0sh", "\u0430\u0455\u04bb", "\u13aa\u13da\u13bb", "\ua4ee\ua4e2\ua4e7"),
    *("\u1d00sh", "A\ua731h", "As\u029c", "A\u0332sh", "As\u0335h", "Ash\u20dd", "\u1d00\ua731\u029c"),
]
MIXED = [
    *("\u0410sh", "A\u0455h", "\u0391sh", "As\u04bb", "\u13aash", "A\uabaah", "\ua4eesh", "A\ua4e2h", "\u2c80sh"),
    *("\U000102a0sh", "\u15c5sh", "\U00016f40sh", "Dr A\u0455h"),
]
UNSEEN = ["A\u200bsh", "A\u034fsh", "Ash\ufe0f", "Ash\u3164", "\u2066Ash", "Ash\u00ad", "A\U000e0041sh", "Ash\u2800"]
OTHERS = ["Åsh", "Ashe", "Эш", "木", "Ясень-Ash", "木Ash", "नमन", "שמש", "Ήλιος", "ʻAsha"]


def test_no_account_looks_like_another(database: str) -> None:
    with opened(database) as store, store.write() as tx:
        accounts.create_account(tx, "Ash", "provider")
        for name in ALIKE:
            with pytest.raises(ConflictError, match="already exists"):
                accounts.create_account(tx, name, "provider")
        for name in MIXED:
            with pytest.raises(InvalidError, match="letters in one word"):
                accounts.create_account(tx, name, "provider")
        for name in UNSEEN:
            with pytest.raises(InvalidError, match="cannot be shown"):
                accounts.create_account(tx, name, "provider")
        for name in OTHERS:
            accounts.create_account(tx, name, "provider")


def test_nobody_is_added_who_looks_like_another(database: str) -> None:
    """Before invitations are out, one by one and from the terms."""
    with opened(database) as store:
        world = make_world(store, opened=False)
        with store.write() as tx:
            for name in ALIKE[1:]:
                with pytest.raises(ConflictError, match="looks like 'Ash'"):
                    campaigns.add_member(tx, world.analyst, world.campaign, name, "in person")
            for name in MIXED:
                with pytest.raises(InvalidError, match="letters in one word"):
                    campaigns.add_member(tx, world.analyst, world.campaign, name, "in person")
            for name in OTHERS:
                campaigns.add_member(tx, world.analyst, world.campaign, name, "in person")
            with pytest.raises(ConflictError, match="look alike"):
                terms = {**TERMS, "data": {"providers": [ALIKE[3], "Birch"]}}
                campaigns.change_terms(tx, world.analyst, world.campaign, terms)


def test_no_campaign_opens_with_names_that_look_alike(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier version may have added them."""
    with opened(database) as store:
        world = make_world(store, opened=False)
        with store.write() as tx, monkeypatch.context() as earlier:
            earlier.setattr(campaigns, "skeletons", lambda name: frozenset([name]))
            campaigns.add_member(tx, world.analyst, world.campaign, ALIKE[4], "in person")
        with pytest.raises(TrothError, match="look alike"):
            world.open()


@pytest.mark.parametrize("pair", [("Ivy", "\ua4f2\ua4e6\ua4ec"), ("Al", "AI"), ("p1", "pl"), ("p0", "pO")])
def test_strokes_and_rings_look_alike(pair: tuple[str, str]) -> None:
    assert skeletons(pair[0]) & skeletons(pair[1])


@pytest.mark.parametrize(
    "pair", [("Ali", "All"), ("I", "L"), ("Ian", "Lan"), ("p1", "p7"), ("Ost", "Øst"), ("Нина", "Нана"), ("p1", "p10")]
)
def test_names_that_look_different_differ(pair: tuple[str, str]) -> None:
    assert not skeletons(pair[0]) & skeletons(pair[1])


def test_a_name_in_another_case_is_the_same_name() -> None:
    for name in ("Нина", "Ηρα", "Ångström", "Ash", "ᎣᏏᏲ", "Ռուբեն"):
        assert skeleton(name) == skeleton(name.upper()) == skeleton(name.lower())


def test_an_account_from_before_is_found_by_its_name(database: str) -> None:
    with opened(database) as store, store.write() as tx:
        key = accounts.create_account(tx, "Звон", "provider")
        tx.execute(table.update().values(handle="as an earlier version wrote it"))
        assert tx.scalar(select(table.c.id).where(accounts.has_name("Звон"))) == key
        with pytest.raises(ConflictError, match="already exists"):
            accounts.create_account(tx, "Звон", "provider")
