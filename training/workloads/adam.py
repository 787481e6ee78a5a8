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
        self._moments: dict[Tensor, tuple[Tensor, Tensor, Tensor]] = {}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move the parameters that have gradients by a learning rate, and drop the gradients."""
        moved = [each for each in self.parameters if each.grad is not None]
        gradients = [each.grad for each in moved if each.grad is not None]
        first, second, steps = zip(*map(self._moments_of, moved), strict=True) if moved else ((), (), ())
        rule = adamw if self.weight_decay else adam
        rule(
            moved,
            gradients,
            list(first),
            list(second),
            [],
            list(steps),
            fused=self.fused,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )
        for each in moved:
            each.grad = None

    def _moments_of(self, parameter: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a parameter's first and second moment and its number of steps."""
        if parameter not in self._moments:
            # torch wants the number where its kernel runs: beside the parameter when fused, else on the CPU.
            steps = torch.zeros((), dtype=torch.float32, device=parameter.device if self.fused else "cpu")
            self._moments[parameter] = torch.zeros_like(parameter), torch.zeros_like(parameter), steps
        return self._moments[parameter]
