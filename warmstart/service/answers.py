"""An answer as it travels: the document of ``suggest --format json``, and what the command line needs besides.

Client and server share this file, so it needs no web framework.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.matching import Match
from warmstart.measured_with import MeasuredWith
from warmstart.suggestions.answer import Answer, Confidence, DatasetSummary, InitialDesign, Neighbour
from warmstart.suggestions.explanation import ConfigReason, Explanation, NeighbourReason


def answer_to_wire(found: Answer) -> dict[str, Any]:
    """Return the JSON object of an answer; files of the server are named without their folders."""
    document = found.to_dict()
    reasons = [design.why for design in found.suggestions]
    return {
        **document,
        "history": Path(found.history).name,
        "model": Path(found.model).name if found.model else "",
        "suggestions": [{**each, "why": why} for each, why in zip(document["suggestions"], reasons, strict=True)],
        "notes": [_without_folders(note, found) for note in found.notes],
        "space": json.loads(found.space_json) if found.space_json else None,
    }


def answer_from_wire(document: Mapping[str, Any], dataset: DatasetSummary) -> Answer:
    """Build the answer again, about the dataset as the client knows it.

    Raises:
        KeyError, TypeError, ValueError: it is no answer.
    """
    confidence, explanation = document["confidence"], document.get("explanation") or {}
    mapping, measured = explanation.get("mapping"), document.get("measured_with")
    return Answer(
        dataset=dataset,
        neighbours=tuple(_neighbour(each) for each in document["neighbours"]),
        suggestions=tuple(_design(each) for each in document["suggestions"]),
        strategy=document["strategy"],
        confidence=Confidence(
            typical=confidence["typical"],
            distance_percentile=confidence["distance_percentile"],
            note=confidence["note"],
            reasons=tuple(confidence["reasons"]),
        ),
        history=document["history"],
        model=document["model"],
        seed=document["seed"],
        space_json="" if document["space"] is None else json.dumps(document["space"]),
        notes=tuple(document["notes"]),
        explanation=_explanation(explanation) if "neighbours" in explanation else None,
        mapping=None if mapping is None else tuple(Match(**each) for each in mapping),
        expected_error=_expected(document),
        measured_with=None if measured is None else MeasuredWith(**measured),
    )


def _expected(record: Mapping[str, Any]) -> ExpectedError | None:
    found = record.get("expected_error")
    return None if found is None else ExpectedError(**found)


def _neighbour(record: Mapping[str, Any]) -> Neighbour:
    limits = record.get("distance_range")
    return Neighbour(
        record["name"], record["distance"], record["best_error"], None if limits is None else (limits[0], limits[1])
    )


def _design(record: Mapping[str, Any]) -> InitialDesign:
    return InitialDesign(
        record["config"],
        record["natural"],
        record["from"],
        record["distance"],
        record["source_error"],
        record["expected_regret"],
        why=record["why"],
        measured=record["measured"],
        not_measured=tuple(record["not_measured"]),
        expected_error=_expected(record),
    )


def _explanation(record: Mapping[str, Any]) -> Explanation:
    return Explanation(
        tuple(
            NeighbourReason(each["name"], each["what"], each["distance"], each["distance_percentile"])
            for each in record["neighbours"]
        ),
        tuple(
            ConfigReason(
                each["from"],
                each["source_error"],
                each["source_rank"],
                tuple(each["ranks_on_nearest"]),
                each["configurations"],
                each["portfolio_place"],
            )
            for each in record["suggestions"]
        ),
        tuple(record["portfolio"]),
    )


def _without_folders(text: str, found: Answer) -> str:
    for place in (found.history, found.model):
        if place:
            text = text.replace(place, Path(place).name)
    return text
