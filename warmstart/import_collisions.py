"""Collisions of our top-level packages with a person's own modules of the same name.

A person may have a folder `training` or a file `bo.py`. Where it hides ours, `import warmstart` says so. In the process of a
trial, which needs little of ours, theirs is imported.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  imported with `warmstart`: pathlib is not
YIELDING = ("training", "bo", "metafeat", "data_manifests")
"""Packages of ours that a trial's process can do without once it runs."""
NEEDED = ("warmstart", "history_store")
"""Packages of ours whose objects a trial sends back."""


def check_imports() -> None:
    """Check that our packages are found beside `warmstart`.

    Started as `python -m warmstart`, the working folder is taken off the path where it hides one.

    Raises:
        ImportError: when something of the same name is found before one of them.
    """
    for name in ("history_store", "bo", "metafeat", "training"):
        place = _place_of(name)
        if place is None or place == ROOT:
            continue
        if (
            _is_namespace(name) and ROOT not in sys.path
        ):  # of an editable install; a package on the path comes before such a folder
            sys.path.append(ROOT)
            return check_imports()
        is_first = place == os.path.realpath(sys.path[0] or os.curdir)
        if name not in sys.modules and sys.argv[:1] == ["-m"] and is_first:
            del sys.path[0]
            return check_imports()
        msg = (
            f"warmstart: expected its own package {name!r} from {ROOT}, got one of the same name from {place}, which hides it. "
            f"Rename that, or start elsewhere; `warmstart tune --objective {name}.MODULE:FUNCTION` takes it as it is."
        )
        raise ImportError(msg, name=name)
    return None


def make_way(folder: str, module: str) -> None:
    """Let names of ours that a folder has too mean the folder's in this process, whose first on the path it is.

    What is imported of ours already goes on working. What of it is imported later is not found, and the error says why.

    Args:
        folder: of a person's code.
        module: that is about to be imported; a folder of that name counts without Python files beside it too.

    Raises:
        ImportError: when the module's first name is one that a trial cannot do without.
    """
    if os.path.realpath(folder) == os.path.realpath(ROOT):
        return
    wanted = module.partition(".")[0]
    if wanted in NEEDED and _has(folder, wanted):
        msg = f"{module}: expected another name than {wanted!r}, as trials need warmstart's own package of that name, got a module of that name. Rename {os.path.join(folder, wanted)}."  # noqa: PTH118
        raise ImportError(msg, name=wanted)
    theirs = [name for name in YIELDING if _has(folder, name)]
    for name in theirs:
        for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            del sys.modules[known]
        sys.modules.update(_namespace(folder, name))
    if theirs:
        after = next((i for i, finder in enumerate(sys.meta_path, 1) if finder is PathFinder), len(sys.meta_path))
        sys.meta_path.insert(
            after, _Hidden(theirs, folder)
        )  # before the finder of an editable install, which would find ours


class _Hidden:
    """Asked once the path has nothing: says why a module of ours is not found."""

    def __init__(self, names: Sequence[str], folder: str) -> None:
        self._names, self._folder = tuple(names), folder

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002  the interface
        """Raise where a module lies in our package, and not in the person's."""
        name, _, rest = fullname.partition(".")
        if name not in self._names or not rest:
            return None
        inside = os.path.join(ROOT, *fullname.split("."))  # noqa: PTH118
        if not os.path.isdir(inside) and not os.path.isfile(f"{inside}.py"):  # noqa: PTH112, PTH113
            return None
        msg = (
            f"No module named {fullname!r} in {os.path.join(self._folder, name)}: a package of warmstart has the same name, "  # noqa: PTH118
            "and gives way to yours in a trial. Rename yours to use both."
        )
        raise ModuleNotFoundError(msg, name=fullname)


def _place_of(name: str) -> str | None:
    """Return the real folder in which a top-level package lies; None where there is none."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module without a spec, put there by hand
        return None
    if spec is None:
        return None
    if spec.origin is not None:
        inside = os.path.basename(spec.origin) == "__init__.py"  # noqa: PTH119
        place = os.path.dirname(spec.origin)  # noqa: PTH120
        return os.path.realpath(os.path.dirname(place) if inside else place)  # noqa: PTH120
    places = list(spec.submodule_search_locations or ())
    return os.path.realpath(os.path.dirname(places[0])) if places else None  # noqa: PTH120


def _is_namespace(name: str) -> bool:
    """Tell whether a top-level name is that of a folder without `__init__.py`."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is None


def _has(folder: str, name: str) -> bool:
    """Tell whether a folder has a module or a package of a name; a folder of pictures is none."""
    inside = os.path.join(folder, name)  # noqa: PTH118
    if os.path.isfile(f"{inside}.py"):  # noqa: PTH113
        return True
    return os.path.isdir(inside) and any(  # noqa: PTH112
        file.endswith(".py") for _, _, files in os.walk(inside) for file in files
    )


def _namespace(folder: str, name: str) -> dict[str, ModuleType]:
    """Make the package of a folder without `__init__.py`: Python itself would go on looking, and find ours."""
    inside = os.path.join(folder, name)  # noqa: PTH118
    if os.path.isfile(f"{inside}.py") or os.path.isfile(os.path.join(inside, "__init__.py")):  # noqa: PTH113, PTH118
        return {}
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [inside]
    return {name: importlib.util.module_from_spec(spec)}
