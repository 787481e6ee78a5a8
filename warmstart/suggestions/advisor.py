"""Advice for datasets from one history: where a dataset lies among those of the history, and what to try first on it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bo.transfer.designs import WITH_DISTANCES, WITHOUT_DISTANCES, designs
from bo.transfer.novelty import TYPICAL_PERCENTILE, judge_typicality, nearest_other_group_of
from bo.transfer.strategies import STRATEGIES, Choice
from bo.transfer.strategies import Query as StrategyQuery
from bo.transfer.strategies.joint import expected_regrets
from bo.transfer.strategies.sources import number_groups
from history_store.errors import DataError, ImagesMissingError, ModelMismatchError, UsageError
from history_store.images import ImageSource
from history_store.response import fill_failed
from history_store.space import natural
from metafeat.embed import Look, look_at
from metafeat.model_file import ModelHeader, read_header
from metafeat.sample import SAMPLE
from warmstart.arguments import (
    Check,
    check_arguments,
    check_device,
    check_flag,
    check_given,
    check_names,
    check_path,
    check_renames,
    check_space,
    check_text,
)
from warmstart.descriptor import Description, Descriptor, UnknownExtractorError, count_classes
from warmstart.locations import PathLike, history_path, model_path
from warmstart.suggestions.answer import Answer, Confidence, DatasetSummary, InitialDesign, Neighbour
from warmstart.suggestions.doubts import DISTANCES_SAY_NOTHING, NOTHING_TO_EXPECT, Code, Doubt, find_doubts
from warmstart.suggestions.explanation import explain_answer
from warmstart.suggestions.query import Dataset, Query, open_query
from warmstart.suggestions.session import Memory, load_memory, nearest_places, spread_places, store_embeddings
from warmstart.suggestions.tuned_before import TunedBefore, find_tuned_before

if TYPE_CHECKING:
    from metafeat.sample_statistics import SampleStatistics
    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.translation import Picked, Translation

LEAST_NEIGHBOURS = 3
FORECAST_FROM = 500
"""Datasets, the nearest, from which errors are forecast: more cost seconds and tell little."""
USUAL_K = 3
AT_ONCE = 4096
"""Vectors that are held in double precision at a time."""
NEEDS_NO_MODEL = ("portfolio", "average-rank")
"""Strategies that ask for no distances."""
_CHECKS: Mapping[str, Check] = {
    "history": check_path,
    "model": check_path,
    "exclude_group": check_names,
    "skip_broken": check_flag,
    "device": check_device,
    "cache": check_flag,
    "download": check_flag,
}


@dataclass(frozen=True, slots=True)
class Location:
    """Where a dataset lies among those of a history that may answer.

    Attributes:
        query: the dataset, opened; None where it is known by its descriptor alone.
        vector: its meta-feature, `d` float32; empty where the memory has no model.
        rows: `m` rows of the memory that may answer.
        distances: `m` from the dataset to them; NaN where the memory has no model.
        confidence: how far the dataset is from what the history knows.
        notes: what a person should hear.
        memory: what is known of the history.
        summary: of the dataset.
        movement: how far distances move from one draw of the images to another; None where the history does not know.
        features: handcrafted features of its sample; None where the memory has no model.
    """

    query: Query | None
    vector: NDArray[np.float32]
    rows: NDArray[np.int64]
    distances: NDArray[np.float64]
    confidence: Confidence
    notes: tuple[str, ...]
    memory: Memory
    summary: DatasetSummary
    movement: float | None = None
    features: NDArray[np.float64] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Name the `m` datasets that may answer."""
        return tuple(self.memory.names[row] for row in self.rows)

    @property
    def has_distances(self) -> bool:
        """Tell whether any distance is known: there are images to compare with, and a model."""
        return self.memory.model is not None

    @property
    def with_runs(self) -> "Location":
        """The same among the datasets of which runs are known; see `Memory.with_runs`."""
        rows = self.memory.with_runs(self.rows)
        return replace(self, rows=rows, distances=self.distances[np.isin(self.rows, rows)])

    def at(self, places: NDArray[np.int64]) -> "Location":
        """Return the same among some of the datasets that may answer."""
        return replace(self, rows=self.rows[places], distances=self.distances[places])

    @property
    def is_blind(self) -> bool:
        """Tell whether distances say nothing about the dataset."""
        return not DISTANCES_SAY_NOTHING.isdisjoint(self.confidence.reasons)


