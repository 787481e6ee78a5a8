"""Pickles that name the modules of earlier versions load; modules of other people keep their names."""

import io
import pickle
import sys
from importlib import import_module
from types import ModuleType

import cloudpickle
import pytest

import warmstart
from warmstart.pickles import MOVED, current_module


def load(data):
    return warmstart.load_pickle(io.BytesIO(data))


def test_what_moved_is_there():
    assert {old: import_module(current_module(old)).__name__ for old in MOVED} == MOVED


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ("bo.optimizer", "warmstart.bo.optimizer"),
        ("bo.no_such_module", "bo.no_such_module"),
        ("training_of_mine", "training_of_mine"),
        ("warmstart.bo.optimizer", "warmstart.bo.optimizer"),
    ],
)
def test_a_module_is_found_where_it_is_now_or_keeps_its_name(old, now):
    assert current_module(old) == now


def test_a_class_of_an_old_path_is_loaded():
    from warmstart.bo import Optimizer

    assert load(b"cbo.optimizer\nOptimizer\n.") is Optimizer


def test_a_package_of_ones_own_of_the_same_name_is_loaded(monkeypatch):
    class Mine:
        pass

    Mine.__module__, Mine.__qualname__ = "training.of_mine", "Mine"
    module = ModuleType("training.of_mine")
    module.Mine = Mine
    monkeypatch.setitem(sys.modules, "training", ModuleType("training"))
    monkeypatch.setitem(sys.modules, "training.of_mine", module)
    assert load(b"ctraining.of_mine\nMine\n.") is Mine


def test_a_function_sent_by_value_imports_by_todays_names(monkeypatch):
    import warmstart.bo.space as module

    monkeypatch.setitem(sys.modules, "bo.space", module)
    monkeypatch.setattr(module, "__name__", "bo.space")
    data = cloudpickle.dumps(lambda: module)
    monkeypatch.undo()
    assert b"bo.space" in data
    assert load(data)() is module


def test_a_cut_pickle_is_refused():
    with pytest.raises(EOFError):
        load(pickle.dumps([1, 2])[:0])
    with pytest.raises(pickle.UnpicklingError):
        load(pickle.dumps([1, 2])[:-3])
