"""The questions that can be asked: what to try first on a dataset, and what it resembles."""

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bo.designs import WITH_DISTANCES, WITHOUT_DISTANCES, designs
from bo.strategies import STRATEGIES, Choice, Query
from bo.strategies.joint import expected_regrets
from bo.strategies.sources import number_groups
from bo.typicality import judge_typicality, nearest_other_group
from history_store.errors import UsageError
from history_store.images import ImageSource
from history_store.response import fill_failed
from history_store.space import natural
from warmstart.embedding import embed_source
from warmstart.explanation import explain_answer
from warmstart.locations import history_path, model_path
from warmstart.query import open_query
from warmstart.session import Memory, load_memory
from warmstart.suggestion import Answer, Confidence, DatasetSummary, InitialDesign, Neighbour

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike
    from warmstart.translation import Translation

PathLike = str | os.PathLike[str]
LEAST_NEIGHBOURS = 3
_log = logging.getLogger("warmstart")


def suggest(
    path: PathLike | None = None,
    *,
    images: Any = None,
    labels: Any = None,
    k: int = 3,
    history: PathLike | None = None,
    model: PathLike | None = None,
    strategy: str | None = None,
    space: "SpaceLike | None" = None,
    rename: Mapping[str, str] | None = None,
    exclude_group: str | Collection[str] | None = None,
    skip_broken: bool = False,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
) -> list[InitialDesign]:
    """Suggest k configurations for a dataset, best first; arguments and refusals as in `answer`.

    What a person should hear (a query far from everything, pictures left out) is logged by the logger ``warmstart``.
    """
    found = answer(
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
    )
    for note in found.notes:
        _log.warning(note)
    return list(found.suggestions)


def neighbours(
    path: PathLike | None = None,
    *,
    images: Any = None,
    labels: Any = None,
    k: int = 10,
    history: PathLike | None = None,
    model: PathLike | None = None,
    exclude_group: str | Collection[str] | None = None,
    skip_broken: bool = False,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
) -> list[Neighbour]:
    """List the k datasets of the history that a dataset resembles most, nearest first; all where there are fewer.

    Arguments and refusals as in `answer`.
    """
    found = nearest(
        path,
        images=images,
        labels=labels,
        k=k,
        history=history,
        model=model,
        exclude_group=exclude_group,
        skip_broken=skip_broken,
        seed=seed,
        device=device,
        threads=threads,
        cache=cache,
        download=download,
    )
    for note in found.notes:
        _log.warning(note)
    return list(found.neighbours)


def answer(
    path: PathLike | None = None,
    *,
    images: Any = None,
    labels: Any = None,
    k: int = 3,
    history: PathLike | None = None,
    model: PathLike | None = None,
    strategy: str | None = None,
    space: "SpaceLike | None" = None,
    rename: Mapping[str, str] | None = None,
    exclude_group: str | Collection[str] | None = None,
    skip_broken: bool = False,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
    explain: bool = False,
) -> Answer:
    """Say all that the history knows about a dataset: neighbours, configurations, confidence.

    Args:
        path: a folder, idx files, CIFAR binaries, ``.npz``, ``FILE.h5::name``, ``sklearn:digits``, ``torchvision:NAME``.
        images: instead of a path: `n x h x w [x c]` uint8, uint16, bool or floats in [0, 1]; or a torch Dataset.
        labels: `n` class labels of `images`; a Dataset has its own.
        k: how many configurations.
        history: the history file; ``$WARMSTART_HISTORY`` or the shipped one when left out.
        model: the meta-feature model; ``$WARMSTART_MODEL`` or the shipped one when left out.
        strategy: ``joint``, ``nearest``, ``portfolio`` or ``average-rank``; when left out, the one that wins the
            evaluation, and the portfolio where the dataset is far from everything.
        space: for which to suggest, where it is not the history's, in any form that `warmstart.spaces.read_space` takes.
            Hyperparameters in common are taken over by name and scale, the others are varied over the suggestions, which
            are then marked as not measured; `mapping` says what became of each.
        rename: names of that space by the history's, where they do not tell themselves.
        exclude_group: sibling group or groups of the history to leave out. A dataset of the history itself
            (``FILE.h5::name``) never answers for itself.
        skip_broken: go on without pictures that cannot be decoded, and name them in `notes`.
        seed: of the images chosen.
        device: where the network runs: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        threads: CPU threads of the network; torch decides when left out.
        cache: keep and use meta-features in the cache folder.
        download: let torchvision fetch what is missing of ``torchvision:NAME``; nothing else touches the network.
        explain: collect the reasons too.

    Raises:
        UsageError: arguments that do not fit together, k larger than the number of configurations.
        MissingPathError: a path that is not there.
        DataError: images or labels that cannot be used.
        StorageError: a history or model that is damaged, of another version, or that do not belong together.
    """
    _check_number("k", k, 1)
    if strategy is not None and strategy not in STRATEGIES:
        msg = f"expected one of {', '.join(STRATEGIES)}, got {strategy!r}. Leave it out for the default."
        raise UsageError(msg, param="strategy")
    asked = _Question(history, model, exclude_group, skip_broken, seed, device, threads, cache, download)
    memory = asked.memory()
    if k > len(memory.configs):
        msg = f"expected at most {len(memory.configs)}, the number of configurations in {memory.path}, got {k}. Ask for fewer."
        raise UsageError(msg, param="k")
    place = _place(path, images, labels, asked, memory, runs_only=True)
    is_far = not place.confidence.typical and place.confidence.distance_percentile is not None
    chosen = strategy or (WITHOUT_DISTANCES if is_far else WITH_DISTANCES)
    # A run that failed counts as error 1; one that was never made is another matter.
    errors = fill_failed(memory.errors, memory.failed)[place.rows]
    groups = [memory.groups[row] for row in place.rows]
    choose = partial(designs, errors, place.distances, strategy=chosen, calibration=memory.calibration, groups=groups)
    translation = None if space is None else _translation(memory, space, rename or {})
    picked = [] if translation is None else translation.pick(choose, k=k, seed=seed)
    choices = choose(k) if translation is None else [each.choice for each in picked if each.choice is not None]
    listed = _neighbours(memory, place, {choice.neighbour for choice in choices}, LEAST_NEIGHBOURS)
    found = place.answer(_suggestions(memory, place, errors, choices, chosen), chosen, listed)
    if translation is not None:
        found = replace(
            found,
            suggestions=translation.designs(found.suggestions, picked),
            space_json=translation.space_json,
            notes=(*found.notes, *translation.notes(picked, k)),
            mapping=translation.matches,
        )
    if not explain or not choices:
        return found
    names = [neighbour.name for neighbour in listed]
    why = explain_answer(memory, place.rows, place.distances, errors=errors, choices=choices, listed=names)
    return replace(found, explanation=why)


