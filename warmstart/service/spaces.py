"""Search spaces over HTTP: ConfigSpace JSON, or the name of a workload's space."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import DataError, UsageError

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.spaces import SpaceLike


def space_to_wire(space: "SpaceLike") -> dict[str, Any]:
    """Return a space as a ConfigSpace JSON object, reading its file on the client; raises as `read_space`."""
    from warmstart.spaces import space_text

    document: dict[str, Any] = json.loads(space_text(space))
    return document


def space_from_wire(space: Mapping[str, Any] | str) -> "ConfigurationSpace":
    """Parse a space from a request: an object or a name, never a file.

    Raises:
        UsageError: an unknown name.
        DataError: an invalid space.
    """
    from warmstart.history_store.space_yaml import Source, build_space
    from warmstart.training.workloads import named_space, space_names

    if not isinstance(space, str):
        try:
            return build_space(space, Source("space"))
        except DataError as error:
            raise DataError(error.message.removeprefix("space: "), param="space") from error
    named = named_space(space)
    if named is None:
        msg = f"expected {', '.join(space_names())} or an object, got {space[:80]!r}. Send the space itself."
        raise UsageError(msg, param="space")
    return named
