"""What a notebook shows of studies."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from warmstart.html import section, table
from warmstart.studies.results.report import best_rows

if TYPE_CHECKING:
    from warmstart.studies.results.summary import JointResult, TuneResult


def tune_html(found: TuneResult) -> str:
    """Return a study: what came of its trials, the best of them, and the comparison."""
    return section([_study(found)])


def joint_html(found: JointResult) -> str:
    """Return studies that were tuned together, one after the other."""
    return section([_study(study) for study in found.studies])


def _study(found: TuneResult) -> str:
    counts = found.counts_line or "no trial yet"
    parts = [f"<p>Study {escape(found.study)} in {escape(found.storage)}: {escape(counts)}.</p>"]
    rows = best_rows(found)
    if rows:
        parts.append(table("Best trials", rows))
    if found.comparison is not None:
        parts.append(f"<p>{escape(found.comparison_line)}</p>")
    if found.expected is not None:
        parts.append(f"<p>{escape(found.expected_line)}</p>")
    return "".join(parts)
