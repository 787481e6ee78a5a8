import pytest

from warmstart.history_store.errors import UsageError
from warmstart.history_store.numbering import sobol_configs
from warmstart.training.workloads.cnn import CNN
from warmstart.training.workloads.cnn.budget import COMPACT, PAPER, Budget


def test_length_by_updates_ignores_the_data() -> None:
    assert COMPACT.length(100, 32) == 400
    assert COMPACT.length(50_000, 8) == 400


def test_length_by_epochs_counts_whole_batches() -> None:
    assert PAPER.length(50_000, 100) == 200 * 500
    assert PAPER.length(1_050, 100) == 200 * 10
    assert Budget("e", epochs=3).length(5, 100) == 3, "a batch larger than the data is one update"


def test_clock_stretches_to_the_decay_length() -> None:
    assert COMPACT.clock(0, 400) == 0
    assert COMPACT.clock(100, 400) == 25_000
    assert COMPACT.clock(400, 400) == 100_000
    assert PAPER.clock(123, 10_000) == 123


@pytest.mark.parametrize(
    "lengths", [{}, {"updates": 3, "epochs": 3}, {"updates": 0}, {"epochs": -1}, {"updates": 3, "curve_points": 0}]
)
def test_refuses_no_length_or_two(lengths: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="budget 'b': expected either updates or epochs of at least 1"):
        Budget("b", **lengths)


def test_the_last_step_is_told_where_it_is_known() -> None:
    cnn, config = CNN(), {**sobol_configs(CNN().space("paper"), 1)[0], "batch_size": 100}
    assert cnn.steps(COMPACT) == 400
    assert cnn.steps(cnn.budget("paper", amount=7)) == 7
    assert cnn.steps(PAPER) is cnn.steps(PAPER, config=config) is cnn.steps(PAPER, n_train=1_050) is None
    assert cnn.steps(PAPER, config=config, n_train=1_050) == 200 * 10
    assert cnn.steps(PAPER, config=config, n_train=50) == 200, "a batch larger than the data is all of it"
