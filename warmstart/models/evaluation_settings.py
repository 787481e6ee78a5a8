"""The options of an evaluation with their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, get_args

from warmstart.models.recipe import Recipe
from warmstart.option import MOST_SEED, option, option_of
from warmstart.suggestions.lookup import Lookup
from warmstart.training.evaluation.protocol import Protocol


@dataclass(frozen=True)
class EvaluationSettings:
    """Options of `warmstart evaluate`.

    Attributes:
        methods: names; none = all.
    """

    TITLE: ClassVar[str] = "Evaluation"
    protocol: Protocol = option(
        "leave-source-out",
        "leave-source-out: leave out all siblings too; in-source: the query alone, as the paper does.",
        choices=get_args(Protocol),
        is_main=True,
    )
    methods: tuple[str, ...] = ()
    reference: str | None = option(
        None,
        "The method to compare with the others; suggest's when left out.",
        flags=("--reference", "--ours"),
        is_main=True,
    )
    horizon: int = option(20, "Number of evaluations for each dataset.", least=1)
    repeats: int = option(5, "Repeats of every search.", least=1)
    seed: int = option(0, "Seed of everything random.", least=0, most=MOST_SEED)
    only: tuple[str, ...] = option((), "Evaluate this dataset alone, for a quick look; may be repeated.", is_main=True)
    workers: int = option(1, "Number of processes; the result is the same.", least=1)
    surrogate: str = option("gp", "Model of the searches: gp or gp-map.")
    paper_figure: bool = option(False, "Also repeat the experiments of the paper's figures 3 and 4.")
    model: Path | None = option(
        None,
        "Train every fold's model with the recipe of this one; the preset when left out. One of another history is "
        "taken as it is.",
        type=Path,
        is_main=True,
    )
    recipe: Recipe = field(default_factory=Recipe)
    folds: int = option(6, "Number of parts of the datasets; one model is trained without each.", least=2)
    models: Path | None = option(
        None,
        "Folder for the models, so that an interrupted run resumes; in the cache when left out.",
        type=Path,
    )
    device: str = option_of(Lookup, "device")
