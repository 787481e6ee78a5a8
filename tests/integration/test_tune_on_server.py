"""`warmstart tune --server`: several datasets, related datasets, networks to save; refused where a server cannot."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from stripes import pictures, write_folder

from warmstart.remote_tuning import tune_on_server
from warmstart.studies.tune_options import TuneOptions

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from servers import running

from warmstart.client import Client
from warmstart.history_store.errors import DataError, UsageError
from warmstart.remote_study import RemoteTrial
from warmstart.training.workloads.cnn.classifier import Networks

OBJECTIVE = (
    "def f(config, seed, dataset):\n    return abs(config['dropout_rate'] - 0.3) + 0.1 * dataset.endswith('two')\n"
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, name in enumerate(("one", "two")):
        write_folder(tmp_path / name, *pictures(kind))
    (tmp_path / "own.py").write_text(OBJECTIVE)
    return tmp_path


def test_studies_tuned_together_lease_their_trials(tmp_path):
    members = {"members": ["b", "a"], "space": {"x": [0.0, 1.0]}, "warm": "none", "startup": 500}
    with running(storage=tmp_path / "s.db") as url, Client(url) as client:
        first = client.begin_study("a", **members)
        with pytest.raises(UsageError, match="to be begun, got one that is not: expected the name of a study, got 'b'"):
            first.ask()
        second = client.begin_study("b", **members)
        one, again = second.ask(key="k", trials=4), second.ask(key="k", trials=4)
        assert (one.study.name, one.number, one.config) == (again.study.name, again.number, again.config)
        with ThreadPoolExecutor(4) as pool:
            asked = list(pool.map(lambda _: client.study("b").ask(key="k"), range(4)))
            assert len({(each.study.name, each.number) for each in asked}) == 4  # each client has keys of its own
        held = [one, *asked]
        assert {each.study.name: sum(other.study.name == each.study.name for other in held) for each in held} == {
            "a": 3,
            "b": 2,
        }
        assert second.ask(trials=4, wait=False) == "wait"
        for trial in held:
            assert isinstance(trial, RemoteTrial)
            trial.tell(0.5)
        assert second.ask(trials=5) is None
        for wrong, match in (
            ({"members": ["a"]}, "at least two studies"),
            ({"members": ["a", "b"]}, "'c' among them"),
            ({"members": ["a", "c"], "surrogate": "gp-map"}, "expected gp, dngo, bohamiann for several studies"),
        ):
            with pytest.raises(DataError, match=match):
                client.begin_study("c", **{**members, **wrong})


@pytest.mark.slow
def test_related_datasets_and_the_best_network(tiny, place, cli):
    network = ("tune", "--dataset", "one", "--model", str(tiny.model), "--budget", "6", "--device", "cpu", "-q")
    network += ("--study", "n", "--related", "auto", "--neighbours", "1", "--format", "json")
    with running(history=tiny.history, model=tiny.model, storage=place / "s.db") as url:
        saving = ("--server", url, "--trials", "2", "--save-model", "n.safetensors", "--report", "r.md")
        found = cli(*network, *saving)
        assert found.code == 0, found.err
        told = json.loads(found.out)
        assert [each["evaluations"] for each in told["related"]] == [8]
        saved = Networks.load("n.safetensors")
        assert saved.members[0].trial == told["best"]["trial"]
        assert told["saved_model"]["trials"] == [told["best"]["trial"]]
        assert saved.error == pytest.approx(told["best"]["error"])
        assert "## The saved classifier" in (place / "r.md").read_text()
        for wrong, match in (
            (("--save-model", "none/n.pt"), "expected a file in a folder that is there"),
            (("--save-model", "n.pt", "--objective", "own.py:f"), "cannot be used with your own objective"),
            (("--study", "m", "--related", "nobody"), "expected datasets of tiny.h5, or auto alone, got auto, nobody"),
            (("--study", "m", "--surrogate", "gp-map"), "expected gp, dngo, bohamiann for related datasets"),
            (("--log", "none/log"), "--log: expected a file in a folder that is there"),
        ):
            refused = cli(*network, "--server", url, "--trials", "1", *wrong)
            assert refused.code in (2, 3), refused.err
            assert match in refused.err, refused.err
        assert not (place / "n.pt").exists()


def test_every_trial_failed_is_told(place, cli):
    (place / "bad.py").write_text("def f(config, seed):\n    raise ValueError('no')\n")
    with running(storage=place / "s.db") as url:
        (place / "space.yaml").write_text("x: [0.0, 1.0]\n")
        asked = ("tune", "--objective", "bad.py:f", "--space", "space.yaml", "--server", url, "--trials", "20")
        found = cli(*asked, "--study", "s")
    assert found.code == 5
    assert "s: trial 0 gave no result (crashed): ValueError: no (bad.py:2)." in found.err
    assert "All 5 trials failed in the same way, so no more was begun." in found.err


SLOW = """
import pathlib, time

