"""Studies that are tuned together, for clients elsewhere: the next trial of all of them, leased."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warmstart.studies.state.leased_trials import LeasedTrial, LeasedTrials
from warmstart.studies.state.study_group import StudyGroup
from warmstart.studies.state.trial_queue import Wait


class LeasedGroup(StudyGroup):
    """Leases trials of several studies to clients, or of one alone.

    Attributes:
        members: the studies, in the order of their names, which all servers and workers have to keep.
    """

    def __init__(self, members: Sequence[LeasedTrials]) -> None:
        """Take studies; all have been begun."""
        super().__init__([each.queue for each in members])
        self.members = tuple(members)

    def ask(
        self, client: str, key: str, *, lease_s: float, total: float = math.inf
    ) -> tuple[LeasedTrials, LeasedTrial] | Wait | None:
        """Offer a trial of the study that gets the next one; as `LeasedTrials.ask`.

        Args:
            client: who asks.
            key: of the request; the same key again gets the same trial.
            lease_s: seconds in which it is heard of again.
            total: trials that all studies shall have together.

        Returns: a trial, and whose it is; "wait" and None as there.

        Raises:
            LeaseLostError: the trial of this key was offered to another client since.
            StorageError: the storage does not answer.
        """
        first = self.members[0]
        if len(self.members) == 1:
            found = first.ask(client, key, lease_s=lease_s, total=total)
            return (first, found) if isinstance(found, LeasedTrial) else found
        with first.choosing():
            for member in self.members:
                known = member.known(client, key, lease_s=lease_s)
                if known is not None:
                    return member, known
            chosen = self._next_of_several(total)
            if chosen is None or chosen == "wait":
                return chosen
            i, run = chosen
            return self.members[i], self.members[i].offer(run, client, key, lease_s=lease_s)
