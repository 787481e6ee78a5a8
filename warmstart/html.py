"""HTML for notebooks: plain tables in the notebook's colours, without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warmstart.history_store.quoting import in_markup
from warmstart.history_store.space import shown
from warmstart.history_store.wording import in_short

if TYPE_CHECKING:
    from warmstart.prediction import Predictions
    from warmstart.suggestions.answer import Answer

_MAX_ROWS = 20
"""Most pictures in a table of predictions."""


def answer_html(answer: Answer) -> str:
    """Return an answer as HTML: confidence, configurations, neighbours, reasons."""
    about = answer.dataset
    parts = [
        f"<p>{in_markup(about.path)}: {about.n_images} images, {about.n_classes} classes. {in_markup(answer.confidence.note)}</p>",
        *(f"<p>{in_markup(note)}</p>" for note in answer.notes if note != answer.confidence.note),
    ]
    if answer.suggestions:
        rows = [
            {
                **shown(item.config),
                "from": item.origin,
                "distance": item.distance,
                "error there": item.source_error if item.measured else "not measured",
                "error expected": None if item.expected_error is None else item.expected_error.value,
                "expected regret": item.expected_regret,
                "seconds": None if item.seconds is None else item.seconds.value,
            }
            for item in answer.suggestions
        ]
        is_of_history = any(item.is_of_history for item in answer.suggestions)
        by = answer.strategy if is_of_history else "no strategy: nothing of the space is known"
        parts.append(table(f"Configurations to try first, by {by}", rows))
        if answer.plan is not None:
            parts.append(f"<p>{in_markup(answer.plan.line)}</p>")
        if is_of_history and answer.measured_with is not None and answer.measured_with.line:
            parts.append(f"<p>{in_markup(answer.measured_with.line)}</p>")
    if answer.expected_line:
        parts.append(f"<p>{in_markup(answer.expected_line)}</p>")
    parts.append(table("Datasets that it resembles most", [item.to_row() for item in answer.neighbours]))
    reasons = (
        []
        if (why := answer.explanation) is None
        else why.in_words(answer.suggestions, is_timed=answer.plan is not None)
    )
    for heading, lines in reasons:
        parts.append(f"<p>{in_markup(heading)}</p><ul>{''.join(f'<li>{in_markup(line)}</li>' for line in lines)}</ul>")
    return section(parts)


def predictions_html(predictions: Predictions) -> str:
    """Return predictions as HTML: the confusion matrix if classes are known, else the first pictures."""
    parts = [f"<p>{in_markup(predictions.line)}</p>"]
    if predictions.error is not None:
        parts += [f"<p>{in_markup(line)}</p>" for line in predictions.remarks]
        parts.append(table("Answers (columns) by true class (rows)", predictions.confusion()))
        return section(parts)
    rows = [
        {"image": row.image, "class": row.label, "probability": row.probability} for row in predictions.rows[:_MAX_ROWS]
    ]
    return section([*parts, table("First pictures" if len(predictions.rows) > _MAX_ROWS else "Pictures", rows)])


def table(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return an HTML table with a caption, without empty columns.

    Args:
        caption: of the table.
        rows: cells by their headings.
    """
    heads = [
        head for head in dict.fromkeys(head for row in rows for head in row) if any(row.get(head) is not None for row in rows)
    ]  # fmt: skip
    top = "".join(f'<th scope="col">{in_markup(head)}</th>' for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(row.get(head))}</td>' for head in heads)}</tr>" for row in rows)
    return f"<table><caption>{in_markup(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def section(parts: Sequence[str]) -> str:
    """Join HTML parts in one element."""
    return f"<div>{''.join(parts)}</div>"


def _cell(value: object) -> str:
    return "" if value is None else in_markup(in_short(value))
