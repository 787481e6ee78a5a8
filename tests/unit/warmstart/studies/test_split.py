"""Which of several datasets gets the next trial."""

from warmstart.studies.state.split import GainEstimate, equal_next, gain_next


class Offers:
    """Gains of datasets, and which of them were computed."""

    def __init__(self, gains, counts, told):
        self.gains, self.counts, self.told, self.asked = gains, counts, told, []

    def __call__(self, i):
        self.asked.append(i)
        return GainEstimate(self.gains[i], self.counts[i], self.told)


def choose(counts, gains, offers=None, *, members=None, told=None):
    members = range(len(counts)) if members is None else members
    told = sum(counts) if told is None else told
    refresh = Offers(gains, counts, told)
    return gain_next(counts, members, offers or [None] * len(counts), told, refresh=refresh), refresh.asked


def test_equal_shares_go_to_the_least_tried_and_then_in_order():
    assert equal_next([2, 1, 1], range(3)) == 1
    assert equal_next([2, 1, 1], [0, 2]) == 2
    assert equal_next([0, 0], range(2)) == 0


def test_the_largest_gain_goes_first_and_of_equal_ones_the_least_tried():
    assert choose([3, 3, 3], [-5.0, -2.0, -9.0])[0] == 1
    assert choose([3, 3, 3], [-5.0, -2.0, -9.0], members=[0, 2])[0] == 0
    assert choose([4, 3, 3], [-2.0, -2.0, -2.0])[0] == 1


def test_one_without_a_model_gets_its_equal_share_and_no_more():
    assert choose([2, 3, 3], [None, 0.0, 0.0])[0] == 0
    assert choose([3, 3, 4], [None, 0.0, 0.0])[0] == 0
    assert choose([4, 3, 3], [None, -8.0, -9.0])[0] == 1
    assert choose([2, 2], [None, None])[0] == 0


def test_none_falls_below_half_of_an_equal_share():
    gains = [0.0, -50.0, -50.0]
    counts = [3, 3, 3]
    for _ in range(60):
        counts[choose(counts, gains)[0]] += 1
    assert min(counts) >= sum(counts) / 6 - 1
    assert counts[0] > 2 * counts[1]


def test_offers_that_stand_are_not_computed_again():
    fresh = [GainEstimate(-1.0, 3, 9), GainEstimate(-2.0, 3, 9), GainEstimate(-3.0, 3, 9)]
    assert choose([3, 3, 3], [-1.0, -2.0, -3.0], fresh) == (0, [])
    # The first one had a trial since; of the others only the largest is looked at again.
    assert choose([4, 3, 3], [-9.0, -2.0, -3.0], fresh) == (1, [0, 1])
    # Where it is less than it was, the next one is; that is now larger than it was.
    assert choose([4, 3, 3], [-9.0, -8.0, -1.0], fresh) == (2, [0, 1, 2])
    # As old as a round of trials, all are.
    assert choose([6, 3, 3], [-9.0, -2.0, -1.5], fresh) == (2, [0, 1, 2])
