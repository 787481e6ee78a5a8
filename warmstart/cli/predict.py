"""`predict`: classify pictures with a saved network."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from warmstart.cli.options import DatasetOptions, Threads
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted, right_of_100
from warmstart.option import option_of
from warmstart.suggestions.lookup import Lookup


@dataclass(frozen=True, kw_only=True)
class Running(Threads):
    """How pictures are read, and where networks run."""

    TITLE: ClassVar[str] = "Running"
    skip_broken: bool | None = option_of(Lookup, "skip_broken")
    download: bool = option_of(Lookup, "download")
    device: str = option_of(Lookup, "device", default="auto", is_main=True)


@dataclass(frozen=True, kw_only=True)
class LabelledPictures(DatasetOptions):
    """Pictures whose classes are known."""

    TITLE: ClassVar[str] = "Data"
    dataset: str | None = option_of(
        DatasetOptions, "dataset", help="Instead, labelled pictures: count how many are right.", is_main=True
    )


@takes_options
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A classifier that `warmstart classify` wrote.")],
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGES", help="Picture files, and folders of them.")
    ] = None,
    *,
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
    labelled: LabelledPictures,
    running: Running,
    shell: Shell,
) -> None:
    """Name the class of pictures, with its probability; of labelled ones, count how many are right."""
    from warmstart.metafeat.device import cpu_threads
    from warmstart.prediction import predict as predict_images

    if sort_into is not None and labelled.dataset is not None:
        msg = "cannot be used with `dataset`."
        raise UsageError(msg, param="sort_into")
    with cpu_threads(running.threads), shell.images_progress("predicting") as progress:
        prediction = predict_images(
            model,
            images or (),
            dataset=labelled.source(None),
            skip_broken=running.skip_broken,
            download=running.download,
            device=running.device,
            progress=progress,
        )
    for image, reason in prediction.broken:
        shell.note(f"{image}: left out ({reason}).")
    if shell.format == "table" and prediction.error is not None:
        right = sum(row.label == row.truth for row in prediction.rows)
        title = f"{right} of {counted(len(prediction.rows), 'picture')} right ({right_of_100(prediction.error)})"
        shell.table(prediction.confusion(), title=title)
        for line in prediction.remarks:
            shell.note(line)
        return
    rows = list(prediction)
    if shell.format == "table":
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
