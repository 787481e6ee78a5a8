"""What is usual among the datasets of a history that may answer: the measure by which a query is doubted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.novelty import FEW_GROUPS, PixelNorms, nearest_other_group_of
from warmstart.metafeat.sample import SAMPLE
from warmstart.metafeat.sample_statistics import ABOUT
from warmstart.suggestions.embedded_history import MANY, EmbeddedHistory
from warmstart.suggestions.references import References

ASKED = 1000
"""Datasets of a larger history than `MANY`, evenly spread, whose own distances say what is usual."""


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """What is usual, whatever the query.

    Attributes:
        names: `m` datasets.
        n_groups: of siblings among them.
        nearest: distances of datasets, of some of a larger history, to the nearest one of another group.
        images_seen: fewest pictures that were looked at: of one of them (of some of a larger history), or in the draws by which it was measured how far distances move.
        references: their statistics, where the history holds them.
        pixels: what pixel statistics are usual; None where references are lacking, or of few groups.
    """

    names: tuple[str, ...]
    n_groups: int
    nearest: NDArray[np.float64]
    images_seen: int
    references: References | None
    pixels: PixelNorms | None

    @classmethod
    def of(
        cls,
        vectors: NDArray[np.float32],
        *,
        groups: Sequence[str],
        names: Sequence[str],
        images_seen: int,
        references: References | None,
    ) -> "Norms":
        """Compute the norms of `m` datasets with `m x d` vectors; references may be of others too."""
        known = None if references is None else references.of(names)
        pixels = None
        if known is not None:
            group_of = dict(zip(names, groups, strict=True))
            siblings = [group_of[name] for name in known.names]
            if len(set(siblings)) >= FEW_GROUPS and known.pixels.shape[1] >= len(ABOUT):
                shown = known.pixels[:, : len(ABOUT)]
                pixels = PixelNorms.of(shown, siblings, asked=spread_rows(len(shown)))
        nearest = nearest_other_group_of(vectors, groups, asked=spread_rows(len(groups)))
        return cls(tuple(names), len(set(groups)), nearest, images_seen, known, pixels)


def norms_of(embedded: EmbeddedHistory, rows: NDArray[np.int64]) -> Norms:
    """Return the norms of the datasets in some rows of a history, computed once for the same rows."""
    return embedded.norms.recall(rows, lambda: _norms_of(embedded, rows))


def _norms_of(embedded: EmbeddedHistory, rows: NDArray[np.int64]) -> Norms:
    is_whole = len(rows) == len(embedded.names)
    seen = rows[spread_rows(len(rows))].tolist()
    drawn = () if embedded.references is None else embedded.references.sizes
    return Norms.of(
        embedded.vectors if is_whole else embedded.vectors[rows],
        groups=embedded.groups if is_whole else [embedded.groups[row] for row in rows.tolist()],
        names=embedded.names if is_whole else [embedded.names[row] for row in rows.tolist()],
        images_seen=min(*(embedded.about[row].n_train for row in seen), *drawn, SAMPLE),
        references=embedded.references,
    )


def spread_rows(m: int) -> NDArray[np.int64]:
    """Return the rows whose own distances say what is usual among m datasets: all of up to `MANY`, else some, evenly spread."""
    return np.arange(m) if m <= MANY else np.linspace(0, m - 1, ASKED).astype(np.int64)
