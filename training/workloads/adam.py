"""Adam without torch's compiler, which costs 2.8 s of CPU and 150 MB with the first `torch.optim.Optimizer`."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw


class Adam:
    """Adam [Kingma2015adam], bit for bit equal to `torch.optim.Adam` and `AdamW` with default settings."""

    def __init__(self, parameters: Iterable[Tensor], *, weight_decay: float = 0.0, fused: bool | None = None) -> None:
        """Set all moments to 0.

        Args:
            parameters: to train, in place.
            weight_decay: decoupled from the gradients as in `AdamW`.
            fused: compute all in one kernel, or not; None = torch's choice.
        """
        self.parameters, self.weight_decay, self.fused = list(parameters), weight_decay, fused
        # torch needs the step counter on the device of its kernel: that of the parameter if fused, else the CPU.
        self._moments = [
            (
                torch.zeros_like(parameter),
                torch.zeros_like(parameter),
                torch.zeros((), device=parameter.device if fused else "cpu"),
            )
            for parameter in self.parameters
        ]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update the parameters with gradients by a learning rate, and drop the gradients."""
        moved = [
            (parameter, parameter.grad, *moments)
            for parameter, moments in zip(self.parameters, self._moments, strict=True)
            if parameter.grad is not None
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
        for parameter in parameters:
            parameter.grad = None
