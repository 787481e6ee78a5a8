"""Leases of trials to remote clients, stored in the study for every server and worker.

Clocks of servers over one database have to agree to within a few seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from warmstart.studies.state.attributes import EXTRA, LEASE, WORKER

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

TOKEN_END = " "  # noqa: S105  a separator
"""After the token's name, in the key of a request of a server's client."""
MOST_OFFERS = 2
"""Offers of a trial at most: one whose client is lost is offered once more."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a trial; stored by its field names.

    Attributes:
        client: present holder; empty after a release.
        until: end in seconds since 1970, unless it is renewed.
        clients: all holders in order, one an offer.
        keys: of the requests, one an offer.
        released: clients that released it; their offers do not count.
        released_keys: of these offers.
        total: trials that the last client wanted of the study; None without an end, or of an older version.
    """

    client: str
    until: float
    clients: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    released_keys: tuple[str, ...] = ()
    total: int | None = None

    @classmethod
    def of(cls, trial: FrozenTrial) -> Lease | None:
        """Return the lease of a trial; None if it never had one."""
        record: Mapping[str, Any] | None = trial.user_attrs.get(LEASE)
        if record is None:
            return None
        # Older leases lack some names.
        names = ("clients", "keys", "released", "released_keys")
        lists = {name: tuple(record.get(name, ())) for name in names}
        return cls(record["client"], record["until"], **lists, total=record.get("total"))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)

    def with_offer(self, client: str, until: float, key: str, total: float) -> Lease:
        """Return the lease after an offer to a client that wants a number of trials."""
        wanted = None if math.isinf(total) else int(total)
        clients, keys = (*self.clients, client), (*self.keys, key)
        return replace(self, client=client, until=until, clients=clients, keys=keys, total=wanted)

    def with_end(self, until: float) -> Lease:
        """Return the lease with a later end."""
        return replace(self, until=max(until, self.until))

    def after_release(self) -> Lease:
        """Return the lease after its release, as if the offer had not been made."""
        released = (*self.released, self.client)
        released_keys = (*self.released_keys, *self.keys[-1:])
        return Lease("", 0.0, self.clients[:-1], self.keys[:-1], released, released_keys, self.total)

    def after_expiry(self) -> Lease:
        """Return the lease without a holder; results of its last client are late from now on."""
        return replace(self, client="", released=(*self.released, self.client))

    @property
    def last(self) -> str:
        """Return the present holder, else the last one that released it."""
        return self.client or self.released[-1]

    def is_for(self, client: str, token: str) -> bool:
        """Tell whether a client's offers were asked for with a token, or before keys had any."""
        tokens = {
            key.removeprefix(f"{client}:").partition(TOKEN_END)[0]
            for key in (*self.keys, *self.released_keys)
            if TOKEN_END in key and key.startswith(f"{client}:")
        }
        return not tokens or token in tokens

    def was_held_by(self, client: str) -> bool:
        """Tell whether a client ever held the trial."""
        return client in self.clients or client in self.released


_START = time.time() - time.monotonic()


def lease_time() -> float:
    """Return the seconds since 1970 by a clock that nobody sets: leases neither end nor stay where the machine's clock jumps."""
    return _START + time.monotonic()


def is_leased(trial: FrozenTrial, now: float) -> bool:
    """Tell whether a remote client holds a trial."""
    record = trial.user_attrs.get(LEASE)
    return record is not None and record["until"] > now


def is_extra(trial: FrozenTrial) -> bool:
    """Tell whether a trial is an extra one, for a late result."""
    return EXTRA in trial.user_attrs


def worker_of(trial: FrozenTrial) -> str | None:
    """Return who runs a trial or ran it last: a remote client, else host and process; None for a released one."""
    if is_extra(trial):
        return str(trial.user_attrs[EXTRA]["client"])
    lease = Lease.of(trial)
    if lease is None:
        return trial.user_attrs.get(WORKER)
    return lease.last if trial.state.is_finished() else lease.client or None
