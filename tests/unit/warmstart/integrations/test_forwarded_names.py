"""Old paths of names lead to something."""

import importlib
import warnings
from pathlib import Path

import pytest

import warmstart

ROOT = Path(warmstart.__file__).parents[1]
PACKAGES = ("warmstart", "training", "metafeat", "bo", "history_store")
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if "= forward(" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_every_name_that_a_module_forwards_is_there(module):
    moved = importlib.import_module(module)
    places = next(cell.cell_contents for cell in moved.__getattr__.__closure__ if isinstance(cell.cell_contents, dict))
    assert places
    for name in places:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert getattr(moved, name) is not None
        assert any(f"{module}.{name} moved" in str(each.message) for each in said)


def test_what_optuna_space_had_is_still_there():
    from warmstart.integrations import optuna_space
    from warmstart.integrations.optuna import space

    for name in ("Presence", "shown", "snapped", "to_distributions", "to_space"):
        with pytest.warns(DeprecationWarning, match=f"optuna_space.{name} moved: import {name} from"):
            assert getattr(optuna_space, name) is getattr(space, name)