def nearest(
    path: PathLike | None = None,
    *,
    images: Any = None,
    labels: Any = None,
    k: int = 10,
    history: PathLike | None = None,
    model: PathLike | None = None,
    exclude_group: str | Collection[str] | None = None,
    skip_broken: bool = False,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
) -> Answer:
    """Say what a dataset resembles: an answer with the k nearest datasets and without suggestions; see `answer`."""
    _check_number("k", k, 1)
    asked = _Question(history, model, exclude_group, skip_broken, seed, device, threads, cache, download)
    memory = asked.memory()
    place = _place(path, images, labels, asked, memory, runs_only=False)
    return place.answer((), "", _neighbours(memory, place, set(), k))


@dataclass(frozen=True, slots=True)
class _Question:
    """How a dataset is asked about; fields as the arguments of `answer`."""

    history: PathLike | None
    model: PathLike | None
    exclude_group: str | Collection[str] | None
    skip_broken: bool
    seed: int
    device: str
    threads: int | None
    cache: bool
    download: bool

    def __post_init__(self) -> None:
        _check_number("seed", self.seed, 0)

    @property
    def excluded(self) -> tuple[str, ...]:
        """List the groups left out."""
        return (self.exclude_group,) if isinstance(self.exclude_group, str) else tuple(self.exclude_group or ())

    def memory(self) -> Memory:
        """Read history and model, and refuse a group that the history does not know."""
        found = load_memory(
            history_path(self.history), model_path(self.model), device=self.device, threads=self.threads
        )
        found.rows_without(self.excluded, None)
        return found


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a query lies among the datasets that may answer: `rows` of the memory, `distances` to each."""

    dataset: DatasetSummary
    rows: NDArray[np.int64]
    distances: NDArray[np.float64]
    confidence: Confidence
    notes: tuple[str, ...]
    memory: Memory
    seed: int

    def answer(self, suggestions: Sequence[InitialDesign], strategy: str, listed: tuple[Neighbour, ...]) -> Answer:
        """Put an answer together."""
        return Answer(
            dataset=self.dataset,
            neighbours=listed,
            suggestions=tuple(suggestions),
            strategy=strategy,
            confidence=self.confidence,
            history=str(self.memory.path),
            model=str(self.memory.model.path),
            seed=self.seed,
            space_json=self.memory.space_json,
            notes=self.notes,
        )


def _place(
    path: PathLike | None, images: Any, labels: Any, asked: _Question, memory: Memory, *, runs_only: bool
) -> _Place:
    """Open a query, embed it, measure its distances and judge them: by datasets alone of which runs are known."""
    source, fingerprint = open_query(path, images, labels, download=asked.download)
    everyone = memory.rows_without(asked.excluded, own_name(source, memory))
    vector, broken = embed_source(
        source,
        memory.model,
        fingerprint=fingerprint,
        seed=asked.seed,
        skip_broken=asked.skip_broken,
        cache=asked.cache,
        device=asked.device,
        threads=asked.threads,
    )
    rows = memory.with_runs(everyone)
    distances = distances_to(vector, memory, rows)
    confidence = judge_query(memory, rows, distances)
    if not runs_only:
        rows, distances = everyone, distances_to(vector, memory, everyone)
    notes = [*memory.notes, *(f"left out {picture.path}: {picture.reason}" for picture in broken)]
    if not confidence.typical:
        notes.append(confidence.note)
    return _Place(
        DatasetSummary(source.location, len(source), len(np.unique(source.labels)), fingerprint),
        rows,
        distances,
        confidence,
        tuple(notes),
        memory,
        asked.seed,
    )


def _translation(memory: Memory, space: "SpaceLike", rename: Mapping[str, str]) -> "Translation":
    """Put the history into another space; what that needs is loaded here alone."""
    from warmstart.translation import translate

    return translate(memory, space, rename)


def own_name(source: ImageSource, memory: Memory) -> str | None:
    """Give the query's name in the history where it is one of its datasets."""
    if source.layout != "history":
        return None
    file, _, name = source.location.rpartition("::")
    try:
        same = Path(file).samefile(memory.path)
    except OSError:
        return None
    return name if same else None


