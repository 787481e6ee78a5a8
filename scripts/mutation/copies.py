"""Copies of the checkout in which tests run, one a worker."""

import contextlib
import os
import queue
import shutil
import signal
import site
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from mutation.faults import tracked

SCRIPTS = Path(__file__).resolve().parents[1]
T = TypeVar("T")
R = TypeVar("R")


def in_copies(root: Path, work: Path, workers: int, items: Iterable[T], job: Callable[[T, Path], R]) -> Iterator[R]:
    """Yield what a job makes of each item in a copy, as soon as it is done."""
    trees = [copy_tree(root, work / f"run{os.getpid()}-{number}" / "tree") for number in range(workers)]
    idle: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for tree in trees:
        idle.put(tree)

    def do(item: T) -> R:
        tree = idle.get()
        try:
            return job(item, tree)
        finally:
            sweep(tree)
            idle.put(tree)

    pool = ThreadPoolExecutor(workers)
    try:
        for future in as_completed([pool.submit(do, item) for item in items]):
            yield future.result()
    finally:  # Ctrl-C, too
        pool.shutdown(wait=False, cancel_futures=True)
        for tree in trees:
            sweep(tree)
            shutil.rmtree(tree.parent, ignore_errors=True)


def copy_tree(root: Path, tree: Path) -> Path:
    """Copy the tracked files of a checkout, links as links."""
    for name in tracked(root):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, tree / name, follow_symlinks=False)
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Return the environment of tests in a copy, with folders of its own for what is temporary and the user's."""
    ours = ("COVERAGE_", "PYTEST_", "MUTANTS_", "PYTHONDONTWRITEBYTECODE")
    for part in ("tmp", "home"):
        (tree.parent / part).mkdir(exist_ok=True)
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "PYTHONPATH": f"{tree}{os.pathsep}{SCRIPTS}",
        "PYTHONUSERBASE": site.getuserbase(),
        "TMPDIR": str(tree.parent / "tmp"),
        "HOME": str(tree.parent / "home"),
        "OMP_NUM_THREADS": "1",
        "MUTANTS_TREE": str(tree),
    }


def pytest_arguments(tree: Path, *options: str) -> list[str]:
    """Return arguments of Python that run tests in a fixed order, with the same examples each time."""
    fixed = ["-p", "mutation.pytest_plugin", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    return ["-m", "pytest", "-q", *fixed, f"--basetemp={tree.parent}/tmp/pytest", *options]


def sweep(tree: Path) -> None:
    """End the processes that tests in a copy left, by the variable that they inherit, and remove their files."""
    mark = f"MUTANTS_TREE={tree}\0".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
    for folder in (tree.parent / "tmp", tree / ".hypothesis"):
        shutil.rmtree(folder, ignore_errors=True)
