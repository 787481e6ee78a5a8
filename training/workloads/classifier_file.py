"""Metadata of the safetensors files of saved classifiers, with the workload that reads them. No torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import MissingPathError, ModelError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.wording import FaultError, in_words

METADATA_KEY = "warmstart-networks"
SCHEMA = 1
_PACKAGES = ("warmstart", "torch", "timm", "numpy")
"""Whose versions a file tells."""
FIRST = "cnn"
"""Workload of files without one: before 0.2 there was no other."""


def to_metadata(workload: str, header: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of a file, with the header of `read_header` under one key.

    Args:
        workload: its name in the registry.
        header: fields for `load` besides the tensors, in JSON types.
    """
    versions = {name: version(name) for name in _PACKAGES if find_spec(name) is not None}
    return {METADATA_KEY: json.dumps({"schema_version": SCHEMA, "workload": workload, "versions": versions, **header})}


def card_of(header: Mapping[str, Any]) -> dict[str, str]:
    """Return what is in a file, for people: classes, data, error, weights and their licences, versions.

    Args:
        header: of `read_header`, of an earlier release too.
    """
    models: list[Mapping[str, Any]] = header.get("models", [])
    networks = [f"{model['architecture']} at {model['image_size']} pixels{', fine-tuned' if model.get('tuned') else ''}" for model in models]  # fmt: skip
    error = f"{header['error']:.4g}"
    if header.get("interval"):
        error += " ({:.3g} to {:.3g}, 80 %)".format(*header["interval"])
    counts: Mapping[str, int] = header.get("pictures") or {}
    card = {
        "Classes": ", ".join(map(str, header["classes"])),
        "Pictures": f"{sum(counts.values()):,}: " + ", ".join(f"{name} {n:,}" for name, n in counts.items())
        if counts
        else "",
        "Fingerprint of the pictures": header.get("dataset") or "",
        "Error on pictures not learned": error,
        "Networks": "; ".join(dict.fromkeys(networks)) or str(header["workload"]),
        "Weights": "; ".join(dict.fromkeys(str(model["weights"]) for model in models)),
        "Licence of the weights": "; ".join(dict.fromkeys(str(model["licence"]) for model in models)),
        "Made with": ", ".join(f"{name} {number}" for name, number in header.get("versions", {}).items()),
    }
    return {name: text for name, text in card.items() if text}


def read_header(path: str | Path) -> dict[str, Any]:
    """Read the header of a file; it always has ``workload``.

    Raises:
        MissingPathError: when the file is missing.
        ModelError: when the file is of another kind, damaged or of a newer version.
    """
    path = Path(path)
    if not path.is_file():
        msg = f"{path}: expected a file of networks, got none. Check the path; `warmstart classify` writes one."
        raise MissingPathError(msg)
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            text = file.read(min(length, path.stat().st_size))
        header: dict[str, Any] = parse_json(parse_json(text)["__metadata__"][METADATA_KEY])
        version = header["schema_version"]
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise not_a_classifier(path, error) from error
    if not isinstance(header.get("workload", FIRST), str):
        msg = "a workload without a name"
        raise not_a_classifier(path, FaultError(msg))
    if version != SCHEMA:
        msg = f"{path}: expected networks of version {SCHEMA}, got {version!r}. Upgrade warmstart."
        raise ModelError(msg)
    return {"workload": FIRST, **header}


def not_a_classifier(path: str | Path, error: Exception) -> ModelError:
    """Return the error that a file is no saved classifier."""
    return ModelError(
        f"{path}: expected networks that `warmstart classify` wrote, got {in_words(error)}. "
        "Name such a file; the same `warmstart tune` writes it again, from the trials that it has."
    )
