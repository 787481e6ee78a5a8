"""Install the lowest versions that pyproject.toml allows, run every command on them, and print a table: `make lowest`.

    python scripts/lowest_versions.py                          # all lowest together
    python scripts/lowest_versions.py --each h5py typer        # one at a time, the others recent
    python scripts/lowest_versions.py --each h5py==3.10        # a version that is not allowed: does the bound say the truth?

Each bound `name>=X` names a release X, so that the lowest version that is allowed is X itself. The wheel is built and installed
into a new environment; `every_command.py` runs there, in an empty folder. The extra `gpyopt` allows no recent setuptools and has
a run of its own: `--extras gpyopt -- GPyOpt`; so have the trackers: `--extras mlflow tensorboard wandb -- "tune,"`.
"""

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
EXTRAS = ("botorch", "mysql", "pictures", "plots", "postgres", "ray", "serve")
"""What is installed beside the dependencies: all that a person may want at once."""
PAIRS = {"torch": "torchvision", "torchvision": "torch"}
"""Packages of which each release needs one release of another: one is not lowered without the other."""


class Outcome(NamedTuple):
    """What came of an environment: whether all works there, what does not, and the versions in it."""

    works: bool
    told: str
    versions: dict[str, str]


def lowest_allowed(extras: tuple[str, ...]) -> dict[str, str]:
    """Read the lowest version of each direct dependency, by its name.

    Raises:
        ValueError: when a requirement has no lower bound, or two say different ones.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    found: dict[str, str] = {}
    for text in [*project["dependencies"], *(text for extra in extras for text in optional[extra])]:
        requirement = Requirement(text)
        bounds = [Version(one.version) for one in requirement.specifier if one.operator in (">=", "==")]
        if not bounds:
            if (
                requirement.specifier or requirement.name == project["name"]
            ):  # an upper bound alone, of a tool; or other extras of ours
                continue
            msg = f"pyproject.toml: expected a lower bound, got {text!r}"
            raise ValueError(msg)
        name = canonicalize_name(requirement.name)
        if found.setdefault(name, str(max(bounds))) != str(max(bounds)):
            msg = f"pyproject.toml: expected one lower bound of {name}, got {found[name]} and {max(bounds)}"
            raise ValueError(msg)
    return found


def build(folder: Path) -> Path:
    """Build the wheel from the sdist, so that nothing left in a checkout is in it; returns its path."""
    words = ["-m", "build", "--outdir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


def make_environment(folder: Path, base: str | None) -> str:
    """Make an environment, over the packages of another one where there is a base; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    if base:
        below = subprocess.run(
            [base, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        )
        place = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
        Path(place, "base.pth").write_text(below.stdout, encoding="utf-8")
    return python


def versions(python: str) -> dict[str, str]:
    """List what is installed in an environment."""
    text = (
        "import importlib.metadata as m, json\n"
        "print(json.dumps([(d.metadata['Name'], d.version) for d in reversed(list(m.distributions()))]))"
    )
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, check=True)
    return {canonicalize_name(name): version for name, version in json.loads(done.stdout)}


def attempt(pins: dict[str, str], args: argparse.Namespace, wheel: Path, *, is_below: bool = False) -> Outcome:
    """Install pinned versions with the wheel in a new environment, and run the checks there; below a bound, after the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        python = make_environment(Path(folder) / "venv", args.base)
        constraints = Path(folder, "pins.txt")
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
        named = f"{wheel}[{','.join(args.extras)}]"
        pinned = [f"{name}=={version}" for name, version in pins.items()]
        pip = [python, "-m", "pip", "install", "--quiet"]
        allowed = ["--constraint", str(constraints), named, *pinned]
        for words in (["--no-deps", "--force-reinstall", str(wheel)], *([[named], pinned] if is_below else [allowed])):
            done = subprocess.run([*pip, *words], stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                return Outcome(works=False, told=" ".join(["cannot be installed:", *errors[:1]]), versions={})
        installed = versions(python)
        settings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
        program = [python, str(ROOT / "scripts" / "every_command.py"), *args.words]
        failures = []
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=settings) as running:
            for line in running.stdout or ():
                print(f"    {line}", end="", flush=True)
                failures += [line.split("FAILED: ")[1].strip()] if "FAILED: " in line else []
        return Outcome(running.returncode == 0, failures[0] if failures else "", installed)


def rows(pins: dict[str, str], args: argparse.Namespace, wheel: Path) -> Iterator[tuple[str, str, Outcome]]:
    """Try all lowest versions together, or each of some alone; gives rows of the table."""
    if args.each is None:
        lowered = {name: version for name, version in pins.items() if name not in args.recent}
        outcome = attempt(lowered, args, wheel)
        yield from ((name, version, outcome) for name, version in lowered.items())
        return
    for wanted in args.each or pins:
        name, _, version = wanted.partition("==")
        alone = {name: version or pins[name]}
        if name in PAIRS and not version:
            alone[PAIRS[name]] = pins[PAIRS[name]]
        print(" ".join(f"{n}=={v}" for n, v in alone.items()), flush=True)
        yield name, alone[name], attempt(alone, args, wheel, is_below=bool(version))


def main() -> int:
    """Run, and print the table; returns 1 where something does not work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="run the checks alone whose name begins with one of these")
    parser.add_argument(
        "--each", nargs="*", metavar="NAME[==VERSION]", help="lower one at a time; all when none is named"
    )
    parser.add_argument("--recent", nargs="*", default=(), metavar="NAME", help="do not lower these")
    parser.add_argument(
        "--extras", nargs="*", default=EXTRAS, help=f"extras to install, {' '.join(EXTRAS)} when left out"
    )
    parser.add_argument(
        "--base", metavar="PYTHON", help="take what is not lowered from the environment of this interpreter"
    )
    parser.add_argument("--wheel", type=Path, help="try this wheel; built when left out")
    args = parser.parse_args()
    pins = lowest_allowed(tuple(args.extras))
    with tempfile.TemporaryDirectory() as folder:
        wheel = args.wheel.resolve() if args.wheel else build(Path(folder))
        table = []
        for name, version, outcome in rows(pins, args, wheel):
            got = outcome.versions.get(canonicalize_name(name), "-")
            is_it = got != "-" and Version(got) == Version(version)
            verdict = "works" if outcome.works and is_it else outcome.told or f"{got} was installed"
            table.append((name, version, verdict))
    width = max(len(name) for name, _, _ in table)
    print(f"\n{'package':<{width}}  lowest    verdict")
    for name, version, verdict in table:
        print(f"{name:<{width}}  {version:<8}  {verdict}")
    failed = sum(verdict != "works" for _, _, verdict in table)
    print(f"{len(table) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
