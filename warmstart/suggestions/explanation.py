"""Reasons for an answer: the neighbours, ranks of the configurations on them, the portfolio's choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.designs import designs
from warmstart.bo.transfer.strategies import Choice
from warmstart.bo.transfer.strategies.scenarios import USUAL_NOISE
from warmstart.history_store.records import Value
from warmstart.history_store.space import shown
from warmstart.history_store.wording import in_short
from warmstart.metafeat.index import distances_to
from warmstart.suggestions.embedded_history import EmbeddedHistory

if TYPE_CHECKING:
    from warmstart.suggestions.location import Location
    from warmstart.suggestions.records import InitialDesign, Neighbour

NEIGHBOURHOOD = 5
BY_SECONDS = "In this order each lowers the expected best error most per second, after those before it."


@dataclass(frozen=True, slots=True)
class NeighbourReason:
    """Description and relative distance of a neighbour.

    Attributes:
        name: in the history.
        what: one line about its images; may be empty.
        distance: from the query.
        percentile: share of the history's own distances between groups that are smaller, in [0, 100]; None where it
            has one group only.
    """

    name: str
    what: str
    distance: float
    percentile: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "name": self.name,
            "what": self.what,
            "distance": self.distance,
            "distance_percentile": self.percentile,
        }


@dataclass(frozen=True, slots=True)
class ConfigReason:
    """Ranks of a suggested configuration on the history's datasets.

    Attributes:
        source: dataset it was chosen for; None = all of them.
        source_error: its error there; None without one.
        source_rank: its rank there, 1 = lowest error; None likewise.
        near_ranks: its rank on each of the nearest datasets that measured it, nearest first.
        of: configurations that the history shares.
        portfolio_rank: its rank in the portfolio of all datasets, 1 = first; None where not among as many.
    """

    source: str | None
    source_error: float | None
    source_rank: int | None
    near_ranks: tuple[int, ...]
    of: int
    portfolio_rank: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "from": self.source,
            "source_error": self.source_error,
            "source_rank": self.source_rank,
            "ranks_on_nearest": list(self.near_ranks),
            "configurations": self.of,
            "portfolio_place": self.portfolio_rank,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Reasons for an answer.

    Attributes:
        neighbours: as listed in the answer.
        suggestions: one for each suggestion.
        portfolio: configurations of the portfolio of all datasets, best first.
    """

    neighbours: tuple[NeighbourReason, ...]
    suggestions: tuple[ConfigReason, ...]
    portfolio: tuple[Mapping[str, Value], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "neighbours": [reason.to_dict() for reason in self.neighbours],
            "suggestions": [reason.to_dict() for reason in self.suggestions],
            "portfolio": [dict(config) for config in self.portfolio],
        }

    def in_words(self, designs: "Sequence[InitialDesign]", *, is_timed: bool) -> list[tuple[str, list[str]]]:
        """Return the reasons as headings with their lines.

        Args:
            designs: the suggestions.
            is_timed: whether they were chosen by their gain per second.
        """
        configs = [BY_SECONDS] if is_timed else []
        for number, (design, reason) in enumerate(zip(designs, self.suggestions, strict=False), start=1):
            configs.append(f"{number}. {design.why}{_ranks(reason)}.")
            if design.expected_regret is not None:
                configs[-1] += (
                    f" After it, the best so far is expected at {100 * design.expected_regret:.1f} % of the way from the best to the worst known configuration."
                )
        portfolio = [
            f"{number}. " + ", ".join(f"{name} {in_short(value)}" for name, value in shown(config).items())
            for number, config in enumerate(self.portfolio, start=1)
        ]
        return [
            *([("Why these datasets", [_nearness(near) for near in self.neighbours])] if self.neighbours else []),
            ("Why these configurations", configs),
            ("A portfolio that ignores your images would have said", portfolio),
        ]


def explain_answer(
    near: "Location",
    rows: NDArray[np.int64],
    *,
    errors: NDArray[np.float64],
    choices: Sequence[Choice],
    listed: Sequence["Neighbour"],
) -> Explanation:
    """Collect the reasons for an answer.

    Args:
        near: the nearest datasets.
        rows: `m` datasets used.
        errors: `m x c`, as given to the strategy.
        choices: of the strategy.
        listed: neighbours to describe.
    """
    embedded = near.embedded
    groups = [embedded.groups[row] for row in rows]
    choices_of_all = designs(errors, None, len(choices), strategy="portfolio", groups=groups, noise=USUAL_NOISE)
    portfolio = [choice.row for choice in choices_of_all]
    nearest = np.argsort(near.distances, kind="stable")[:NEIGHBOURHOOD]
    # Distances are NaN for a history of runs alone.
    nearest = near.rows[nearest[np.isfinite(near.distances[nearest])]]
    measured, measured_near = embedded.errors(np.asarray(rows, np.int64)), embedded.errors(nearest)
    pair_distances = _distances_between_groups(embedded, near.rows)
    row_of = {embedded.names[row]: row for row in near.rows.tolist()}
    return Explanation(
        tuple(
            NeighbourReason(
                neighbour.name,
                embedded.about[row_of[neighbour.name]].what,
                neighbour.distance,
                float(100 * np.mean(pair_distances < neighbour.distance)) if pair_distances.size else None,
            )
            for neighbour in listed
        ),
        tuple(
            ConfigReason(
                None if choice.neighbour is None else embedded.names[rows[choice.neighbour]],
                choice.source_error,
                None if choice.neighbour is None else _rank(measured[choice.neighbour], choice.row),
                tuple(rank for row in measured_near if (rank := _rank(row, choice.row)) is not None),
                errors.shape[1],
                portfolio.index(choice.row) + 1 if choice.row in portfolio else None,
            )
            for choice in choices
        ),
        tuple(dict(embedded.configs[row]) for row in portfolio),
    )


def _rank(errors: NDArray[np.float64], row: int) -> int | None:
    """Return the rank of a configuration's error, 1 = lowest; None if it is missing."""
    return None if np.isnan(errors[row]) else int(np.sum(errors < errors[row])) + 1


def _distances_between_groups(embedded: EmbeddedHistory, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the distances between datasets of different groups; empty without a model."""
    if embedded.model is None:
        return np.zeros(0)
    vectors, groups = embedded.vectors[rows], embedded.group_numbers[rows]
    pairs = zip(vectors, groups, strict=True)
    return np.concatenate([distances_to(vector, vectors[groups != group]) for vector, group in pairs])


def _nearness(near: NeighbourReason) -> str:
    percentile = (
        "" if near.percentile is None else f": nearer than {100 - near.percentile:.0f} % of the history's pairs"
    )
    return f"{near.name} (distance {near.distance:.3g}{percentile})" + (f". {near.what}" if near.what else "")


def _ranks(reason: ConfigReason) -> str:
    text = "" if reason.source_rank is None else f", rank {reason.source_rank} of {reason.of}"
    if reason.near_ranks:
        text += f"; ranks on the nearest {len(reason.near_ranks)}: {', '.join(map(str, reason.near_ranks))}"
    is_there = reason.portfolio_rank is not None
    return text + ("; " + (f"number {reason.portfolio_rank} of" if is_there else "not in") + " the portfolio")
