"""`classify`: a folder of pictures in, a classifier out."""

import contextlib
import sys
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from warmstart.bar import is_terminal, progress_on_stderr
from warmstart.classification.options import ClassifyOptions
from warmstart.classification.progress import PlainBar
from warmstart.cli.options import DatasetOptions, Threads
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted, in_shell, right_of_100
from warmstart.metafeat.device import cpu_threads
from warmstart.option import option_of
from warmstart.suggestions.lookup import Lookup

if TYPE_CHECKING:
    from warmstart.classification.progress import PlainProgress


@takes_options
def classify(
    pictures: Annotated[str, typer.Argument(metavar="PICTURES", help="A folder with a folder of pictures a class.")],
    *,
    options: ClassifyOptions,
    shell: Shell,
) -> None:
    """Train a classifier of your pictures, and say how good it is.

    Run the same command again to make it better.
    """
    began = clock.monotonic()
    with _plain_progress(shell, pictures) as tell:
        from warmstart.classification.classify import classify_pictures

        call = replace(options, progress=tell, on_message=shell.note, on_detail=shell.detail)
        try:
            # The result alone is for stdout.
            with contextlib.redirect_stdout(sys.stderr):
                classifier = classify_pictures(pictures, call, began=began)
        except KeyboardInterrupt:
            shell.note("Stopped; what was tried is kept. Run the same command again to continue.")
            raise
    if shell.format == "table":
        for line in classifier.lines:
            shell.line(line)
    else:
        rows = [{"class": each.name, "n": each.n, "right": each.right, "taken_for": each.taken_for} for each in classifier.judgement.classes]  # fmt: skip
        shell.result(classifier.to_dict(), rows)


@contextmanager
def _plain_progress(shell: Shell, pictures: str) -> "Iterator[Callable[[PlainProgress], object]]":
    """Show what is done in plain words: a bar on a terminal, elsewhere a line for each phase and minute."""
    if shell.quiet:
        yield lambda _now: None
        return

    bar = PlainBar("looking at pictures")

    def tell(now: "PlainProgress") -> None:
        if bar.tell(now) and not is_terminal():
            sys.stderr.write(bar.line() + "\n")
            sys.stderr.flush()

    if not is_terminal():
        shell.note(f"Looking at the pictures of {pictures}.")
    with progress_on_stderr(bar):
        yield tell


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


@takes_options
def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A classifier that `warmstart classify` wrote.")],
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="A new file: .onnx for other programs, .json for what is in it.")
    ],
    *,
    shell: Shell,
) -> None:
    """Write a saved classifier as ONNX, its preparation of pictures beside it as JSON; or what is in it.

    timm reads the file of the classifier itself.
    """
    from warmstart.classification.export import export_classifier

    with shell.progress("writing") as show:
        show(0, 1, "")
        files = export_classifier(model, out)
        show(1, 1, "")
    shell.result({"schema_version": 1, "files": [str(file) for file in files]}, [{"file": str(file)} for file in files])


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
