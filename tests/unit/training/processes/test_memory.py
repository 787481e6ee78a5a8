"""Memory of a process that computes features."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from warmstart.training.processes.memory import reuse_freed_memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(20_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

reuse_freed_memory()
pages()
print(pages())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of the GNU C library")
def test_freed_blocks_are_not_fetched_anew():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000, "of 39,000 pages"
