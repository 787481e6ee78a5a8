"""The header of a model file, read without torch: enough to use what is cached."""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from history_store.errors import MissingPathError, ModelError, ModelMismatchError, StorageError, UsageError
from metafeat.spec import FORMAT, METADATA_KEY, ModelSpec, check_version, space_digest
from warmstart.locations import model_path


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """What a model file says about itself.

    Attributes:
        path: of the file.
        hash: of weights and spec; embeddings are kept under it.
        spec: architecture and input.
        fields: everything in the header.
    """

    path: Path
    hash: str
    spec: ModelSpec
    fields: Mapping[str, Any]


def read_header(path: Path) -> ModelHeader:
    """Read a model file's header and check that the file is as long as it says; weights are not looked at.

    Raises:
        ModelError: not a model, truncated or written by another version.
    """
    try:
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            size = path.stat().st_size
            if not 2 <= length <= size - 8:
                msg = f"{path}: expected a model file of warmstart, got a file that is damaged, truncated or of another kind. Restore it or train it anew."
                raise ModelError(msg)
            tensors = json.loads(file.read(length))
        header = json.loads(tensors.pop("__metadata__")[METADATA_KEY])
        if header["format"] == FORMAT:
            check_version(header, path)
        end = 8 + length + max((int(tensor["data_offsets"][1]) for tensor in tensors.values()), default=0)
        found = (header["hash"], ModelSpec.from_dict(header["spec"], version=header["version"]))
    except OSError as error:
        if isinstance(error, ModelError):
            raise
        msg = f"{path}: expected a readable model file, got: {error.strerror}. Check its permissions."
        raise ModelError(msg) from error
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        msg = f"{path}: expected a model file of warmstart, got a file that is damaged, truncated or of another kind. Restore it or train it anew."
        raise ModelError(msg) from error
    if end != size:
        msg = f"{path}: expected {end} bytes, got {size}: the model file is truncated or damaged. Restore it or train it anew."
        raise ModelError(msg)
    return ModelHeader(path, *found, header)


def check_fits(model: ModelHeader, *, history_id: str, space_json: str, where: str) -> None:
    """Check that a model was trained for a history: same id and same search space, whatever its revision.

    Raises:
        ModelMismatchError: it was not.
    """
    pairs = (
        ("history id", history_id, model.fields.get("history_id")),
        ("search space", space_digest(space_json), model.fields.get("space_digest")),
    )
    for name, expected, got in pairs:
        if expected != got:
            msg = (
                f"{model.path}: expected a model of the history {where} ({name} {expected}), got one of another ({got}). "
                "Name its own with `model`, or train one with `warmstart train`."
            )
            raise ModelMismatchError(msg)


def stored_hash(known: Sequence[str], given: str | None) -> str | None:
    """Choose whose stored embeddings of a history to show.

    Args:
        known: hashes of the models whose embeddings the history holds.
        given: a model file named by the caller; else the only one that is known, or among several that of the usual model.

    Returns: the hash; None where that model's embeddings are not stored.

    Raises:
        MissingPathError: the named file is not there.
        ModelError: it is no model.
    """
    if given is None and len(known) <= 1:
        return known[0] if known else None
    try:
        usual = read_header(model_path(given)).hash
    except (StorageError, MissingPathError):
        if given is not None:
            raise
        return None
    return usual if usual in known else None
