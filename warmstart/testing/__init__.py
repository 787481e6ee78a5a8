"""Contract suites for what you add to warmstart: inherit one in your own tests, and name what is to be tested.

They need pytest, and are found by it under the name that your subclass has.
"""

from warmstart.testing.reader import ReaderContract
from warmstart.testing.strategy import StrategyContract
from warmstart.testing.surrogate import SurrogateContract
from warmstart.testing.workload import WorkloadContract

__all__ = ["ReaderContract", "StrategyContract", "SurrogateContract", "WorkloadContract"]
