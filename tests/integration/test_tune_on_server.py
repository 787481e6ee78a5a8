"""`warmstart tune --server`: several datasets, related datasets, networks to save; refused where a server cannot."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from stripes import pictures, write_folder

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from servers import running

import warmstart
from warmstart.client import Client
from warmstart.history_store.errors import DataError, UsageError
from warmstart.remote_study import RemoteTrial
from warmstart.remote_tuning import tune_on_server
from warmstart.studies.tune_options import TuneOptions
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


@pytest.mark.slow
def test_several_datasets_share_trials_and_go_on_at_home(tiny, place, cli):
    both = ("tune", "--dataset", "two", "--dataset", "one", "--objective", "own.py:f", "--model", str(tiny.model))
    both += ("--study", "both", "-q", "--format", "json")
    with running(history=tiny.history, model=tiny.model, storage=place / "s.db") as url:
        found = cli(*both, "--server", url, "--trials", "6")
        assert found.code == 0, found.err
        told = json.loads(found.out)
        assert [each["study"] for each in told["studies"]] == ["both-two", "both-one"]
        assert [each["trials"] for each in told["studies"]] == [{"ok": 3}, {"ok": 3}]
        assert all(len(each["warm"]) == 3 for each in told["studies"])
        with Client(url) as client:
            assert client.study("both-one").show()["members"] == ["both-one", "both-two"]
        refused = cli(*both, "--server", url, "--split", "gain")
        assert (refused.code, "the study has equal" in refused.err) == (2, True)
        refused = cli(*both, "--server", url, "--dataset", "./one")
        assert (refused.code, "got ./one, which is the same as one" in refused.err) == (2, True)
        alone = cli(*both[:3], *both[5:], "--study", "both-two", "--server", url)
        assert (alone.code, "set of datasets tuned together" in alone.err) == (2, True)
    at_home = warmstart.tune_many(
        ["one", "two"], objective="own.py:f", study="both", storage="s.db", trials=7,
        history=tiny.history, model=tiny.model, on_message=lambda _: None,
    )  # fmt: skip
    assert at_home.counts == {"ok": 7}


def test_pictures_left_out_are_named(tiny, place, cli):
    (place / "one" / "class0" / "broken.png").write_bytes(b"no picture")
    with running(history=tiny.history, model=tiny.model, storage=place / "s.db") as url:
        found = cli(
            *("tune", "--dataset", "one", "--objective", "own.py:f", "--model", tiny.model),
            *("--server", url, "--trials", "1", "--skip-broken"),
        )
    assert found.code == 0, found.err
    assert "left out class0/broken.png: not a picture" in found.err


def test_a_class_without_training_pictures_is_told(tiny, place, cli):
    for folder in (place / "one").iterdir():
        for part in ("train", "val") if folder.name != "class0" else ("val",):
            shutil.copytree(folder, place / "parts" / part / folder.name)
    with running(history=tiny.history, model=tiny.model, storage=place / "s.db") as url:
        asked = ("tune", "--dataset", "parts", "--objective", "own.py:f", "--model", tiny.model)
        found = cli(*asked, "--server", url, "--trials", "1")
    assert found.code == 0, found.err
    assert found.err.count("Class class0 has no training pictures") == 1


def test_a_new_study_says_what_counts_as_better_and_keeps_hundreds_of_metrics(place, cli):
    (place / "space.yaml").write_text("x: {float: [0, 1]}\n")
    (place / "many.py").write_text(
        "def f(config):\n    return {'error': 0.5, **{f'class {i}': 0.1 for i in range(300)}}\n"
    )
    with running(storage=place / "s.db") as url:
        asked = ("tune", "--space", "space.yaml", "--server", url, "--trials", "1")
        printed = (*asked, "--command", "echo 0.5 {x}", "--metric", "last", "--study", "a")
        said = [cli(*printed) for _ in range(2)]
        assert [each.code for each in said] == [0, 0], said[0].err
        line = "The least number that last finds is the best: add --maximize where larger is better."
        assert [each.err.count(line) for each in said] == [1, 0]
        found = cli(*asked, "--objective", "many.py:f", "--study", "b")
        assert found.code == 0, found.err
        with Client(url) as client:
            (trial,) = client.study("b").trials()
            assert len(trial["metrics"]) == 300


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
        asked = ("tune", "--objective", "bad.py:f", "--space", "space.yaml", "--server", url, "--trials")
        found = cli(*asked, "1", "-q")
        longer = cli(*asked, "20", "--study", "more")
    assert (found.code, longer.code) == (5, 5)
    assert "expected a trial that gives a result, got none of 1" in found.err
    assert "more: trial 0 gave no result (crashed): ValueError: no (bad.py:2)." in longer.err
    assert "All 5 trials failed in the same way, so no more was begun." in longer.err


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
        for _ in range(3):
            process = subprocess.Popen(code, stderr=subprocess.PIPE, text=True, start_new_session=True)
            while not (place / "began").exists():
                assert process.poll() is None
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=200)
            (place / "began").unlink()
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
