"""Weights of a model file as arrays, and the hash of the model. No torch."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from warmstart.history_store.errors import MissingPathError, ModelError, UsageError
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.wording import in_words
from warmstart.metafeat.spec import METADATA_KEY, ModelSpec, check_version

Weights = dict[str, NDArray[Any]]


def read_model(path: str | Path) -> tuple[dict[str, Any], ModelSpec, Weights]:
    """Read a model file: its header without the fields of the format, its spec, its weights by name.

    Raises:
        MissingPathError: no such file.
        ModelError: not a model, damaged, altered or written by a newer version.
    """
    path = Path(path)
    if not path.is_file():
        msg = f"{path}: expected a model file, got nothing there. Train one with `warmstart fit-similarity` or leave the option out."
        raise MissingPathError(msg)
    header, weights = _read(path)
    try:
        spec = ModelSpec.from_dict(header["spec"], version=header["version"])
    except (LookupError, TypeError, AttributeError, UsageError) as error:
        raise mismatched_weights(path) from error
    actual_hash = weights_hash(spec, weights)
    if header.get("hash") != actual_hash:
        msg = f"{path}: expected weights with hash {header.get('hash')}, got {actual_hash}. The file was altered: restore or train it anew."
        raise ModelError(msg)
    return {k: v for k, v in header.items() if k not in ("format", "version", "spec", "hash")}, spec, weights


def weights_hash(spec: ModelSpec, weights: Mapping[str, NDArray[Any]]) -> str:
    """Return 16 hex digits over spec and weights."""
    digest = hashlib.sha256(json.dumps(spec.identity(), sort_keys=True).encode())
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(weights[name]).tobytes())
    return digest.hexdigest()[:16]


def mismatched_weights(path: str | Path) -> ModelError:
    """Return the error of a file whose spec and weights do not go together."""
    return ModelError(f"{path}: expected spec and weights of a model, got others. Train the model anew.")


def _read(path: Path) -> tuple[dict[str, Any], Weights]:
    """Return header and weights of a model file of a known version."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        header = parse_stored_json(metadata[METADATA_KEY])
    except (SafetensorError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        msg = f"{path}: expected a model file of warmstart, got a file that is damaged, truncated or of another kind. Restore it or train it anew."
        raise ModelError(msg) from error
    except OSError as error:
        msg = f"{path}: expected a readable model file, got: {in_words(error)}. Check its permissions."
        raise ModelError(msg) from error
    check_version(header if isinstance(header, dict) else {}, path)
    return header, weights
