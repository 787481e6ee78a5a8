"""A search space as it travels: ConfigSpace JSON, or the name of a workload's space."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import DataError, UsageError

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.spaces import SpaceLike


def space_to_wire(space: "SpaceLike") -> dict[str, Any]:
    """Write a space, whose file is read here, as ConfigSpace JSON; raises as `read_space`."""
    from warmstart.spaces import space_text

    found: dict[str, Any] = json.loads(space_text(space))
    return found


def space_from_wire(given: Mapping[str, Any] | str) -> "ConfigurationSpace":
    """Read a space from a request: an object, or a name; never a file.

    Raises:
        UsageError: an unknown name.
        DataError: an object that is no space.
    """
    from warmstart.history_store.space_yaml import parse_space
    from warmstart.training.workloads import named_space, space_names

    if not isinstance(given, str):
        try:
            return parse_space(json.dumps(given), "space")
        except DataError as error:
            raise DataError(error.message.removeprefix("space, "), param="space") from error
    found = named_space(given)
    if found is None:
        msg = f"expected {', '.join(space_names())} or an object, got {given[:80]!r}. Send the space itself."
        raise UsageError(msg, param="space")
    return found
