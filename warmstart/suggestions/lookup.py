"""The options of a look into the history: which one, and how the dataset is read."""

from dataclasses import dataclass

from warmstart.arguments import check_device, check_flag, check_names, check_path
from warmstart.locations import PathLike
from warmstart.option import MOST_SEED, option


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The history, the model of meta-features, and how datasets are loaded."""

    history: PathLike | None = option(
        None, "The history file; $WARMSTART_HISTORY or the shipped one when left out.", check=check_path
    )
    model: PathLike | None = option(
        None, "The meta-feature model; $WARMSTART_MODEL or the shipped one when left out.", check=check_path
    )
    cache: bool = option(default=True, help="Use the cache of meta-features.", check=check_flag, on_command_line=False)
    download: bool = option(default=False, help="Allow torchvision to download torchvision:NAME.", check=check_flag)


@dataclass(frozen=True, kw_only=True)
class Lookup(Sources):
    """The arguments of `Advisor` that commands share."""

    exclude_group: tuple[str, ...] = option(
        (), "Leave out a sibling group of the history, or several.", check=check_names
    )
    skip_broken: bool | None = option(
        None,
        "Leave out all pictures that cannot be decoded, or none; up to 5 % of them, named, when left out.",
        check=check_flag,
        flags=("--skip-broken/--strict",),
        type=bool | None,
    )
    seed: int = option(0, "Seed of the pictures that are looked at.", least=0, most=MOST_SEED)
    device: str = option("cpu", "Where networks run: cpu, cuda, cuda:1, ... or auto.", check=check_device)
    threads: int = option(1, "CPU threads of the networks.", least=1)
