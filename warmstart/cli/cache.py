"""`cache`: show or clear the cached meta-features and features of pretrained networks."""

from typing import Annotated

import typer

from warmstart.cli.options import Format, FormatOption, QuietOption, SeedOption, VerboseOption
from warmstart.cli.shell import Shell

_KINDS = {"meta-features": ("*.emb", "embeddings"), "features": ("*.features", "features")}
"""Kinds of cached files: name, pattern, folder below the cache folder."""


def cache(
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of it; it is computed again when needed.")] = False,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Show what the cache holds: meta-features of datasets, features of pretrained networks; or clear it."""
    from warmstart.history_store.errors import StorageError
    from warmstart.metafeat.cache import cache_folder, cached_files

    shell = Shell(format, quiet=quiet, verbose=verbose)
    folder = cache_folder()
    rows = []
    for kind, (pattern, subfolder) in _KINDS.items():
        files = cached_files(folder / subfolder, pattern)
        n_bytes = sum(about.st_size for _, about in files)
        rows.append(
            {"what": kind, "files": len(files), "MB": round(n_bytes / 1e6, 1), "folder": str(folder / subfolder)}
        )
        for file, _ in files if clear else ():
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                msg = f"{file}: expected a file that can be removed, got: {error.strerror}. Check who owns the folder, or name another one with $WARMSTART_CACHE."
                raise StorageError(msg) from error
    left = [{**row, "files": 0, "MB": 0.0} for row in rows] if clear else rows
    shell.result({"cleared": clear, "kept": left}, rows, title="Cleared:" if clear else "")
