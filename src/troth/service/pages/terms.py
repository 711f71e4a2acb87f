"""Terms: a form for a new campaign, or a campaign file, with a preview; and changing them until a round opens."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.core.errors import TrothError
from troth.mechanisms import offered_rules
from troth.models import FAMILIES
from troth.service import campaigns, incoming, views
from troth.service.access import SignedIn
from troth.service.accounts import User
from troth.service.errors import InvalidError
from troth.service.pages import terms_form
from troth.service.pages.forms import Fields, Sent, SentWithFile
from troth.service.pages.frame import goto, is_part, page, store_of
from troth.service.preview import make_preview
from troth.service.requests import Identifier
from troth.service.uploads import read_public_upload

_MOST_PROVIDERS, _MOST_ROWS = 1000, 10**6


def new_page(
    request: Request,
    user: SignedIn,
    *,
    typed: dict[str, str] | None = None,
    error: TrothError | None = None,
    template: str = "",
    preview: dict[str, Any] | None = None,
) -> Response:
    """Show the form: blank, or as it was sent, with a preview or what is wrong with it."""
    typed = typed or terms_form.blank()
    as_file, family = bool(typed["toml"]), FAMILIES[typed["family"]]
    context = {
        "typed": typed,
        "families": {name: each.description for name, each in FAMILIES.items()},
        "rules": {name: rule.purpose for name, rule in offered_rules().items()},
        "options": terms_form.options_of(typed["rule"]),
        "parameters": terms_form.parameters_of(typed["family"]),
        "regression": family.explains_target,
        "labels": terms_form.reads_labels(typed["family"]),
        "fault": None if error is None or as_file else terms_form.field_of(error, typed),
        "message": None if error is None else str(error),
        "as_file": as_file,
        "preview": preview,
        "problem": None,  # the form itself shows the message
    }
    template = template or ("part_preview.html" if is_part(request) else "new_campaign.html")
    return page(request, user, template, error=None if is_part(request) else error, **context)


def _terms(form: Fields, typed: dict[str, str]) -> dict[str, Any]:
    return _parse_toml(typed["toml"]) if form.text("mode") == "file" else terms_form.terms_of(typed)


async def typed_by(form: Sent) -> dict[str, str]:
    """Return what the form says; a campaign file that was chosen replaces one that was pasted."""
    typed = terms_form.typed_in(form)
    file = form.file("upload")
    if file is not None:
        try:
            typed["toml"] = (await file.read()).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidError("campaign file: must be text in UTF-8") from None
    if form.text("mode") != "file":
        typed["toml"] = ""
    return typed


Typed = Annotated[dict[str, str], Depends(typed_by)]


def create(request: Request, user: SignedIn, form: Sent, typed: Typed) -> Response:
    """Create the campaign, or show the form again without JavaScript."""
    if form.has("show"):
        return new_page(request, user, typed=typed)
    options = {name: form.has(name) for name in ("publish_at_once", "share_ledger")}
    with store_of(request).write() as tx:
        campaign = campaigns.create_campaign(tx, user, _terms(form, typed), **options)
    return goto(f"/campaigns/{campaign}", "created")


def fields(request: Request, user: SignedIn, typed: Typed) -> Response:
    """Return the fields of a newly chosen family and rule."""
    return new_page(request, user, typed=typed, template="part_fields.html")


def preview(request: Request, user: SignedIn, form: Sent, typed: Typed) -> Response:
    """Return what the campaign would be like."""
    campaign = campaigns.checked_terms(_terms(form, {**typed, "name": typed["name"] or "preview"}))
    providers = _bounded("providers", typed["providers"], 2, _MOST_PROVIDERS)
    rows = _bounded("expected", typed["expected"], 1, _MOST_ROWS)
    providers = len(campaign.providers) or providers
    shown = make_preview(dict(campaign.plain), providers, min(rows, campaign.rows or rows))
    budget = campaign.budget * (campaign.days or 1) if campaign.per_day else campaign.budget
    cap = campaign.round_budget // providers
    if campaign.price is not None:
        cap = int(campaign.price * (campaign.most_tasks or 0))
    shown |= {"spend": campaign.show(budget), "each_day": campaign.per_day and campaign.days is None}
    shown |= {"cap": campaign.show(cap), "tasks": campaign.task is not None}
    return new_page(request, user, typed=typed, preview=shown)


def _bounded(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and least <= int(text) <= most):
        raise InvalidError.in_terms("preview", name, f"must be a whole number from {least} to {most:,}")
    return int(text)


def terms_page(
    request: Request,
    campaign: Identifier,
    user: SignedIn,
    *,
    error: TrothError | None = None,
    form: Fields | None = None,
) -> Response:
    """Show the terms to be changed, until the first round opens, or what was typed into a form that was refused."""
    with store_of(request).read() as tx:
        view = views.own_campaign(tx, user, campaign)
    view.terms.get("mechanism", {}).pop("commitment", None)
    toml = form.text("toml") if form is not None and form.has("toml") else to_toml(view.terms)
    return page(request, user, "terms.html", error=error, view=view, toml=toml)


def change_terms(request: Request, campaign: Identifier, user: SignedIn, form: Sent) -> Response:
    """Replace the terms."""
    with store_of(request).write() as tx:
        campaigns.change_terms(tx, user, campaign, _parse_toml(form.text("toml")))
    return goto(f"/campaigns/{campaign}", "changed")


def check_owner(request: Request, campaign: Identifier, user: SignedIn) -> None:
    """Refuse a file before it is read, unless the campaign is the analyst's own."""
    with store_of(request).read() as tx:
        campaigns.owned(tx, user, campaign)


async def change_public(request: Request, campaign: Identifier, user: SignedIn, form: SentWithFile) -> Response:
    """Take a file of rows that everybody knows."""
    file = form.file("file")
    if file is None:
        raise InvalidError("file: choose one")
    limits, spool = request.app.state.settings.limits, store_of(request).spool
    async with incoming.stored(incoming.blocks_of(file), limits, spool) as path:
        await run_in_threadpool(_change_public, request, user, campaign, path, file.filename or "")
    return goto(f"/campaigns/{campaign}", "changed")


def _change_public(request: Request, user: User, campaign: str, path: Path, name: str) -> None:
    store, limits = store_of(request), request.app.state.settings.limits
    with store.read() as tx:
        terms = campaigns.terms_of(campaigns.owned(tx, user, campaign))
    known = read_public_upload(terms, path, name, limits)
    with store.write() as tx:
        campaigns.change_public(tx, user, campaign, known)


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"campaign file: not valid TOML: {error}") from None
