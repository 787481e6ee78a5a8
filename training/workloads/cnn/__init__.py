"""The target network of the warm-start paper [Kim2017warmstart]: a small CNN trained from scratch."""

from training.workloads.cnn.budget import BUDGETS, COMPACT, PAPER, Budget
from training.workloads.cnn.space import SpaceName, target_space
from training.workloads.cnn.workload import CNN

__all__ = ["BUDGETS", "CNN", "COMPACT", "PAPER", "Budget", "SpaceName", "target_space"]
