"""The options of a look into the history: which one, and how the dataset is read."""

from dataclasses import dataclass

from warmstart.arguments import check_device, check_flag, check_names
from warmstart.option import option
from warmstart.studies.options import Sources


@dataclass(frozen=True, kw_only=True)
class Lookup(Sources):
    """The arguments of `Advisor` that commands share."""

    exclude_group: tuple[str, ...] = option(
        (), "Leave out a sibling group of the history, or several.", check=check_names
    )
    skip_broken: bool = option(
        default=False, help="Leave out pictures that cannot be decoded, and name them.", check=check_flag
    )
    seed: int = option(0, "Seed of the pictures that are looked at.", least=0)
    device: str = option("cpu", "Where networks run: cpu, cuda, cuda:1, ... or auto.", check=check_device)
    threads: int = option(1, "CPU threads of the networks.", least=1)
