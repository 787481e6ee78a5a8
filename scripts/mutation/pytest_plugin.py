"""Plugin of pytest for `mutants.py`: measures which lines each test reaches, or runs the tests of a plan in its order."""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

WAIT_S = 30.0
"""A test may take this long beside five times its own time; then it hangs."""


def pytest_configure(config: pytest.Config) -> None:
    """Take the part that the environment names."""
    if folder := os.environ.pop("MUTANTS_MEASURE", ""):
        config.pluginmanager.register(Measurement(Path(folder)))
    if plan := os.environ.pop("MUTANTS_PLAN", ""):
        config.pluginmanager.register(Selection(json.loads(Path(plan).read_text(encoding="utf-8"))))


class Measurement:
    """Tells coverage which test runs, as a number; processes that the test starts read it in their environment.

    Lines of a fixture that several tests share belong to each of them, so it has a number of its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.labels = [""]  # 0: imports
        self.current = ""
        self.tests: dict[str, dict[str, Any]] = {}

    def switch(self, label: str) -> None:
        """Count lines to a test or a fixture from now on."""
        if label not in self.labels:
            self.labels.append(label)
        self.current = label
        number = str(self.labels.index(label))
        os.environ["MUTANTS_TEST"] = number
        if running := coverage.Coverage.current():
            running.switch_context(number)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Count the lines of one test, with its setup and teardown."""
        definitions = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]  # noqa: SLF001
        shared = [name for name, known in definitions.items() if any(map(is_shared, known))]
        self.tests[item.nodeid] = {"seconds": 0.0, "passed": True, "fixtures": shared}
        self.switch(item.nodeid)
        try:
            return (yield)
        finally:
            self.switch("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Count the lines of a shared fixture to it."""
        if not is_shared(fixturedef):
            return (yield)
        before = self.current
        self.switch(f"fixture {fixturedef.argname}")
        try:
            return (yield)
        finally:
            self.switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how long a test takes and whether it fails by itself."""
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        test["passed"] = test["passed"] and not report.failed

    def pytest_sessionfinish(self) -> None:
        """Write what the numbers mean."""
        text = json.dumps({"labels": self.labels, "tests": self.tests})
        (self.folder / "tests.json").write_text(text, encoding="utf-8")


def is_shared(definition: Any) -> bool:
    """Tell whether several tests share what a fixture makes."""
    return bool(definition.scope != "function")


class Selection:
    """Runs the tests of a plan in its order, and logs each."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.seconds: dict[str, float] = plan["tests"]
        self.log = Path(plan["log"])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
        """Leave the tests of the plan, after all others have sorted them."""
        yield
        rank = {name: number for number, name in enumerate(self.seconds)}
        chosen = sorted((item for item in items if item.nodeid in rank), key=lambda item: rank[item.nodeid])
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in rank])
        for item in chosen:
            limit = pytest.mark.timeout(WAIT_S + 5 * self.seconds[item.nodeid])
            item.add_marker(limit, append=False)
        items[:] = chosen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Log the end of a test, or what failed it."""
        if report.failed or report.when == "teardown":
            text = report.longreprtext[-400:] if report.failed else ""
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"test": report.nodeid, "failed": report.failed, "text": text}) + "\n")
