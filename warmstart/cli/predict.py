"""`predict`: classify pictures with a saved network."""

from typing import Annotated

import typer

from warmstart.cli.options import (
    BrokenOption,
    DownloadOption,
    Format,
    FormatOption,
    LabelsColumnOption,
    LabelsOption,
    MaybeDatasetOption,
    QuietOption,
    SeedOption,
    ThreadsOption,
    VerboseOption,
)
from warmstart.cli.shell import Shell
from warmstart.history_store.errors import UsageError


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A classifier that `warmstart tune --save-model` wrote.")
    ],
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGES...", help="Picture files, and folders of them.")
    ] = None,
    *,
    dataset: MaybeDatasetOption = None,
    skip_broken: BrokenOption = None,
    download: DownloadOption = False,
    labels: LabelsOption = None,
    labels_column: LabelsColumnOption = None,
    device: Annotated[
        str, typer.Option("--device", help="Where pretrained networks run: cpu, cuda, cuda:1, ... or auto.")
    ] = "auto",
    sort_into: Annotated[
        str | None,
        typer.Option(
            "--sort-into", metavar="FOLDER", help="Copy each picture into a folder of its class here; none is replaced."
        ),
    ] = None,
    unsure: Annotated[
        float,
        typer.Option(
            "--unsure", min=0, max=1, help="With --sort-into: answers less probable than this go into unsure/."
        ),
    ] = 0.8,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    threads: ThreadsOption = 1,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Name the class of pictures, with its probability; of a labelled dataset, count the errors too."""
    from warmstart.history_store.errors import UsageError
    from warmstart.metafeat.device import cpu_threads
    from warmstart.prediction import predict as predict_images

    shell = Shell(format, quiet=quiet, verbose=verbose)
    if sort_into is not None and dataset is not None:
        msg = "cannot be used with `dataset`."
        raise UsageError(msg, param="sort_into")
    with cpu_threads(threads), shell.images_progress("predicting") as progress:
        source = _labelled(dataset, labels, labels_column)
        prediction = predict_images(
            model,
            images or (),
            dataset=source,
            skip_broken=skip_broken,
            download=download,
            device=device,
            progress=progress,
        )
    for image, reason in prediction.broken:
        shell.note(f"{image}: left out ({reason}).")
    if format is Format.TABLE and prediction.error is not None:
        wrong = sum(row.label != row.truth for row in prediction.rows)
        shell.table(
            prediction.confusion(), title=f"{wrong} of {len(prediction.rows)} wrong, error {prediction.error:.4g}"
        )
        for line in prediction.remarks:
            shell.note(line)
        return
    rows = list(prediction)
    if format is Format.TABLE:
        rows = [{name: cell for name, cell in row.items() if name != "unlike"} | ({"note": "unlike what it learned"} if row.get("unlike") else {}) for row in rows]  # fmt: skip
        for line in prediction.remarks:
            shell.note(line)
    document = prediction.to_dict()
    if sort_into is not None:
        from warmstart.classification.sort_pictures import sort_pictures

        copies = [str(each.copy) for each in sort_pictures(prediction, sort_into, threshold=unsure)]
        rows = [row | {"copy": copy} for row, copy in zip(rows, copies, strict=True)]
        document["predictions"] = [each | {"copy": copy} for each, copy in zip(document["predictions"], copies, strict=True)]  # fmt: skip
    shell.result(document, rows)


def _labelled(dataset: str | None, labels: str | None, column: str | None) -> str | None:
    """Return the path of a dataset with its labels file; None without a dataset.

    Raises:
        UsageError: labels without a dataset.
    """
    from warmstart.history_store.readers.csv_labels import labelled

    if dataset is not None:
        return labelled(dataset, labels, column)
    if labels is not None or column is not None:
        msg = "needs `dataset`."
        raise UsageError(msg, param="labels" if labels is not None else "labels_column")
    return None
