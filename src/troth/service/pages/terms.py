"""Terms: entered for a new campaign in a form or as a campaign file, previewed, and changed until a round opens."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.mechanisms import offered_rules
from troth.models import FAMILIES
from troth.operations import CAMPAIGN
from troth.service import campaigns, incoming, threads, views
from troth.service.errors import InvalidError
from troth.service.pages import terms_form
from troth.service.pages.forms import Fields
from troth.service.pages.frame import Visit, changes, goto, is_part
from troth.service.preview import make_preview
from troth.service.uploads import read_public_upload

_MAX_PROVIDERS, _MAX_ROWS = 1000, 10**6


def new_page(visit: Visit, *, template: str = "", preview: dict[str, Any] | None = None) -> Response:
    """Show the form, blank or as it was sent, with a preview or an error."""
    typed = _typed(visit.form) if visit.form.data else terms_form.blank()
    part, error = is_part(visit.request), visit.error
    as_file, family = bool(typed["toml"]), FAMILIES[typed["family"]]
    context = {
        "typed": typed,
        "families": {name: family.description for name, family in FAMILIES.items()},
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
    template = template or ("part_preview.html" if part else "new_campaign.html")
    return (replace(visit, error=None) if part else visit).page(template, **context)


def _terms(form: Fields, typed: dict[str, str]) -> dict[str, Any]:
    return _parse_toml(typed["toml"]) if form.text("mode") == "file" else terms_form.terms_of(typed)


def _typed(form: Fields) -> dict[str, str]:
    """Return the fields of the form; an uploaded campaign file replaces a pasted one."""
    typed = terms_form.typed_in(form)
    file = form.file("upload")
    if file is not None:
        file.file.seek(0)
        try:
            typed["toml"] = file.file.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidError("campaign file: must be text in UTF-8") from None
    if form.text("mode") != "file":
        typed["toml"] = ""
    return typed


def create(visit: Visit) -> Response:
    """Create the campaign; or, without JavaScript, show the form again with the fields of a new choice."""
    form = visit.form
    if form.has("show"):
        return new_page(visit)
    options = {name: form.has(name) for name in ("publish_at_once", "share_ledger")}
    with visit.store.write() as tx:
        campaign = campaigns.create_campaign(tx, visit.user, _terms(form, _typed(form)), **options)
    return goto(f"/campaigns/{campaign}", "created")


def fields(visit: Visit) -> Response:
    """Return the fields of a newly chosen family and rule."""
    return new_page(visit, template="part_fields.html")


def preview(visit: Visit) -> Response:
    """Return a preview of the campaign."""
    typed = _typed(visit.form)
    campaign = campaigns.checked_terms(_terms(visit.form, {**typed, "name": typed["name"] or "preview"}))
    providers = _bounded("providers", typed["providers"], 2, _MAX_PROVIDERS)
    rows = _bounded("expected", typed["expected"], 1, _MAX_ROWS)
    providers = len(campaign.providers) or providers
    preview_page = make_preview(dict(campaign.plain), providers, min(rows, campaign.rows or rows))
    budget = campaign.budget * (campaign.days or 1) if campaign.per_day else campaign.budget
    cap = campaign.round_budget // providers
    if campaign.price is not None:
        cap = int(campaign.price * (campaign.max_tasks or 0))
    preview_page |= {"spend": campaign.show(budget), "each_day": campaign.per_day and campaign.days is None}
    preview_page |= {"cap": campaign.show(cap), "tasks": campaign.task is not None}
    return new_page(visit, preview=preview_page)


def _bounded(name: str, text: str, minimum: int, maximum: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and minimum <= int(text) <= maximum):
        raise InvalidError.in_terms("preview", name, f"must be a whole number from {minimum} to {maximum:,}")
    return int(text)


def terms_page(visit: Visit, campaign: str) -> Response:
    """Show the terms, which can be changed until the first round opens, or the input of a rejected form."""
    with visit.store.read() as tx:
        view = views.own_campaign(tx, visit.user, campaign)
    view.terms.get("mechanism", {}).pop("commitment", None)
    toml = visit.form.text("toml") if visit.form.has("toml") else to_toml(view.terms)
    return visit.page("terms.html", view=view, toml=toml)


change_terms = changes(campaigns.change_terms, CAMPAIGN, "changed", terms=lambda form: _parse_toml(form.text("toml")))


def check_owner(visit: Visit, campaign: str) -> None:
    """Reject a file before it is read, unless the analyst owns the campaign."""
    with visit.store.read() as tx:
        campaigns.owned(tx, visit.user, campaign)


async def change_public(visit: Visit, campaign: str) -> Response:
    """Replace the public data by an uploaded file of rows."""
    file = visit.form.file("file")
    if file is None:
        raise InvalidError("file: choose one")
    async with incoming.stored(incoming.blocks_of(file), visit.settings.limits, visit.store.spool) as path:
        await threads.run("work", _change_public, visit, campaign, path, file.filename or "")
    return goto(f"/campaigns/{campaign}", "changed")


def _change_public(visit: Visit, campaign: str, path: Path, name: str) -> None:
    with visit.store.read() as tx:
        terms = campaigns.terms_of(campaigns.owned(tx, visit.user, campaign))
    public = read_public_upload(terms, path, name, visit.settings.limits)
    with visit.store.write() as tx:
        campaigns.change_public(tx, visit.user, campaign, public)


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"campaign file: not valid TOML: {error}") from None
