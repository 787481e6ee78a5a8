"""One thread for small matrices: more would only wait for each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
_n_inside = 0
_original_threads: list[tuple[Any, int]] = []
"""Libraries, and their numbers of threads before the first came in: BLAS has one number for the whole process."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread, and restore the number when the last thread has left the block."""
    from threadpoolctl import ThreadpoolController

    global _n_inside
    libraries = ThreadpoolController()
    # OpenMP has a number for each thread; BLAS has one for the process, which needs the counting below.
    with libraries.select(user_api="openmp").limit(limits=1):
        with _lock:
            _n_inside += 1
            for library in libraries.select(user_api="blas").lib_controllers:
                if (n := library.num_threads) is not None and n > 1:
                    _original_threads.append((library, n))
                    library.set_num_threads(1)
        try:
            yield
        finally:
            with _lock:
                _n_inside -= 1
                while not _n_inside and _original_threads:
                    library, n = _original_threads.pop()
                    library.set_num_threads(n)
