"""The state of a server, and dependencies of its routes."""

import gc
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any
from weakref import WeakValueDictionary

from anyio import CapacityLimiter
from fastapi import Depends, Request

from warmstart.default_workload import is_history_named, is_model_named, shipped_extractors
from warmstart.descriptor import Descriptor
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.history import History
from warmstart.locations import history_path, model_path
from warmstart.service.auth import Scope, Token, TokenFile
from warmstart.service.followed import Followed
from warmstart.service.problems import ProblemError
from warmstart.service.settings import ServiceSettings
from warmstart.service.study_book import StudyBook
from warmstart.service.turns import Turns
from warmstart.service.webhook import Webhook
from warmstart.studies.state.storage import local_path
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.training.workloads import load_classifier

if TYPE_CHECKING:
    from warmstart.service.study_views import StudyViews
    from warmstart.training.workloads import Classifier

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of durations."""


class Metrics:
    """Thread-safe counts of requests by method, route and status, and histograms of their durations."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        with self._lock:
            self._requests[method, route, status] += 1
            self._durations.setdefault(route, [0] * (len(BOUNDS_S) + 1))[bisect_left(BOUNDS_S, seconds)] += 1
            self._seconds[route] += seconds  # type: ignore[assignment]  # a counter adds floats as well

    def text(self) -> str:
        """Format all metrics."""
        with self._lock:
            requests = sorted(self._requests.items())
            durations = sorted((route, list(counts)) for route, counts in self._durations.items())
            seconds = dict(self._seconds)
        lines = ["# HELP warmstart_requests_total Requests answered.", "# TYPE warmstart_requests_total counter"]
        for (method, route, status), count in requests:
            labels = f'method="{method}",route="{_escaped(route)}",status="{status}"'
            lines.append(f"warmstart_requests_total{{{labels}}} {count}")
        name = "warmstart_request_seconds"
        lines += [f"# HELP {name} Seconds from the first byte to the last.", f"# TYPE {name} histogram"]
        for route, counts in durations:
            label, total = f'route="{_escaped(route)}"', 0
            for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], counts, strict=True):
                total += count
                lines.append(f'{name}_bucket{{{label},le="{bound}"}} {total}')
            lines += [f"{name}_sum{{{label}}} {seconds[route]:.6f}", f"{name}_count{{{label}}} {total}"]
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


MOST_DESCRIPTORS = 1000
MOST_ASKS = 32
"""Threads that choose trials, which may take long; other requests have their own threads."""
MOST_ANSWERS = 4
"""Threads that read spaces, answer from the history and begin studies: what a large body may keep busy."""
MOST_UPLOADS = 2
"""Processes that look at uploads."""
MOST_WAITING_UPLOADS = 16
"""Uploads at a time, whose files lie on the disk."""


