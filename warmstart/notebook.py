"""What a notebook shows while a call runs: one line."""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from warmstart.bar import Bar

if TYPE_CHECKING:
    from warmstart.bar import Show


P = ParamSpec("P")
R = TypeVar("R")
REDRAW_S = 1.0
"""Seconds between two states of a line."""


def is_notebook() -> bool:
    """Tell whether a cell of a notebook runs this."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def live_line(title: str | Bar) -> Iterator[Show | None]:
    """Show one line in the notebook that runs the block, and take it away at the end.

    Args:
        title: what runs, in a word, or its own bar.

    Yields: `Bar.show`; None outside of a notebook.
    """
    if not is_notebook():
        yield None
        return
    from IPython.display import display

    bar = title if isinstance(title, Bar) else Bar(title)
    handle = display({"text/plain": bar.line()}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    over = threading.Event()

    def redraw() -> None:
        before = bar.line()
        while not over.wait(REDRAW_S):
            if (line := bar.line()) != before:
                handle.update({"text/plain": line}, raw=True)
                before = line

    # The context says to which cell the line belongs.
    drawer = threading.Thread(target=contextvars.copy_context().run, args=(redraw,), daemon=True)
    drawer.start()
    try:
        yield bar.show
    finally:
        over.set()
        drawer.join()
        handle.update({"text/plain": ""}, raw=True)


def shows_progress(title: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: a notebook shows the progress of the function, where it gets no callback `progress`."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with live_line(title) if kwargs.get("progress") is None else nullcontext(None) as show:
                if show is not None:
                    kwargs["progress"] = show
                return function(*args, **kwargs)

        return call

    return wrap
