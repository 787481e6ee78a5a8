"""Two threads that limit the number of threads at once, of which the first leaves first."""

import subprocess
import sys

CROSSED = """
import numpy, threading
from threadpoolctl import threadpool_info
{imports}

def number():
    return {number}

inside, done = threading.Event(), threading.Event()

def second():
    with {limit}:
        inside.set()
        assert done.wait(30)

before = number()
thread = threading.Thread(target=second)
with {limit}:
    thread.start()
    assert inside.wait(30)
    print(number())
print("left by the first")
done.set()
thread.join()
print(number() == before)
seen = []
fresh = threading.Thread(target=lambda: seen.append(number() == before))
fresh.start()
fresh.join()
print(seen[0])
"""


def check_crossed(monkeypatch, **parts):
    """Check in a process of its own that everybody gets the number back."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    run = subprocess.run([sys.executable, "-c", CROSSED.format(**parts)], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["1", "left by the first", "True", "True"]
