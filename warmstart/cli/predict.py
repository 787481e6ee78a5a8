"""`predict`: what a saved classifier says of pictures."""

from typing import Annotated

import typer

from warmstart.cli.options import (
    DownloadOption,
    Format,
    FormatOption,
    LabelsColumnOption,
    LabelsOption,
    MaybeDatasetOption,
    QuietOption,
    SeedOption,
    SkipBrokenOption,
    ThreadsOption,
    VerboseOption,
)
from warmstart.cli.shell import Shell


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A classifier that `warmstart tune --save-model` wrote.")
    ],
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGES...", help="Picture files, and folders of them.")
    ] = None,
    *,
    dataset: MaybeDatasetOption = None,
    skip_broken: SkipBrokenOption = False,
    download: DownloadOption = False,
    labels: LabelsOption = None,
    labels_column: LabelsColumnOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    threads: ThreadsOption = 1,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Name the class of pictures, with its probability; of a labelled dataset, count the errors too."""
    from warmstart.metafeat.device import cpu_threads
    from warmstart.prediction import predict as ask

    shell = Shell(format, quiet=quiet, verbose=verbose)
    with cpu_threads(threads), shell.images_progress("predicting") as told:
        asked = _labelled(dataset, labels, labels_column)
        found = ask(model, images or (), dataset=asked, skip_broken=skip_broken, download=download, progress=told)
    for image, reason in found.broken:
        shell.note(f"{image}: left out ({reason}).")
    if format is Format.TABLE and found.error is not None:
        wrong = sum(row.label != row.truth for row in found.rows)
        shell.table(found.confusion(), title=f"{wrong} of {len(found.rows)} wrong, error {found.error:.4g}\n")
        for line in found.remarks:
            shell.note(line)
        return
    rows = [
        {"image": row.image, "class": row.label, "probability": row.probability}
        | ({} if row.truth is None else {"truth": row.truth})
        for row in found.rows
    ]
    shell.result(found.to_dict(), rows)


def _labelled(dataset: str | None, labels: str | None, column: str | None) -> str | None:
    """Name a dataset with its labels.

    Raises:
        UsageError: labels without a dataset.
    """
    from warmstart.history_store.errors import UsageError
    from warmstart.history_store.readers.csv_labels import labelled

    if dataset is not None:
        return labelled(dataset, labels, column)
    if labels is not None or column is not None:
        msg = f"expected `dataset` beside it, got none. Name the pictures by it, as in `--dataset photos/ --labels {labels or 'labels.csv'}`."
        raise UsageError(msg, param="labels" if labels is not None else "labels_column")
    return None