@dataclass(frozen=True, slots=True)
class Advisor:
    """Gives advice from one history by one model.

    Both are read once for each state of their files; nothing is written but the cache of meta-features, and the history
    by `refresh` alone. Wherever a dataset is asked for: a path in any layout, ``(images, labels)``, a torch Dataset, what
    was made of one of these before, a `Query` or a `Location`, or a `Descriptor`, which another machine may have made.

    Attributes:
        history: the history file; ``$WARMSTART_HISTORY`` or the shipped one when left out.
        model: the meta-feature model; ``$WARMSTART_MODEL`` or the shipped one when left out.
        exclude_group: sibling group or groups of the history that do not answer. A dataset of the history itself
            (``FILE.h5::name``) never answers for itself.
        skip_broken: go on without pictures that cannot be decoded.
        seed: of the images chosen, ≥ 0.
        device: where the network runs: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        threads: CPU threads of the network; torch decides when left out.
        cache: keep and use meta-features in the cache folder.
        download: let torchvision fetch what is missing of ``torchvision:NAME``.
    """

    history: PathLike | None = None
    model: PathLike | None = None
    _: KW_ONLY
    exclude_group: str | Collection[str] | None = None
    skip_broken: bool = False
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None
    cache: bool = True
    download: bool = False

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises:
            UsageError: when one is of a wrong kind.
        """
        check_arguments(_CHECKS, {name: getattr(self, name) for name in _CHECKS})
        check_given(self, "skip_broken", "device", "cache", "download")
        _check_number("seed", self.seed, 0)
        if self.threads is not None:
            _check_number("threads", self.threads, 1)

    @property
    def excluded(self) -> tuple[str, ...]:
        """List the groups left out."""
        return (self.exclude_group,) if isinstance(self.exclude_group, str) else tuple(self.exclude_group or ())

    @property
    def memory(self) -> Memory:
        """Read history and model, or return what was read while their files were as they are now.

        Raises:
            UsageError: a group that the history does not know, or no dataset left.
            StorageError: a history or model that is damaged, of another version, or that do not belong together.
            ImagesMissingError: embeddings are lacking, and so are the images to compute them from.
        """
        return self._memory(model_path(self.model))

    def _memory(self, model: Path | None) -> Memory:
        """Read the history, with a model or without."""
        found = load_memory(
            history_path(self.history), model, device=self.device, threads=self.threads, cache=self.cache
        )
        found.rows_without(self.excluded, None)
        return found

    def _memory_for(self, strategy: str | None) -> tuple[Memory, tuple[str, ...]]:
        """Read history and model, or the history alone where the strategy needs no more; with what is to be said then."""
        try:
            return self.memory, ()
        except (ModelMismatchError, ImagesMissingError) as error:
            if strategy not in NEEDS_NO_MODEL:
                raise
            return self._memory(None), (f"Answered without a model: {error.args[0].partition('. ')[0]}.",)

    def describe(self, dataset: Dataset) -> Description:
        """Describe a dataset for a server: its meta-feature and what it is made of. No history is needed.

        Raises:
            MissingPathError: a path that is not there.
            DataError: images or labels that cannot be used.
            ModelError: a model that cannot be used.
        """
        query, model = open_query(dataset, download=self.download), read_header(model_path(self.model))
        seen, labels = self._look(query, model), query.source.labels
        n_classes = len(np.unique(labels))
        told = Descriptor(model.hash, seen.vector, len(labels), n_classes, count_classes(labels), seen.sample)
        return Description(told, _summary(query), tuple(query.source.class_names), _left_out(seen))

    def _look(self, query: Query, model: ModelHeader) -> Look:
        return look_at(
            query.source,
            model,
            fingerprint=query.fingerprint,
            seed=self.seed,
            skip_broken=self.skip_broken,
            cache=self.cache,
            device=self.device,
            threads=self.threads,
        )

    def locate(self, dataset: "Dataset | Location", *, strategy: str | None = None) -> Location:
        """Open a dataset, embed it, measure its distances and judge them.

        Args:
            dataset: see above.
            strategy: that will be asked for; ``portfolio`` and ``average-rank`` go on without a model that fits.

        Raises:
            MissingPathError: a path that is not there.
            DataError: images or labels that cannot be used.
            UsageError, StorageError: as `memory`.
        """
        if isinstance(dataset, Location):
            return dataset
        memory, said = self._memory_for(strategy)
        place = self._locate(dataset, memory)
        return replace(place, notes=(*said, *place.notes))

    def _locate(self, dataset: "Dataset", memory: Memory) -> Location:
        if isinstance(dataset, Descriptor):
            return self._place(dataset, memory)
        query = open_query(dataset, download=self.download)
        rows = memory.rows_without(self.excluded, own_name(query.source, memory))
        if memory.model is None:
            return _nowhere(query, _summary(query), memory, rows)
        seen = self._look(query, memory.model)
        return _somewhere(
            memory,
            rows,
            seen.vector,
            query=query,
            summary=_summary(query),
            sample=seen.sample,
            n_looked_at=seen.sample.n_images,
            features=seen.features,
            notes=_left_out(seen),
        )

    def _place(self, descriptor: Descriptor, memory: Memory) -> Location:
        """Locate what is known by its descriptor alone.

        Raises:
            UnknownExtractorError: another model computed it.
            DataError: its vector has another length.
        """
        rows = memory.rows_without(self.excluded, None)
        summary = DatasetSummary("", descriptor.n_images, descriptor.n_classes, f"descriptor:{descriptor.id}")
        if memory.model is None:
            return _nowhere(None, summary, memory, rows)
        if descriptor.extractor != memory.model.hash:
            msg = f"expected a descriptor by model {memory.model.hash}, got one by {descriptor.extractor[:80]!r}. Compute it with that model: `model` names its file."
            raise UnknownExtractorError(msg, (memory.model.hash,))
        if descriptor.vector.shape != memory.vectors.shape[1:]:
            msg = f"expected {memory.vectors.shape[1]} numbers, got {descriptor.vector.size}. Compute the descriptor again."
            raise DataError(msg, param="descriptor/vector")
        sample = descriptor.sample
        return _somewhere(
            memory,
            rows,
            descriptor.vector,
            query=None,
            summary=summary,
            sample=sample,
            n_looked_at=min(SAMPLE, descriptor.n_images) if sample is None else sample.n_images,
        )

    def _with_runs(self, place: Location) -> Location:
        """Leave out datasets without runs; where that is all of them, turn to those that have runs and no images.

        Raises:
            UsageError: the history has no runs.
        """
        if not place.memory.has_runs[place.rows].any() and place.has_distances:
            memory = self._memory(None)
            own = None if place.query is None else own_name(place.query.source, memory)
            place = _nowhere(place.query, place.summary, memory, memory.rows_without(self.excluded, own))
        if not place.memory.has_runs[place.rows].any():
            msg = f"{place.memory.path}: expected a history with runs, got none on the {len(place.rows)} datasets that may answer. Add some with `warmstart history record`, `import` or `collect`."
            raise UsageError(msg)
        return place.with_runs

    def neighbours(self, dataset: "Dataset | Location", k: int = 10) -> Answer:
        """Say what a dataset resembles: an answer with the k nearest datasets, all where there are fewer, and no suggestion.

        Raises:
            UsageError: k < 1, or a history of runs alone; else as `locate`.
        """
        _check_number("k", k, 1)
        place = self.locate(dataset)
        if not place.has_distances:
            msg = f"{place.memory.path}: expected a history with images to compare with, got runs alone. `warmstart history add` gives its datasets their images."
            raise UsageError(msg)
        return self._answer(place, neighbours=_neighbours(place, set(), k))

    def suggest(
        self,
        dataset: "Dataset | Location",
        k: int | None = None,
        *,
        strategy: str | None = None,
        space: "SpaceLike | None" = None,
        rename: Mapping[str, str] | None = None,
        explain: bool = False,
    ) -> Answer:
        """Say what to try first on a dataset: k configurations, best first, and what speaks for them.

        Args:
            dataset: see above.
            k: how many configurations; 3 when left out, all where the history has fewer.
            strategy: ``joint``, ``nearest``, ``portfolio`` or ``average-rank``; when left out, the one that wins the
                evaluation, and the portfolio where the dataset is far from everything.
            space: for which to suggest, where it is not the history's; see `warmstart.answer`.
            rename: names of that space by the history's, where they do not tell themselves.
            explain: collect the reasons too.

        Raises:
            UsageError: an unknown strategy, k out of range; else as `locate`.
        """
        if k is not None:
            _check_number("k", k, 1)
        asked = {"strategy": strategy, "space": space, "rename": rename}
        check_arguments({"strategy": check_text, "space": check_space, "rename": check_renames}, asked)
        if strategy is not None and strategy not in STRATEGIES:
            msg = f"expected one of {', '.join(STRATEGIES)}, got {strategy!r}. Leave it out for the default."
            raise UsageError(msg, param="strategy", given=strategy, choices=STRATEGIES)
        memory, said = (dataset.memory, ()) if isinstance(dataset, Location) else self._memory_for(strategy)
        k = min(USUAL_K, max(1, len(memory.configs))) if k is None else k
        if k > len(memory.configs) > 0:
            msg = f"expected at most {len(memory.configs)}, the number of configurations in {memory.path}, got {k}. Ask for fewer."
            raise UsageError(msg, param="k")
        place = self._with_runs(dataset if isinstance(dataset, Location) else self._locate(dataset, memory))
        place, memory = replace(place, notes=(*said, *place.notes)), place.memory
        chosen = strategy or (WITHOUT_DISTANCES if place.is_blind else WITH_DISTANCES)
        if not place.has_distances and chosen not in NEEDS_NO_MODEL:
            msg = f"expected {' or '.join(NEEDS_NO_MODEL)} where nothing can be compared with your images, got {chosen!r}. Leave it out, or add the images with `warmstart history add`."
            raise UsageError(msg, param="strategy")
        place, known = _narrowed(place, uses_distances=chosen not in NEEDS_NO_MODEL)
        # A run that failed counts as error 1; one that was never made is another matter.
        errors = fill_failed(memory.errors[place.rows], memory.failed[place.rows])
        groups = [memory.groups[row] for row in place.rows]
        distances = place.distances if place.has_distances else None
        choose = partial(designs, errors, distances, strategy=chosen, calibration=memory.calibration, groups=groups)
        if known is not None:
            choose = known.first(choose)  # type: ignore[assignment]  # any function of k
            place = replace(place, notes=(known.note, *place.notes))
        translation = None if space is None else _translation(memory, space, rename or {})
        picked = [] if translation is None else translation.pick(choose, k=k, seed=self.seed)
        choices = choose(k) if translation is None else [each.choice for each in picked if each.choice is not None]
        listed = _neighbours(place, {choice.neighbour for choice in choices}, LEAST_NEIGHBOURS)
        designed = _suggestions(place, errors, choices, chosen, known=known)
        found = replace(self._answer(place, designed, chosen, neighbours=listed), tuned_before=known)
        if known is None:
            found = _with_expected_errors(found, place, choices)
        if translation is not None:
            found = _translated(found, translation, picked, k)
        if not explain or not choices:
            return found
        names = [neighbour.name for neighbour in listed]
        why = explain_answer(memory, place.rows, place.distances, errors=errors, choices=choices, listed=names)
        return replace(found, explanation=why)

    def refresh(self) -> tuple[str, ...]:
        """Compute the embeddings that the history lacks and store them in it, so that nobody computes them again; the references too.

        Returns: the datasets embedded. Those of which runs alone are known are left out.

        Raises:
            ImagesMissingError: images are lacking of which the history says that it has them.
            StorageError: a history or model that cannot be used, or a history that cannot be written.
        """
        return store_embeddings(
            history_path(self.history), model_path(self.model), device=self.device, threads=self.threads
        )

    def _answer(
        self,
        place: Location,
        suggestions: Sequence[InitialDesign] = (),
        strategy: str = "",
        *,
        neighbours: tuple[Neighbour, ...],
    ) -> Answer:
        """Put an answer together."""
        return Answer(
            dataset=place.summary,
            neighbours=neighbours,
            suggestions=tuple(suggestions),
            strategy=strategy,
            confidence=place.confidence,
            history=str(place.memory.path),
            model="" if place.memory.model is None else str(place.memory.model.path),
            seed=self.seed,
            space_json=place.memory.space_json,
            notes=place.notes,
            measured_with=place.memory.measured_with,
        )


def _with_expected_errors(found: Answer, place: Location, choices: Sequence[Choice]) -> Answer:
    """Add what error to expect of each suggestion, and of the best after a search, where the history knows enough."""
    from warmstart.suggestions.expectations import expected_errors, forecaster_of

    if not NOTHING_TO_EXPECT.isdisjoint(found.confidence.reasons):
        return found
    nearest = place.rows[np.argsort(place.distances, kind="stable")[:FORECAST_FROM]]
    forecaster = None if place.features is None else forecaster_of(place.memory, np.sort(nearest))
    if forecaster is None or place.features is None:
        return found
    expected = expected_errors(forecaster, place.features)
    designs = tuple(
        replace(design, expected_error=expected[choice.row])
        for design, choice in zip(found.suggestions, choices, strict=True)
    )
    return replace(found, suggestions=designs, expected_error=expected[-1])


def _translation(memory: Memory, space: "SpaceLike", rename: Mapping[str, str]) -> "Translation":
    """Put the history into another space; what that needs is loaded here alone."""
    from warmstart.suggestions.translation import translate

    return translate(memory, space, rename)


def _translated(found: Answer, translation: "Translation", picked: "Sequence[Picked]", k: int) -> Answer:
    """Put the suggestions of an answer into another space."""
    return replace(
        found,
        suggestions=translation.designs(found.suggestions, picked),
        space_json=translation.space_json,
        notes=(*found.notes, *translation.notes(picked, k)),
        mapping=translation.matches,
    )


def _narrowed(place: Location, *, uses_distances: bool) -> tuple[Location, TunedBefore | None]:
    """Leave so many datasets that an answer takes no longer than a moment, with what is known of the very dataset.

    Of a large history the nearest answer, or where distances say nothing, some that are spread over all of it.
    """
    near = nearest_places(place.distances) if place.has_distances else np.arange(len(place.rows))
    known = None
    if place.query is not None:
        known = find_tuned_before(place.query, place.memory, place.rows[near], place.distances[near])
    kept = near if uses_distances else spread_places(len(place.rows))
    if known is None:
        return place.at(kept), None
    assert known.choice.neighbour is not None  # noqa: S101  it is a dataset's own best
    own = near[known.choice.neighbour]
    kept = np.union1d(kept, own)
    choice = replace(known.choice, neighbour=int(np.searchsorted(kept, own)))
    return place.at(kept), replace(known, choice=choice)


def _left_out(seen: Look) -> tuple[str, ...]:
    """Name the pictures that could not be decoded."""
    return tuple(f"left out {picture.path}: {picture.reason}" for picture in seen.broken)


def _summary(query: Query) -> DatasetSummary:
    """Describe a dataset that is open."""
    source = query.source
    return DatasetSummary(source.location, len(source), len(np.unique(source.labels)), query.fingerprint)


def _somewhere(
    memory: Memory,
    rows: NDArray[np.int64],
    vector: NDArray[np.float32],
    *,
    query: Query | None,
    summary: DatasetSummary,
    sample: "SampleStatistics | None",
    n_looked_at: int,
    features: NDArray[np.float64] | None = None,
    notes: tuple[str, ...] = (),
) -> Location:
    """Measure the distances of a meta-feature and judge them."""
    distances = distances_to(vector, memory, rows)
    known = memory.with_runs(rows)  # a dataset without runs says nothing of the history's experience
    confidence = judge_query(
        memory,
        known,
        distances[np.isin(rows, known)],
        sample=sample,
        class_names=() if query is None else query.source.class_names,
    )
    said = (*memory.notes, *notes, *(() if confidence.typical else (confidence.note,)))
    movement = None if memory.references is None else memory.references.movement(n_looked_at)
    return Location(query, vector, rows, distances, confidence, said, memory, summary, movement, features)


def _nowhere(query: Query | None, summary: DatasetSummary, memory: Memory, rows: NDArray[np.int64]) -> Location:
    """Place a dataset beside a history that nobody can compare it with."""
    known = any(memory.about[row].n_images for row in rows)
    why = (
        "without a model nobody knows which of its datasets yours resembles"
        if known
        else "it holds runs alone, no images"
    )
    note = f"Nothing of the history could be compared with your images: {why}. Its configurations are those that do well on all of its datasets."
    confidence = Confidence(typical=False, distance_percentile=None, note=note, reasons=(Code.NOT_COMPARED.value,))
    distances, vector = np.full(len(rows), np.nan), np.zeros(0, np.float32)
    return Location(query, vector, rows, distances, confidence, (*memory.notes, note), memory, summary)


def own_name(source: ImageSource, memory: Memory) -> str | None:
    """Return the query's name in the history where it is one of its datasets."""
    if source.layout != "history":
        return None
    file, _, name = source.location.rpartition("::")
    try:
        same = Path(file).samefile(memory.path)
    except OSError:
        return None
    return name if same else None


