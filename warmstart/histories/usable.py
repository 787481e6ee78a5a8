"""Check that what was merged into a history can be answered with, beyond its bytes; and mend what cannot."""

from pathlib import Path

from warmstart.histories.merge import carry_out, plan_merge
from warmstart.histories.merged import read_merged
from warmstart.history_store.bundle.file import Bundle
from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.history import History
from warmstart.locations import shipped_model, usual_model
from warmstart.metafeat import index_file
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.embeddings import fits_model, load_embedded_history
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
    _, vectors = history.vectors(header.hash)
    if len(vectors) and not fits_model(vectors.shape[1], header):
        problems.append(
            f"expected embeddings as the model {header.hash} gives them, got some of {vectors.shape[1]} numbers"
        )
    return problems


def index_remarks(path: Path) -> list[str]:
    """Say why the stored index of a very large history is not used; nothing where it is, or there is none."""
    with History.open(path) as history:
        if len(history.names) <= index_file.LEAST:
            return []
    file = load_embedded_history(path, usual_model(path)).index.file
    fault = None if file is None else file.fault()
    return [] if file is None or fault is None else [f"{file.path}: {fault}. `warmstart history embed` makes it anew"]


def mend(history: "History") -> None:
    """Leave features and embeddings that do not fit out of the answers; everything merged stays recorded.

    Args:
        history: open for writing.
    """
    carry_out(history, plan_merge(history, Bundle(frozenset())))
