"""Studies that clients follow."""

import asyncio
import json
import math
import time

from fastapi.concurrency import run_in_threadpool

from warmstart.service.study_book import StudyBook
from warmstart.service.study_records import trial_record

LOOK_S = 1.0


class Followed:
    """A study with followers: its trials as text, read and written once a second for all of them, and what changed."""

    def __init__(self) -> None:
        """Create a study that nobody has read yet."""
        self.n_followers = 0
        self.change = 0
        self._texts: dict[int, str] = {}
        self._changes: dict[int, int] = {}
        self._finished: set[int] = set()
        self._looked, self._looking = -math.inf, asyncio.Lock()

    def since(self, change: int) -> list[str]:
        """Return the texts of the trials that changed after a change; without one, none is looked at."""
        if change == self.change:
            return []
        return [self._texts[number] for number, last in self._changes.items() if last > change]

    async def look(self, studies: StudyBook, name: str) -> None:
        """Read the trials, unless that was done within the last second."""
        async with self._looking:
            # Polled, as other processes may write to the storage too.
            if time.monotonic() - self._looked >= LOOK_S / 2:
                await run_in_threadpool(self._read, studies, name)
                self._looked = time.monotonic()

    def _read(self, studies: StudyBook, name: str) -> None:
        with studies.study(name) as trials:
            for trial in trials.queue.trials():
                if trial.number in self._finished:
                    continue
                text = json.dumps(trial_record(trial), allow_nan=False)
                if self._texts.get(trial.number) != text:
                    self._texts[trial.number] = text
                    self.change += 1
                    self._changes[trial.number] = self.change
                elif trial.state.is_finished():  # it was, too, a second ago
                    self._finished.add(trial.number)
