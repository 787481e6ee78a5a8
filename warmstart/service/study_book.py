"""The studies of a server: one storage, every study opened once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import TYPE_CHECKING

from warmstart.history_store.errors import StorageError, UsageError
from warmstart.locations import PathLike
from warmstart.service.problems import ProblemError
from warmstart.studies.state.attributes import ARCHIVED
from warmstart.studies.state.storage import is_new_storage, open_store

if TYPE_CHECKING:
    from warmstart.studies.state.leased_trials import LeasedTrials
    from warmstart.studies.state.spec import StudySpec
    from warmstart.studies.state.storage import Store
    from warmstart.studies.state.study_group import LeasedGroup


class Gate:
    """A readers-writer lock."""

    def __init__(self) -> None:
        self._state, self._inside, self._waiting = Condition(), 0, 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._state:
            # New readers wait for a waiting writer, which could starve otherwise.
            self._state.wait_for(lambda: self._inside >= 0 and not self._waiting)
            self._inside += 1
        try:
            yield
        finally:
            self._leave(-1)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock exclusively."""
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
"""Most studies open at a time: each holds a lock file and the memory of its sampler."""


@dataclass(slots=True)
class _OpenStudy:
    """A slot of an open study, filled by its first user."""

    trials: LeasedTrials | None = None
    lock: Lock = field(default_factory=Lock)


