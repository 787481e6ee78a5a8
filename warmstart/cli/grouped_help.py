"""Help that shows the main options; all of them, by group, with ``--help-all``."""

from typing import Any

import typer
from typer.core import TyperCommand

_ALWAYS = ("Arguments", "Options")
_ALL = "--help-all"
_FEW = 14
"""Options up to which all are shown."""


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

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                group = getattr(param, "rich_help_panel", None) or "Options"
                title = "Arguments" if param.param_type_name == "argument" else group
                sections.setdefault(title, []).append(record)
        groups = [title for title in sections if title not in _ALWAYS]
        shows_all = _ALL in ctx.meta or sum(map(len, sections.values())) <= _FEW
        for title in [*_ALWAYS, *(groups if shows_all else ())]:
            if title in sections:
                with formatter.section(title):
                    formatter.write_dl(sections[title])
        if groups and not shows_all:
            formatter.write_paragraph()
            formatter.write_text(f"More with --help-all: {', '.join(groups).lower()}.")
