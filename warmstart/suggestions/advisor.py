"""Advice for datasets from one history: where a dataset lies among those of the history, and what to try first on it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.arguments import (
    Check,
    check_arguments,
    check_callable,
    check_device,
    check_flag,
    check_given,
    check_length,
    check_names,
    check_path,
    check_whole,
)
from warmstart.descriptor import Description, Descriptor, UnknownExtractorError, count_classes
from warmstart.glance import glance
from warmstart.history_store.errors import DataError, ImagesMissingError, ModelMismatchError, UsageError
from warmstart.history_store.splits import count_parts
from warmstart.locations import PathLike, history_path, measured_history, model_path, never_measured, usual_model
from warmstart.metafeat.embed import SourceEmbedding, embed_source, feature_names
from warmstart.metafeat.model_file import ModelHeader, read_header
from warmstart.suggestions.answer import Answer, DatasetSummary
from warmstart.suggestions.embedded_history import EmbeddedHistory, load_embedded_history
from warmstart.suggestions.embeddings import store_embeddings
from warmstart.suggestions.location import Location, own_name, place_vector, place_without_distances
from warmstart.suggestions.neighbours import list_neighbours
from warmstart.suggestions.query import Dataset, Query, open_query
from warmstart.suggestions.recommendation import compose_answer, recommend
from warmstart.suggestions.request import NEEDS_NO_MODEL, Request
from warmstart.suggestions.without_history import usual_answer
from warmstart.training.workloads import DEFAULT, get_workload, measures, named_space, workload_named_by

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.short_run import MeasureShortRun
    from warmstart.suggestions.time_plan import TimeLimit

_CHECKS: Mapping[str, Check] = {
    "history": check_path,
    "model": check_path,
    "exclude_group": check_names,
    "skip_broken": check_flag,
    "device": check_device,
    "cache": check_flag,
    "download": check_flag,
    "progress": check_callable,
}


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
        progress: called with the images that are done, and how many there are, while a pretrained network looks at a dataset;
            before that with datasets, where the history lacks their embeddings.
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
    progress: Callable[[float, float], object] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises:
            UsageError: when one is of a wrong kind.
        """
        check_arguments(_CHECKS, {name: getattr(self, name) for name in _CHECKS})
        check_given(self, "skip_broken", "device", "cache", "download")
        check_whole("seed", self.seed, least=0)
        if self.threads is not None:
            check_whole("threads", self.threads, least=1)

    @property
    def excluded(self) -> tuple[str, ...]:
        """List the groups left out."""
        return (self.exclude_group,) if isinstance(self.exclude_group, str) else tuple(self.exclude_group or ())

    @property
    def embedded(self) -> EmbeddedHistory:
        """Read history and model, or return what was read while their files were as they are now.

        Raises:
            UsageError: a group that the history does not know, or no dataset left.
            StorageError: a history or model that is damaged, of another version, or that do not belong together.
            ImagesMissingError: no dataset has an embedding, nor the images to compute one from.
        """
        return self._embedded(usual_model(history_path(self.history), self.model))

    def _embedded(self, model: Path | None) -> EmbeddedHistory:
        """Read the history, with a model or without."""
        found = load_embedded_history(
            history_path(self.history),
            model,
            device=self.device,
            threads=self.threads,
            cache=self.cache,
            progress=self.progress,
        )
        found.rows_without(self.excluded, None)
        return found

    def _embedded_for(self, strategy: str | None) -> tuple[EmbeddedHistory, tuple[str, ...]]:
        """Read history and model, or the history alone where the strategy needs no more; with what is to be said then."""
        try:
            return self.embedded, ()
        except (ModelMismatchError, ImagesMissingError) as error:
            if strategy not in NEEDS_NO_MODEL:
                raise
            return self._embedded(None), (f"Answered without a model: {error.args[0].partition('. ')[0]}.",)

    def describe(self, dataset: Dataset, *, workload: str | None = None) -> Description:
        """Describe a dataset for a server: its meta-feature and what it is made of. No history is needed.

        Args:
            dataset: see above.
            workload: that it is for, which may have a model of its own.

        Raises:
            MissingPathError: a path that is not there.
            DataError: images or labels that cannot be used.
            ModelError: a model that cannot be used.
        """
        query = open_query(dataset, download=self.download)
        model = read_header(
            usual_model(history_path(self.history), self.model)
            if workload is None
            else model_path(self.model, workload=workload)
        )
        seen, labels = self._look(query, model), query.source.labels
        n_classes = len(np.unique(labels))
        told = Descriptor(
            model.hash, seen.vector, len(labels), n_classes, count_classes(labels), seen.sample, _finite(seen.features)
        )
        return Description(told, _summary(query), tuple(query.source.class_names), _left_out(seen))

    def _look(self, query: Query, model: ModelHeader) -> SourceEmbedding:
        return embed_source(
            query.source,
            model,
            fingerprint=query.fingerprint,
            seed=self.seed,
            skip_broken=self.skip_broken,
            cache=self.cache,
            device=self.device,
            threads=self.threads,
            progress=self.progress,
        )

    def locate(self, dataset: "Dataset | Location", *, strategy: str | None = None) -> Location:
        """Open a dataset, embed it, measure its distances and judge them.

        Args:
            dataset: see above.
            strategy: that will be asked for; ``portfolio`` and ``average-rank`` go on without a model that fits.

        Raises:
            MissingPathError: a path that is not there.
            DataError: images or labels that cannot be used.
            UsageError, StorageError: as `embedded`.
        """
        if isinstance(dataset, Location):
            return dataset
        embedded, said = self._embedded_for(strategy)
        place = self._locate(dataset, embedded)
        return replace(place, notes=(*said, *place.notes))

    def _locate(self, dataset: "Dataset", embedded: EmbeddedHistory) -> Location:
        if isinstance(dataset, Descriptor):
            return self._place(dataset, embedded)
        query = open_query(dataset, download=self.download)
        summary, rows = _summary(query), embedded.rows_without(self.excluded, own_name(query.source, embedded))
        if embedded.model is None:
            place = place_without_distances(embedded, rows, query=query, summary=summary)
            return replace(place, notes=(*place.notes, *query.lacking))
        seen = self._look(query, embedded.model)
        notes = (*_left_out(seen), *query.lacking)
        place = place_vector(seen.vector, embedded, rows, query=query, summary=summary, sample=seen.sample, notes=notes)
        return replace(place, features=seen.features)

    def _place(self, descriptor: Descriptor, embedded: EmbeddedHistory) -> Location:
        """Locate what is known by its descriptor alone.

        Raises:
            UnknownExtractorError: another model computed it.
            DataError: its vector has another length.
        """
        rows = embedded.rows_without(self.excluded, None)
        summary = DatasetSummary("", descriptor.n_images, descriptor.n_classes, f"descriptor:{descriptor.id}")
        if embedded.model is None:
            return place_without_distances(embedded, rows, query=None, summary=summary)
        if descriptor.extractor != embedded.model.hash:
            msg = f"expected a descriptor by model {embedded.model.hash}, got one by {descriptor.extractor[:80]!r}. Compute it with that model: `model` names its file."
            raise UnknownExtractorError(msg, (embedded.model.hash,))
        if descriptor.vector.shape != embedded.vectors.shape[1:]:
            msg = f"expected {embedded.vectors.shape[1]} numbers, got {descriptor.vector.size}. Compute the descriptor again."
            raise DataError(msg, param="descriptor/vector")
        known = len(feature_names(embedded.model))
        if descriptor.features is not None and len(descriptor.features) != known:
            msg = f"expected {known} numbers, got {len(descriptor.features)}. Compute the descriptor again."
            raise DataError(msg, param="descriptor/features")
        place = place_vector(descriptor.vector, embedded, rows, query=None, summary=summary, sample=descriptor.sample)
        return replace(place, features=descriptor.features)

    def _with_runs(self, place: Location) -> Location:
        """Leave out datasets without runs; where that is all of them, turn to those that have runs and no images.

        Raises:
            UsageError: the history has no runs.
        """
        if not place.embedded.has_runs[place.rows].any() and place.has_distances:
            embedded = self._embedded(None)
            own = None if place.query is None else own_name(place.query.source, embedded)
            rows = embedded.rows_without(self.excluded, own)
            why = "none of its datasets that may answer has both images and runs"
            bare = place_without_distances(embedded, rows, query=place.query, summary=place.summary, why=why)
            beside = (*place.embedded.notes, place.confidence.note)  # of the datasets that do not answer
            place = replace(bare, notes=(*(note for note in place.notes if note not in beside), *bare.notes))
        if not place.embedded.has_runs[place.rows].any():
            msg = f"{place.embedded.path}: expected a history with runs, got none on the {len(place.rows)} datasets that may answer. Add some with `warmstart history record`, `import` or `collect`."
            raise UsageError(msg)
        return place.with_runs

    def neighbours(self, dataset: "Dataset | Location", k: int = 10, *, workload: str | None = None) -> Answer:
        """Say what a dataset resembles: an answer with the k nearest datasets, all where there are fewer, and no suggestion.

        Args:
            dataset: see above.
            k: how many datasets.
            workload: in whose history; the usual one when left out.

        Raises:
            UsageError: k < 1, an unknown workload, one that the history did not measure, or a history of runs alone; else as `locate`.
        """
        check_whole("k", k, least=1)
        if workload is not None and not isinstance(dataset, Location):
            return self.of_workload(workload).neighbours(dataset, k)
        if workload is not None and not self.has_measured(workload):
            raise never_measured(workload, history_path(self.history))
        place = self.locate(dataset)
        if not place.has_distances:
            msg = f"{place.embedded.path}: expected a history with images to compare with, got runs alone. `warmstart history add` gives its datasets their images."
            raise UsageError(msg)
        return compose_answer(place, neighbours=list_neighbours(place, k), seed=self.seed)

    def suggest(
        self,
        dataset: "Dataset | Location",
        k: int | None = None,
        *,
        strategy: str | None = None,
        space: "SpaceLike | None" = None,
        rename: Mapping[str, str] | None = None,
        explain: bool = False,
        workload: str | None = None,
        time: "str | float | TimeLimit | None" = None,
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
            workload: what the configurations train; that of the space, where this is named by one; see `warmstart.answer`.
            time: plan what fits in so long, ``10m`` or seconds; see `warmstart.answer`.

        Raises:
            UsageError: an unknown strategy or workload, k out of range, the space of another workload; else as `locate`.
        """
        workload = workload or workload_named_by(space)
        limit = None if time is None else self._limit(time)
        request = Request(k, strategy, space, rename, explain, limit)
        _check_same_workload(workload, space)
        if workload is not None and not self.has_measured(workload):
            own = replace(self, history=history_path(self.history, workload=workload))
            if not isinstance(dataset, Location) and own.has_measured(workload):
                return own.suggest(
                    dataset, k, strategy=strategy, space=space, rename=rename, explain=explain, workload=workload, time=time
                )  # fmt: skip
            if limit is not None:
                msg = f"expected a history that measured {workload}, got {history_path(self.history)}, which never did: nobody knows how long its runs take. Leave one of the two out."
                raise UsageError(msg, param="time")
            where = str(history_path(self.history))
            _check_usual(dataset, where, workload, {"strategy": strategy, "space": space, "rename": rename})
            return usual_answer(dataset, k, workload=workload, history=where, seed=self.seed, download=self.download)
        embedded, said = (dataset.embedded, ()) if isinstance(dataset, Location) else self._embedded_for(strategy)
        request.count(embedded)
        place = self._with_runs(dataset if isinstance(dataset, Location) else self._locate(dataset, embedded))
        if limit is not None and limit is not time and place.query is not None:
            request = replace(request, limit=replace(limit, measure=self._measure(place.query, limit)))
        found = recommend(replace(place, notes=(*said, *place.notes)), request, seed=self.seed)
        if workload is not None and limit is None:
            from warmstart.suggestions.durations import with_seconds

            found = with_seconds(found, place)
        return replace(found, workload=workload)

    @staticmethod
    def _limit(time: "str | float | TimeLimit") -> "TimeLimit":
        """Read how much time there is.

        Raises:
            UsageError: when it is no positive length of time.
        """
        from warmstart.suggestions.time_plan import TimeLimit
        from warmstart.training.collection.plan import parse_time

        if isinstance(time, TimeLimit):
            return time
        check_length("time", time)
        return TimeLimit(parse_time(time, param="time"))

    def _measure(self, query: Query, limit: "TimeLimit") -> "MeasureShortRun":
        """Return what makes short runs on a dataset, within a share of the time."""
        from warmstart.suggestions.short_run import LONGER_SHARE, measure_on

        return measure_on(
            query.source,
            device=self.device,
            threads=self.threads,
            skip_broken=self.skip_broken,
            longer_s=LONGER_SHARE * limit.seconds,
        )

    def of_workload(self, workload: str | None) -> "Advisor":
        """Return this advisor where its history measured a workload, or else one with the shipped history of the workload.

        Raises:
            UsageError: no such workload, or one that the history never measured.
        """
        path = measured_history(workload, self.history)
        return self if path == history_path(self.history) else replace(self, history=path)

    def has_measured(self, workload: str) -> bool:
        """Tell whether the configurations of the history are those of a workload.

        Raises:
            UsageError: when there is no workload of that name.
        """
        get_workload(workload)
        return measures(glance(history_path(self.history)).space_json, workload)

    def refresh(self) -> tuple[str, ...]:
        """Compute the embeddings that the history lacks and store them in it, so that nobody computes them again; the references too.

        Returns: the datasets embedded. Those without images are left out.

        Raises:
            ImagesMissingError: no dataset has an embedding, nor the images to compute one from.
            StorageError: a history or model that cannot be used, or a history that cannot be written.
        """
        history = history_path(self.history)
        model = usual_model(history, self.model)
        return store_embeddings(history, model, device=self.device, threads=self.threads, progress=self.progress)


def _check_usual(dataset: "Dataset | Location", history: str, workload: str, given: Mapping[str, object]) -> None:
    """Refuse what the usual configurations of a workload cannot answer, as no run of it is known.

    Raises:
        UsageError: a place in the history instead of images, or something given: a strategy, a space, names.
    """
    for param in (name for name, value in given.items() if value):
        msg = f"expected a history that measured {workload}, got {history}, which never did: only its usual configurations can be named, over its own space. Leave one of `{param}` and `workload` out."
        raise UsageError(msg, param=param)
    if isinstance(dataset, Location | Descriptor):
        msg = f"expected images, got their place in {history}, which never measured {workload}. Give the images, or name a history that did."
        raise UsageError(msg, param="workload")


def _check_same_workload(workload: str | None, space: "SpaceLike | None") -> None:
    """Refuse a space of ours beside a workload that it is not of; a person's own space may have other names.

    Raises:
        UsageError: naming the two.
    """
    if workload is None or not isinstance(space, str):
        return
    asked, named = get_workload(workload), named_space(space)
    if named is not None and asked.missing_names(list(named)):
        known = ", ".join(each if workload == DEFAULT else f"{workload}:{each}" for each in asked.spaces)
        msg = f"expected a space of the workload {workload!r} ({known}), got {space!r}, which is another one's. Leave one of `space` and `workload` out."
        raise UsageError(msg, param="space")


def _finite(features: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return features that can be sent; none where one of them is no number."""
    return features if np.isfinite(features).all() else None


def _left_out(seen: SourceEmbedding) -> tuple[str, ...]:
    """Name the pictures that could not be decoded."""
    return tuple(picture.left_out for picture in seen.broken)


def _summary(query: Query) -> DatasetSummary:
    """Describe a dataset that is open."""
    source = query.source
    n, n_classes = len(source), len(np.unique(source.labels))
    return DatasetSummary(source.location, n, n_classes, query.fingerprint, count_parts(n, source.splits))
