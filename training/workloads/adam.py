"""Adam without torch's compiler, which the first `torch.optim.Optimizer` of a process loads: 2.8 s of CPU and 150 MB."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw


class Adam:
    """Adam [Kingma2015adam], bit for bit the steps of `torch.optim.Adam` and `AdamW` with their defaults."""

    def __init__(self, parameters: Iterable[Tensor], *, weight_decay: float = 0.0, fused: bool | None = None) -> None:
        """Begin with moments of 0.

        Args:
            parameters: to be trained, in place.
            weight_decay: pull on them, decoupled from the gradients as in `AdamW`.
            fused: compute all in one kernel, or not; None leaves it to torch.
        """
        self.parameters, self.weight_decay, self.fused = list(parameters), weight_decay, fused
        # torch wants the number of steps where its kernel runs: beside the parameter when fused, else on the CPU.
        self._moments = [
            (torch.zeros_like(each), torch.zeros_like(each), torch.zeros((), device=each.device if fused else "cpu"))
            for each in self.parameters
        ]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move the parameters that have gradients by a learning rate, and drop the gradients."""
        moved = [
            (each, each.grad, *moments)
            for each, moments in zip(self.parameters, self._moments, strict=True)
            if each.grad is not None
        ]
        if not moved:
            return
        parameters, gradients, first, second, steps = (list(column) for column in zip(*moved, strict=True))
        rule = adamw if self.weight_decay else adam
        rule(
            parameters,
            gradients,
            first,
            second,
            [],
            steps,
            fused=self.fused,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )
        for each in parameters:
            each.grad = None
