"""The pages: rendered on the server, working without JavaScript, nicer with it. Each has a line in one table."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import APIRouter, Depends, FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from troth.operations import ANYONE, Access, Lane
from troth.service.access import identify
from troth.service.api import ENDPOINTS
from troth.service.lanes import in_lane
from troth.service.pages import account, analyst, explanation, home, ledger, new_campaign, provider, rounds


class Page(NamedTuple):
    """A page, or what one of its forms does."""

    method: str
    path: str
    access: Access
    function: Callable[..., Any]
    slow: Lane | None = None

    @property
    def lane(self) -> Lane:
        """The kind of work that it is."""
        return self.slow or ("reads" if self.method == "GET" else "writes")


_ANALYST, _PROVIDER, _BOTH = Access(("analyst",)), Access(("provider",)), Access(("analyst", "provider"))
_CAMPAIGN = "/campaigns/{campaign}"
_MEMBER = _CAMPAIGN + "/providers/{member}"
_ROUND = _CAMPAIGN + "/rounds/{number}"
_SUBMISSION = _ROUND + "/submissions/{submission}"

PAGES: tuple[Page, ...] = (
    Page("GET", "/health", ANYONE, home.health, "health"),
    Page("GET", "/docs", ANYONE, home.docs),
    Page("GET", "/assumed", ANYONE, home.assumed),
    Page("GET", "/sign-in", ANYONE, account.sign_in_page),
    Page("POST", "/sign-in", ANYONE, account.sign_in, "passwords"),
    Page("POST", "/sign-out", ANYONE, account.sign_out),
    Page("GET", "/enter/{secret}", ANYONE, account.enter_page),
    Page("POST", "/enter/{secret}", ANYONE, account.enter, "passwords"),
    Page("GET", "/join/{secret}", ANYONE, account.join_page),
    Page("POST", "/join/{secret}", ANYONE, account.join, "passwords"),
    Page("GET", "/", _BOTH, home.home),
    Page("GET", "/settings", _BOTH, account.settings_page),
    Page("POST", "/settings/password", _BOTH, account.change_password, "passwords"),
    Page("POST", "/settings/tokens", _BOTH, account.create_token),
    Page("POST", "/settings/tokens/{token}/revoke", _BOTH, account.revoke_token),
    Page("GET", "/campaigns/new", _ANALYST, new_campaign.new_page),
    Page("POST", "/campaigns/new", _ANALYST, new_campaign.create, "work"),
    Page("POST", "/campaigns/new/fields", _ANALYST, new_campaign.fields, "work"),
    Page("POST", "/campaigns/new/preview", _ANALYST, new_campaign.preview, "work"),
    Page("GET", _CAMPAIGN, _BOTH, analyst.campaign_page),
    Page("GET", f"{_CAMPAIGN}/campaign.toml", _BOTH, ENDPOINTS["campaign_file"]),
    Page("GET", f"{_CAMPAIGN}/ledger", _ANALYST, ledger.ledger_page),
    Page("POST", f"{_CAMPAIGN}/ledger/verify", _ANALYST, ledger.verify, "work"),
    Page("GET", f"{_CAMPAIGN}/ledger.jsonl", _BOTH, ENDPOINTS["ledger_file"]),
    Page("GET", f"{_CAMPAIGN}/ledger.tasks.parquet", _BOTH, ENDPOINTS["shares_file"]),
    Page("GET", f"{_CAMPAIGN}/payments.csv", _ANALYST, ENDPOINTS["payments_file"]),
    Page("GET", f"{_CAMPAIGN}/report.html", _ANALYST, ledger.result_page, "work"),
    Page("POST", f"{_CAMPAIGN}/rounds", _ANALYST, analyst.open_round, "work"),
    Page("POST", f"{_CAMPAIGN}/finish", _ANALYST, analyst.finish, "work"),
    Page("GET", f"{_CAMPAIGN}/terms", _ANALYST, analyst.terms_page),
    Page("POST", f"{_CAMPAIGN}/terms", _ANALYST, analyst.change_terms),
    Page("POST", f"{_CAMPAIGN}/public", _ANALYST, analyst.change_public),
    Page("GET", f"{_CAMPAIGN}/providers", _ANALYST, analyst.providers_page),
    Page("POST", f"{_CAMPAIGN}/providers", _ANALYST, analyst.invite),
    Page("POST", f"{_MEMBER}/invitation", _ANALYST, analyst.invite_again),
    Page("POST", f"{_MEMBER}/group", _ANALYST, analyst.change_group),
    Page("GET", f"{_MEMBER}/revoke", _ANALYST, analyst.revoke_page),
    Page("POST", f"{_MEMBER}/revoke", _ANALYST, analyst.revoke),
    Page("GET", _ROUND, _BOTH, rounds.round_page),
    Page("GET", f"{_ROUND}/close", _ANALYST, rounds.close_page),
    Page("POST", f"{_ROUND}/close", _ANALYST, rounds.close, "work"),
    Page("POST", f"{_ROUND}/dry-run", _ANALYST, rounds.dry_run, "work"),
    Page("POST", f"{_ROUND}/publish", _ANALYST, rounds.publish),
    Page("POST", f"{_ROUND}/reopen", _ANALYST, rounds.reopen),
    Page("POST", f"{_ROUND}/set-aside", _ANALYST, rounds.set_aside, "work"),
    Page("GET", _ROUND + "/payments/{member}", _ANALYST, explanation.for_analyst),
    Page("GET", f"{_ROUND}/payment", _PROVIDER, explanation.for_provider),
    Page("POST", f"{_ROUND}/submissions", _PROVIDER, provider.submit),
    Page("GET", _SUBMISSION, _PROVIDER, provider.submission_page),
    Page("POST", f"{_SUBMISSION}/confirm", _PROVIDER, provider.confirm),
    Page("GET", "/results", _PROVIDER, provider.results),
)
ACCESS = {"MOUNT /static": ANYONE} | {f"{page.method} {page.path}": page.access for page in PAGES}


class Unchanged(StaticFiles):
    """Files that browsers keep and ask about: they are sent again only when they have changed."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Send a file, or say that it is unchanged."""
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def add_to(app: FastAPI) -> None:
    """Add the pages to the application."""
    router = APIRouter(dependencies=[Depends(identify)], include_in_schema=False)
    for page in PAGES:
        router.add_api_route(page.path, in_lane(page.lane, page.function), methods=[page.method], response_model=None)
    app.router.routes.extend(router.routes)
    static = Unchanged(directory=str(files("troth.service") / "static"), packages=[("troth.results", "assets")])
    app.mount("/static", static, name="static")
