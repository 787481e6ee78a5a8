"""What the routes of a server share."""

import gc
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Annotated

from anyio import CapacityLimiter
from fastapi import Depends, Request

from warmstart.descriptor import Descriptor
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.locations import history_path, model_path
from warmstart.service.auth import Scope, Token
from warmstart.service.importance import KeptImportance
from warmstart.service.metrics import Metrics
from warmstart.service.problems import ProblemError
from warmstart.service.settings import ServiceSettings
from warmstart.service.study_book import StudyBook
from warmstart.studies.state.storage import local_path
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.embedded_history import EmbeddedHistory

MOST_DESCRIPTORS = 1000
MOST_ASKS = 32
"""Threads that choose trials, which may take long: others have theirs for all the rest."""


@dataclass(slots=True)
class Service:
    """The settings of a server, what it counts, and the descriptors that it was given.

    Attributes:
        settings: of the server.
        studies: of its storage.
        metrics: what it counted.
        is_stopping: it takes no more.
        n_streams: followers of studies.
        writing: held by who writes to the history.
        asks: of the threads that choose trials.
        importance: of hyperparameters in studies, as it was computed last.
    """

    settings: ServiceSettings
    studies: StudyBook
    metrics: Metrics = field(default_factory=Metrics)
    is_stopping: bool = False
    n_streams: int = 0
    writing: Lock = field(default_factory=Lock)
    importance: KeptImportance = field(default_factory=KeptImportance)
    asks: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MOST_ASKS))
    _descriptors: OrderedDict[str, Descriptor] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)
    _loading: Lock = field(default_factory=Lock)
    _loaded: EmbeddedHistory | None = None

    def advisor(self, exclude_group: tuple[str, ...] = (), seed: int = 0) -> Advisor:
        """Return who answers."""
        return Advisor(
            self.settings.history, self.settings.model, exclude_group=exclude_group, seed=seed, threads=1, cache=False
        )

    def embedded(self) -> EmbeddedHistory:
        """Read the history, once for each state of its file, however many ask at a time; raises as `Advisor.embedded`."""
        with self._loading:
            found = self.advisor().embedded
            if found is not self._loaded:
                self._loaded = found
                gc.collect()
                gc.freeze()  # what stays is not looked through again and again
            return found

    def embedded_or_empty(self) -> EmbeddedHistory | None:
        """Read the history; None where it has no datasets yet. Raises as `embedded`."""
        from warmstart.history_store.history import History

        try:
            return self.embedded()
        except UsageError:  # of an empty history, or of another call
            with History.open(history_path(self.settings.history)) as history:
                if history.names:
                    raise
            return None

    def keep(self, descriptor: Descriptor) -> str:
        """Remember a descriptor by its id; the oldest ones are forgotten."""
        found = descriptor.id
        with self._lock:
            self._descriptors[found] = descriptor
            self._descriptors.move_to_end(found)
            if len(self._descriptors) > MOST_DESCRIPTORS:
                self._descriptors.popitem(last=False)
        return found

    def recall(self, descriptor_id: str) -> Descriptor:
        """Return a descriptor that was posted.

        Raises:
            ProblemError: 404 where it is not known, or forgotten.
        """
        with self._lock:
            found = self._descriptors.get(descriptor_id)
        if found is None:
            detail = f"expected the id of a descriptor that was posted, got {descriptor_id[:80]!r}. Post the descriptor again: ids do not outlive a restart."
            raise ProblemError(404, "No such descriptor", detail, pointer="/descriptor")
        return found

    def hidden(self) -> tuple[Path, ...]:
        """Return files whose folders no client shall read of."""
        found: list[Path] = []
        for path in (history_path, model_path):
            try:
                found.append(path(self.settings.history if path is history_path else self.settings.model))
            except WarmstartError:
                continue
        storage = local_path(self.settings.storage)
        return (*found, storage) if storage is not None else tuple(found)


def service_of(request: Request) -> Service:
    """Return what the routes share."""
    found: Service = request.app.state.service
    return found


def needs(scope: Scope) -> Callable[[Request], Token]:
    """Return a dependency that refuses tokens of a lesser scope, and gives the token of the others."""

    def check(request: Request) -> Token:
        token: Token = request.state.token
        if not token.allows(scope):
            detail = f"expected a token of scope {scope}, got {token.name!r} of scope {token.scope}. Ask who runs the server."
            raise ProblemError(403, "Not allowed", detail)
        return token

    return check


def audit(request: Request, action: str, **what: object) -> None:
    """Note what a request changes: one line of the log, once it was answered well."""
    request.state.audit = {"action": action, **what}


Shared = Annotated[Service, Depends(service_of)]
Reader = Annotated[Token, Depends(needs("read"))]
Runner = Annotated[Token, Depends(needs("run"))]
Admin = Annotated[Token, Depends(needs("admin"))]