def f(config, seed):
    pathlib.Path("began").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return config["x"]
"""


def test_ctrl_c_gives_the_trial_back(place):
    (place / "slow.py").write_text(SLOW)
    (place / "space.yaml").write_text("x: [0.0, 1.0]\n")
    with running(storage=place / "s.db") as url, Client(url) as client:
        code = [sys.executable, "-m", "warmstart", "tune", "--objective", "slow.py:f", "--space", "space.yaml"]
        code += ["--study", "s", "--server", url, "--trials", "1"]
        process = subprocess.Popen(code, stderr=subprocess.PIPE, text=True, start_new_session=True)
        while not (place / "began").exists():
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=200)
        (trial,) = client.study("s").trials()
        assert (trial["state"], trial["offers"], trial["lease_until"]) == ("running", 0, None)
        (place / "go").touch()
        done = subprocess.run(code, capture_output=True, text=True, check=True)
        assert "Waiting for" not in done.stderr
        assert [each["state"] for each in client.study("s").trials()] == ["ok"]


def test_what_is_waited_for_is_told_and_no_pace(tmp_path, monkeypatch):
    said, seen, now, held = [], [], [0.0], []

    def wait(_seconds):
        now[0] += 600.0
        while held:
            held.pop().release()

    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time, sleep=wait)
    monkeypatch.setattr("warmstart.remote_tuning.time", clock)

    def f(config, seed):
        return config["x"]

    with running(storage=tmp_path / "s.db") as url, Client(url) as client:
        given = {"objective": f, "space": {"x": [0.0, 1.0]}, "study": "s", "surrogate": "gp-map"}
        told = {"progress": seen.append, "on_message": said.append}
        one, three = (TuneOptions.of(given | told | {"trials": n}) for n in (1, 3))
        assert tune_on_server(None, one, client).counts == {"ok": 1}
        gone = client.study("s")
        gone.lease_s = 600.0
        held.append(gone.ask())
        assert tune_on_server(None, three, client).counts == {"ok": 3}
    (waiting,) = [each for each in said if "Waiting" in each]
    assert f"Waiting for what runs elsewhere: trial 1 of s ({gone.client}; its lease ends in " in waiting
    assert waiting.endswith(" min unless it is renewed).")
    assert all(now.left_s < 5 for now in seen if math.isfinite(now.left_s))


def test_pictures_left_out_are_named(tiny, place, cli):
    (place / "one" / "class0" / "broken.png").write_bytes(b"no picture")
    with running(history=tiny.history, model=tiny.model, storage=place / "s.db") as url:
        found = cli(
            *("tune", "--dataset", "one", "--objective", "own.py:f", "--model", tiny.model),
            *("--server", url, "--trials", "1", "--skip-broken"),
        )
    assert found.code == 0, found.err
    assert "left out class0/broken.png: not a picture" in found.err
