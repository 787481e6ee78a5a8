"""Each surrogate and each strategy says when to use it and when not, with an example that runs."""

import doctest
import inspect
import sys

import pytest

from warmstart.bo.surrogates import SURROGATES
from warmstart.bo.transfer.strategies import STRATEGIES


def classes():
    """Return the classes behind the surrogates; some names share one."""
    factories = (SURROGATES.find(name).factory for name in SURROGATES)
    return list({getattr(factory, "func", factory): None for factory in factories})


THINGS = [*classes(), *(STRATEGIES.find(name) for name in STRATEGIES)]


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_it_says_when_to_use_it_and_its_example_runs(thing):
    text = " ".join(inspect.getdoc(thing).split())
    assert "Use it " in text
    assert " Not " in text
    found = doctest.DocTestFinder(recurse=False).find(thing, globs=dict(vars(sys.modules[thing.__module__])))
    assert len(found) == 1
    results = doctest.DocTestRunner().run(found[0])
    assert results.attempted >= 2
    assert results.failed == 0
