"""Strategies: which stored configurations to try first on a new dataset.

`joint` is ours and the default; `nearest` is the published one; `portfolio` ignores distances and is the one to beat;
`average-rank` is the plain baseline. A new strategy is a function from `Query` to choices, named here, and
passes `tests/contract/test_strategies.py`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from bo.strategies.average_rank import average_rank
from bo.strategies.joint import joint
from bo.strategies.nearest import nearest
from bo.strategies.portfolio import portfolio
from bo.strategies.query import Choice, Dedupe, Query, Reach, Strategy

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {"joint": joint, "nearest": nearest, "portfolio": portfolio, "average-rank": average_rank}
)

__all__ = ["STRATEGIES", "Choice", "Dedupe", "Query", "Reach", "Strategy"]
