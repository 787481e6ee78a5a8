"""Pretrained backbones of timm: heads on frozen features, and fine-tuning that starts from them."""

from warmstart.training.workloads.transfer.budget import BUDGETS, TransferBudget
from warmstart.training.workloads.transfer.space import transfer_space
from warmstart.training.workloads.transfer.workload import Transfer

__all__ = ["BUDGETS", "Transfer", "TransferBudget", "transfer_space"]
