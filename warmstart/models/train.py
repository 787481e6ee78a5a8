"""Train a model on a history: write the model file, its learning curves and the history's embeddings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from warmstart.arguments import check_replaceable
from warmstart.history_store.errors import StorageError, UsageError
from warmstart.history_store.extras import has_extra, missing_extra
from warmstart.history_store.history import History
from warmstart.history_store.json_text import finite
from warmstart.history_store.wording import some_of, suggest_names
from warmstart.metafeat.device import cpu_threads, resolve_device
from warmstart.metafeat.embed import embed_history
from warmstart.metafeat.model_file import ModelHeader, read_header
from warmstart.models.recipe import Recipe
from warmstart.option import MOST_SEED, option, option_of
from warmstart.suggestions.embeddings import keep_index
from warmstart.suggestions.history_refresh import compute_references
from warmstart.suggestions.lookup import Lookup
from warmstart.suggestions.references import store_references
from warmstart.training.collection.plan import parse_time
from warmstart.training.siamese.settings import SiameseSettings

if TYPE_CHECKING:
    from warmstart.training.siamese.train import TrainedSiamese


FEW_PAIRS = 30
"""Least pairs of a held-out and a trained dataset for a rank correlation with an error by chance below 0.2."""


@dataclass(frozen=True)
class TrainingRun:
    """Limits and devices of a training run."""

    TITLE: ClassVar[str] = "Running"
    budget: str | None = option(None, "Stop after this time, e.g. 30m; --resume continues.", is_main=True)
    resume: bool = option(
        False, "Continue from OUT.checkpoint where it exists; otherwise an old one is refused.", is_main=True
    )
    seed: int = option(0, "Seed of weights, pairs and draws.", least=0, most=MOST_SEED)
    device: str = option_of(Lookup, "device", default="auto")
    threads: int | None = option_of(Lookup, "threads", default=None, type=int)


def train_model(
    history: Path,
    out: Path,
    *,
    recipe: Recipe | None = None,
    hold_out_groups: Sequence[str] = (),
    run: TrainingRun | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Train a meta-feature model on a history and write its files; `choose_datasets` selects the datasets.

    Args:
        history: holds the images.
        out: the model file, which may replace an older model; ``OUT.curves.json``, with matplotlib ``OUT.curves.png``, and, while unfinished, ``OUT.checkpoint`` lie beside it.
        recipe: of the training; None = preset ``modern``.
        hold_out_groups: sibling groups to validate on; none = drawn by the seed.
        run: limits and devices.
        progress: called with (steps done, steps, text).

    Returns: the report: model, hash, history, steps, loss, quality, held_out, notes.

    Raises:
        UsageError: an unknown group, a checkpoint without `resume`, another file than a model at `out`, or fewer than two
            datasets with images and runs.
        ImagesMissingError: a history without images.
        StorageError: a file that cannot be written.
    """
    recipe, run = recipe or Recipe(), run or TrainingRun()
    check_replaceable("out", out, read_header, "a model")
    checkpoint = _checkpoint(out, resume=run.resume)
    run, settings = replace(run, device=resolve_device(run.device)), recipe.settings()
    trained, notes = _train(history, settings, checkpoint, run, hold_out_groups=hold_out_groups, progress=progress)
    notes += _save(trained, out)
    if trained.curves.stopped == "done":
        checkpoint.unlink(missing_ok=True)
    else:
        notes.append(f"Stopped after {len(trained.curves.loss)} of {settings.steps} steps; --resume goes on.")
    header = read_header(out)
    quality, caveat = _quality(trained, header)
    notes += caveat
    notes += _store_embeddings(history, header, run)
    return {
        "model": str(out),
        "hash": header.hash,
        "history": str(history),
        "steps": len(trained.curves.loss),
        "loss": trained.curves.loss[-1],
        "quality": quality,
        "held_out": list(header.fields.get("held_out", ())),
        "notes": notes,
    }


def _quality(trained: "TrainedSiamese", header: "ModelHeader") -> tuple[dict[str, Any] | None, list[str]]:
    """Return the rank correlations of distances to held-out datasets with the true ones, and a note on few pairs."""
    if (correlations := trained.quality) is None:
        return None, []
    n_pairs = len(header.fields["held_out"]) * len(header.fields["datasets"])
    quality = finite({"spearman": correlations.spearman, "per_query": correlations.per_query, "n_pairs": n_pairs})
    if n_pairs >= FEW_PAIRS:
        return quality, []
    note = f"spearman and per_query compare {n_pairs} pairs of datasets: so few say little of the model. `warmstart evaluate` holds out every group in turn."
    return quality, [note]


def _checkpoint(out: Path, *, resume: bool) -> Path:
    """Return the path of a training's checkpoint.

    Raises:
        UsageError: a missing folder, or an unfinished run without `resume`.
    """
    if not out.parent.is_dir():
        msg = f"expected a file in a folder that exists, got {out}. Make the folder first."
        raise UsageError(msg, param="out")
    checkpoint = out.with_name(out.name + ".checkpoint")
    if checkpoint.exists() and not resume:
        msg = (
            f"{checkpoint}: expected `resume` where an unfinished run lies, got none. Add it, or delete the checkpoint."
        )
        raise UsageError(msg)
    return checkpoint


