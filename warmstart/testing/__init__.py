"""Contract suites for extensions of warmstart: inherit one in your tests and return the tested object.

They need pytest, which collects them under the name of your subclass.
"""

from warmstart.testing.reader import ReaderContract
from warmstart.testing.strategy import StrategyContract
from warmstart.testing.surrogate import SurrogateContract
from warmstart.testing.workload import WorkloadContract

__all__ = ["ReaderContract", "StrategyContract", "SurrogateContract", "WorkloadContract"]
