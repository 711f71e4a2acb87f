"""Names that look alike are one name: eight accounts called Ash cannot join."""

from __future__ import annotations

import pytest

from service.databases import opened
from service.world import make_world
from troth.core.errors import TrothError
from troth.service import accounts, campaigns
from troth.service.errors import ConflictError, InvalidError

ALIKE = ["ASH", "\uff21sh", "\u0410sh", "A\u0455h", "\u0391sh", "\U0001d5a0sh", "As\u04bb", "\u0430\u0455\u04bb"]
UNSEEN = ["A\u200bsh", "A\u034fsh", "Ash\ufe0f", "Ash\u3164", "\u2066Ash", "Ash\u00ad", "A\U000e0041sh", "Ash\u2800"]


def test_no_account_looks_like_another(database: str) -> None:
    with opened(database) as store, store.write() as tx:
        accounts.create_account(tx, "Ash", "provider")
        for name in ALIKE:
            with pytest.raises(ConflictError, match="exists already"):
                accounts.create_account(tx, name, "provider")
        for name in UNSEEN:
            with pytest.raises(InvalidError, match="cannot be shown"):
                accounts.create_account(tx, name, "provider")
        for name in ("Åsh", "Ashe", "Эш", "木"):
            accounts.create_account(tx, name, "provider")


def test_no_campaign_opens_with_names_that_look_alike(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        with store.write() as tx:
            campaigns.add_member(tx, world.analyst, world.campaign, "\u0410sh", "in person")
        with pytest.raises(TrothError, match="look alike"):
            world.open()
