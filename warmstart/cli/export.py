"""`export`: a saved classifier in another form."""

from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell


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
