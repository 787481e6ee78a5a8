"""The studies of a server: opened once, and begun beside others."""

import subprocess
import sys
import threading

import pytest
from problems import plane

from warmstart.history_store.space import dump_space
from warmstart.service.problems import ProblemError
from warmstart.service.study_book import StudyBook
from warmstart.studies.state.spec import StudySpec

PLAN = StudySpec(space=dump_space(plane()), objective={"function": "m:f"}, dataset=None, fingerprint=None, warm="none")


@pytest.fixture(params=["s.db", "s.journal"])
def book(request, tmp_path):
    found = StudyBook(tmp_path / request.param)
    yield found
    found.close()


def begin(book, name, plan=PLAN):
    return book.begin(name, plan, lambda wanted: wanted)


def test_a_study_is_begun_while_another_is_in_use(book):
    """Choosing a configuration takes seconds; whoever reports or begins must not wait for it."""
    assert begin(book, "first")
    with book.study("first"):
        done = []
        other = threading.Thread(target=lambda: done.append(begin(book, "second")), daemon=True)
        other.start()
        other.join(200)
        assert done == [True]
    assert not begin(book, "second"), "it is there"


def test_begun_at_once_by_several_it_is_begun_once(book):
    barrier, done = threading.Barrier(4), []

    def at_once():
        barrier.wait()
        done.append(begin(book, "study"))

    threads = [threading.Thread(target=at_once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 4
    with book.study("study") as found:
        assert found.queue.plan.space == PLAN.space


def test_names_that_no_study_has_are_not_kept(book):
    begin(book, "study")
    for number in range(3):
        with pytest.raises(ProblemError, match="expected the name of a study"), book.study(f"no{number}"):
            pass
    with book.study("study"):
        assert list(book._studies) == ["study"]


def test_a_server_with_studies_loads_its_packages_before_its_threads(tmp_path):
    """Two threads that import one at the same time find it half loaded."""
    made = "from warmstart.service.app import create_app; from warmstart.service.settings import ServiceSettings; import sys"
    code = f"{made}; create_app(ServiceSettings(storage='sqlite:///{tmp_path}/s.db')); assert {{'optuna', 'ConfigSpace'}} <= sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
