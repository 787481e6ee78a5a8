"""Strategies: which stored configurations to try first on a new dataset.

`joint` is ours and the default; `nearest` is the published one; `portfolio` ignores distances and is the one to beat;
`average-rank` is the plain baseline. A new strategy is a function from `Query` to choices, named here or by an
entry point of the group ``warmstart.strategies``, and passes `warmstart.testing.StrategyContract`.
"""

from bo.transfer.strategies.average_rank import average_rank
from bo.transfer.strategies.joint import joint
from bo.transfer.strategies.nearest import nearest
from bo.transfer.strategies.portfolio import portfolio
from bo.transfer.strategies.query import Choice, Dedupe, Query, Reach, Strategy
from history_store.registry import Registry

STRATEGIES: Registry[Strategy] = Registry(
    "warmstart.strategies",
    "strategy",
    {"joint": joint, "nearest": nearest, "portfolio": portfolio, "average-rank": average_rank},
    check=callable,
    wanted="a function from bo.transfer.strategies.Query to choices",
)
"""Every strategy by name."""

__all__ = ["STRATEGIES", "Choice", "Dedupe", "Query", "Reach", "Strategy"]
