"""The options of `classify`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from warmstart.locations import PathLike
from warmstart.option import MOST_SEED, option, option_of
from warmstart.suggestions.lookup import Labels, Lookup

if TYPE_CHECKING:
    from warmstart.classification.progress import PlainProgress


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions:
    """The options of a call; the command line is made from them."""

    TITLE: ClassVar[str] = "Study"
    time: str | float = option("10m", "How long it may take: 10m, 1h30m.", type=str, is_main=True)
    out: PathLike | None = option(
        None, "File of the classifier; PICTURES.safetensors when left out.", flags=("--out", "-o"), is_main=True
    )
    report: PathLike | None = option(None, "Page that shows it; beside the classifier when left out.", is_main=True)
    labels: PathLike | None = option_of(Labels, "labels", is_main=True)
    labels_column: str | None = option_of(Labels, "labels_column")
    test: PathLike | None = option(
        None, "Labelled pictures for a final judgement; nothing is trained on them.", is_main=True
    )
    groups: str | None = option(
        None,
        "The part of a name that pictures of one patient, burst or video share: 'patient[0-9]+'.",
        metavar="REGEX",
        is_main=True,
    )
    group_column: str | None = option(None, "The same by a column of the table of labels.", is_main=True)
    strict: bool = option(False, "Stop at a picture that cannot be read, instead of leaving a few out.", is_main=True)
    study: str | None = option(None, "Name of the study that keeps what was tried.")
    storage: PathLike | None = option(None, "Where studies are kept; warmstart-studies.db when left out.")
    device: str = option_of(Lookup, "device", default="auto")
    seed: int = option(0, "Seed of everything random.", least=0, most=MOST_SEED)
    progress: Callable[[PlainProgress], object] = option(
        lambda _now: None, "Called as the call goes on.", on_command_line=False
    )
    on_message: Callable[[str], object] = option(
        logging.getLogger("warmstart").warning, "Called with each message line.", on_command_line=False
    )
    on_detail: Callable[[str], object] = option(
        lambda _line: None, "Called with what only some want to read.", on_command_line=False
    )
