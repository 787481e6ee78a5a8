"""Help that shows the main options; all of them, by group, with ``--help-all``."""

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_ALL = "--help-all"
_FEW = 10
"""Options up to which all are shown."""
_LIMITS = re.compile(r"(; )?(-?[\d.]+<=?)?\bx[<>]=?-?[\d.]+(<=?[\d.]+)?")


class GroupedCommand(TyperCommand):
    """A command whose ``--help`` shows its main options, and ``--help-all`` all of them.

    Options without a `rich_help_panel` are the main ones; that of the others is the title of their group.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; with ``--help-all``, show the help and exit."""
        if _ALL in args[: args.index("--")] if "--" in args else _ALL in args:
            ctx.meta[_ALL] = True
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write what the command is for, an example and the options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line after the command's name."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return ["[OPTIONS]", *(_usage(param) for param in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options by group."""
        sections = option_rows(self, ctx)
        groups = [title for title in sections if title not in ("Arguments", "Options")]
        shows_all = (
            _ALL in ctx.meta or sum(len(rows) for title, rows in sections.items() if title != "Arguments") <= _FEW
        )
        for title in ("Arguments", "Options", *(groups if shows_all else ())):
            if title in sections:
                with formatter.section(title):
                    formatter.write_dl(sections[title])
        if groups and not shows_all:
            formatter.write_paragraph()
            formatter.write_text(f"More with {_ALL}: {', '.join(groups).lower()}.")


def option_rows(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the arguments and options of a command by the title of their group: name, and what it is."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        if param.param_type_name == "argument":
            sections.setdefault("Arguments", []).append((_name(param), param.help or ""))
        elif (record := param.get_help_record(ctx)) is not None:
            text = _LIMITS.sub("", record[1]).replace("  []", "")
            sections.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append((record[0], text))
    return sections


class GroupOfCommands(TyperGroup):
    """A group whose help lists its commands in their order, under titles where there are some.

    Attributes:
        titles: names of commands by title; a command without one is not listed.
    """

    titles: dict[str, tuple[str, ...]] = {}  # noqa: RUF012  set by the tree of commands

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  as Click calls it
        """Write the commands under their titles."""
        commands: Any = self.commands
        visible = tuple(name for name, command in commands.items() if not command.hidden)
        for title, names in (self.titles or {"Commands": visible}).items():
            with formatter.section(title):
                formatter.write_dl([(name, commands[name].get_short_help_str(limit=200)) for name in names])


def _name(param: Any) -> str:
    return str(param.metavar or param.name.upper()).strip("[].")


def _usage(param: Any) -> str:
    name = _name(param) + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"
