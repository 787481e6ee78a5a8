"""The options of an import."""

from collections.abc import Sequence
from dataclasses import dataclass

from warmstart.option import option


@dataclass(frozen=True)
class ImportRequest:
    """The options of an import."""

    dataset: str | None = option(
        None, "Dataset of the runs, if the source does not say.", flags=("--dataset", "-d"), is_main=True
    )
    study: str | None = option(None, "Study or search space, if the source has several.", is_main=True)
    metric: str | None = option(None, "Which value is the error.", is_main=True)
    error_range: str | None = option(
        None, "Values that count as error 0 and 1; 1,0 = accuracy.", metavar="BEST,WORST", is_main=True
    )
    rename: Sequence[str] = option(
        (), "Their name and ours of one hyperparameter; may be repeated.", metavar="THEIRS=OURS", is_main=True
    )
    fill: Sequence[str] = option(
        (), "Value of a hyperparameter that the source lacks; may be repeated.", metavar="OURS=VALUE", is_main=True
    )
    rescale: Sequence[str] = option(
        (),
        "Change of scale: log10(x), 10^x, 1/x, x/100, ...; may be repeated.",
        metavar="THEIRS=HOW",
        is_main=True,
    )
    outside: str = option(
        "clip", "Numbers outside the bounds: clip them, or drop the runs.", choices=("clip", "drop"), is_main=True
    )
    dry_run: bool = option(False, "Show the report and write nothing.", is_main=True)
