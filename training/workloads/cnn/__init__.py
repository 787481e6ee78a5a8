"""Target network of the warm-start paper [Kim2017warmstart]: a small CNN trained from scratch."""

from warmstart.training.workloads.cnn.budget import BUDGETS, COMPACT, PAPER, Budget
from warmstart.training.workloads.cnn.space import SpaceName, target_space
from warmstart.training.workloads.cnn.workload import CNN

__all__ = ["BUDGETS", "CNN", "COMPACT", "PAPER", "Budget", "SpaceName", "target_space"]
