"""Answers over HTTP: the document of ``suggest --format json`` with fields for the command line.

Client and server share this file, so it needs no web framework.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.conversion import Match
from warmstart.measured_with import MeasuredWith
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.explanation import ConfigReason, Explanation, NeighbourReason
from warmstart.suggestions.records import Confidence, DatasetSummary, InitialDesign, Neighbour


def answer_to_wire(answer: Answer) -> dict[str, Any]:
    """Return the JSON object of an answer, with the server's files named without folders."""
    document = answer.to_dict()
    reasons = [design.why for design in answer.suggestions]
    return {
        **document,
        "history": Path(answer.history).name,
        "model": Path(answer.model).name if answer.model else "",
        "suggestions": [{**fields, "why": why} for fields, why in zip(document["suggestions"], reasons, strict=True)],
        "notes": [_without_folders(note, answer) for note in answer.notes],
        "space": json.loads(answer.space_json) if answer.space_json else None,
    }


def answer_from_wire(document: Mapping[str, Any], dataset: DatasetSummary) -> Answer:
    """Build an answer from its JSON object, of `warmstart.service.shapes.answer_shape`, with the client's dataset."""
    confidence, explanation = document["confidence"], document.get("explanation") or {}
    mapping, measured = explanation.get("mapping"), document.get("measured_with")
    return Answer(
        dataset=dataset,
        neighbours=tuple(_neighbour(item) for item in document["neighbours"]),
        suggestions=tuple(_design(item) for item in document["suggestions"]),
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
        mapping=None if mapping is None else tuple(Match(**item) for item in mapping),
        expected_error=_expected(document),
        measured_with=None if measured is None else MeasuredWith(**measured),
    )


def _expected(record: Mapping[str, Any]) -> ExpectedError | None:
    interval = record.get("expected_error")
    return None if interval is None else ExpectedError(**interval)


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
            NeighbourReason(reason["name"], reason["what"], reason["distance"], reason["distance_percentile"])
            for reason in record["neighbours"]
        ),
        tuple(
            ConfigReason(
                reason["from"],
                reason["source_error"],
                reason["source_rank"],
                tuple(reason["ranks_on_nearest"]),
                reason["configurations"],
                reason["portfolio_place"],
            )
            for reason in record["suggestions"]
        ),
        tuple(record["portfolio"]),
    )


def _without_folders(text: str, answer: Answer) -> str:
    for path in (answer.history, answer.model):
        if path:
            text = text.replace(path, Path(path).name)
    return text
