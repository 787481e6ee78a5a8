"""The studies of a server: one storage, and each study, opened once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import TYPE_CHECKING

from warmstart.history_store.errors import StorageError, UsageError
from warmstart.locations import PathLike
from warmstart.service.problems import ProblemError

if TYPE_CHECKING:
    from warmstart.studies.state.leased_group import LeasedGroup
    from warmstart.studies.state.leased_trials import LeasedTrials
    from warmstart.studies.state.spec import StudySpec
    from warmstart.studies.state.storage import Store


class Gate:
    """Lets many through at a time, or one alone."""

    def __init__(self) -> None:
        self._state, self._inside, self._waiting = Condition(), 0, 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Go in beside others."""
        with self._state:
            self._state.wait_for(lambda: self._inside >= 0 and not self._waiting)
            self._inside += 1
        try:
            yield
        finally:
            self._leave(-1)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Go in when nobody else is there, and keep others out."""
        with self._state:
            self._waiting += 1
            self._state.wait_for(lambda: self._inside == 0)
            self._waiting -= 1
            self._inside = -1
        try:
            yield
        finally:
            self._leave(1)

    def _leave(self, change: int) -> None:
        with self._state:
            self._inside += change
            self._state.notify_all()


MOST_OPEN = 200
"""Studies that are open at a time: each has a file of locks open, and what its sampler remembers."""


@dataclass(slots=True)
class _Open:
    """A study that is open, once its first user opened it."""

    trials: LeasedTrials | None = None
    lock: Lock = field(default_factory=Lock)


class StudyBook:
    """Finds and begins studies.

    Whoever opens the storage anew is alone, as after an error of it everything is opened anew.
    """

    def __init__(self, storage: PathLike | None) -> None:
        """Take a storage, which is opened when a study is asked for."""
        self._named, self._gate, self._opening = storage, Gate(), Lock()
        self._store: Store | None = None
        self._studies: dict[str, _Open] = {}
        self._is_broken = False

    @property
    def is_empty(self) -> bool:
        """Whether no study was ever begun; a look at the studies makes no storage."""
        from warmstart.studies.state.storage import is_new_storage

        return self._store is None and is_new_storage(self._named)

    @contextlib.contextmanager
    def study(self, name: str) -> Iterator[LeasedTrials]:
        """Use a study, beside others.

        Raises:
            ProblemError: 404 where there is none of that name.
            DataError: another program made it.
            StorageError: the storage does not answer.
        """
        if self.is_empty:
            raise no_study(name)
        with self._used() as store:
            yield self._found(store, name)

    @contextlib.contextmanager
    def group(self, name: str) -> Iterator[LeasedGroup]:
        """Use the studies that are tuned together with one, that one among them, or alone.

        Raises:
            ProblemError: as `study`; 409 where one of the others was not begun yet.
        """
        from warmstart.studies.state.leased_group import LeasedGroup

        if self.is_empty:
            raise no_study(name)
        with self._used() as store:
            one = self._found(store, name)
            try:
                others = [self._found(store, each) for each in sorted(one.queue.plan.members) if each != name]
            except ProblemError as error:
                detail = f"expected all studies that are tuned together with {name[:80]!r} to be begun, got one that is not: {error.detail}"
                raise ProblemError(409, "Not all begun", detail, pointer="/path/name") from error
            yield LeasedGroup(sorted([one, *others], key=lambda each: each.queue.study.study_name))

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """Read the storage, beside others; raises `StorageError` where it does not answer."""
        with self._used() as store, store.guard():
            yield store

    def begin(self, name: str, wanted: StudySpec, complete: Callable[[StudySpec], StudySpec]) -> bool:
        """Begin a study, or find it as it was begun; tells whether it is new.

        Raises:
            ProblemError: 409 where it was begun with another plan.
            WarmstartError: as `warmstart.studies.state.trial_queue.begin`.
        """
        from warmstart.studies.state.trial_queue import begin, find_plan

        if not self.is_empty:
            with self._used() as store:
                known = find_plan(store, name)
            if known is not None:
                _check_same(known, wanted, name)
                return False
        done = complete(wanted)  # asks the history: nobody waits for it
        with self._used() as store:  # beside others: choosing takes long
            queue = begin(store, name, lambda _: done, wanted)
            queue.release_all()
            return queue.plan.configs == done.configs

    def close(self) -> None:
        """Close everything, once nobody uses it."""
        with self._gate.alone():
            self._close()

    @contextlib.contextmanager
    def _used(self) -> Iterator[Store]:
        """Hold the storage open."""
        if self._is_broken:
            with self._gate.alone():
                self._close()
        elif len(self._studies) > MOST_OPEN:
            with self._gate.alone():
                self._close_studies()
        with self._reset_on_error(), self._gate.shared():
            yield self._opened()

    @contextlib.contextmanager
    def _reset_on_error(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            self._is_broken = True
            raise

    def _opened(self) -> Store:
        import optuna

        from warmstart.studies.state.storage import open_store

        with self._opening:
            if self._store is None:
                optuna.logging.set_verbosity(optuna.logging.WARNING)  # the server says what there is to say
                self._store = open_store(self._named)
            return self._store

    def _found(self, store: Store, name: str) -> LeasedTrials:
        """Return a study, opened by its first user."""
        with self._opening:
            found = self._studies.setdefault(name, _Open())
        with found.lock:
            if found.trials is None:
                try:
                    found.trials = self._open(store, name)
                except BaseException:
                    with self._opening:  # a name that no study has is not kept
                        if self._studies.get(name) is found:
                            del self._studies[name]
                    raise
            return found.trials

    def _open(self, store: Store, name: str) -> LeasedTrials:
        from warmstart.studies.state.leased_trials import LeasedTrials
        from warmstart.studies.state.trial_queue import open_queue

        with store.guard():
            self._check_known(store, name)
        return LeasedTrials(open_queue(store, name))

    def _check_known(self, store: Store, name: str) -> None:
        try:
            store.optuna.get_study_id_from_name(name)
        except KeyError as error:
            raise no_study(name) from error

    def _close(self) -> None:
        """Close all studies and the storage."""
        self._close_studies()
        if self._store is not None:
            with contextlib.suppress(StorageError, OSError):
                self._store.close()
        self._store, self._is_broken = None, False

    def _close_studies(self) -> None:
        for each in self._studies.values():
            if each.trials is not None:
                with contextlib.suppress(Exception):  # whoever reported was told of it
                    each.trials.queue.release_all()
        self._studies.clear()


def no_study(name: str) -> ProblemError:
    """Return the refusal of a name that no study has."""
    detail = f"expected the name of a study, got {name[:80]!r}. POST /v1/studies begins one."
    return ProblemError(404, "No such study", detail, pointer="/path/name")


def _check_same(known: StudySpec, wanted: StudySpec, name: str) -> None:
    try:
        known.check_same(wanted, name)
    except UsageError as error:
        raise ProblemError(409, "Another study", error.message) from error
