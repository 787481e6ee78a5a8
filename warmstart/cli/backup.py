"""`backup` and `restore-backup`: history and studies in one archive."""

from pathlib import Path
from typing import Annotated, Any

import typer

from warmstart.backup import BackupOptions, restore_backup, write_backup
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell

Archive = Annotated[Path, typer.Argument(metavar="FILE.tar", show_default=False)]


@takes_options
def backup(path: Archive, *, options: BackupOptions, shell: Shell) -> None:
    """Save a history, studies and tokens in one archive, also while they are in use."""
    _show(shell, write_backup(path, options), f"Saved in {path}:")


@takes_options
def restore(path: Archive, *, options: BackupOptions, shell: Shell) -> None:
    """Put the history, the studies and the tokens of an archive in their places; nothing is overwritten."""
    _show(shell, restore_backup(path, options), f"From {path}:")


def _show(shell: Shell, about: dict[str, Any], title: str) -> None:
    counts = {"datasets": about.get("n_datasets"), "studies": about.get("n_studies")}
    row = {"made": about["made"], "parts": ", ".join(about["parts"]), **counts}
    shell.result(about, [row], title=title)
