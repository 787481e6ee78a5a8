import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.history_store.errors import LabelError, UsageError
from warmstart.history_store.splits import largest_remainder, stratified_split, stratified_subsample

label_lists = st.lists(st.integers(0, 6), min_size=1, max_size=150).map(lambda values: np.array(values, np.int64))


@pytest.mark.parametrize(
    ("counts", "fraction", "shares"),
    [
        ([50, 30, 20], 0.1, [5, 3, 2]),
        ([7, 7, 6], 0.5, [4, 3, 3]),  # exact 3.5, 3.5, 3.0: one seat left, the tie goes to the first
        ([15, 11, 4], 0.3, [5, 3, 1]),  # exact 4.5, 3.3, 1.2
        ([97, 2, 1], 0.1, [8, 1, 1]),  # one a class first, the rest gives back
        ([3, 3, 3], 0.1, [1, 1, 1]),  # one a class is more than a tenth
        ([4, 0, 4], 0.5, [2, 0, 2]),
        ([9, 5], 1.0, [9, 5]),
    ],
)
def test_hand_values(counts, fraction, shares):
    assert largest_remainder(np.array(counts), fraction).tolist() == shares


@given(label_lists, st.integers(0, 5))
@settings(max_examples=150)
def test_tenths_are_nested_with_every_class(labels, seed):
    smaller: set[int] = set()
    for tenth in range(1, 11):
        part = stratified_subsample(labels, tenth / 10, seed=seed)
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
        assert smaller <= set(part.tolist())
        assert set(labels[part]) == set(labels)
        smaller = set(part.tolist())
    assert len(smaller) == len(labels)


def test_the_alabama_paradox_is_kept_out():
    counts = np.array([2, 7, 9])
    assert largest_remainder(counts, 0.7).tolist() == [2, 5, 6]
    assert largest_remainder(counts, 0.8).tolist() == [1, 6, 7]  # the whole grows, the first class shrinks
    labels = np.repeat([0, 1, 2], counts)
    shares = [np.bincount(labels[stratified_subsample(labels, fraction)]).tolist() for fraction in (0.7, 0.8)]
    assert shares == [[1, 5, 7], [1, 6, 7]]


def test_recorded_values():
    # Histories were measured on these parts: they may not change.
    labels = np.arange(30) % 3
    assert stratified_subsample(labels, 0.2, seed=0).tolist() == [10, 12, 23, 25, 27, 29]
    assert "".join(map(str, stratified_split(labels, seed=0))) == "110120212000000021201000002000"


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, float("nan")])
def test_refuses_a_fraction(fraction):
    with pytest.raises(UsageError, match=r"expected a fraction in \(0, 1\], got fraction="):
        stratified_subsample(np.array([0, 1]), fraction)


def test_refuses_no_labels():
    with pytest.raises(LabelError, match="expected at least one label, got none"):
        stratified_subsample(np.array([], np.int64), 0.5)
    with pytest.raises(LabelError, match="expected at least one label, got none"):
        stratified_split(np.array([], np.int64))


@pytest.mark.parametrize("fractions", [(0.5, 0.2, 0.2), (1.2, -0.1, -0.1), (float("nan"), 0.5, 0.5)])
def test_refuses_shares(fractions):
    with pytest.raises(UsageError, match="expected three shares ≥ 0 that sum to 1"):
        stratified_split(np.array([0, 1]), fractions)
