"""Strategies that choose the stored configurations to try first on a new dataset.

| name | use it when | not when |
|---|---|---|
| `joint` | always: the default | distances are exact: `nearest` may be better |
| `nearest` | distances are good, or to repeat the paper | distances may mean nothing |
| `portfolio` | there are no distances, or the query is far from everything | near datasets are right |
| `average-rank` | as a plain baseline | quality matters: `portfolio` covers more cases |

A new strategy is a function from `Query` to choices. It is named here, or by an entry point of the group
``warmstart.strategies``, and passes `warmstart.testing.StrategyContract`.
"""

from warmstart.bo.transfer.strategies.query import Choice, Dedupe, Query, Reach, Strategy
from warmstart.history_store.registry import Registry

STRATEGIES: Registry[Strategy] = Registry(
    "warmstart.strategies",
    "strategy",
    {
        "joint": "warmstart.bo.transfer.strategies.joint:joint",
        "nearest": "warmstart.bo.transfer.strategies.nearest:nearest",
        "portfolio": "warmstart.bo.transfer.strategies.portfolio:portfolio",
        "average-rank": "warmstart.bo.transfer.strategies.average_rank:average_rank",
    },
    check=callable,
    requirement="a function from warmstart.bo.transfer.strategies.Query to choices",
)
"""Every strategy by name."""

__all__ = ["STRATEGIES", "Choice", "Dedupe", "Query", "Reach", "Strategy"]
