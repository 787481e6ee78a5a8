"""Studies that are tuned together by remote clients: leases of the next trial of all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warmstart.studies.state.leased_trials import LeasedTrial, LeasedTrials
from warmstart.studies.state.study_group import StudyGroup
from warmstart.studies.state.trial_queue import Wait


class LeasedGroup(StudyGroup):
    """Group of one or several studies whose trials are leased to clients.

    Attributes:
        members: the studies, sorted by name: all servers and workers must use the same order.
    """

    def __init__(self, members: Sequence[LeasedTrials]) -> None:
        """Create the group of existing studies."""
        super().__init__([member.queue for member in members])
        self.members = tuple(members)

    def ask(
        self, client: str, key: str, *, lease_s: float, total: float = math.inf
    ) -> tuple[LeasedTrials, LeasedTrial] | Wait | None:
        """Lease the next trial of the group to a client; as `LeasedTrials.ask`.

        Args:
            client: name.
            key: of the request; the same key again gets the same trial.
            lease_s: seconds of the lease.
            total: number of trials of all studies together.

        Returns: a trial and its study; "wait" and None as there.

        Raises:
            LeaseLostError: the trial of this key was offered to another client since.
            StorageError: the storage does not answer.
        """
        first = self.members[0]
        if len(self.members) == 1:
            offer = first.ask(client, key, lease_s=lease_s, total=total)
            return (first, offer) if isinstance(offer, LeasedTrial) else offer
        with first.choice_lock():
            for member in self.members:
                earlier = member.earlier_offer(client, key, lease_s=lease_s)
                if earlier is not None:
                    return member, earlier
            next_trial = self._next_of_several(total)
            if next_trial is None or next_trial == "wait":
                return next_trial
            i, run = next_trial
            return self.members[i], self.members[i].offer(run, client, key, lease_s=lease_s)
