"""`example`: pictures for everybody to try with."""

from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.history_store.wording import in_shell


@takes_options
def example(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A new folder, for a folder of pictures a digit.")],
    *,
    shell: Shell,
) -> None:
    """Write 1,797 pictures of handwritten digits as class folders, to try the other commands with."""
    from warmstart.classification.example import write_example

    n = write_example(Path(folder))
    shell.note(f"Try: warmstart classify {in_shell(folder)} --time 3m")
    row = {"folder": folder, "pictures": n, "classes": 10}
    shell.result({"schema_version": 1, **row}, [row])
