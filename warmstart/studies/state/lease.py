"""A trial that a client elsewhere works on: until when, and who. It is kept in the study, so that every server and every worker sees it.

Clocks of servers over one database have to agree to within a few seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

LEASE = "warmstart:lease"
"""User attribute of a trial: its lease."""
EXTRA = "warmstart:extra"
"""User attribute of a trial that nobody asked for: a result that came too late for its own trial."""
MOST_OFFERS = 2
"""A trial whose client is not heard of is offered again once."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a trial.

    Attributes:
        client: that holds it now; empty where it was given back.
        until: seconds since 1970 at which it ends, unless it is renewed.
        clients: everyone who held it, in order; as many as it was offered times.
        keys: of the requests that it was offered to.
        released: those who gave it back, which is no offer that counts.
    """

    client: str
    until: float
    clients: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    released: tuple[str, ...] = ()

    @classmethod
    def of(cls, trial: FrozenTrial) -> Lease | None:
        """Read the lease of a trial; None where it never had one."""
        record: Mapping[str, Any] | None = trial.user_attrs.get(LEASE)
        if record is None:
            return None
        released = tuple(record.get("released", ()))  # older leases know none
        return cls(record["client"], record["until"], tuple(record["clients"]), tuple(record["keys"]), released)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return asdict(self)

    def offered(self, client: str, until: float, key: str) -> Lease:
        """Return the lease of who is offered the trial next."""
        return replace(self, client=client, until=until, clients=(*self.clients, client), keys=(*self.keys, key))

    def renewed(self, until: float) -> Lease:
        """Return the same with a later end."""
        return replace(self, until=max(until, self.until))

    def given_back(self) -> Lease:
        """Return the lease that nobody holds, as if its client had not been offered the trial."""
        released = (*self.released, self.client)
        return Lease("", 0.0, self.clients[:-1], self.keys[:-1], released)

    def given_up(self) -> Lease:
        """Return the lease that nobody holds any more; what its client still tells comes too late."""
        return replace(self, client="", released=(*self.released, self.client))

    @property
    def last(self) -> str:
        """Name who holds it, or gave it back last."""
        return self.client or self.released[-1]

    def knows(self, client: str) -> bool:
        """Tell whether a client ever held it."""
        return client in self.clients or client in self.released


def is_leased(trial: FrozenTrial, now: float) -> bool:
    """Tell whether a client elsewhere holds a trial."""
    record = trial.user_attrs.get(LEASE)
    return record is not None and record["until"] > now


def is_extra(trial: FrozenTrial) -> bool:
    """Tell whether a trial is a result that came too late for its own."""
    return EXTRA in trial.user_attrs
