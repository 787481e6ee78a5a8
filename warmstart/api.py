"""Suggestions and neighbours of a dataset in one call; for repeated calls see `warmstart.Advisor`."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warmstart.locations import PathLike
from warmstart.notebook import live_line
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.query import dataset_of
from warmstart.suggestions.records import Neighbour

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike

_log = logging.getLogger("warmstart")


def suggest(
    path: PathLike | None = None,
    *,
    images: Any = None,
    labels: Any = None,
    k: int | None = None,
    history: PathLike | None = None,
    model: PathLike | None = None,
    strategy: str | None = None,
    space: "SpaceLike | None" = None,
    rename: Mapping[str, str] | None = None,
    exclude_group: str | Collection[str] | None = None,
    skip_broken: bool | None = None,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
    workload: str | None = None,
    time: str | float | None = None,
) -> Answer:
    """Suggest k configurations for a dataset, best first; arguments, errors and log as in `answer`.

    Returns: the answer: a sequence of `InitialDesign`, and a table in a notebook.
    """
    return answer(
        path,
        images=images,
        labels=labels,
        k=k,
        history=history,
        model=model,
        strategy=strategy,
        space=space,
        rename=rename,
        exclude_group=exclude_group,
        skip_broken=skip_broken,
        seed=seed,
        device=device,
        threads=threads,
        cache=cache,
        download=download,
        workload=workload,
        time=time,
    )


def neighbours(
    path: PathLike | None = None,
    *,
    images: Any = None,
    labels: Any = None,
    k: int = 10,
    history: PathLike | None = None,
    model: PathLike | None = None,
    exclude_group: str | Collection[str] | None = None,
    workload: str | None = None,
    skip_broken: bool | None = None,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
) -> list[Neighbour]:
    """Return the k datasets of the history nearest to a dataset, nearest first; all if there are fewer.

    Arguments, errors and log as in `answer`.
    """
    dataset = dataset_of(path, images, labels)
    with _advisor(
        history,
        model,
        exclude_group=exclude_group,
        skip_broken=skip_broken,
        seed=seed,
        device=device,
        threads=threads,
        cache=cache,
        download=download,
    ) as advisor:
        return list(_log_notes(advisor.neighbours(dataset, k, workload=workload)).neighbours)


def answer(
    path: PathLike | None = None,
    *,
    images: Any = None,
    labels: Any = None,
    k: int | None = None,
    history: PathLike | None = None,
    model: PathLike | None = None,
    strategy: str | None = None,
    space: "SpaceLike | None" = None,
    rename: Mapping[str, str] | None = None,
    exclude_group: str | Collection[str] | None = None,
    skip_broken: bool | None = None,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
    explain: bool = False,
    workload: str | None = None,
    time: str | float | None = None,
) -> Answer:
    """Return the answer for a dataset: neighbours, configurations, confidence.

    Notes for people (a query far from all datasets, pictures left out) are logged by the logger ``warmstart``.

    Args:
        path: a folder, idx files, CIFAR binaries, ``.npz``, ``FILE.h5::name``, ``sklearn:digits``, ``torchvision:NAME``.
        images: instead of a path: `n x h x w [x c]` uint8, uint16, bool or floats in [0, 1]; or a torch Dataset.
        labels: `n` class labels of `images`; a Dataset has its own.
        k: how many configurations; 3 when left out, all where the history has fewer.
        history: the history file; when left out, ``$WARMSTART_HISTORY`` or the shipped one of the workload.
        model: the meta-feature model; ``$WARMSTART_MODEL`` or the shipped one when left out.
        strategy: ``joint``, ``nearest``, ``portfolio`` or ``average-rank``; when left out, the one that wins the
            evaluation, and the portfolio where distances are unreliable.
        space: for which to suggest, where it is not the history's, in any form that `warmstart.spaces.read_space` takes.
            Common hyperparameters are matched by name and scale, the others are varied over the suggestions, which are
            then marked as not measured; `mapping` has the matches.
        rename: names of that space by the history's, where they differ.
        exclude_group: sibling group or groups of the history to leave out. A dataset of the history itself
            (``FILE.h5::name``) is never its own neighbour.
        skip_broken: go on without pictures that cannot be decoded, and name them in `notes`: all (True), none (False), or
            up to 5 % of them when left out.
        seed: of the images chosen.
        device: where the network runs: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        threads: CPU threads of the network; torch decides when left out.
        cache: keep and use meta-features in the cache folder.
        download: let torchvision fetch what is missing of ``torchvision:NAME``; nothing else touches the network.
        explain: add the reasons.
        workload: what the configurations train: a name in `warmstart.training.workloads.WORKLOADS`. If the history never measured it,
            its usual configurations are returned, with a note. When left out: that of a named history; for a space of
            your own the one that shares most of its hyperparameters, which a note names; else ``transfer``, pretrained
            networks, where they are installed, or ``cnn``.
        time: plan runs for this time, ``10m`` or seconds, with the most gain per minute. A short run measures this machine's
            speed, if the history's workload trains in steps; `plan` of the answer has the durations. k is then the most runs.

    Raises:
        UsageError: arguments that do not fit together, an unknown workload, k larger than the number of configurations.
        MissingPathError: a path that is not there.
        DataError: images or labels that cannot be used.
        StorageError: a history or model that is damaged, of another version, or that do not belong together.
    """
    dataset = dataset_of(path, images, labels)
    with _advisor(
        history,
        model,
        exclude_group=exclude_group,
        skip_broken=skip_broken,
        seed=seed,
        device=device,
        threads=threads,
        cache=cache,
        download=download,
    ) as advisor:
        result = advisor.suggest(
            dataset, k, strategy=strategy, space=space, rename=rename, explain=explain, workload=workload, time=time
        )
    return _log_notes(result)


@contextmanager
def _advisor(history: PathLike | None, model: PathLike | None, **options: Any) -> Iterator[Advisor]:
    """Yield an advisor; a notebook shows how far it is."""
    with live_line("looking at pictures") as show:
        yield Advisor(history, model, **options, progress=show)


def _log_notes(result: Answer) -> Answer:
    """Log the notes of an answer and return it."""
    for note in result.notes:
        _log.warning(note)
    return replace(result, are_notes_logged=True)