def distances_to(vector: NDArray[np.float32], memory: Memory, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give the Euclidean distances from a meta-feature to rows of the memory, in their order."""
    kept = {memory.names[row] for row in rows}
    found = dict(memory.index.search(vector, len(rows), exclude=[name for name in memory.names if name not in kept]))
    return np.array([found[memory.names[row]] for row in rows])


def judge_query(memory: Memory, rows: NDArray[np.int64], distances: NDArray[np.float64]) -> Confidence:
    """Say where the query's nearest distance lies among the history's own leave-one-group-out ones."""
    own = nearest_other_group(memory.between[np.ix_(rows, rows)], [memory.groups[row] for row in rows])
    verdict = judge_typicality(float(distances.min()), own)
    nearest = f"{memory.names[rows[int(distances.argmin())]]!r} at distance {verdict.nearest:.3g}"
    if verdict.percentile is None:
        note = f"Confidence unknown: the history has no two groups to compare with; the nearest dataset is {nearest}."
    elif verdict.is_typical:
        note = f"Typical: the nearest dataset, {nearest}, is as near as the history's own are to each other (percentile {verdict.percentile:.0f})."
    else:
        note = (
            f"Far from everything: the nearest dataset is {nearest}, beyond {verdict.limit:.3g}, the 95th percentile of the "
            "history's own. Its configurations say little; the portfolio does well on all datasets."
        )
    return Confidence(verdict.is_typical, verdict.percentile, note)


def _neighbours(memory: Memory, place: _Place, used: Collection[int | None], least: int) -> tuple[Neighbour, ...]:
    """List the nearest datasets, at least so many and all those used."""
    order = np.argsort(place.distances, kind="stable").tolist()
    listed = [row for rank, row in enumerate(order) if rank < least or row in used]
    return tuple(
        Neighbour(memory.names[place.rows[row]], float(place.distances[row]), _best(memory.errors[place.rows[row]]))
        for row in listed
    )


def _best(errors: NDArray[np.float64]) -> float | None:
    return None if np.isnan(errors).all() else float(np.nanmin(errors))


def _suggestions(
    memory: Memory, place: _Place, errors: NDArray[np.float64], choices: Sequence[Choice], strategy: str
) -> list[InitialDesign]:
    """Turn choices of rows into configurations with their origin and, where it was calibrated, what they promise."""
    promised: list[float | None] = [None] * len(choices)
    if strategy == "joint" and memory.calibration is not None:
        groups = number_groups([memory.groups[row] for row in place.rows])
        query = Query(errors, place.distances, len(choices), reach=memory.calibration.reach, groups=groups)
        expected = expected_regrets(query, [choice.row for choice in choices])
        promised = [float(regret) for regret in memory.calibration.promise(expected)]
    found = []
    for choice, regret in zip(choices, promised, strict=True):
        config = dict(memory.configs[choice.row])
        if choice.neighbour is None:
            how = "best average rank over all datasets" if strategy == "average-rank" else "adds most over all datasets"
            found.append(InitialDesign(config, natural(config), expected_regret=regret, why=how))
            continue
        name = memory.names[place.rows[choice.neighbour]]
        how = f"reached error {choice.source_error:.3g} on {name}, at distance {choice.distance:.3g}"
        found.append(
            InitialDesign(config, natural(config), name, choice.distance, choice.source_error, regret, why=how)
        )
    return found


def _check_number(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        msg = f"expected a whole number of at least {least}, got {value!r}. Leave it out for the default."
        raise UsageError(msg, param=name)
