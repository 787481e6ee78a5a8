"""Scales told by names and by values."""

from __future__ import annotations

import numpy as np
import pytest

from warmstart.history_store.errors import UsageError
from warmstart.history_store.rescaling import (
    RESCALINGS,
    SAME,
    check_scale,
    choose_rescaling,
    implied_rescaling,
    rescaling,
)


@pytest.mark.parametrize(
    ("there", "here", "name"),
    [
        ("", "", "x"),
        ("log10", "log10", "x"),
        ("", "log10", "log10(x)"),
        ("log10", "", "10^x"),
        ("", "ln", "ln(x)"),
        ("ln", "", "e^x"),
        ("log2", "", "2^x"),
        ("", "log2", "log2(x)"),
        ("log2", "log10", "x"),
    ],
)
def test_names_imply_a_rescaling(there: str, here: str, name: str) -> None:
    assert implied_rescaling(there, here).name == name


@pytest.mark.parametrize(
    ("values", "bounds", "implied", "chosen", "note"),
    [
        ([1e-3, 1e-2, 2.0], (1e-5, 1.0), "x", "x", ""),  # half and more as the name says: no second thoughts
        ([1e-5, 1e-3, 1e-1], (-6.0, -0.5), "x", "log10(x)", "0% of the values lie in -6 .. -0.5 as x, all do"),
        ([-4.0, -3.0, -1.0], (-5.0, 0.0), "log10(x)", "x", "all do as x"),  # the values are logarithms already
        ([-4.0, -3.0, -1.0], (1e-5, 0.2), "x", "10^x", "all do as 10"),
        ([20.0, 50.0, 80.0], (0.1, 0.9), "x", "x/100", "all do as x/100"),
        ([20.0, 50.0, 80.0], (0.0, 0.9), "x", None, "1/x, x/100 would fit: choose with --rescale"),
        ([1e-5, 1e-5, 1e-5], (-6.0, -0.5), "x", None, "log10"),  # one value proves nothing
        ([300.0, 400.0, 500.0], (5.5, 6.5), "x", "ln(x)", "all do as ln"),
        ([7.0, 8.0, 1.0], (8.0, 32.0), "x", "x", "33% of the values lie in 8 .. 32"),
        ([], (0.0, 1.0), "log10(x)", "log10(x)", ""),
    ],
)
def test_values_overrule_a_name_that_cannot_be(
    values: list[float], bounds: tuple[float, float], implied: str, chosen: str | None, note: str
) -> None:
    found, reason = choose_rescaling(np.array(values), bounds, RESCALINGS[implied])
    assert (None if found is None else found.name) == chosen
    assert note in reason
    assert bool(note) == bool(reason)


def test_whole_numbers_must_stay_whole() -> None:
    values = np.array([8.0, 16.0, 32.0])
    assert choose_rescaling(values, (3.0, 5.0), SAME, whole=True)[0] is RESCALINGS["log2(x)"]
    assert choose_rescaling(values + 1.0, (3.0, 5.0), SAME, whole=True)[0] is None


def test_an_unknown_rescaling_is_refused() -> None:
    with pytest.raises(UsageError, match=r"rescale: expected one of x, log10\(x\), .*, got 'log'"):
        rescaling("log")


@pytest.mark.parametrize(
    ("ends", "bounds", "implied", "log", "chosen"),
    [
        ((-5.0, 0.0), (1e-5, 0.1), "10^x", True, "10^x"),
        ((-5.0, 0.0), (1e-4, 3e-4), "10^x", True, "10^x"),  # narrow, but inside
        ((-5.0, 0.0), (1.0, 100.0), "10^x", True, None),
        ((-5.0, 0.0), (0.0, 100.0), "10^x", False, None),  # a hundredth of the range
        ((-5.0, 0.0), (0.0, 1.0), "10^x", False, "10^x"),
        ((-5.0, 0.0), (-4.0, -1.0), "10^x", False, "x"),  # the name lacks its prefix
        ((0.0, 0.9), (0.0, 0.5), "x", False, "x"),
        ((0.0, 0.9), (0.0, 100.0), "x", False, "100x"),
        ((0.0, 90.0), (0.0, 1.0), "x", False, "x/100"),
        ((1e-8, 1e-4), (0.5, 0.99), "x", False, None),
    ],
)
def test_a_known_scale_is_checked(
    ends: tuple[float, float], bounds: tuple[float, float], implied: str, log: bool, chosen: str | None
) -> None:
    values = np.linspace(*ends, 64)
    found, why = check_scale(values, bounds, RESCALINGS[implied], log=log, whole=False, ends=ends)
    assert (found and found.name) == chosen
    assert ("another scale" in why) == (chosen is None)
    alone, _ = check_scale(values, bounds, RESCALINGS[implied], log=log, whole=False)
    assert alone == found


def test_whole_numbers_have_no_scale_but_must_meet() -> None:
    values = np.arange(8.0, 33.0)
    for bounds, fits in (((1.0, 4096.0), True), ((16.0, 64.0), True), ((32.0, 256.0), False), ((64.0, 256.0), False)):
        chosen, _ = check_scale(values, bounds, SAME, log=False, whole=True)
        assert (chosen is SAME) == fits
