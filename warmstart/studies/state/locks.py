"""Claims on trials, which end with their process, however it ends."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

ASKING = 0
"""Claim for choosing the next trial; trial t has claim t + 1."""
SPAN = 2**32
"""Number of claims of one study."""
LEASING = SPAN - 1
"""Claim for reading and changing leases: held for moments, while ASKING may be held for minutes."""
NO_STUDY = 0
"""Study number for creating the tables; studies count from 1."""
YEAR_S = 31_536_000
"""Endless waiting for MySQL: MariaDB accepts no wait of -1 for locks, and ends sessions that are idle for hours."""


class TrialLocks(Protocol):
    """Claims on numbers of one study; each has one holder, among processes and workers of a process."""

    def take(self, number: int, *, patience: bool = False) -> bool:
        """Take a claim; return whether that succeeded. With patience, wait for it."""
        ...

    def release(self, number: int) -> None:
        """Release a claim."""
        ...

    def close(self) -> None:
        """Release all claims."""
        ...


class DatabaseClaims:
    """Claims as locks of a session of PostgreSQL or MySQL; the server releases them when the session ends.

    A session is open only while a claim is held, so that many open studies do not use up the server's sessions.
    """

    def __init__(self, engine: Engine, study: int) -> None:
        """Create the claims of a study; `engine` must serve claims only."""
        self._engine, self._offset = engine, study * SPAN
        self._is_postgres = engine.dialect.name == "postgresql"
        self._session: Connection | None = None
        self._held: set[int] = set()

    def take(self, number: int, *, patience: bool = False) -> bool:
        """Take a claim; see `TrialLocks`."""
        if number in self._held:  # the database counts: two locks would need two releases
            return True
        if self._session is None:
            self._session = self._opened()
        try:
            is_taken = self._take(self._offset + number, patience=patience)
        except BaseException:
            if not self._held:
                self._end()
            raise
        if is_taken:
            self._held.add(number)
        self._end_where_idle()
        return is_taken

    def release(self, number: int) -> None:
        """Release a claim."""
        if number not in self._held:
            return
        key = self._offset + number
        self._ask(
            f"SELECT pg_advisory_unlock({key})" if self._is_postgres else f"SELECT RELEASE_LOCK({self._name(key)})"
        )
        self._held.remove(number)
        self._end_where_idle()

    def close(self) -> None:
        """Release all claims."""
        self._held.clear()
        self._end()

    def _opened(self) -> Connection:
        session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if not self._is_postgres:
            session.exec_driver_sql(f"SET SESSION wait_timeout = {YEAR_S}")
        return session

    def _take(self, key: int, *, patience: bool) -> bool:
        if not self._is_postgres:
            return self._ask(f"SELECT GET_LOCK({self._name(key)}, {YEAR_S if patience else 0})") == 1
        if patience:
            self._ask(f"SELECT pg_advisory_lock({key})")
            return True
        return bool(self._ask(f"SELECT pg_try_advisory_lock({key})"))

    def _end_where_idle(self) -> None:
        """Return an idle session to the engine, which may reuse it."""
        if not self._held and self._session is not None:
            self._session.close()
            self._session = None

    def _end(self) -> None:
        """End the session and its locks."""
        if self._session is not None:
            with contextlib.suppress(Exception):  # it may be gone already
                self._session.invalidate()
            self._session.close()
            self._session = None

    @staticmethod
    def _name(key: int) -> str:
        """Return the SQL name of a lock of MySQL; it has the database, since names hold for the whole server."""
        return f"CONCAT('warmstart ', CRC32(DATABASE()), ' ', {key})"

    def _ask(self, statement: str) -> object:
        """Return the value of a statement in the session; a lost session is an error, since its locks are lost, too."""
        assert self._session is not None  # noqa: S101  whoever holds a claim has one
        return self._session.exec_driver_sql(statement).scalar()
