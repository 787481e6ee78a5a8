"""Metadata of the safetensors files of saved classifiers, with the workload that reads them. No torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import MissingPathError, ModelError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.wording import in_words

METADATA_KEY = "warmstart-networks"
SCHEMA = 1
FIRST = "cnn"
"""Workload of files without one: before 0.2 there was no other."""


def to_metadata(workload: str, header: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of a file, with the header of `read_header` under one key.

    Args:
        workload: its name in the registry.
        header: fields for `load` besides the tensors, in JSON types.
    """
    return {METADATA_KEY: json.dumps({"schema_version": SCHEMA, "workload": workload, **header})}


def read_header(path: str | Path) -> dict[str, Any]:
    """Read the header of a file; it always has ``workload``.

    Raises:
        MissingPathError: when the file is missing.
        ModelError: when the file is of another kind, damaged or of a newer version.
    """
    path = Path(path)
    if not path.is_file():
        msg = (
            f"{path}: expected a file of networks, got none. Check the path; `warmstart tune --save-model` writes one."
        )
        raise MissingPathError(msg)
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            text = file.read(min(length, path.stat().st_size))
        header: dict[str, Any] = parse_json(parse_json(text)["__metadata__"][METADATA_KEY])
        version = header["schema_version"]
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise not_a_classifier(path, error) from error
    if version != SCHEMA:
        msg = f"{path}: expected networks of version {SCHEMA}, got {version!r}. Upgrade warmstart."
        raise ModelError(msg)
    return {"workload": FIRST, **header}


def not_a_classifier(path: str | Path, error: Exception) -> ModelError:
    """Return the error that a file is no saved classifier."""
    return ModelError(
        f"{path}: expected networks that `warmstart tune --save-model` wrote, got {in_words(error)}. "
        "Name such a file; the same `warmstart tune` writes it again, from the trials that it has."
    )
