"""What a notebook shows: plain tables that take its colours, and ask nothing of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from warmstart.history_store.space import shown
from warmstart.history_store.wording import in_short

if TYPE_CHECKING:
    from warmstart.prediction import Predictions
    from warmstart.suggestions.answer import Answer

_SHOWN = 20
"""Pictures of which a notebook shows the classes."""


def answer_html(found: Answer) -> str:
    """Return an answer: how sure it is, the configurations, the neighbours."""
    about = found.dataset
    parts = [
        f"<p>{escape(about.path)}: {about.n_images} images, {about.n_classes} classes. {escape(found.confidence.note)}</p>",
        *(f"<p>{escape(note)}</p>" for note in found.notes if note != found.confidence.note),
    ]
    if found.suggestions:
        rows = [
            {
                **shown(each.config),
                "from": each.origin,
                "distance": each.distance,
                "error there": each.source_error if each.measured else "not measured",
                "error expected": None if each.expected_error is None else each.expected_error.value,
                "expected regret": each.expected_regret,
                "seconds": None if each.seconds is None else each.seconds.value,
            }
            for each in found.suggestions
        ]
        is_known = any(each.is_of_history for each in found.suggestions)
        by = found.strategy if is_known else "no strategy: nothing of the space is known"
        parts.append(table(f"Configurations to try first, by {by}", rows))
        if found.plan is not None:
            parts.append(f"<p>{escape(found.plan.line)}</p>")
        if is_known and found.measured_with is not None and found.measured_with.line:
            parts.append(f"<p>{escape(found.measured_with.line)}</p>")
    if found.expected_line:
        parts.append(f"<p>{escape(found.expected_line)}</p>")
    parts.append(table("Datasets that it resembles most", [each.to_row() for each in found.neighbours]))
    reasons = (
        [] if (why := found.explanation) is None else why.in_words(found.suggestions, is_timed=found.plan is not None)
    )
    for heading, lines in reasons:
        parts.append(f"<p>{escape(heading)}</p><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>")
    return section(parts)


def predictions_html(found: Predictions) -> str:
    """Return what a classifier says of pictures: counts by class where the classes are known, else the first pictures."""
    parts = [f"<p>{escape(found.line)}</p>"]
    if found.error is not None:
        parts += [f"<p>{escape(line)}</p>" for line in found.remarks]
        parts.append(table("Answers (columns) by true class (rows)", found.confusion()))
        return section(parts)
    rows = [{"image": row.image, "class": row.label, "probability": row.probability} for row in found.rows[:_SHOWN]]
    return section([*parts, table("First pictures" if len(found.rows) > _SHOWN else "Pictures", rows)])


def table(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with a caption and a heading a column; empty columns are left out.

    Args:
        caption: what it shows.
        rows: cells by their headings.
    """
    heads = [
        head for head in dict.fromkeys(head for row in rows for head in row) if any(row.get(head) is not None for row in rows)
    ]  # fmt: skip
    top = "".join(f'<th scope="col">{escape(str(head))}</th>' for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(row.get(head))}</td>' for head in heads)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def section(parts: Sequence[str]) -> str:
    """Return parts of a page as one."""
    return f"<div>{''.join(parts)}</div>"


def _cell(value: object) -> str:
    return "" if value is None else escape(in_short(value))
