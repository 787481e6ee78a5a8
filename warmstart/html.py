"""What a notebook shows: plain tables that take its colours, and ask nothing of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmstart.studies.results.summary import JointResult, TuneResult
    from warmstart.suggestions.answer import Answer


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
                **each.config,
                "from": each.source or "all datasets",
                "distance": each.distance,
                "error there": each.source_error,
                "expected regret": each.expected_regret,
            }
            for each in found.suggestions
        ]
        parts.append(table(f"Configurations to try first, by {found.strategy}", rows))
    parts.append(table("Datasets that it resembles most", [each.to_row() for each in found.neighbours]))
    return _section(parts)


def tune_html(found: TuneResult) -> str:
    """Return a study: what came of its trials, the best of them, and the comparison."""
    return _section([_study(found)])


def joint_html(found: JointResult) -> str:
    """Return studies that were tuned together, one after the other."""
    return _section([_study(study) for study in found.studies])


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


def _study(found: TuneResult) -> str:
    from warmstart.studies.results.report import best_rows

    counts = ", ".join(f"{count} {status}" for status, count in found.counts.items()) or "no trial yet"
    parts = [f"<p>Study {escape(found.study)} in {escape(found.storage)}: {escape(counts)}.</p>"]
    rows = best_rows(found)
    if rows:
        parts.append(table("Best trials", rows))
    if found.comparison is not None:
        parts.append(f"<p>{escape(found.comparison_line)}</p>")
    return "".join(parts)


def _section(parts: Sequence[str]) -> str:
    return f"<div>{''.join(parts)}</div>"


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else escape(str(value))