class StudyBook:
    """The open studies of a storage.

    After an error of the storage, everything is closed under the exclusive lock and opened again.
    """

    def __init__(self, storage: PathLike | None) -> None:
        """Set the storage, which is opened with the first study."""
        self._storage, self._gate, self._opening = storage, Gate(), Lock()
        self._store: Store | None = None
        self._studies: dict[str, _OpenStudy] = {}
        self._is_broken = False

    @property
    def is_empty(self) -> bool:
        """Tell whether no study was ever begun; reading must not create a storage."""
        return self._store is None and is_new_storage(self._storage)

    @contextlib.contextmanager
    def study(self, name: str) -> Iterator[LeasedTrials]:
        """Yield a study for shared use.

        Raises:
            ProblemError: 404, no study of that name.
            DataError: another program made it.
            StorageError: the storage cannot be used.
        """
        if self.is_empty:
            raise no_study(name)
        with self._use_storage() as store:
            yield self._get_study(store, name)

    @contextlib.contextmanager
    def group(self, name: str) -> Iterator[LeasedGroup]:
        """Yield the group of studies tuned together with one, itself included.

        Raises:
            ProblemError: as `study`; 409, another study of the group was not begun yet.
        """
        from warmstart.studies.state.study_group import LeasedGroup

        if self.is_empty:
            raise no_study(name)
        with self._use_storage() as store:
            study = self._get_study(store, name)
            try:
                further = [
                    self._get_study(store, member) for member in sorted(study.queue.plan.members) if member != name
                ]
            except ProblemError as error:
                detail = f"expected all studies that are tuned together with {name[:80]!r} to be begun, got one that is not: {error.detail}"
                raise ProblemError(409, "Not all begun", detail, pointer="/path/name") from error
            yield LeasedGroup(sorted([study, *further], key=lambda member: member.queue.study.study_name))

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """Yield the storage for shared use; raises `StorageError`."""
        with self._use_storage() as store, store.guard():
            yield store

    def check(self) -> None:
        """Check that the storage answers; one that no study was begun in is not made.

        Raises:
            WarmstartError: as `warmstart.studies.state.storage.open_store`.
        """
        if not self.is_empty:
            with self.store() as store:
                store.check()
                with contextlib.suppress(KeyError):
                    store.optuna.get_study_id_from_name("")

    def begin(
        self, name: str, spec: StudySpec, complete: Callable[[StudySpec], StudySpec], owner: str | None = None
    ) -> bool:
        """Begin a study, or check an existing one; return whether it is new. For `owner` see `trial_queue.begin`.

        Raises:
            ProblemError: 409, it exists with another specification.
            WarmstartError: as `warmstart.studies.state.trial_queue.begin`.
        """
        from warmstart.studies.state.trial_queue import begin, find_plan

        if not self.is_empty:
            with self._use_storage() as store:
                existing = find_plan(store, name)
            if existing is not None:
                _check_same(existing, spec, name)
                return False
        # Asks the history, without holding the storage.
        completed = complete(spec)
        # Under the shared lock, as choosing takes long.
        with self._use_storage() as store:
            queue = begin(store, name, lambda _: completed, spec, owner)
            queue.release_all()
            return queue.plan.configs == completed.configs

    def archive(self, name: str, *, archived: bool) -> None:
        """Put a study out of sight, or back; raises as `study`."""
        if self.is_empty:
            raise no_study(name)
        with self.store() as store:
            self._check_name(store, name)
            store.optuna.set_study_user_attr(store.optuna.get_study_id_from_name(name), ARCHIVED, archived)

    def delete(self, name: str) -> int:
        """Delete a study that nobody works on, once nothing else is under way; return the number of its trials.

        Raises:
            ProblemError: 404, no study of that name; 409, a trial of it is running.
            StorageError: the storage cannot be used.
        """
        from warmstart.studies.output_paths import delete_study

        if self.is_empty:
            raise no_study(name)
        with self._reset_on_error(), self._gate.exclusive():
            store = self._get_store()
            with store.guard():
                self._check_name(store, name)
            try:
                n_trials = delete_study(store, name)
            except UsageError as error:
                raise ProblemError(409, "Under way", error.message) from error
            if (slot := self._studies.pop(name, None)) is not None and slot.trials is not None:
                slot.trials.queue.release_all()
            return n_trials

    def close(self) -> None:
        """Close everything once it is unused."""
        with self._gate.exclusive():
            self._close()

    @contextlib.contextmanager
    def _use_storage(self) -> Iterator[Store]:
        """Yield the open storage under the shared lock."""
        if self._is_broken:
            with self._gate.exclusive():
                self._close()
        elif len(self._studies) > MOST_OPEN:
            with self._gate.exclusive():
                self._close_studies()
        with self._reset_on_error(), self._gate.shared():
            yield self._get_store()

    @contextlib.contextmanager
    def _reset_on_error(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            self._is_broken = True
            raise

    def _get_store(self) -> Store:
        import optuna

        with self._opening:
            if self._store is None:
                # The server has its own log.
                optuna.logging.set_verbosity(optuna.logging.WARNING)
                self._store = open_store(self._storage)
            return self._store

    def _get_study(self, store: Store, name: str) -> LeasedTrials:
        """Return a study; its first user opens it."""
        with self._opening:
            slot = self._studies.setdefault(name, _OpenStudy())
        with slot.lock:
            if slot.trials is None:
                try:
                    slot.trials = self._open(store, name)
                except BaseException:
                    # Drop the slot of an unknown name.
                    with self._opening:
                        if self._studies.get(name) is slot:
                            del self._studies[name]
                    raise
            return slot.trials

    def _open(self, store: Store, name: str) -> LeasedTrials:
        from warmstart.studies.state.leased_trials import LeasedTrials
        from warmstart.studies.state.trial_queue import open_queue

        with store.guard():
            self._check_name(store, name)
        return LeasedTrials(open_queue(store, name))

    def _check_name(self, store: Store, name: str) -> None:
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
        for slot in self._studies.values():
            if slot.trials is not None:
                # Errors were reported to the client.
                with contextlib.suppress(Exception):
                    slot.trials.queue.release_all()
        self._studies.clear()


def no_study(name: str) -> ProblemError:
    """Return the error for an unknown study."""
    detail = f"expected the name of a study, got {name[:80]!r}. POST /v1/studies begins one."
    return ProblemError(404, "No such study", detail, pointer="/path/name")


def _check_same(existing: StudySpec, spec: StudySpec, name: str) -> None:
    try:
        existing.check_same(spec, name)
    except UsageError as error:
        raise ProblemError(409, "Another study", error.message) from error
