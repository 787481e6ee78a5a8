"""A saved classifier in another form: ONNX, or its card as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.locations import PathLike
from warmstart.metafeat.files import replace_file
from warmstart.training.workloads import load_classifier
from warmstart.training.workloads.classifier_file import card_of, not_a_classifier, read_header

SUFFIXES = (".onnx", ".json")


def export_classifier(model: PathLike, out: PathLike) -> list[Path]:
    """Write a saved classifier in another form; return the files.

    Args:
        model: a file that ``warmstart classify`` or ``warmstart tune --save-model`` wrote.
        out: a new file, or one of an earlier call, whose ending says the form: ``.onnx``, with the preparation of
            pictures beside it as ``.json``; or ``.json``, what is in the classifier.

    Raises:
        UsageError: another ending, or a classifier without such a form.
        MissingPathError: no folder to write in.
        ModelError: no classifier.
        StorageError: a file cannot be written.
    """
    path = Path(out)
    if path.suffix.lower() not in SUFFIXES:
        msg = f"{path}: expected a file that ends in {' or '.join(SUFFIXES)}, got another ending. Name it {path.stem}.onnx."
        raise UsageError(msg)
    if not path.absolute().parent.is_dir():
        msg = f"{path}: expected a file in a folder that is there, got none. Make the folder first."
        raise MissingPathError(msg)
    header = read_header(Path(model))
    if path.suffix.lower() == ".json":
        try:
            card = {"card": card_of(header), **{name: value for name, value in header.items() if name != "members"}}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise not_a_classifier(Path(model), error) from error
        replace_file(path, (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode(), durable=False)
        return [path]
    load_classifier(Path(model)).write_onnx(path)
    return [path, path.with_suffix(".json")]
