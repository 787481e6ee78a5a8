"""How an evaluation is done: each option once, with its default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warmstart.models.recipe import Recipe

if TYPE_CHECKING:
    from pathlib import Path

    from warmstart.training.evaluation.protocol import Protocol


@dataclass(frozen=True)  # without slots, so that the command can read the defaults
class EvaluationSettings:
    """How to evaluate; the options of the command.

    Attributes:
        protocol: `leave-source-out` or `in-source`.
        methods: names; none = all.
        reference: the method that differences are taken of; None = the one that `suggest` asks.
        horizon: evaluations; `repeats` of what is random; `seed` of all of it.
        only: datasets to ask; none = all.
        workers: processes.
        surrogate: of the searches.
        paper_figure: play the runs of the paper's figures too.
        model: its recipe is the one trained for every fold; None = `recipe`.
        recipe: of the models that are trained.
        folds: models, each trained without one part of the datasets.
        models: folder where they are kept; None = one in the cache.
        device: where they are trained.
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