def distances_to(vector: NDArray[np.float32], memory: Memory, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute the Euclidean distances from a meta-feature to rows of a memory that has a model, in their order."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), AT_ONCE):
        block = slice(start, start + AT_ONCE)
        found[block] = np.sqrt(np.square(memory.vectors[rows[block]].astype(np.float64) - vector).sum(axis=1))
    return found


def judge_query(
    memory: Memory,
    rows: NDArray[np.int64],
    distances: NDArray[np.float64],
    *,
    sample: "SampleStatistics | None",
    class_names: Sequence[str],
) -> Confidence:
    """Say whether the history knows anything of a query: by its nearest distance, and by what its pictures are like.

    Without statistics of the pictures, by the distance alone.
    """
    kept = nearest_places(distances)
    rows, distances = rows[kept], distances[kept]
    groups, names = [memory.groups[row] for row in rows], [memory.names[row] for row in rows]
    verdict = judge_typicality(float(distances.min()), nearest_other_group_of(memory.vectors[rows], groups))
    nearest = f"{names[int(distances.argmin())]!r} at distance {verdict.nearest:.3g}"
    doubts = find_doubts(
        sample,
        class_names,
        groups=groups,
        names=names,
        images_seen=min(min(memory.about[row].n_train, SAMPLE) for row in rows),
        references=memory.references,
    )
    slack = memory.references.slack(sample.n_images) if memory.references and sample else 0.0
    if verdict.limit is not None and verdict.nearest > verdict.limit + slack:
        text = (
            f"Far from everything: the nearest dataset is {nearest}, beyond {verdict.limit + slack:.3g}, the "
            f"{TYPICAL_PERCENTILE:.0f}th percentile of the history's own{f' and {slack:.2g} for so few images' if slack else ''}."
        )
        doubts = (Doubt(Code.FAR, text), *doubts)
    if not doubts:
        note = (
            f"Typical: in how configurations fare, the nearest dataset, {nearest}, is as near as the history's own are to "
            f"each other (percentile {verdict.percentile:.0f})."
        )
        return Confidence(typical=True, distance_percentile=verdict.percentile, note=note)
    codes = tuple(doubt.code.value for doubt in doubts)
    texts = [doubt.text for doubt in doubts]
    if verdict.percentile is None:
        texts.append(
            f"Confidence unknown: the history has no two groups to compare with; the nearest dataset is {nearest}."
        )
    elif not DISTANCES_SAY_NOTHING.isdisjoint(codes):
        texts.append("Its neighbours' configurations say little; the portfolio does well on all datasets.")
    else:
        texts.append(f"The nearest dataset is {nearest} (percentile {verdict.percentile:.0f} of the history's own).")
    return Confidence(typical=False, distance_percentile=verdict.percentile, note=" ".join(texts), reasons=codes)


def _neighbours(place: Location, used: Collection[int | None], least: int) -> tuple[Neighbour, ...]:
    """List the nearest datasets, at least so many and all those used."""
    order = np.argsort(place.distances, kind="stable").tolist() if place.has_distances else []
    listed = [row for rank, row in enumerate(order) if rank < least or row in used]
    names, errors = place.names, place.memory.errors[place.rows]
    return tuple(
        Neighbour(
            names[row],
            distance := float(place.distances[row]),
            _best(errors[row]),
            None if place.movement is None else (max(0.0, distance - place.movement), distance + place.movement),
        )
        for row in listed
    )


def _best(errors: NDArray[np.float64]) -> float | None:
    return None if np.isnan(errors).all() else float(np.nanmin(errors))


def _suggestions(
    place: Location,
    errors: NDArray[np.float64],
    choices: Sequence[Choice],
    strategy: str,
    *,
    known: TunedBefore | None,
) -> list[InitialDesign]:
    """Turn choices of rows into configurations with their origin and, where it was calibrated, what they promise."""
    memory, names = place.memory, place.names
    promised: list[float | None] = [None] * len(choices)
    if known is not None:  # what calibration says is about datasets that the history does not have
        promised = [0.0 if known.is_complete and memory.calibration is not None else None] * len(choices)
    elif strategy == "joint" and memory.calibration is not None:
        groups = number_groups([memory.groups[row] for row in place.rows])
        query = StrategyQuery(errors, place.distances, len(choices), reach=memory.calibration.reach, groups=groups)
        expected = expected_regrets(query, [choice.row for choice in choices])
        promised = [float(regret) for regret in memory.calibration.promise(expected)]
    found = []
    for choice, regret in zip(choices, promised, strict=True):
        config = dict(memory.configs[choice.row])
        if choice.neighbour is None:
            how = "best average rank over all datasets" if strategy == "average-rank" else "adds most over all datasets"
            found.append(InitialDesign(config, natural(config), expected_regret=regret, why=how))
            continue
        name = names[choice.neighbour]
        how = f"reached error {choice.source_error:.3g} on {name}"
        if known is not None and choice is known.choice:
            how = f"the best known on this very dataset, error {choice.source_error:.3g}"
        elif choice.distance is not None:
            how += f", at distance {choice.distance:.3g}"
        found.append(
            InitialDesign(config, natural(config), name, choice.distance, choice.source_error, regret, why=how)
        )
    return found


def _check_number(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        msg = f"expected a whole number of at least {least}, got {value!r}. Leave it out for the default."
        raise UsageError(msg, param=name)
