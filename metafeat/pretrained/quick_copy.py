"""A copy of a network that answers the same and is trained in less CPU time.

Own code, since fine-tuning spends most of its time here, and torch's `fuse_conv_bn_eval` makes parameters of its own, so
that what trains them does not train the network.

Norms that stand still are folded into the convolutions before them. Of the convolutions, those of 1x1 pixels are one
matrix product, and depthwise ones on small maps a product a channel: torch's own, backwards above all, take several
times as long where a map has few pixels.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import torch
from torch import nn
from torch.nn import functional

_SMALL = 256
"""Pixels of a map times pixels of the next one up to which a depthwise convolution is a product: 4x4 on 4x4."""
_SAME = 1e-3
"""Of the greatest answer: a copy that is further off anywhere is none."""

Network = TypeVar("Network", bound=nn.Module)
Pad = Callable[..., torch.Tensor]


def quick_copy(network: Network, pixels: torch.Tensor) -> Network:
    """Copy a network in evaluation mode whose batch norms are not trained; parameters are shared, so what trains the copy trains it.

    Args:
        network: takes pixels, and gives one tensor.
        pixels: `n x c x h x w`, some images, by which convolutions and their norms are found and the copy is checked.

    Returns: the copy; the network itself on a GPU, or where the copy would not answer the same.
    """
    if pixels.device.type != "cpu":
        return network
    shared = {id(each): each for each in (*network.parameters(), *network.buffers())}
    made = copy.deepcopy(network, shared)
    with torch.no_grad():
        expected = made(pixels)
        _replace(made, _norms_behind(made, pixels))
        try:
            found = made(pixels)
        except Exception:  # noqa: BLE001  whatever else a backbone does with its convolutions
            return network
    is_same = torch.allclose(found, expected, rtol=0.0, atol=_SAME * float(expected.abs().max()))
    return made if is_same else network


class QuickConvolution(nn.Module):
    """A convolution with the norm behind it, if there is one; its parameter is the convolution's.

    Args:
        convolution: with zeros around the map.
        norm: of its output, in evaluation mode.
        pad: pads as TensorFlow does, where the convolution does so.
    """

    scale: torch.Tensor | None
    shift: torch.Tensor | None

    def __init__(self, convolution: nn.Conv2d, norm: nn.BatchNorm2d | None, pad: Pad | None) -> None:
        super().__init__()
        self.convolution, self.pad = convolution, pad
        scale = shift = None
        if norm is not None:
            mean, variance = cast("torch.Tensor", norm.running_mean), cast("torch.Tensor", norm.running_var)
            scale = (variance + norm.eps).rsqrt() * (1.0 if norm.weight is None else norm.weight.detach())
            shift = -mean * scale + (0.0 if norm.bias is None else norm.bias.detach())
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", shift, persistent=False)
        self._unrolled: dict[tuple[int, int, tuple[int, int]], tuple[torch.Tensor, tuple[int, int]]] = {}

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Compute maps, `n x out x h x w`, of maps `n x in x h x w`."""
        own = self.convolution
        weight, bias = own.weight, own.bias
        if self.scale is not None and self.shift is not None:
            weight = weight * self.scale[:, None, None, None]
            bias = self.shift if bias is None else self.shift + bias * self.scale
        padding = cast("tuple[int, int]", own.padding)
        if self.pad is not None:
            maps, padding = self.pad(maps, own.kernel_size, own.stride, own.dilation), (0, 0)
        if own.kernel_size == (1, 1) and own.stride == (1, 1) and own.groups == 1 and padding == (0, 0):
            return functional.linear(maps.permute(0, 2, 3, 1), weight[:, :, 0, 0], bias).permute(0, 3, 1, 2)
        if own.groups == own.in_channels == own.out_channels > 1:
            table, (h, w) = self._table(maps.shape[2], maps.shape[3], padding)
            if table is not None:
                n, c = maps.shape[:2]
                of_channels = maps.permute(1, 0, 2, 3).reshape(c, n, -1).contiguous()
                matrices = (weight.reshape(c, -1) @ table).view(c, -1, h * w)
                rows: torch.Tensor = _Products.apply(of_channels, matrices).permute(1, 2, 0)
                return (rows if bias is None else rows + bias).reshape(n, h, w, c).permute(0, 3, 1, 2)
        return functional.conv2d(maps, weight, bias, own.stride, padding, own.dilation, own.groups)

    def _table(self, height: int, width: int, padding: tuple[int, int]) -> tuple[torch.Tensor | None, tuple[int, int]]:
        """Return what turns a kernel into a matrix from the pixels of a map to those of the next, `kernel x (from * to)`, and the next one's size; None where maps are large."""
        key = (height, width, padding)
        if key not in self._unrolled:
            own = self.convolution
            sides = zip((height, width), own.kernel_size, own.stride, padding, own.dilation, strict=True)
            h, w = ((n + 2 * pad - gap * (size - 1) - 1) // stride + 1 for n, size, stride, pad, gap in sides)
            if height * width * h * w > _SMALL:
                return None, (h, w)
            kind, size = own.weight.dtype, own.kernel_size
            each_weight = torch.eye(size[0] * size[1], dtype=kind).view(-1, 1, *size)
            each_pixel = torch.eye(height * width, dtype=kind).view(-1, 1, height, width)
            moved = functional.conv2d(each_pixel, each_weight, None, own.stride, padding, own.dilation)
            self._unrolled[key] = moved.permute(1, 0, 2, 3).reshape(len(each_weight), -1), (h, w)
        return self._unrolled[key]


class _Products(torch.autograd.Function):
    """`torch.bmm`, whose gradients are products of contiguous matrices: torch multiplies others one by one."""

    @staticmethod
    def forward(ctx: Any, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(left, right)
        return torch.bmm(left, right)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        return torch.bmm(gradient, right.mT), torch.bmm(left.mT, gradient)


def _convolutions(network: nn.Module) -> list[nn.Conv2d]:
    """List the convolutions that a quick one may stand for."""
    from timm.layers import Conv2dSame

    plain = (each for each in network.modules() if type(each) in (nn.Conv2d, Conv2dSame))
    found = [cast("nn.Conv2d", each) for each in plain]
    return [each for each in found if each.padding_mode == "zeros" and not isinstance(each.padding, str)]


def _norms_behind(network: nn.Module, pixels: torch.Tensor) -> dict[nn.Conv2d, nn.BatchNorm2d | None]:
    """Find convolutions, and for each the norm that takes what it gives, by letting pixels pass through."""
    given: dict[int, tuple[nn.Conv2d, torch.Tensor]] = {}
    found: dict[nn.Conv2d, nn.BatchNorm2d | None] = dict.fromkeys(_convolutions(network))
    calls = Counter[nn.Module]()

    def after(module: nn.Conv2d, _inputs: Any, output: torch.Tensor) -> None:
        calls[module] += 1
        given[id(output)] = module, output  # kept, so that its id stays its own

    def before(module: nn.BatchNorm2d, inputs: tuple[torch.Tensor, ...]) -> None:
        calls[module] += 1
        if id(inputs[0]) in given and not module.training and module.running_mean is not None:
            found[given[id(inputs[0])][0]] = module

    hooks = [each.register_forward_hook(after) for each in found]
    hooks += [m.register_forward_pre_hook(before) for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    network(pixels)
    for hook in hooks:
        hook.remove()
    return {conv: norm if norm is None or calls[conv] == calls[norm] == 1 else None for conv, norm in found.items()}


def _replace(network: nn.Module, norms: Mapping[nn.Conv2d, nn.BatchNorm2d | None]) -> None:
    """Put quick convolutions in the place of those of a network, and what else a norm does in the place of the norm."""
    from timm.layers import Conv2dSame, pad_same

    instead: dict[nn.Module, nn.Module] = {norm: _rest_of(norm) for norm in norms.values() if norm is not None}
    for convolution, norm in norms.items():
        pad = pad_same if type(convolution) is Conv2dSame else None
        instead[convolution] = QuickConvolution(convolution, norm, pad)
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if child in instead:
                setattr(parent, name, instead[child])


def _rest_of(norm: nn.BatchNorm2d) -> nn.Module:
    """Return what timm's norms do besides: drop, and activate."""
    rest = [copy.copy(getattr(norm, part)) for part in ("drop", "act") if hasattr(norm, part)]
    for each in rest:
        if hasattr(each, "inplace"):
            each.inplace = False  # it would change the product, which has another form
    return nn.Sequential(*rest)
