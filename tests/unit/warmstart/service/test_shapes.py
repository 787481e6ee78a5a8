"""What another server answers is refused where it arrives, field by field."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from warmstart.service.shapes import OFFERED, STUDY, TRIAL, answer_shape, check_shape

ERROR = {"value": 0.1, "low": 0.0, "high": 0.2, "level": 0.9}
CONFIG = {"lr?": 0.1, "c": "a\nb", "n": 3, "b": True}
ANSWER = {
    "neighbours": [{"name": "a", "distance": 1, "best_error": None, "distance_range": [0.5, 2]}],
    "suggestions": [
        {"config": CONFIG, "natural": {"lr": 0.1}, "from": None, "distance": None, "source_error": 0.5}
        | {"expected_regret": 0.1, "expected_error": ERROR, "measured": True, "not_measured": [], "why": "", "new": 1}
    ],
    "strategy": "joint",
    "confidence": {"typical": True, "distance_percentile": 3.5, "note": "", "reasons": ["far"]},
    "history": "h",
    "model": "",
    "seed": 0,
    "notes": ["one"],
    "space": None,
    "expected_error": None,
    "explanation": None,
    "measured_with": {"network": "n", "origins": {"a": 3}},
}
OFFER = {"state": "offered", "trials": [{"study": "s", "number": 0, "config": CONFIG, "seed": 1, "budget": None}]}
RESULT = {"number": 0, "state": "ok", "config": CONFIG, "seed": 1, "error": 0.5, "duration": None, "note": "", "curve": [[1, 0.5]]}  # fmt: skip
RESULT |= {"constraints": {}, "client": None, "lease_until": None, "extra_of": None}
SEARCH = {"seed": 1, "surrogate": "gp", "acquisition": "ei", "pruner": "none", "budget": None}
SEARCH |= {"metric": None, "maximize": None, "scale": None}
BEGUN = {"name": "s", "space": {}, "objective": {"workload": None}, "search": SEARCH, "n_trials": 0, "exhausted": False}
BEGUN |= {"warm": {"mode": "none", "configs": [{"config": CONFIG}], "n_design": 3}, "related": []}
CASES = [(ANSWER, answer_shape(["joint"])), (OFFER, OFFERED), (RESULT, TRIAL), (BEGUN, STUDY)]


def altered(document: Any) -> Iterator[Any]:
    """Give copies of a document, each with one value replaced by one that no field may be."""
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in entries:
        if key in ("new", "space"):
            continue
        for other in list(altered(value)) if isinstance(value, dict | list) else [[["x"]], float("inf")]:
            changed = copy.copy(document)
            changed[key] = other
            yield changed


@pytest.mark.parametrize(("document", "shape"), CASES)
def test_every_field_is_checked(document: Any, shape: Any) -> None:
    check_shape(document, shape)
    for changed in altered(document):
        with pytest.raises(ValueError, match="expected"):
            check_shape(changed, shape)


@pytest.mark.parametrize(
    ("document", "shape", "message"),
    [
        (ANSWER | {"strategy": "joint\nopen('x')"}, CASES[0][1], "/strategy: expected one of '', 'joint', got"),
        (BEGUN | {"search": SEARCH | {"space": "x"}}, STUDY, "/search/space: expected no such field"),
        ({}, OFFERED, "/state: expected a value, got none"),
        ([], OFFERED, "/: expected an object"),
    ],
)
def test_messages_name_the_field(document: Any, shape: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_shape(document, shape)
