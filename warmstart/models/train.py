"""Training of a model on a history: the model file, its curves, and the history's embeddings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.arguments import check_replaceable
from warmstart.history_store.errors import StorageError, UsageError
from warmstart.history_store.json_text import finite
from warmstart.history_store.wording import some_of, suggest_names
from warmstart.models.recipe import Recipe

if TYPE_CHECKING:
    from warmstart.history_store.history import History
    from warmstart.metafeat.model_file import ModelHeader
    from warmstart.training.siamese.settings import SiameseSettings
    from warmstart.training.siamese.train import TrainedSiamese


FEW_PAIRS = 30
"""With fewer pairs of a held-out and a trained dataset a rank correlation is off by 0.2 by chance."""


@dataclass(frozen=True)  # without slots, so that the command can read the defaults
class TrainingRun:
    """How long a training takes at most, and on what it runs.

    Attributes:
        budget: stop after so long, e.g. ``30m``.
        resume: go on from the checkpoint; otherwise an old one is refused.
        seed: of weights, pairs and draws.
        device: ``auto`` = the first GPU, if any.
        threads: CPU threads.
    """

    budget: str | None = None
    resume: bool = False
    seed: int = 0
    device: str = "auto"
    threads: int | None = None


def train_model(
    history: Path,
    out: Path,
    *,
    recipe: Recipe | None = None,
    hold_out_groups: Sequence[str] = (),
    run: TrainingRun | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Train a meta-feature model on a history and write all that belongs to it; see `choose_datasets` for who is left out.

    Args:
        history: holds the images.
        out: the model file, which may replace an older model; ``OUT.curves.json``, with matplotlib ``OUT.curves.png``, and, while unfinished, ``OUT.checkpoint`` lie beside it.
        recipe: what is trained; None = preset ``modern``.
        hold_out_groups: sibling groups to validate on; none = drawn by the seed.
        run: how long it takes at most, and on what it runs.
        progress: called with (steps done, steps, text).

    Returns: what was done: model, hash, steps, loss, quality, held_out, seconds, notes.

    Raises:
        UsageError: an unknown group, a checkpoint where none shall be resumed, a file that is no model at `out`, or fewer than two
            datasets with images and runs.
        ImagesMissingError: a history without images.
        StorageError: a place that cannot be written.
    """
    from warmstart.metafeat.device import resolve_device
    from warmstart.metafeat.model_file import read_header

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
    """Return how well the distances to held-out datasets agree with the true ones, and a note where these are few."""
    if (found := trained.quality) is None:
        return None, []
    n_pairs = len(header.fields["held_out"]) * len(header.fields["datasets"])
    quality = finite({"spearman": found.spearman, "per_query": found.per_query, "n_pairs": n_pairs})
    if n_pairs >= FEW_PAIRS:
        return quality, []
    note = f"spearman and per_query compare {n_pairs} pairs of datasets: so few say little of the model. `warmstart evaluate` holds out every group in turn."
    return quality, [note]


def _checkpoint(out: Path, *, resume: bool) -> Path:
    """Return where the checkpoint of a training lies.

    Raises:
        UsageError: no folder to write into, or an unfinished run that shall not be resumed.
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
    """Train on the datasets that can be trained on; return the model, and what a person should hear."""
    from warmstart.history_store.history import History
    from warmstart.metafeat.device import cpu_threads
    from warmstart.training.collection.plan import parse_time
    from warmstart.training.siamese.from_history import train_from_history

    limit = None if run.budget is None else parse_time(run.budget, param="budget")
    with History.open(history) as opened, cpu_threads(run.threads):
        names, notes = choose_datasets(opened)
        groups = [group for name, group in zip(opened.names, opened.groups, strict=True) if name in set(names)]
        trained = train_from_history(
            opened,
            settings,
            seed=run.seed,
            names=names,
            held_out=_held_out(names, groups, hold_out_groups, known=opened.groups),
            checkpoint=checkpoint,
            progress=None if progress is None else lambda now: progress(now.step, now.steps, f"loss {now.loss:.4f}"),
            deadline_s=limit,
            device=run.device,
        )
    return trained, notes


def _save(trained: "TrainedSiamese", out: Path) -> list[str]:
    """Write the model and its curves; return what a person should hear."""
    trained.curves.save(out.with_name(out.name + ".curves.json"))
    trained.model.save(out)
    if find_spec("matplotlib") is None:
        return ["The curves were not drawn: that needs matplotlib, pip install 'warmstart[plots]'."]
    trained.curves.plot(out.with_name(out.name + ".curves.png"))
    return []


def _store_embeddings(history: Path, header: "ModelHeader", run: TrainingRun) -> list[str]:
    """Store what the model makes of the history's datasets in it; return what a person should hear."""
    from warmstart.history_store.history import History
    from warmstart.metafeat.embed import embed_history
    from warmstart.suggestions.references import compute_references, store_references

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
    return []


def choose_datasets(history: "History") -> tuple[list[str], list[str]]:
    """Choose the datasets of a history that a model can be trained on: with images, and measured like the others.

    Measured like the others is who has at least half of the configurations that are common: those that at least half of the
    datasets with images and runs have.

    Returns: their names, and a note on each kind of dataset that is left out.

    Raises:
        UsageError: fewer than two are left, or no configuration is common.
        ImagesMissingError: the history holds no images.
    """
    import numpy as np

    measured = ~np.isnan(history.errors) | history.failed
    missing = {name for name in history.names if not history.has_images(name)}
    if missing == set(history.names):
        history.images(history.names[0])  # raises what fits
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
    chosen = [name for name in history.names if name not in missing | unmeasured | few]
    if len(chosen) < 2:
        msg = f"{history.path}: expected at least two datasets with images and runs to learn from, got {len(chosen)}. {' '.join(notes)} `warmstart history collect` measures them."
        raise UsageError(msg)
    return chosen, notes


def _held_out(
    names: Sequence[str], groups: Sequence[str], chosen: Sequence[str], *, known: Sequence[str]
) -> list[str] | None:
    """Return the datasets of the chosen groups; None where none is chosen.

    Raises:
        UsageError: a group that the history does not know, or all of whose datasets are left out.
    """
    unknown, left_out = sorted(set(chosen) - set(known)), sorted(set(chosen) & set(known) - set(groups))
    if left_out and not unknown:
        msg = f"expected groups with datasets to validate on, got {', '.join(left_out)}, whose datasets lack images, or runs of most configurations. Name others."
        raise UsageError(msg, param="hold_out_group")
    if unknown:
        step = suggest_names(unknown, set(known), otherwise="`warmstart history list` shows them.")
        msg = f"expected groups of the history, got {', '.join(unknown)}. {step}"
        raise UsageError(msg, param="hold_out_group")
    return [name for name, group in zip(names, groups, strict=True) if group in chosen] if chosen else None
