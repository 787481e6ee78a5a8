"""`space init` and `space from-script`: write a search space to begin with."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, write_program
from warmstart.history_store.errors import MissingPathError, StorageError
from warmstart.history_store.wording import in_words
from warmstart.script_space import propose_space

_EXAMPLE = """\
# One hyperparameter a line: its name, and the values that it may have. Keep what fits, delete the rest.
# Check it with: warmstart tune --rehearse --space space.yaml --command "python train.py --lr {lr} ..."

lr: {log: [1e-5, 0.1]}                          # a real on a logarithmic scale: rates, decays, regularisation
dropout: {float: [0, 0.5]}                      # a real
layers: {int: [1, 8]}                           # a whole number, bounds included
hidden: {log_int: [16, 512]}                    # a whole number on a logarithmic scale: widths
batch_size: [16, 32, 64, 128]                   # some numbers, in their order
optimizer: {choice: [sgd, adam], default: sgd}  # one of some words; `default` is tried first where nothing is known
momentum: {float: [0, 0.99], if: {optimizer: sgd}}  # only where optimizer is sgd
augment: [--augment, --no-augment]              # a flag: write {augment} alone in the command
epochs: 10                                      # a constant
"""

OutOption = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="FILE", help="File to write, which must not be there; stdout when left out."),
]


@takes_options
def init(
    *,
    out: OutOption = None,
    shell: Shell,
) -> None:
    """Write a search space with every kind of hyperparameter and comments, to be edited."""
    _write(shell, _EXAMPLE, out)


@takes_options
def from_script(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="Python file that reads its arguments with argparse.")
    ],
    *,
    out: OutOption = None,
    shell: Shell,
) -> None:
    """Propose a search space from the arguments of a script, to be edited. The script is read, not run."""
    path = Path(script)
    if not path.is_file():
        msg = f"expected a Python file, got {script}. Check the path."
        raise MissingPathError(msg, param="script")
    proposed = propose_space(path, out or "space.yaml")
    _write(shell, proposed.text, out)
    shell.note(
        f"{len(proposed.names)} hyperparameters: {', '.join(proposed.names)}. The command is in the second line."
    )


def _write(shell: Shell, text: str, out: str | None) -> None:
    """Write a text to a new file, or to stdout.

    Raises:
        StorageError: the file is there, or cannot be written.
    """
    if out is None:
        sys.stdout.flush()
        write_program(text)
        return
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        msg = f"expected a new file, got {out}: {in_words(error)}. Name another one."
        raise StorageError(msg, param="out") from error
    shell.note(f"Written: {out}.")
