"""A new campaign: a form for the usual, a campaign file for the rest, and a preview of what it would be like."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from troth.core.errors import TrothError
from troth.mechanisms import offered_rules
from troth.models import FAMILIES
from troth.service import campaigns
from troth.service.access import SignedIn
from troth.service.accounts import User
from troth.service.errors import InvalidError
from troth.service.pages import terms_form
from troth.service.pages.analyst import parse_toml
from troth.service.pages.forms import Fields, Sent
from troth.service.pages.frame import goto, is_part, page, store_of
from troth.service.preview import make_preview

_MOST_PROVIDERS, _MOST_ROWS = 1000, 10**6


def new_page(request: Request, user: SignedIn) -> Response:
    """Show the form."""
    return _form(request, user, terms_form.blank())


def _form(
    request: Request,
    user: User,
    typed: dict[str, str],
    error: TrothError | None = None,
    template: str = "new_campaign.html",
    preview: dict[str, Any] | None = None,
) -> Response:
    as_file, family = bool(typed["toml"]), FAMILIES[typed["family"]]
    context = {
        "typed": typed,
        "families": {name: each.description for name, each in FAMILIES.items()},
        "rules": {name: rule.purpose for name, rule in offered_rules().items()},
        "options": terms_form.options_of(typed["rule"]),
        "parameters": family.parameters(),
        "regression": family.explains_target,
        "labels": terms_form.reads_labels(typed["family"]),
        "fault": None if error is None or as_file else terms_form.field_of(error, typed),
        "message": None if error is None else str(error),
        "as_file": as_file,
        "preview": preview,
        "problem": None,  # the form itself shows the message
    }
    return page(request, user, template, error=None if is_part(request) else error, **context)


def _terms(form: Fields, typed: dict[str, str]) -> dict[str, Any]:
    return parse_toml(typed["toml"]) if form.text("mode") == "file" else terms_form.terms_of(typed)


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
        return _form(request, user, typed)
    try:
        with store_of(request).write() as tx:
            campaign = campaigns.create_campaign(
                tx,
                user,
                _terms(form, typed),
                publish_at_once=form.has("publish_at_once"),
                share_ledger=form.has("share_ledger"),
            )
    except TrothError as error:
        return _form(request, user, typed, error)
    return goto(f"/campaigns/{campaign}", "created")


def fields(request: Request, user: SignedIn, typed: Typed) -> Response:
    """Return the fields of a newly chosen family and rule."""
    return _form(request, user, typed, template="part_fields.html")


def preview(request: Request, user: SignedIn, form: Sent, typed: Typed) -> Response:
    """Return what the campaign would be like."""
    template = "part_preview.html" if is_part(request) else "new_campaign.html"
    try:
        campaign = campaigns.checked_terms(_terms(form, {**typed, "name": typed["name"] or "preview"}))
        providers = _bounded("providers", typed["providers"], 2, _MOST_PROVIDERS)
        rows = _bounded("expected", typed["expected"], 1, _MOST_ROWS)
        providers = len(campaign.providers) or providers
        shown = make_preview(dict(campaign.plain), providers, min(rows, campaign.rows or rows))
    except TrothError as error:
        return _form(request, user, typed, error, template)
    budget = campaign.budget * (campaign.days or 1) if campaign.per_day else campaign.budget
    shown |= {"spend": campaign.show(budget), "each_day": campaign.per_day and campaign.days is None}
    cap = campaign.round_budget // providers
    if campaign.price is not None:
        cap = int(campaign.price * (campaign.most_tasks or 0))
    shown |= {"cap": campaign.show(cap), "tasks": campaign.task is not None}
    return _form(request, user, typed, None, template, shown)


def _bounded(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and least <= int(text) <= most):
        message = f"[preview] {name}: must be a whole number from {least} to {most:,}"
        raise InvalidError(message, section="preview", key=name)
    return int(text)
