"""Header of a model file, read without torch: enough for cached embeddings."""

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import ModelError, ModelMismatchError, UsageError
from warmstart.history_store.json_text import parse_stored_json
from warmstart.metafeat.spec import FORMAT, METADATA_KEY, ModelSpec, check_version, space_digest


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """Header of a model file.

    Attributes:
        path: of the file.
        hash: of weights and spec; a part of the key of cached embeddings.
        spec: architecture and input.
        fields: everything in the header.
    """

    path: Path
    hash: str
    spec: ModelSpec
    fields: Mapping[str, Any]


def read_header(path: Path) -> ModelHeader:
    """Read a model file's header and check the file's length against it; weights are not read.

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
            tensors = parse_stored_json(file.read(length))
        header = parse_stored_json(tensors.pop("__metadata__")[METADATA_KEY])
        if header["format"] == FORMAT:
            check_version(header, path)
        end = 8 + length + max((int(tensor["data_offsets"][1]) for tensor in tensors.values()), default=0)
        hash_and_spec = (header["hash"], ModelSpec.from_dict(header["spec"], version=header["version"]))
    except OSError as error:
        if isinstance(error, ModelError):
            raise
        msg = f"{path}: expected a readable model file, got: {error.strerror}. Check its permissions."
        raise ModelError(msg) from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, UsageError) as error:
        msg = f"{path}: expected a model file of warmstart, got a file that is damaged, truncated or of another kind. Restore it or train it anew."
        raise ModelError(msg) from error
    if end != size:
        msg = f"{path}: expected {end} bytes, got {size}: the model file is truncated or damaged. Restore it or train it anew."
        raise ModelError(msg)
    return ModelHeader(path, *hash_and_spec, header)


def check_stored_size(model: ModelHeader, *, stored_size: int, location: str) -> None:
    """Check that a model accepts images of the size that a history stores.

    Whose history the model was trained on does not matter: embeddings are kept under the model's hash, so all of them
    come from one network and one code of the labels.

    Raises:
        ModelMismatchError: it cannot.
    """
    size = model.spec.image_size
    if not model.spec.accepts_size(stored_size):
        msg = (
            f"{model.path}: expected a model for images of {stored_size} x {stored_size} pixels, as {location} stores them, got "
            f"one for {size} x {size}. Name another with `model`, train one with `warmstart fit-similarity`, make a history with "
            f"`stored_size` {size}, or ask with `strategy` portfolio, which needs no model."
        )
        raise ModelMismatchError(msg)


def is_trained_on(model: ModelHeader, *, history_id: str, space_json: str, names: Collection[str]) -> bool:
    """Return whether a model was trained on a history, or on an older copy of it with fewer datasets."""
    if model.fields.get("history_id") == history_id:
        return True
    trained_on = model.fields.get("datasets") or ()
    same_space = model.fields.get("space_digest") == space_digest(space_json)
    return same_space and bool(trained_on) and not set(trained_on).difference(names)
