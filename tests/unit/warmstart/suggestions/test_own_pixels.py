"""What a history knows of pictures at their own pixels."""

import numpy as np
import pytest
from histories import space_json
from PIL import Image

import warmstart
from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo
from warmstart.suggestions.other_sizes import (
    OWN_PIXELS_KEY,
    SIDE,
    OwnPixels,
    after_minutes,
    fitting_datasets,
    read_own_pixels,
    side_of,
)

CONFIGS = [{"image_size": size} for size in (64, 128, 224)]
ERRORS = np.array([[0.3, 0.2, np.nan], [0.3, 0.2, np.nan], [0.4, 0.3, 0.1]])
SIDES = np.array([32.0, 32.0, 250.0])


@pytest.mark.parametrize(
    ("side", "fits", "as_large"),
    [
        (28, [True, True, False], [True, True, True]),
        (None, [True, True, False], [True, True, True]),
        (240, [True, True, True], [False, False, True]),
    ],
)
def test_large_pictures_are_answered_by_datasets_of_large_pictures(side, fits, as_large):
    found = fitting_datasets(ERRORS, SIDES, CONFIGS, side)
    assert [each.tolist() for each in found] == [fits, as_large]


def test_without_pixels_or_sizes_all_fit():
    for sides, configs in ((np.full(3, np.nan), CONFIGS), (SIDES, [{"depth": depth} for depth in "abc"])):
        fits, as_large = fitting_datasets(ERRORS, sides, configs, 30)
        assert fits.all()
        assert as_large.all()


@pytest.mark.parametrize(("text", "side"), [("256", 256.0), ("", np.nan), ("-3", np.nan), ("inf", np.nan)])
def test_a_side_is_a_number_of_pixels(text, side):
    info = DatasetInfo("a", "a", 10, 2, 2, 2, extra={SIDE: text})
    assert side_of(info) == pytest.approx(side, nan_ok=True)
    assert np.isnan(side_of(DatasetInfo("a", "a", 10, 2, 2, 2)))


def test_what_was_measured_is_stored_and_checked(tmp_path):
    measured = OwnPixels(("a", "b"), np.array([0.1, np.nan]), np.array([np.nan, 0.25]))
    with History.create(tmp_path / "h.h5", space_json()) as history:
        assert read_own_pixels(history) is None
        history.set_result(OWN_PIXELS_KEY, measured.to_dict())
        found = read_own_pixels(history)
        reached, sharp = found.of(["b", "c", "a"])
        np.testing.assert_array_equal(reached, [np.nan, np.nan, 0.1])
        np.testing.assert_array_equal(sharp, [0.25, np.nan, np.nan])
        history.set_result(OWN_PIXELS_KEY, {**measured.to_dict(), "sharp": [0.1, 7]})
        with pytest.raises(HistoryDamagedError, match="own pixels"):
            read_own_pixels(history)


def test_more_minutes_promise_less_error_and_what_was_not_measured_keeps_its_upper_end():
    three, ten, hour = (after_minutes(ExpectedError(0.2, 0.1, 0.3), minutes) for minutes in (3, 10, 60))
    assert three.error == ExpectedError(0.2, 0.1, 0.3)
    assert hour.error.value < ten.error.value < 0.2
    assert hour.error.high == ten.error.high < 0.3
    assert [each.is_extrapolated for each in (three, ten, hour)] == [False, False, True]


def test_photographs_are_suggested_their_own_pixels(tmp_path):
    """A photograph has more than the shipped history's first datasets: 224 pixels come first, and minutes are promised."""
    rng = np.random.default_rng(0)
    for name, level in (("dark", 60), ("light", 190)):
        (tmp_path / name).mkdir()
        for number in range(6):
            rough = np.clip(rng.normal(level, 40, (6, 6, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(rough).resize((230, 230)).save(tmp_path / name / f"{number}.png")
    found = warmstart.answer(tmp_path, workload="transfer", k=2)
    assert [design.config["image_size"] for design in found.suggestions] == [224, 224]
    assert found.strategy == "portfolio"
    assert [item["minutes"] for item in found.to_dict()["expected_after"]] == [3, 10, 60]
    again = warmstart.answer(tmp_path, workload="transfer", k=2)  # from the cache
    assert again.to_dict() == found.to_dict()
