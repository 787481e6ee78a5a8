"""Claims of a local storage: between processes the system's, within one its own."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import warmstart
from warmstart.studies.state.file_claims import FileClaims, is_claimed

ELSEWHERE = "import sys; from pathlib import Path; from warmstart.studies.state.file_claims import FileClaims; print(FileClaims(Path(sys.argv[1]), 1).take(5))"  # fmt: skip


def elsewhere(path):
    """Tell whether another process can take claim 5 of study 1."""
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.claims"


def test_claims_of_one_process_exclude_each_other(path):
    first, second = FileClaims(path, 1), FileClaims(path, 1)
    assert first.take(5)
    assert first.take(5), "one's own is taken again"
    assert not second.take(5)
    assert second.take(6)
    assert FileClaims(path, 2).take(5), "of another study"
    second.release(5)
    assert not second.take(5), "nobody gives back what others hold"
    first.release(5)
    assert second.take(5)


def test_closing_one_keeps_what_others_hold(path):
    first, second = FileClaims(path, 1), FileClaims(path, 2)
    assert first.take(5)
    assert second.take(5)
    second.close()
    assert not elsewhere(path)
    assert FileClaims(path, 2).take(5)
    first.close()
    assert elsewhere(path)


def test_a_claim_is_seen_without_being_taken(path):
    assert is_claimed(path, 1, 5) is None
    claims = FileClaims(path, 1)
    assert is_claimed(path, 1, 5) is False
    assert claims.take(5)
    assert is_claimed(path, 1, 5) is True
    assert not elsewhere(path), "looking drops no lock"
    claims.close()
    assert is_claimed(path, 1, 5) is False


def test_patience_waits_for_other_threads_alone(path):
    first, second, said = FileClaims(path, 1), FileClaims(path, 1), []
    assert first.take(0)
    assert second.take(0, patience=True), "or this thread would wait for itself"
    waiting = threading.Thread(target=lambda: said.append(second.take(0, patience=True)))
    waiting.start()
    waiting.join(0.3)
    assert said == []
    first.release(0)
    waiting.join(200)
    assert said == [True]
    assert not first.take(0)


def test_a_forked_child_holds_nothing(path):
    claims = FileClaims(path, 1)
    assert claims.take(5)
    child = os.fork()
    if not child:
        os._exit(int(FileClaims(path, 1).take(5)))
    assert os.waitpid(child, 0)[1] == 0


def test_two_threads_that_tune_one_study_share_its_trials(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(
        "def f(config):\n    with open('log', 'a') as log:\n        print(config['x'], file=log)\n    return config['x']\n"
    )
    found = []

    def tune():
        found.append(
            warmstart.tune(
                objective="job.py:f", space={"x": [0.0, 1.0]}, warm="none", trials=4, storage="s.db", study="a"
            )
        )

    threads = [threading.Thread(target=tune) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert [len(each.trials) for each in found] == [4, 4]
    assert len(Path("log").read_text().splitlines()) == 4
