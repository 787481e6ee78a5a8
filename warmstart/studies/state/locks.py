"""Who works on what: claims that end with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

ASKING = 0
"""The claim of whoever chooses the next trial; trial t has claim t + 1."""
SPAN = 2**32
"""Locks of one study."""
LEASING = SPAN - 1
"""The claim of whoever looks whether leases hold, and changes them: for moments, while choosing a trial may take minutes."""
NO_STUDY = 0
"""Of those who make the tables; studies count from 1."""
YEAR_S = 31_536_000
"""For ever to a server of MySQL's kind: MariaDB takes no lock with a wait of -1, and ends sessions that are idle for hours."""


class TrialLocks(Protocol):
    """Locks on the numbers of one study; no two processes, nor two workers of one process, hold the same."""

    def take(self, number: int, *, patience: bool = False) -> bool:
        """Take a claim; tells whether that worked. With patience, waits for it."""
        ...

    def release(self, number: int) -> None:
        """Give a claim back."""
        ...

    def close(self) -> None:
        """Return everything back."""
        ...


class DatabaseClaims:
    """Locks as locks of a session of PostgreSQL or MySQL; the server drops them when the session ends.

    There is a session as long as there is a claim, so that whoever has many studies open does not use up the server's.
    """

    def __init__(self, engine: Engine, study: int) -> None:
        """Take an engine whose connections are for claims alone."""
        self._engine, self._offset = engine, study * SPAN
        self._is_postgres = engine.dialect.name == "postgresql"
        self._session: Connection | None = None
        self._held: set[int] = set()

    def take(self, number: int, *, patience: bool = False) -> bool:
        """Take a claim; see `TrialLocks`."""
        if number in self._held:  # the database would count how often
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
        """Give a claim back."""
        if number not in self._held:
            return
        key = self._offset + number
        self._ask(
            f"SELECT pg_advisory_unlock({key})" if self._is_postgres else f"SELECT RELEASE_LOCK({self._name(key)})"
        )
        self._held.remove(number)
        self._end_where_idle()

    def close(self) -> None:
        """Return everything back."""
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
        """Return the session to the engine, which may keep it for the next claims, where it has no locks."""
        if not self._held and self._session is not None:
            self._session.close()
            self._session = None

    def _end(self) -> None:
        """End the session, and its locks with it."""
        if self._session is not None:
            with contextlib.suppress(Exception):  # it may be gone already
                self._session.invalidate()
            self._session.close()
            self._session = None

    @staticmethod
    def _name(key: int) -> str:
        """Name a lock of MySQL, which has one set of them for all databases of a server."""
        return f"CONCAT('warmstart ', CRC32(DATABASE()), ' ', {key})"

    def _ask(self, statement: str) -> object:
        """Ask the session for one value; a lost session is an error, never a new one without its locks."""
        assert self._session is not None  # noqa: S101  whoever holds a claim has one
        return self._session.exec_driver_sql(statement).scalar()
