"""What an evaluation may say."""

from __future__ import annotations

import math
from typing import Any

import pytest

from warmstart.history_store.errors import DataError
from warmstart.history_store.records import Evaluation, Status


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"error": 1.5}, r"expected an error in \[0, 1\], got error=1\.5"),
        ({"error": -0.1}, r"expected an error in \[0, 1\]"),
        ({"error": math.nan}, "Record a run without one under its status: crashed, timeout or oom"),
        ({"error": math.inf, "status": Status.DIVERGED}, r"expected an error in \[0, 1\]"),
        ({"error": 0.5, "status": Status.CRASHED}, "expected error NaN for status 'crashed', got error=0.5"),
        ({"error": 0.5, "duration": -1.0}, "expected a duration of 0 or more seconds"),
        ({"error": 0.5, "duration": math.inf}, "expected a duration of 0 or more seconds"),
        ({"error": "0.1"}, "evaluation of 'd': expected a number as error, got '0.1'. Use NaN where it is unknown"),
        ({"error": None}, "expected a number as error, got None"),
        ({"error": 0.5, "duration": "1"}, "expected a number as duration, got '1'"),
        ({"error": 0.5, "seed": -1}, "expected a seed in 0"),
        ({"error": 0.5, "seed": 2**63}, "expected a seed in 0"),
        ({"error": 0.5, "curve": ((2, 0.5), (2, 0.4))}, r"expected a curve of increasing updates .* got \(2, 0\.4\)"),
        ({"error": 0.5, "curve": ((-1, 0.5),)}, "expected a curve of increasing updates"),
        ({"error": 0.5, "curve": ((1, math.nan),)}, "expected a curve of increasing updates"),
    ],
)
def test_what_it_may_not_say(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Evaluation("d", {}, **values)


def test_an_origin_is_text() -> None:
    assert Evaluation("d", {}, 0.5, origin="collect/größe").origin == "collect/größe"
    with pytest.raises(DataError, match=r"expected an origin in Unicode, got 'caf\\udce9'"):
        Evaluation("d", {}, 0.5, origin="caf\udce9")
