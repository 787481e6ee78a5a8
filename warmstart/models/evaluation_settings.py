"""The options of an evaluation with their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from warmstart.models.recipe import Recipe
from warmstart.training.evaluation.protocol import Protocol


# Without slots, so that the command can read the defaults.
@dataclass(frozen=True)
class EvaluationSettings:
    """Options of `warmstart evaluate`.

    Attributes:
        protocol: `leave-source-out` or `in-source`.
        methods: names; none = all.
        reference: the method to compare with the others; None = the one of `suggest`.
        horizon: evaluations; `repeats` of random methods; `seed` of everything.
        only: datasets to evaluate; none = all.
        workers: processes.
        surrogate: of the searches.
        paper_figure: also replay the runs of the paper's figures.
        model: its recipe is trained for every fold; None = `recipe`.
        recipe: of the trained models.
        folds: number of models, each trained without one part of the datasets.
        models: their folder; None = one in the cache.
        device: of their training.
    """

    protocol: Protocol = "leave-source-out"
    methods: tuple[str, ...] = ()
    reference: str | None = None
    horizon: int = 20
    repeats: int = 5
    seed: int = 0
    only: tuple[str, ...] = ()
    workers: int = 1
    surrogate: str = "gp"
    paper_figure: bool = False
    model: Path | None = None
    recipe: Recipe = field(default_factory=Recipe)
    folds: int = 6
    models: Path | None = None
    device: str = "cpu"
