"""Parse a run typed on the command line or sent to a server."""

import math
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.records import Evaluation, Status
from warmstart.history_store.wording import in_words


def read_evaluation(
    *,
    dataset: str,
    config: str,
    error: float | None,
    status: str = "ok",
    duration: float | None = None,
    seed: int | None = None,
    curve: str | None = None,
    origin: str = "record",
) -> Evaluation:
    """Parse the texts and numbers of a run as an evaluation.

    Args:
        dataset: name in the history.
        config: JSON object of hyperparameters, or ``@FILE`` that holds one.
        error: validation error in [0, 1]; None without one.
        status: ok, diverged, crashed, timeout or oom.
        duration: seconds.
        seed: of the run.
        curve: JSON list of [update, error], or ``@FILE``.
        origin: who measured it.

    Raises:
        UsageError: an unknown status, text that is not JSON of that shape.
        MissingPathError: a ``@FILE`` that is not there.
        DataError: numbers out of range.
    """
    values = _json(config, "config")
    if (
        not isinstance(values, Mapping)
        or not values
        or not all(isinstance(v, int | float | str) for v in values.values())
    ):
        msg = f"expected a JSON object of numbers, texts and truth values, got {config[:80]!r}. Write '{{\"batch_size\": 16}}' or @FILE."
        raise UsageError(msg, param="config")
    try:
        kind = Status(status)
    except ValueError as cause:
        msg = f"expected one of {', '.join(Status)}, got {status!r}. Leave it out for a run that went well."
        raise UsageError(msg, param="status", given=status, choices=Status) from cause
    if error is None and kind.has_error:
        msg = f"expected a validation error in [0, 1] for status {status!r}, got none. Give it, or `status` crashed, timeout or oom."
        raise UsageError(msg, param="error")
    return Evaluation(
        dataset=dataset,
        config=dict(values),
        error=math.nan if error is None else error,
        status=kind,
        duration=math.nan if duration is None else duration,
        seed=seed,
        curve=_curve(curve),
        origin=origin,
    )


def _curve(text: str | None) -> tuple[tuple[int, float], ...]:
    if text is None:
        return ()
    points = _json(text, "curve")
    if not isinstance(points, Sequence) or not all(_is_point(point) for point in points):
        msg = f"expected a JSON list of [update, error], got {text[:80]!r}. Write '[[100, 0.4], [200, 0.3]]' or @FILE."
        raise UsageError(msg, param="curve")
    curve = tuple((int(step), float(error)) for step, error in points)
    if any(later <= earlier for (earlier, _), (later, _) in pairwise(curve)):
        msg = f"expected updates that increase, got {[step for step, _ in curve][:8]}. Sort the points."
        raise DataError(msg, param="curve")
    return curve


def _is_point(point: Any) -> bool:
    return (
        isinstance(point, list)
        and len(point) == 2
        and type(point[0]) is int
        and isinstance(point[1], int | float)
        # JSON allows integers that no float can hold.
        and abs(point[1]) <= sys.float_info.max
    )


def _json(text: str, param: str) -> Any:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            msg = f"expected a readable file after @, got {text[1:]!r} ({in_words(problem)}). Check the path."
            raise MissingPathError(msg, param=param) from problem
    try:
        return parse_json(text)
    except ValueError as problem:
        msg = f"expected JSON, got {text[:80]!r} ({in_words(problem)}). Quote names with double quotes."
        raise UsageError(msg, param=param) from problem
