"""`train`: fit a meta-feature model to a history."""

from enum import StrEnum
from typing import Annotated

import typer

from warmstart.cli.options import (
    Format,
    FormatOption,
    QuietOption,
    SeedOption,
    ThreadsOption,
    VerboseOption,
)
from warmstart.cli.shell import Shell
from warmstart.models.recipe import Recipe
from warmstart.models.train import TrainingRun


class ExtractorName(StrEnum):
    """The set encoders; see research/meta-features.md."""

    ADF = "adf"
    ADF_SUM = "adf-sum"
    ADF_MIX = "adf-mix"
    BILSTM = "bilstm"
    ATTENTION = "attention"
    HANDCRAFTED = "handcrafted"


class TargetName(StrEnum):
    """The distances to imitate; see research/meta-features.md."""

    MEAN_L1 = "mean_l1"
    L1 = "l1"
    SQRT_L1 = "sqrt_l1"
    NORMALISED = "normalised"
    SQRT_NORMALISED = "sqrt_normalised"
    RANK = "rank"


class BackboneName(StrEnum):
    """The convolutions; see research/meta-features.md."""

    PAPER = "paper"
    RESIDUAL = "residual"


class Preset(StrEnum):
    """Named settings of the training."""

    MODERN = "modern"
    PAPER = "paper"


def train(
    *,
    history: Annotated[str, typer.Option("--history", help="The history; it must hold images.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The model file to write (.safetensors).")],
    extractor: Annotated[
        ExtractorName | None, typer.Option("--extractor", help="Set encoder; the preset's own when left out.")
    ] = None,
    preset: Annotated[Preset, typer.Option("--preset", help="modern (ours) or paper (as published).")] = Preset.MODERN,
    target: Annotated[
        TargetName | None,
        typer.Option("--target", help="Distance between datasets to learn; the preset's own when left out."),
    ] = None,
    backbone: Annotated[
        BackboneName | None, typer.Option("--backbone", help="Convolutions; the preset's own when left out.")
    ] = None,
    handcrafted: Annotated[
        bool, typer.Option("--handcrafted", help="Also use handcrafted features; takes 1 s more a dataset.")
    ] = False,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Training steps; the preset's own when left out.")
    ] = None,
    hold_out_group: Annotated[
        list[str] | None,
        typer.Option(
            "--hold-out-group", help="Validate on this sibling group; may be repeated. Random groups when left out."
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Stop after this time, e.g. 30m; --resume continues.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from OUT.checkpoint where it exists.")] = False,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = TrainingRun.seed,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, ... or auto.")] = TrainingRun.device,
    threads: ThreadsOption = 1,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Train a meta-feature model on a history.

    Its distances imitate how differently the same configurations perform on two datasets.

    Writes OUT, the learning curves OUT.curves.json and, where matplotlib is installed, OUT.curves.png, and the embeddings
    of all datasets into the history.
    """
    from pathlib import Path

    from warmstart.locations import history_path
    from warmstart.models.train import train_model

    shell = Shell(format, quiet=quiet, verbose=verbose)
    with shell.progress("training") as show:
        report = train_model(
            history_path(history),
            Path(out),
            recipe=Recipe(
                preset.value,
                None if extractor is None else extractor.value,
                None if target is None else target.value,
                None if backbone is None else backbone.value,
                handcrafted,
                steps,
            ),
            hold_out_groups=hold_out_group or (),
            run=TrainingRun(budget, resume, seed, device, threads),
            progress=show,
        )
    for note in report.pop("notes"):
        shell.note(note)
    row = {name: value for name, value in report.items() if name not in ("held_out", "quality")}
    shell.result({"schema_version": 1, **report}, [row | (report["quality"] or {})])
