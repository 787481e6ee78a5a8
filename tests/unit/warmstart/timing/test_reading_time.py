"""How long reading a person's pictures takes."""

import numpy as np
import pytest

from warmstart.timing import durations
from warmstart.timing.durations import seconds_to_read


class Slow:
    """Pictures of which each takes so long on a clock of ours, and each reading 0.05 s more."""

    def __init__(self, n, seconds):
        self.n, self.seconds, self.now, self.read_at = n, seconds, 0.0, []

    def __len__(self):
        return self.n

    def read(self, indices, *, size, skip_broken):
        assert skip_broken
        self.read_at.extend((int(i), size) for i in indices)
        self.now += 0.05 + self.seconds * len(indices)


@pytest.mark.parametrize(("n", "seconds", "looked_at"), [(1000, 0.001, 5), (1000, 0.1, 1), (13, 2.0, 1)])
def test_some_pictures_tell_of_all(monkeypatch, n, seconds, looked_at):
    source = Slow(n, seconds)
    monkeypatch.setattr(durations.time, "perf_counter", lambda: source.now)
    assert seconds_to_read(source, 96) == pytest.approx(n * seconds), "what each reading costs belongs to no picture"
    assert len(source.read_at) == 1 + 16 * looked_at
    assert {size for _, size in source.read_at} == {96}
    spread = np.ptp([i for i, _ in source.read_at[1:]])
    assert spread > n / 4 if looked_at > 1 else spread == 11
