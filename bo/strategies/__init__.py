"""Strategies: which stored configurations to try first on a new dataset.

`nearest` where distances to the history's datasets mean something; `portfolio` where they do not, and the one to
beat; `average-rank` is the plain baseline. A new strategy is a function from `Query` to choices, named here, and
passes `tests/contract/test_strategies.py`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from bo.strategies.average_rank import average_rank
from bo.strategies.nearest import nearest
from bo.strategies.portfolio import portfolio
from bo.strategies.query import Choice, Dedupe, Query, Strategy

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {"nearest": nearest, "portfolio": portfolio, "average-rank": average_rank}
)

__all__ = ["STRATEGIES", "Choice", "Dedupe", "Query", "Strategy"]
