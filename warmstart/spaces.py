"""Search spaces in every accepted form: a name, a file, a dict, Optuna's distributions, ConfigSpace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import dump_space
from warmstart.training.workloads import named_space, space_names

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    SpaceLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | ConfigurationSpace

LARGEST = 10_000_000
"""Largest file read as a space, in bytes."""


def read_space(space: SpaceLike) -> ConfigurationSpace:
    """Read a space in any accepted form.

    Args:
        space: that of a workload, ``compact``, ``paper``, ``WORKLOAD`` or ``WORKLOAD:SPACE``; a file of the short form (YAML or JSON; docs/spaces.md) or of
            ConfigSpace JSON; a dict of the short form; a dict of Optuna's distributions; or a `ConfigurationSpace`.

    Raises:
        UsageError: an unknown name, no such file, or an object of another kind.
        DataError: an invalid space; the message names the line.
    """
    if isinstance(space, str | os.PathLike):
        return _read_named(os.fspath(space))
    # First, as a ConfigurationSpace is a mapping too.
    if hasattr(space, "to_serialized_dict"):
        configuration_space: ConfigurationSpace = space
        return configuration_space
    if isinstance(space, Mapping):
        if space and all(type(value).__module__.startswith("optuna.") for value in space.values()):
            from warmstart.integrations.optuna.space import to_space

            return to_space(space)
        from warmstart.history_store.space_yaml import Source, build_space

        return build_space(space, Source("space"))
    msg = f"expected a file, a dict or a ConfigurationSpace, got {type(space).__name__}. Write {{'lr': {{'log': [1e-5, 0.1]}}}}; docs/spaces.md has all forms."
    raise UsageError(msg, param="space")


def space_text(space: SpaceLike) -> str:
    """Return a space as ConfigSpace JSON; arguments and errors as in `read_space`."""
    return dump_space(read_space(space))


def _read_named(space: str) -> ConfigurationSpace:
    """Read a space by its name or from its file."""
    from warmstart.history_store.space_yaml import parse_space

    named = named_space(space)
    if named is not None:
        return named
    file = Path(space)
    if not file.is_file():
        msg = f"expected {', '.join(space_names())} or a file of a space, got {space!r}. Write one in YAML, e.g. 'lr: {{log: [1e-5, 0.1]}}'; docs/spaces.md shows how."
        raise UsageError(msg, param="space", given=space, choices=space_names())
    if file.stat().st_size > LARGEST:
        msg = f"expected a file of a space, got {space!r} of {file.stat().st_size:,} bytes. Name another file."
        raise UsageError(msg, param="space")
    return parse_space(file.read_text(encoding="utf-8-sig", errors="replace"), str(file))
