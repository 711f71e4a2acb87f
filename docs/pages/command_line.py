"""The command line reference, generated from the commands."""

from __future__ import annotations

from typing import Any, NamedTuple

import typer


class Entry(NamedTuple):
    """A command with its full name, such as ``troth pay``."""

    name: str
    command: Any


def commands() -> list[Entry]:
    """Return every command, groups before their members."""
    from troth.cli.commands import app

    return _walk("troth", typer.main.get_command(app))


def _walk(name: str, command: Any) -> list[Entry]:
    entries = [Entry(name, command)]
    for child in getattr(command, "commands", {}).values():
        if not child.hidden:
            entries += _walk(f"{name} {child.name}", child)
    return entries


def parameters(command: Any) -> list[Any]:
    """Return a command's arguments and options, without hidden ones and ``--help``."""
    return [
        parameter
        for parameter in command.params
        if not getattr(parameter, "hidden", False) and parameter.name != "help"
    ]


def spelled(parameter: Any) -> str:
    """Return an option as it is typed, or an argument's name."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    value = "" if parameter.is_flag else f" {parameter.metavar or '…'}"
    return ", ".join([*parameter.opts, *parameter.secondary_opts]) + value


def default(parameter: Any) -> str:
    """Return the default of a parameter as Markdown, or an empty string if it has none."""
    if parameter.required:
        return "required"
    default_text = getattr(parameter, "show_default", None)
    if isinstance(default_text, str):
        return default_text
    value = parameter.default
    if value is None or value is False or callable(value) or "UNSET" in repr(value):
        return ""
    return f"`{value}`" if value != () else ""


def reference() -> str:
    """Return the whole reference as Markdown."""
    lines: list[str] = []
    for name, command in commands():
        visible = parameters(command)
        children = getattr(command, "commands", {})
        arguments = [spelled(parameter) for parameter in visible if parameter.param_type_name == "argument"]
        usage = " ".join([name, "[OPTIONS]", *arguments, *(["COMMAND …"] if children else [])])
        lines += [f"## {name}", "", _stripped(command.help), "", "```text", usage, "```", ""]
        if visible:
            lines += ["{.commands}", "| option | | without it |", "|---|---|---|"]
            lines += [
                f"| `{spelled(parameter)}` | {_cell(parameter.help)} | {_cell(default(parameter))} |"
                for parameter in visible
            ]
            lines.append("")
        if children:
            lines += ["{.commands}", "| command | |", "|---|---|"]
            for child in children.values():
                if not child.hidden:
                    anchor = f"{name} {child.name}".replace(" ", "-")
                    lines.append(
                        f"| [`{name} {child.name}`](#{anchor}) | {_cell(_stripped(child.help).splitlines()[0])} |"
                    )
            lines.append("")
    return "\n".join(lines)


def _stripped(text: str | None) -> str:
    return (text or "").strip()


def _cell(text: str | None) -> str:
    return (text or "").replace("|", r"\|").replace("\n", " ")
