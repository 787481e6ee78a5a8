"""The warm start of a study: what the history suggests, asked once and kept in the plan."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from history_store.errors import DataError, WarmstartError
from history_store.space import load_space
from warmstart.studies.history_state import history_state
from warmstart.studies.options import Sources
from warmstart.studies.plan import Plan, WarmConfig
from warmstart.studies.related import ask_related

if TYPE_CHECKING:
    from warmstart.advisor import Advisor, Location
    from warmstart.query import Query


def ask_history(plan: Plan, *, sources: Sources, tell: Callable[[str], object], query: Query | None = None) -> Plan:
    """Ask the history about the dataset of a plan, and for the related datasets that it wants.

    Args:
        plan: of a new study.
        sources: the history that is asked, and the model of the meta-features.
        tell: called with each line that a person should hear.
        query: the dataset of the plan, where it is open already.

    Returns: the plan with the suggestions that its space allows, and with the evaluations of related datasets.

    Raises:
        UsageError: related datasets that do not fit; see `warmstart.studies.related.ask_related`.
        WarmstartError: as in `warmstart.Advisor.suggest`.
    """

    @cache
    def advisor() -> Advisor:
        from warmstart.advisor import Advisor
        from warmstart.device import resolve_device

        return Advisor(
            **asdict(sources), exclude_group=plan.exclude_group, seed=plan.seed, device=resolve_device(plan.device)
        )

    @cache
    def locate() -> Location:
        return advisor().locate(query or plan.dataset, strategy=plan.strategy)

    asked = ask_related(plan, locate, history=sources.history)
    if plan.warm == "none":
        return asked
    from bo.space import Encoding

    place = locate()
    k = min(plan.k, max(1, len(place.memory.configs)))  # a young history gives what it has
    found = advisor().suggest(place, k, strategy=plan.strategy)
    encoding = Encoding(load_space(plan.space))
    fitting = []
    for design in found.suggestions:
        try:
            encoding.encode([design.config])
        except DataError:
            continue
        fitting.append(WarmConfig(dict(design.config), design.source, design.distance, design.source_error))
    for note in found.notes:
        tell(note)
    lacking = len(found.suggestions) - len(fitting)
    if lacking:
        rest = "" if fitting else ": the study begins cold"
        tell(f"{lacking} of {len(found.suggestions)} configurations of {found.history} do not fit the space{rest}.")
    return asked.with_warm(tuple(fitting), history_state(Path(found.history)))


def check_history(plan: Plan, history: str | os.PathLike[str] | None, tell: Callable[[str], object]) -> None:
    """Tell of a history that changed since it was asked; the study goes on with what it was told then."""
    from warmstart.locations import history_path

    if plan.history is None:
        return
    try:
        now = history_state(history_path(history))
    except WarmstartError:  # gone, or locked: the study does not need it any more
        return
    if (now["id"], now["revision"]) != (plan.history["id"], plan.history["revision"]):
        tell(
            f"{now['path']}: the history has changed since the study began; its warm configurations stay as they were."
        )
