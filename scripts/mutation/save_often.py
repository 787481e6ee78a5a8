"""Plugin of coverage for `mutants.py`: a process that a test starts saves often which lines it ran, as it may be killed."""

import contextlib
import os
import threading
import time
from typing import Any

import coverage

EVERY_S = 0.25


def coverage_init(_registry: Any, _options: Any) -> None:
    """Begin to save, in processes that tests start."""
    if os.environ.get("MUTANTS_TEST"):
        threading.Thread(target=_save, daemon=True).start()


def _save() -> None:
    with contextlib.suppress(Exception):  # the process ends, and has closed the file
        while True:
            time.sleep(EVERY_S)
            if running := coverage.Coverage.current():
                running.save()