@dataclass(slots=True)
class Service:
    """The state of a server: settings, studies, metrics and posted descriptors.

    Attributes:
        settings: of the server.
        studies: in its storage.
        tokens: of the clients; None on loopback without a file.
        webhook: that ended studies are told to; None without one.
        metrics: of its requests.
        is_stopping: whether the server shuts down.
        n_streams: number of open event streams.
        followed: the studies that they follow.
        writing: lock of writes to the history.
        asks: limiter of the threads that choose trials.
        turns: of the clients that ask a study for trials, while any does.
        answers: limiter of the threads that read spaces and answer from the history.
        uploads: limiter of the processes that look at uploads.
        n_uploads: number of uploads that arrive, wait or are looked at.
        drawing: limiter of the thread that draws pictures.
        predicting: lock of the classifier.
    """

    settings: ServiceSettings
    studies: StudyBook
    tokens: TokenFile | None = None
    webhook: Webhook | None = None
    metrics: Metrics = field(default_factory=Metrics)
    is_stopping: bool = False
    n_streams: int = 0
    followed: dict[str, Followed] = field(default_factory=dict)
    writing: Lock = field(default_factory=Lock)
    drawing: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))
    asks: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MOST_ASKS))
    turns: WeakValueDictionary[str, Turns] = field(default_factory=WeakValueDictionary)
    answers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MOST_ANSWERS))
    uploads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MOST_UPLOADS))
    n_uploads: int = 0
    predicting: Lock = field(default_factory=Lock)
    _classifier: "Classifier | None" = None
    _views: "StudyViews | None" = None
    _descriptors: OrderedDict[str, Descriptor] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)
    _loading: Lock = field(default_factory=Lock)
    _loaded: dict[Path, EmbeddedHistory] = field(default_factory=dict)

    def classifier(self) -> "Classifier":
        """Return the classifier of the settings, read on the first call.

        Raises:
            ModelError: no classifier, or a damaged one.
        """
        assert self.settings.classifier is not None  # noqa: S101  the route checks
        with self.predicting:
            if self._classifier is None:
                self._classifier = load_classifier(Path(self.settings.classifier))
            return self._classifier

    def advisor(self, exclude_group: tuple[str, ...] = (), seed: int = 0) -> Advisor:
        """Return an advisor over the server's history, or that of a descriptor's kind."""
        return Advisor(
            self.settings.history, self.settings.model, exclude_group=exclude_group, seed=seed, threads=1, cache=False
        )

    def embedded(self, descriptor: Descriptor | None = None) -> EmbeddedHistory:
        """Return the history of a descriptor's kind, the small network's without one, as 0.2 did.

        It is read once for each state of its file, by one thread. Raises as `Advisor.embedded`.
        """
        with self._loading:
            advisor = self.advisor()
            if descriptor is None:
                advisor = replace(advisor, history=history_path(self.settings.history))
            embedded = advisor.of_question(descriptor)[0].embedded
            before = self._loaded.get(embedded.path)
            self._loaded[embedded.path] = embedded
            if before is None or embedded.about is not before.about:  # read anew, not followed
                gc.collect()
                # The history stays: collections need not visit it.
                gc.freeze()
            return embedded

    def extractors(self) -> list[str]:
        """Return the hashes of the models whose descriptors are accepted, the usual one first; raises as `embedded`."""
        if not is_history_named(self.settings.history) and not is_model_named(self.settings.model):
            return list(shipped_extractors())
        embedded = self.embedded_or_empty()
        return [] if embedded is None or embedded.model is None else [embedded.model.hash]

    def embedded_or_empty(self) -> EmbeddedHistory | None:
        """Return the history; None if it has no datasets yet. Raises as `embedded`."""
        try:
            return self.embedded()
        except UsageError:  # of an empty history, or of another call
            with History.open(history_path(self.settings.history)) as history:
                if history.names:
                    raise
            return None

    def add_descriptor(self, descriptor: Descriptor) -> str:
        """Store a descriptor and return its id; the oldest ones are dropped."""
        descriptor_id = descriptor.id
        with self._lock:
            self._descriptors[descriptor_id] = descriptor
            self._descriptors.move_to_end(descriptor_id)
            if len(self._descriptors) > MOST_DESCRIPTORS:
                self._descriptors.popitem(last=False)
        return descriptor_id

    def find_descriptor(self, descriptor_id: str) -> Descriptor:
        """Return a posted descriptor by its id.

        Raises:
            ProblemError: 404, an unknown or dropped descriptor.
        """
        with self._lock:
            descriptor = self._descriptors.get(descriptor_id)
        if descriptor is None:
            detail = f"expected the id of a descriptor that was posted, got {descriptor_id[:80]!r}. Post the descriptor again: ids do not outlive a restart."
            raise ProblemError(404, "No such descriptor", detail, pointer="/descriptor")
        return descriptor

    def views(self) -> "StudyViews":
        """Return the studies for display; the first call loads plots and Optuna."""
        from warmstart.service.study_views import StudyViews

        with self._lock:
            if self._views is None:
                self._views = StudyViews(self.studies)
            return self._views

    def private_paths(self) -> tuple[Path, ...]:
        """Return the server's files, whose folders are hidden from clients."""
        paths: list[Path] = []
        for path in (history_path, model_path):
            try:
                paths.append(path(self.settings.history if path is history_path else self.settings.model))
            except WarmstartError:
                continue
        storage = local_path(self.settings.storage)
        return (*paths, storage) if storage is not None else tuple(paths)


def service_of(request: Request) -> Service:
    """Return the server's state from a request."""
    service: Service = request.app.state.service
    return service


def require_scope(scope: Scope, action: str | None = None) -> Callable[[Request], Token]:
    """Return a dependency that checks the scope of a request's token and returns the token.

    Args:
        scope: that is needed.
        action: of a write, for the audit line.
    """

    def check(request: Request) -> Token:
        token: Token = request.state.token
        study = request.path_params.get("name") if "/studies/{name}" in request.scope["route"].path_format else None
        if action is not None:
            request.state.write = {"action": action} if study is None else {"action": action, "study": study}
        check_scope(token, scope, study)
        return token

    return check


def check_scope(token: Token, scope: Scope, study: str | None) -> None:
    """Check the scope of a token for a study, or for all else; raises `ProblemError` 403."""
    if not token.allows(scope, study):
        at = "" if study is None else f" for {study[:80]!r}"
        detail = f"expected a token of scope {scope}{at}, got {token.name!r} of scope {token.scope_text}. Ask who runs the server."
        raise ProblemError(403, "Not allowed", detail)


def audit(request: Request, **details: object) -> None:
    """Ask for the audit line of a write, for when it succeeds, or when a late result was kept all the same."""
    request.state.audit = {**request.state.write, **details}


def writes(action: str, scope: Scope = "run") -> Any:
    """Return the dependency of a route that writes: the token, of a scope; the audit line names the action."""
    return Depends(require_scope(scope, action))


Shared = Annotated[Service, Depends(service_of)]
Reader = Annotated[Token, Depends(require_scope("read"))]
Admin = Annotated[Token, Depends(require_scope("admin"))]
