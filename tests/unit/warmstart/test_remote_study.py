"""Workers of a server's study: their names, and what they tell."""

import os
from typing import Any

import pytest
from ConfigSpace import ConfigurationSpace

from warmstart.history_store.errors import LeaseLostError, StorageError
from warmstart.remote_study import RemoteStudy

OFFER = {"study": "s", "number": 3, "config": {"x": 0.5}, "seed": 1, "budget": None}


class Told:
    """In place of a connection: offers one trial again and again, and keeps what was sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def post(self, path: str, body: dict[str, Any], **_more: object) -> dict[str, Any]:
        self.bodies.append({"path": path, **body})
        return {"state": "offered", "trials": [OFFER]} if path.endswith(":ask") else {"stop": False}


@pytest.mark.parametrize("name", ["", "gpu-1"])
def test_a_forked_child_is_a_worker_of_its_own(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    told = Told()
    study = RemoteStudy(told, "s", name)  # type: ignore[arg-type]
    before = study.ask()
    monkeypatch.setattr(os, "getpid", lambda: 99_999_999)
    before.tell(0.5)  # type: ignore[union-attr]  # by whom it was offered to
    mine = study.ask()
    study.ask()
    mine.tell(0.5)  # type: ignore[union-attr]
    clients = [body["client"] for body in told.bodies]
    if name:
        assert clients == [name] * 5
    else:
        assert clients == [clients[0]] * 2 + [clients[2]] * 3
        assert clients[0] != clients[2]
        assert ":99999999:" in clients[2]


class Late(Told):
    """Its first answers come so late that the trial went to another client."""

    def __init__(self, late: int) -> None:
        super().__init__()
        self.late, self.keys = late, list[object]()

    def post(self, path: str, body: dict[str, Any], **more: object) -> dict[str, Any]:
        self.keys.append(more["key"])
        self.late -= 1
        if self.late >= 0:
            raise LeaseLostError("expected a key whose trial the client still holds.")
        return super().post(path, body)


def test_a_trial_that_went_elsewhere_before_the_answer_came_is_asked_for_anew() -> None:
    told = Late(2)
    trial = RemoteStudy(told, "s").ask()  # type: ignore[arg-type]
    assert (trial.number, told.keys) == (3, [None] * 3)  # type: ignore[union-attr]  # each gets a key of its own
    for late, key in ((1, "mine"), (3, None)):
        with pytest.raises(LeaseLostError, match="expected a key"):
            RemoteStudy(Late(late), "s").ask(key=key)  # type: ignore[arg-type]


@pytest.mark.parametrize(("high", "is_of_space"), [(1.0, True), (0.25, False)])
def test_a_configuration_of_another_space_is_refused(high: float, is_of_space: bool) -> None:
    told = Told()
    told.url = "http://here"  # type: ignore[attr-defined]
    study = RemoteStudy(told, "s", space=ConfigurationSpace({"x": (0.0, high)}))  # type: ignore[arg-type]
    if is_of_space:
        assert study.ask() is not None
    else:
        with pytest.raises(StorageError, match=r"http://here: configuration .* expected one that the space .*allows"):
            study.ask()
