"""Check that what was merged into a history can be answered with, beyond its bytes; and mend what cannot."""

from warmstart.histories.merge import carry_out, plan_merge
from warmstart.histories.merged import read_merged
from warmstart.history_store.bundle.file import Bundle
from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.history import History
from warmstart.locations import shipped_model
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.embeddings import fits_model
from warmstart.suggestions.references import read_features


def unusable_parts(history: "History") -> list[str]:
    """Describe what a suggestion would stumble over: features, merged records and embeddings that do not fit."""
    problems = []
    for read in (read_features, read_merged):
        try:
            read(history)
        except HistoryDamagedError as error:
            problems.append(str(error).partition(". Restore")[0])
    header = read_header(shipped_model())
    widths = {len(vector) for vector in history.embeddings(header.hash).values()}
    problems += [
        f"expected embeddings as the model {header.hash} gives them, got some of {width} numbers"
        for width in sorted(widths)
        if not fits_model(width, header)
    ]
    return problems


def mend(history: "History") -> None:
    """Leave features and embeddings that do not fit out of the answers; everything merged stays recorded.

    Args:
        history: open for writing.
    """
    carry_out(history, plan_merge(history, Bundle(frozenset())))