def _train(
    history: Path,
    settings: "SiameseSettings",
    checkpoint: Path,
    run: TrainingRun,
    *,
    hold_out_groups: Sequence[str],
    progress: Callable[[int, int, str], None] | None,
) -> "tuple[TrainedSiamese, list[str]]":
    """Train on the suitable datasets; return the model and notes."""
    from warmstart.training.siamese.from_history import train_from_history

    limit = None if run.budget is None else parse_time(run.budget, param="budget")
    with History.open(history) as opened, cpu_threads(run.threads):
        names, notes = choose_datasets(opened)
        chosen = set(names)
        groups = [group for name, group in zip(opened.names, opened.groups, strict=True) if name in chosen]
        trained = train_from_history(
            opened,
            settings,
            seed=run.seed,
            names=names,
            held_out=_held_out(names, groups, hold_out_groups, all_groups=opened.groups),
            checkpoint=checkpoint,
            progress=None if progress is None else lambda now: progress(now.step, now.steps, f"loss {now.loss:.4f}"),
            deadline_s=limit,
            device=run.device,
        )
    return trained, notes


def _save(trained: "TrainedSiamese", out: Path) -> list[str]:
    """Write the model and its curves; return notes."""
    trained.curves.save(out.with_name(out.name + ".curves.json"))
    trained.model.save(out)
    if not has_extra("plots"):
        return [missing_extra("plots", "A picture of the curves").message]
    trained.curves.plot(out.with_name(out.name + ".curves.png"))
    return []


def _store_embeddings(history: Path, header: "ModelHeader", run: TrainingRun) -> list[str]:
    """Store the model's embeddings and references in the history; return notes."""
    with History.open(history) as opened:
        pictured = [name for name in opened.names if opened.has_images(name)]
        vectors = embed_history(opened, pictured, header, device=run.device, threads=run.threads)
    try:
        with History.open(history, write=True) as opened:
            opened.set_embeddings(header.hash, vectors)
            references = compute_references(opened, header, device=run.device, threads=run.threads)
            if references is not None:
                store_references(opened, references, header.hash)
    except StorageError as error:
        return [f"The embeddings were not stored: {error}"]
    keep_index(history, header.path)
    return []


def choose_datasets(history: "History") -> tuple[list[str], list[str]]:
    """Choose the datasets of a history to train on: those with images and most of the common configurations.

    Common configurations are those that at least half of the datasets with images and runs have; a dataset needs at least
    half of them.

    Returns: their names, and a note on every kind of dataset left out.

    Raises:
        UsageError: fewer than two datasets, or no common configuration.
        ImagesMissingError: the history holds no images.
    """
    measured = ~np.isnan(history.errors) | history.failed
    missing = {name for name in history.names if not history.has_images(name)}
    if missing == set(history.names):
        # Raises ImagesMissingError.
        history.images(history.names[0])
    unmeasured = {name for name, row in zip(history.names, measured, strict=True) if not row.any()} - missing
    rows = [row for row, name in enumerate(history.names) if name not in missing | unmeasured]
    common = measured[rows].mean(axis=0) >= 0.5 if rows else np.zeros(0, dtype=bool)
    if rows and not common.any():
        msg = f"{history.path}: expected configurations that at least half of the {len(rows)} datasets with images and runs have in common, got none: nothing tells which datasets are alike. `warmstart history collect` measures the same on all."
        raise UsageError(msg)
    few = {history.names[row] for row in rows if measured[row, common].mean() < 0.5}
    notes = [
        f"Left out {len(names)} of {len(history.names)} datasets, {why}: {some_of(sorted(names))}."
        for names, why in (
            (missing, "whose images the history does not hold"),
            (unmeasured, "on which nothing was measured"),
            (few, "measured on fewer than half of the configurations that the others have in common"),
        )
        if names
    ]
    left_out = missing | unmeasured | few
    chosen = [name for name in history.names if name not in left_out]
    if len(chosen) < 2:
        msg = f"{history.path}: expected at least two datasets with images and runs to learn from, got {len(chosen)}. {' '.join(notes)} `warmstart history collect` measures them."
        raise UsageError(msg)
    return chosen, notes


def _held_out(
    names: Sequence[str], groups: Sequence[str], chosen: Sequence[str], *, all_groups: Sequence[str]
) -> list[str] | None:
    """Return the datasets of the chosen groups; None without a choice.

    Raises:
        UsageError: an unknown group, or one without suitable datasets.
    """
    unknown, left_out = sorted(set(chosen) - set(all_groups)), sorted(set(chosen) & set(all_groups) - set(groups))
    if left_out and not unknown:
        msg = f"expected groups with datasets to validate on, got {', '.join(left_out)}, whose datasets lack images, or runs of most configurations. Name others."
        raise UsageError(msg, param="hold_out_group")
    if unknown:
        step = suggest_names(unknown, set(all_groups), otherwise="`warmstart history list` shows them.")
        msg = f"expected groups of the history, got {', '.join(unknown)}. {step}"
        raise UsageError(msg, param="hold_out_group")
    return [name for name, group in zip(names, groups, strict=True) if group in chosen] if chosen else None
