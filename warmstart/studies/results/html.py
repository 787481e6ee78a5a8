"""HTML of studies for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmstart.history_store.quoting import in_markup
from warmstart.html import section, table
from warmstart.studies.results.report import best_rows

if TYPE_CHECKING:
    from warmstart.studies.results.summary import JointResult, TuneResult


def tune_html(result: TuneResult) -> str:
    """Return the HTML of a study: counts, best trials, comparison."""
    return section([_study(result)])


def joint_html(joint: JointResult) -> str:
    """Return the HTML of studies that were tuned together."""
    return section([_study(study) for study in joint.studies])


def _study(result: TuneResult) -> str:
    counts = result.counts_line or "no trial yet"
    parts = [f"<p>Study {in_markup(result.study)} in {in_markup(result.storage)}: {in_markup(counts)}.</p>"]
    rows = best_rows(result)
    if rows:
        parts.append(table("Best trials", rows))
    if result.comparison is not None:
        parts.append(f"<p>{in_markup(result.comparison_line)}</p>")
    if result.expected is not None:
        parts.append(f"<p>{in_markup(result.expected_line)}</p>")
    return "".join(parts)
