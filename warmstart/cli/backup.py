"""`backup` and `restore-backup`: history and studies in one archive."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.locations import PathLike
from warmstart.option import option, option_of
from warmstart.suggestions.lookup import Sources


@dataclass(frozen=True, kw_only=True)
class BackupOptions:
    """What a backup holds, or where its parts go."""

    history: PathLike | None = option_of(Sources, "history", is_main=True)
    storage: PathLike | None = option(
        None, "Studies: path or URL; $WARMSTART_STORAGE or warmstart-studies.db when left out.", is_main=True
    )
    token_file: PathLike | None = option(None, "The tokens of a server.", is_main=True)


Archive = Annotated[Path, typer.Argument(metavar="FILE.tar", show_default=False)]


@takes_options
def backup(path: Archive, *, options: BackupOptions, shell: Shell) -> None:
    """Save a history, studies and tokens in one archive, also while they are in use."""
    from warmstart.backup import write_backup

    _show(shell, write_backup(path, **vars(options)), f"Saved in {path}:")


@takes_options
def restore(path: Archive, *, options: BackupOptions, shell: Shell) -> None:
    """Put the history, the studies and the tokens of an archive in their places; nothing is overwritten."""
    from warmstart.backup import restore_backup

    _show(shell, restore_backup(path, **vars(options)), f"From {path}:")


def _show(shell: Shell, about: dict[str, Any], title: str) -> None:
    counts = {"datasets": about.get("n_datasets"), "studies": about.get("n_studies")}
    row = {"made": about["made"], "parts": ", ".join(about["parts"]), **counts}
    shell.result(about, [row], title=title)
