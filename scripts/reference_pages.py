"""Write the generated pages of the documentation, from the program itself: `python scripts/reference_pages.py FOLDER`.

`commands.md` has the help of every command; `python.md` names what Sphinx then documents from docstrings; `size.md` tells
how large the code is.
"""

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from tree_table import table

import warmstart
from warmstart import status
from warmstart.cli.app import COMMANDS, app
from warmstart.cli.grouped_help import option_rows

ROOT = Path(__file__).resolve().parents[1]

MODULES = {
    "Options as records": ("warmstart.studies.options", ("Problem", "Search", "WarmStart", "Execution", "Outputs")),
    "Spaces": ("warmstart.spaces", ("read_space",)),
    "Optuna": ("warmstart.integrations.optuna", None),
    "Optuna, on a server": ("warmstart.integrations.optuna_remote", ("RemoteSampler",)),
    "Ray": ("warmstart.integrations.ray.cluster", ("Cluster", "RayExecutor")),
    "The optimiser": ("warmstart.bo", None),
    "A history": ("warmstart.history_store.history", ("History",)),
    "Records of a history": ("warmstart.history_store.records", None),
    "Errors": (
        "warmstart.history_store.errors",
        ("WarmstartError", "UsageError", "MissingPathError", "DataError", "StorageError", "AllTrialsFailedError"),
    ),
}
"""Title of a section, module, its names; None = those of its `__all__`, or its public classes."""


EVERYWHERE = {"--help", "--quiet", "--verbose"}
"""Options that every command has, and that are told once."""


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)


def write(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "commands.md").write_text(commands_page(), encoding="utf-8")
    (folder / "python.md").write_text(python_page(), encoding="utf-8")
    size = f"# Size of the code\n\nBy `scripts/tree_table.py`, when these pages were made.\n\n{table(ROOT)}\n"
    (folder / "size.md").write_text(size, encoding="utf-8")


def commands_page() -> str:
    """Return the page of all commands, their options by group, and the exit codes."""
    tree: Any = typer.main.get_command(app)
    lines = ["# Command line", "", "Made from the program: the same texts as `warmstart COMMAND --help-all`.", ""]
    lines += ["Every command has `--help`, `-q` (errors alone), `-v` (more) and `-vv` (tracebacks).", ""]
    for entry in COMMANDS:
        group = tree.commands[entry.group] if entry.group else tree
        words = " ".join(filter(None, ("warmstart", entry.group, entry.name)))
        command = group.commands[entry.name]
        context = command.make_context(words, ["--help"], resilient_parsing=True)
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [f"## {words.removeprefix('warmstart ')}", "", *command.help.splitlines(), ""]
        lines += ["```text", f"{words} {usage}", "", *entry.example, "```", ""]
        for title, rows in _options(command, context).items():
            lines += [f"**{title}**", "", "| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join([*lines, *_exit_codes()])


def _options(command: Any, context: Any) -> dict[str, list[str]]:
    """Return the rows of a command's options, by group."""
    return {
        title: [
            f"| `{_cell(name)}` | {_plain(_cell(text))} |"
            for name, text in rows
            if not EVERYWHERE & set(name.replace(",", " ").split())
        ]
        for title, rows in option_rows(command, context).items()
    }


def _cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def _plain(text: str) -> str:
    """Return a text of help with what Markdown would read as markup escaped."""
    return "".join(f"\\{letter}" if letter in "*_<[{$" else letter for letter in text)


def _exit_codes() -> Iterator[str]:
    """Yield the lines of the table of exit codes."""
    yield from ("## Exit codes", "", "| exit code | HTTP status | error | meaning |", "|---|---|---|---|")
    yield "| 0 | 200 | | done |"
    for kind, code, http in status.STATUSES:
        meaning = (kind.__doc__ or "").splitlines()[0]
        yield f"| {code} | {http} | `{kind.__name__}` | {meaning} |"
    yield "| 1 | 500 | any other | a fault of warmstart: run again with `-vv` and report it |"
    yield ""


def python_page() -> str:
    """Return the page of the Python names; Sphinx fills it from their docstrings."""
    lines = ["# Python", "", "Made from the docstrings. Names load on first use.", "", "## warmstart", ""]
    for name in sorted(set(warmstart.__all__) - {"__version__"}):
        lines += _documented("warmstart", name)
    for title, (module, names) in MODULES.items():
        lines += [f"## {title}", "", f"In `{module}`:", ""]
        home = importlib.import_module(module)
        for name in names or getattr(home, "__all__", None) or _public(home):
            lines += _documented(module, name)
    return "\n".join(lines)


def _public(module: Any) -> list[str]:
    """Return the public classes and functions that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and callable(value)
    ]


def _documented(module: str, name: str) -> list[str]:
    """Return the directive that documents a name."""
    value = getattr(importlib.import_module(module), name)
    kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
    members = ["   :members:"] if kind == "class" else []
    return ["```{eval-rst}", f".. auto{kind}:: {module}.{name}", *members, "```", ""]


if __name__ == "__main__":
    main()
