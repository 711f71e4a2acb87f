"""The pages: rendered on the server, usable without JavaScript, and listed in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from inspect import Parameter, Signature, iscoroutinefunction, signature
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from troth.core.errors import TrothError
from troth.operations import ANYONE, CAMPAIGN, MEMBER, ROUND, SUBMISSION, Access, Pool, names_in
from troth.service import threads
from troth.service.access import AuthenticatedRoute
from troth.service.api import ENDPOINTS
from troth.service.pages import about, account, analyst, explanation, forms, ledger, provider, rounds, terms
from troth.service.pages.frame import Visit
from troth.service.requests import PARAMETERS


class Page(NamedTuple):
    """A page, or the action of one of its forms.

    ``function`` takes the visit and the parameters of the path; for a file, it is an endpoint of the API. Parameters
    with defaults are read from the query, and keyword-only ones are for other functions. If an action fails, ``again``
    shows the form's page with the error; a user who may not see that page gets its error instead.
    """

    method: str
    path: str
    access: Access
    function: Callable[..., Any]
    slow: Pool | None = None  # the pool, if it takes longer than to read or write the database
    again: Callable[..., Response] | None = None
    welcome: Callable[..., Any] | None = None  # called before a form with a file is read; raises to reject it

    @property
    def route(self) -> str:
        """The method and the path."""
        return f"{self.method} {self.path}"

    def endpoint(self) -> Callable[..., Any]:
        """Return the FastAPI endpoint. It accepts only our own forms, even if the function does not read the form."""
        if self.function in ENDPOINTS.values():
            return self.function

        async def endpoint(request: Request, **values: Any) -> Any:
            visit = Visit(request)
            if self.method == "GET":
                return await self._answer(visit, values)
            if self.welcome is not None:
                await threads.run("reads", self.welcome, visit, **values)
            async with forms.received(request, visit.visitor, with_file=self.welcome is not None) as form:
                return await self._answer(replace(visit, form=form), values)

        parameters = {"request": Request} | {name: PARAMETERS[name] for name in names_in(self.path)}
        required = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in parameters.items()]
        query = [
            parameter.replace(kind=Parameter.KEYWORD_ONLY)
            for parameter in signature(self.function, eval_str=True).parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is not parameter.empty
        ]
        endpoint.__signature__ = Signature([*required, *query])  # type: ignore[attr-defined]
        return endpoint

    async def _answer(self, visit: Visit, values: dict[str, Any]) -> Any:
        """Call the function, in a thread of its pool unless it is a coroutine."""
        pool: Pool = self.slow or ("reads" if self.method == "GET" else "writes")
        try:
            if iscoroutinefunction(self.function):
                return await self.function(visit, **values)
            return await threads.run(pool, self.function, visit, **values)
        except TrothError as error:
            if self.again is None:
                raise
            arguments = {name: values[name] for name in signature(self.again).parameters if name in values}
            return await threads.run("reads", self.again, replace(visit, error=error), **arguments)


_ANALYST, _PROVIDER, _BOTH = Access(("analyst",)), Access(("provider",)), Access(("analyst", "provider"))

PAGES: tuple[Page, ...] = (
    Page("GET", "/health", ANYONE, about.health, "health"),
    Page("GET", "/docs", ANYONE, about.docs),
    Page("GET", "/assumed", ANYONE, about.assumed),
    Page("GET", "/sign-in", ANYONE, account.sign_in_page),
    Page("POST", "/sign-in", ANYONE, account.sign_in, "passwords", again=account.sign_in_page),
    Page("POST", "/sign-out", ANYONE, account.sign_out),
    Page("GET", "/enter/{secret}", ANYONE, account.enter_page),
    Page("POST", "/enter/{secret}", ANYONE, account.enter, "passwords", again=account.enter_page),
    Page("GET", "/join/{secret}", ANYONE, account.join_page),
    Page("POST", "/join/{secret}", ANYONE, account.join, "passwords", again=account.join_page),
    Page("GET", "/", _BOTH, analyst.home),
    Page("GET", "/settings", _BOTH, account.settings_page),
    Page("POST", "/settings/password", _BOTH, account.change_password, "passwords", again=account.settings_page),
    Page("POST", "/settings/tokens", _BOTH, account.create_token, again=account.settings_page),
    Page("POST", "/settings/tokens/{token}/revoke", _BOTH, account.revoke_token),
    Page("GET", "/campaigns/new", _ANALYST, terms.new_page),
    Page("POST", "/campaigns/new", _ANALYST, terms.create, "work", again=terms.new_page),
    Page("POST", "/campaigns/new/fields", _ANALYST, terms.fields, "work"),
    Page("POST", "/campaigns/new/preview", _ANALYST, terms.preview, "work", again=terms.new_page),
    Page("GET", CAMPAIGN, _BOTH, analyst.campaign_page),
    Page("GET", f"{CAMPAIGN}/campaign.toml", _BOTH, ENDPOINTS["campaign_file"]),
    Page("GET", f"{CAMPAIGN}/ledger", _ANALYST, ledger.ledger_page),
    Page("POST", f"{CAMPAIGN}/ledger/verify", _ANALYST, ledger.verify, "work"),
    Page("GET", f"{CAMPAIGN}/ledger.jsonl", _BOTH, ENDPOINTS["ledger_file"]),
    Page("GET", f"{CAMPAIGN}/ledger.tasks.parquet", _BOTH, ENDPOINTS["shares_file"]),
    Page("GET", f"{CAMPAIGN}/payments.csv", _ANALYST, ENDPOINTS["payments_file"]),
    Page("GET", f"{CAMPAIGN}/report.html", _ANALYST, ledger.result_page, "work"),
    Page("POST", f"{CAMPAIGN}/rounds", _ANALYST, analyst.open_round, "work", again=analyst.campaign_page),
    Page("POST", f"{CAMPAIGN}/finish", _ANALYST, analyst.finish, "work", again=analyst.campaign_page),
    Page("GET", f"{CAMPAIGN}/terms", _ANALYST, terms.terms_page),
    Page("POST", f"{CAMPAIGN}/terms", _ANALYST, terms.change_terms, again=terms.terms_page),
    Page(
        "POST", f"{CAMPAIGN}/public", _ANALYST, terms.change_public, again=terms.terms_page, welcome=terms.check_owner
    ),
    Page("GET", f"{CAMPAIGN}/providers", _ANALYST, analyst.providers_page),
    Page("POST", f"{CAMPAIGN}/providers", _ANALYST, analyst.invite, again=analyst.providers_page),
    Page("POST", f"{MEMBER}/invitation", _ANALYST, analyst.invite_again, again=analyst.providers_page),
    Page("POST", f"{MEMBER}/group", _ANALYST, analyst.change_group, again=analyst.providers_page),
    Page("GET", f"{MEMBER}/revoke", _ANALYST, analyst.revoke_page),
    Page("POST", f"{MEMBER}/revoke", _ANALYST, analyst.revoke),
    Page("GET", ROUND, _BOTH, rounds.round_page),
    Page("GET", f"{ROUND}/close", _ANALYST, rounds.close_page),
    Page("POST", f"{ROUND}/close", _ANALYST, rounds.close, "work"),
    Page("POST", f"{ROUND}/dry-run", _ANALYST, rounds.dry_run, "work", again=rounds.close_page),
    Page("POST", f"{ROUND}/publish", _ANALYST, rounds.publish, again=rounds.round_page),
    Page("POST", f"{ROUND}/reopen", _ANALYST, rounds.reopen, again=rounds.round_page),
    Page("POST", f"{ROUND}/set-aside", _ANALYST, rounds.set_aside, "work", again=rounds.round_page),
    Page("GET", ROUND + "/payments/{member}", _ANALYST, explanation.explain),
    Page("GET", f"{ROUND}/payment", _PROVIDER, explanation.explain),
    Page(
        "POST",
        f"{ROUND}/submissions",
        _PROVIDER,
        provider.submit,
        again=provider.round_page,
        welcome=provider.check_welcome,
    ),
    Page("GET", SUBMISSION, _PROVIDER, provider.submission_page),
    Page("POST", f"{SUBMISSION}/confirm", _PROVIDER, provider.confirm, again=provider.submission_page),
    Page("GET", "/results", _PROVIDER, provider.results),
)
ACCESS = {"MOUNT /static": ANYONE} | {page.route: page.access for page in PAGES}
HEALTH = {page.route for page in PAGES if page.slow == "health"}


class CachedStaticFiles(StaticFiles):
    """Static files that browsers cache and revalidate: they are sent again only if they have changed."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Send a file, or report that it is unchanged."""
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def add_to(app: FastAPI) -> None:
    """Add the pages to the application."""
    router = APIRouter(route_class=AuthenticatedRoute, include_in_schema=False)
    for page in PAGES:
        router.add_api_route(page.path, page.endpoint(), methods=[page.method], response_model=None)
    app.router.routes.extend(router.routes)
    static = CachedStaticFiles(directory=str(files("troth.service") / "static"), packages=[("troth.results", "assets")])
    app.mount("/static", static, name="static")
