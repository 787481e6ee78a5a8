"""A copy of a network with the same output that is trained in less CPU time.

Fine-tuning spends most of its time here. torch's `fuse_conv_bn_eval` does not serve: it makes new parameters, so
training them does not train the network.

Norms that are not trained are folded into the convolutions before them. A 1x1 convolution becomes one matrix product, a
depthwise one on a small map becomes a product a channel: torch's own, above all backwards, take several times as long
on maps of few pixels.
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
"""Largest product of input and output pixels at which a depthwise convolution becomes a matrix: 4x4 on 4x4."""
_SAME = 1e-3
"""Largest difference of a copy's output, relative to the network's largest output."""

Network = TypeVar("Network", bound=nn.Module)
Pad = Callable[..., torch.Tensor]


def quick_copy(network: Network, pixels: torch.Tensor) -> Network:
    """Copy a network for faster training on the CPU; both share their parameters.

    Args:
        network: in evaluation mode, with batch norms that are not trained; maps pixels to one tensor.
        pixels: `n x c x h x w`, some images, to match convolutions with their norms and to check the copy.

    Returns: the copy; the network itself on a GPU, or if the copy's output differs.
    """
    if pixels.device.type != "cpu":
        return network
    shared = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    replica = copy.deepcopy(network, shared)
    with torch.no_grad():
        expected = replica(pixels)
        _replace_layers(replica, _following_norms(replica, pixels))
        try:
            output = replica(pixels)
        except Exception:  # noqa: BLE001  a backbone may use its convolutions in any way
            return network
    is_same = torch.allclose(output, expected, rtol=0.0, atol=_SAME * float(expected.abs().max()))
    return replica if is_same else network


class QuickConvolution(nn.Module):
    """A convolution fused with the norm behind it, if there is one; it shares the convolution's parameters.

    Args:
        convolution: with zero padding.
        norm: of its output, in evaluation mode.
        pad: pads as TensorFlow does, for a convolution that does so.
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
        """Return maps `n x out x h x w` of maps `n x in x h x w`."""
        convolution = self.convolution
        weight, bias = convolution.weight, convolution.bias
        if self.scale is not None and self.shift is not None:
            weight = weight * self.scale[:, None, None, None]
            bias = self.shift if bias is None else self.shift + bias * self.scale
        padding = cast("tuple[int, int]", convolution.padding)
        if self.pad is not None:
            maps, padding = self.pad(maps, convolution.kernel_size, convolution.stride, convolution.dilation), (0, 0)
        if (
            convolution.kernel_size == (1, 1)
            and convolution.stride == (1, 1)
            and convolution.groups == 1
            and padding == (0, 0)
        ):
            return functional.linear(maps.permute(0, 2, 3, 1), weight[:, :, 0, 0], bias).permute(0, 3, 1, 2)
        if convolution.groups == convolution.in_channels == convolution.out_channels > 1:
            table, (h, w) = self._unrolled_kernel(maps.shape[2], maps.shape[3], padding)
            if table is not None:
                n, c = maps.shape[:2]
                channel_rows = maps.permute(1, 0, 2, 3).reshape(c, n, -1).contiguous()
                matrices = (weight.reshape(c, -1) @ table).view(c, -1, h * w)
                rows: torch.Tensor = _Products.apply(channel_rows, matrices).permute(1, 2, 0)
                return (rows if bias is None else rows + bias).reshape(n, h, w, c).permute(0, 3, 1, 2)
        return functional.conv2d(
            maps, weight, bias, convolution.stride, padding, convolution.dilation, convolution.groups
        )

    def _unrolled_kernel(
        self, height: int, width: int, padding: tuple[int, int]
    ) -> tuple[torch.Tensor | None, tuple[int, int]]:
        """Return the table that unrolls a kernel into a matrix, `kernel x (input * output pixels)`, and output size.

        None instead of the table for large maps.
        """
        key = (height, width, padding)
        if key not in self._unrolled:
            convolution = self.convolution
            sides = zip(
                (height, width), convolution.kernel_size, convolution.stride, padding, convolution.dilation, strict=True
            )
            h, w = ((n + 2 * pad - gap * (size - 1) - 1) // stride + 1 for n, size, stride, pad, gap in sides)
            if height * width * h * w > _SMALL:
                return None, (h, w)
            kind, size = convolution.weight.dtype, convolution.kernel_size
            # The convolution of every unit image with every unit kernel: the product is linear in both.
            weight_basis = torch.eye(size[0] * size[1], dtype=kind).view(-1, 1, *size)
            pixel_basis = torch.eye(height * width, dtype=kind).view(-1, 1, height, width)
            responses = functional.conv2d(
                pixel_basis, weight_basis, None, convolution.stride, padding, convolution.dilation
            )
            self._unrolled[key] = responses.permute(1, 0, 2, 3).reshape(len(weight_basis), -1), (h, w)
        return self._unrolled[key]


class _Products(torch.autograd.Function):
    """`torch.bmm` with contiguous gradients: torch multiplies other matrices one by one."""

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
    """List the convolutions that `QuickConvolution` can replace."""
    from timm.layers import Conv2dSame

    plain = (module for module in network.modules() if type(module) in (nn.Conv2d, Conv2dSame))
    convolutions = [cast("nn.Conv2d", module) for module in plain]
    return [module for module in convolutions if module.padding_mode == "zeros" and not isinstance(module.padding, str)]


def _following_norms(network: nn.Module, pixels: torch.Tensor) -> dict[nn.Conv2d, nn.BatchNorm2d | None]:
    """Match each convolution with the norm of its output, by a forward pass of some pixels."""
    producers: dict[int, tuple[nn.Conv2d, torch.Tensor]] = {}
    norms: dict[nn.Conv2d, nn.BatchNorm2d | None] = dict.fromkeys(_convolutions(network))
    calls = Counter[nn.Module]()

    def after(module: nn.Conv2d, _inputs: Any, output: torch.Tensor) -> None:
        calls[module] += 1
        # The reference keeps the tensor alive: the id of a freed one is used again.
        producers[id(output)] = module, output

    def before(module: nn.BatchNorm2d, inputs: tuple[torch.Tensor, ...]) -> None:
        calls[module] += 1
        if id(inputs[0]) in producers and not module.training and module.running_mean is not None:
            norms[producers[id(inputs[0])][0]] = module

    hooks = [convolution.register_forward_hook(after) for convolution in norms]
    hooks += [m.register_forward_pre_hook(before) for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    network(pixels)
    for hook in hooks:
        hook.remove()
    return {conv: norm if norm is None or calls[conv] == calls[norm] == 1 else None for conv, norm in norms.items()}


def _replace_layers(network: nn.Module, norms: Mapping[nn.Conv2d, nn.BatchNorm2d | None]) -> None:
    """Replace convolutions of a network by quick ones, and their norms by the rest of what those do."""
    from timm.layers import Conv2dSame, pad_same

    substitutes: dict[nn.Module, nn.Module] = {
        norm: _dropout_and_activation(norm) for norm in norms.values() if norm is not None
    }
    for convolution, norm in norms.items():
        pad = pad_same if type(convolution) is Conv2dSame else None
        substitutes[convolution] = QuickConvolution(convolution, norm, pad)
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if child in substitutes:
                setattr(parent, name, substitutes[child])


def _dropout_and_activation(norm: nn.BatchNorm2d) -> nn.Module:
    """Return dropout and activation of a norm of timm."""
    modules = [copy.copy(getattr(norm, part)) for part in ("drop", "act") if hasattr(norm, part)]
    for module in modules:
        if hasattr(module, "inplace"):
            # In place it would change the product, which has another form.
            module.inplace = False
    return nn.Sequential(*modules)
