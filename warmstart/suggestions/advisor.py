"""The advisor: locates datasets in a history and suggests configurations for them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from warmstart.arguments import (
    Check,
    check_arguments,
    check_callable,
    check_device,
    check_flag,
    check_length,
    check_names,
    check_not_none,
    check_path,
    check_whole,
)
from warmstart.default_workload import (
    DefaultWorkload,
    default_workload,
    is_history_named,
    is_model_named,
    measured_history,
    shipped_extractors,
    workload_of_extractor,
)
from warmstart.descriptor import Description, Descriptor, UnknownExtractorError, count_classes
from warmstart.history_store.broken import SkipBroken
from warmstart.history_store.errors import DataError, ImagesMissingError, ModelMismatchError, UsageError
from warmstart.locations import PathLike, glance, history_path, model_path, never_measured, usual_model
from warmstart.metafeat.embed import SourceEmbedding, embed_source, feature_names
from warmstart.metafeat.model_file import ModelHeader, read_header
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.embeddings import keep_index, load_embedded_history
from warmstart.suggestions.location import Location, locate_vector, locate_without_distances, name_in_history
from warmstart.suggestions.query import Dataset, Query, open_query
from warmstart.suggestions.recommendation import NEEDS_NO_MODEL, Request, compose_answer, recommend
from warmstart.suggestions.records import DatasetSummary
from warmstart.training.workloads import DEFAULT, get_workload, measures, named_space, workload_named_by

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike
    from warmstart.timing.plan import TimeLimit
    from warmstart.timing.short_run import MeasureShortRun

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
    """An adviser with one history and one model.

    Both are read once for each state of their files; only the cache of meta-features is written, and the history by
    `refresh` alone. A dataset is a path in any layout, ``(images, labels)``, a torch Dataset, a `Query` or `Location` of
    one of these, or a `Descriptor`, which another machine may have made.

    Attributes:
        history: the history file; when left out, ``$WARMSTART_HISTORY`` or the shipped one that fits the question: that of
            pretrained networks, where they are installed; see `warmstart.default_workload`.
        model: the meta-feature model; ``$WARMSTART_MODEL`` or the shipped one when left out.
        exclude_group: sibling group or groups of the history to leave out. A dataset of the history itself
            (``FILE.h5::name``) is never its own neighbour.
        skip_broken: go on without pictures that cannot be decoded: all (True), none (False), or up to 5 % of them
            when left out.
        seed: of the images chosen, ≥ 0.
        device: where the network runs: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        threads: CPU threads of the network; torch decides when left out.
        cache: keep and use meta-features in the cache folder.
        download: let torchvision fetch what is missing of ``torchvision:NAME``.
        progress: called with the number of images embedded and of all images, while a pretrained network embeds a dataset;
            before that with numbers of datasets, where the history lacks embeddings.
    """

    history: PathLike | None = None
    model: PathLike | None = None
    _: KW_ONLY
    exclude_group: str | Collection[str] | None = None
    skip_broken: SkipBroken = None
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
        check_not_none(self, "device", "cache", "download")
        check_whole("seed", self.seed, least=0)
        if self.threads is not None:
            check_whole("threads", self.threads, least=1)

    @property
    def excluded(self) -> tuple[str, ...]:
        """Return the excluded groups as a tuple."""
        return (self.exclude_group,) if isinstance(self.exclude_group, str) else tuple(self.exclude_group or ())

    @property
    def embedded(self) -> EmbeddedHistory:
        """Read history and model, from memory while their files are unchanged.

        Raises:
            UsageError: a group that the history does not know, or no dataset left.
            StorageError: a history or model that is damaged, of another version, or that do not belong together.
            ImagesMissingError: no dataset has an embedding, nor the images to compute one from.
        """
        history = measured_history(None, self.history, model=self.model)
        return self._load(history, usual_model(history, self.model))

    def _load(self, history: Path, model: Path | None) -> EmbeddedHistory:
        """Read a history, with or without a model."""
        embedded = load_embedded_history(
            history,
            model,
            device=self.device,
            threads=self.threads,
            cache=self.cache,
            progress=self.progress,
        )
        embedded.rows_without(self.excluded, None)
        return embedded

    def _load_for(self, strategy: str | None) -> tuple[EmbeddedHistory, tuple[str, ...]]:
        """Read history and model, or the history alone for a strategy that needs no model; return notes too."""
        try:
            return self.embedded, ()
        except (ModelMismatchError, ImagesMissingError) as error:
            if strategy not in NEEDS_NO_MODEL:
                raise
            history = measured_history(None, self.history, model=self.model)
            return self._load(history, None), (f"Answered without a model: {error.args[0].partition('. ')[0]}.",)

    def describe(self, dataset: Dataset, *, workload: str | None = None) -> Description:
        """Describe a dataset for a server: its meta-feature, sizes and classes. No history is needed.

        Args:
            dataset: see above.
            workload: what the dataset will train, which may have its own model; as in `suggest` when left out.

        Raises:
            MissingPathError: a path that is not there.
            DataError: images or labels that cannot be used.
            ModelError: a model that cannot be used.
        """
        query = open_query(dataset, download=self.download)
        model = read_header(
            usual_model(measured_history(None, self.history, model=self.model), self.model)
            if workload is None
            else model_path(self.model, workload=workload)
        )
        look, labels = self._embed(query, model), query.source.labels
        n_classes = len(np.unique(labels))
        features = look.features if np.isfinite(look.features).all() else None
        descriptor = Descriptor(
            model.hash, look.vector, len(labels), n_classes, count_classes(labels), look.sample, features
        )
        return Description(descriptor, query.summary, tuple(query.source.class_names), _broken_notes(look))

    def _embed(self, query: Query, model: ModelHeader, *, side: int | None = None) -> SourceEmbedding:
        return embed_source(
            query.source,
            model,
            fingerprint=query.fingerprint,
            side=side,
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
            strategy: of the later suggestion; ``portfolio`` and ``average-rank`` need no model that fits.

        Raises:
            MissingPathError: a path that is not there.
            DataError: images or labels that cannot be used.
            UsageError, StorageError: as `embedded`.
        """
        if isinstance(dataset, Location):
            return dataset
        advisor, default = self.of_question(dataset)
        if default is not None:
            return advisor.locate(dataset, strategy=strategy)
        embedded, notes = self._load_for(strategy)
        location = self._locate_dataset(dataset, embedded)
        return replace(location, notes=(*notes, *location.notes))

    def _locate_dataset(self, dataset: "Dataset", embedded: EmbeddedHistory) -> Location:
        if isinstance(dataset, Descriptor):
            return self._locate_descriptor(dataset, embedded)
        query = open_query(dataset, download=self.download)
        summary, rows = query.summary, embedded.rows_without(self.excluded, name_in_history(query.source, embedded))
        if embedded.model is None:
            location = locate_without_distances(embedded, rows, query=query, summary=summary)
            return replace(location, notes=(*location.notes, *query.class_notes))
        look = self._embed(query, embedded.model, side=None if embedded.own_pixels is None else summary.side)
        notes = (*_broken_notes(look), *query.class_notes)
        location = locate_vector(
            look.vector, embedded, rows, query=query, summary=summary, sample=look.sample, notes=notes
        )
        return replace(location, features=look.features, sharp_error=look.sharp_error)

    def _locate_descriptor(self, descriptor: Descriptor, embedded: EmbeddedHistory) -> Location:
        """Locate a dataset by its descriptor.

        Raises:
            UnknownExtractorError: another model computed it.
            DataError: its vector has another length.
        """
        rows = embedded.rows_without(self.excluded, None)
        summary = DatasetSummary("", descriptor.n_images, descriptor.n_classes, f"descriptor:{descriptor.id}")
        if embedded.model is None:
            return locate_without_distances(embedded, rows, query=None, summary=summary)
        if descriptor.extractor != embedded.model.hash:
            raise _unknown_extractor(descriptor.extractor, (embedded.model.hash,))
        if descriptor.vector.shape != embedded.vectors.shape[1:]:
            msg = f"expected {embedded.vectors.shape[1]} numbers, got {descriptor.vector.size}. Compute the descriptor again."
            raise DataError(msg, param="descriptor/vector")
        n_features = len(feature_names(embedded.model))
        if descriptor.features is not None and len(descriptor.features) != n_features:
            msg = f"expected {n_features} numbers, got {len(descriptor.features)}. Compute the descriptor again."
            raise DataError(msg, param="descriptor/features")
        location = locate_vector(
            descriptor.vector, embedded, rows, query=None, summary=summary, sample=descriptor.sample
        )
        return replace(location, features=descriptor.features)

    def _with_runs(self, location: Location) -> Location:
        """Keep the datasets with runs; if none has both runs and images, use those with runs alone.

        Raises:
            UsageError: the history has no runs.
        """
        if location.has_runs:
            return location.with_runs
        if location.has_distances:
            embedded = self._load(location.embedded.path, None)
            query_name = None if location.query is None else name_in_history(location.query.source, embedded)
            rows = embedded.rows_without(self.excluded, query_name)
            why = "none of the datasets left has both images and runs"
            bare = locate_without_distances(embedded, rows, query=location.query, summary=location.summary, why=why)
            # Notes on datasets that are left out now.
            stale = (*location.embedded.notes, location.confidence.note)
            location = replace(bare, notes=(*(note for note in location.notes if note not in stale), *bare.notes))
        if not location.has_runs:
            msg = f"{location.embedded.path}: expected a history with runs, got none on the {len(location.among)} datasets that are not left out. Add some with `warmstart history record`, `import` or `collect`."
            raise UsageError(msg)
        return location.with_runs

    def neighbours(self, dataset: "Dataset | Location", k: int = 10, *, workload: str | None = None) -> Answer:
        """Return an answer with the k nearest datasets, all if there are fewer, and no suggestion.

        Args:
            dataset: see above.
            k: how many datasets.
            workload: whose history is used; as in `suggest` when left out.

        Raises:
            UsageError: k < 1, an unknown workload, one that the history did not measure, or a history of runs alone; else as `locate`.
        """
        check_whole("k", k, least=1)
        if workload is not None and not isinstance(dataset, Location):
            return self.of_workload(workload).neighbours(dataset, k)
        if workload is not None and not self.has_measured(workload):
            raise never_measured(workload, history_path(self.history))
        advisor, default = self.of_question(dataset)
        location = advisor.locate(dataset)
        if default is not None and default.note:
            location = replace(location, notes=(default.note, *location.notes))
        if not location.has_distances:
            msg = f"{location.embedded.path}: expected a history with images to compare with, got runs alone. `warmstart history add` gives its datasets their images."
            raise UsageError(msg)
        return compose_answer(location, neighbours=location.neighbours(k), seed=self.seed)

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
        """Suggest k configurations for a dataset, best first.

        Args:
            dataset: see above.
            k: how many configurations; 3 when left out, all where the history has fewer.
            strategy: ``joint``, ``nearest``, ``portfolio`` or ``average-rank``; when left out, the one that wins the
                evaluation, and the portfolio where the dataset is far from everything.
            space: for which to suggest, where it is not the history's; see `warmstart.answer`.
            rename: names of that space by the history's, where they differ.
            explain: add the reasons.
            workload: what the configurations train; when left out, the space's own, or pretrained networks where they are
                installed; see `warmstart.answer`.
            time: plan runs for this time, ``10m`` or seconds; see `warmstart.answer`.

        Raises:
            UsageError: an unknown strategy or workload, k out of range, the space of another workload; else as `locate`.
        """
        workload = workload or workload_named_by(space)
        limit = None if time is None else self._read_limit(time)
        request = Request(k, strategy, space, rename, explain, limit)
        _check_same_workload(workload, space)
        advisor, workload, note = self._asked(dataset, workload, space, rename)
        # A TimeLimit given by the caller brings its own measurement.
        answer = advisor._answer(dataset, request, workload, measures_runs=limit is not None and limit is not time)  # noqa: SLF001  the same class
        return replace(answer, notes=(note, *answer.notes)) if note else answer

    def _answer(
        self, dataset: "Dataset | Location", request: Request, workload: str | None, *, measures_runs: bool
    ) -> Answer:
        """Answer from the history of this advisor.

        Args:
            dataset: see above.
            request: what is asked.
            workload: what the configurations train; None = unknown.
            measures_runs: whether a limit of time is to be measured by a short run on this machine.
        """
        limit = request.limit
        if workload is not None and not self.has_measured(workload):
            if limit is not None:
                msg = f"needs a history that measured {workload}; {history_path(self.history)} never did, so that durations are unknown."
                raise UsageError(msg, param="time")
            from warmstart.suggestions.without_history import check_usual_answer, usual_answer

            history = str(history_path(self.history))
            usual = {"strategy": request.strategy, "space": request.space, "rename": request.rename}
            check_usual_answer(dataset, history, workload, usual)
            return usual_answer(
                dataset, request.k, workload=workload, history=history, seed=self.seed, download=self.download
            )
        embedded, notes = (dataset.embedded, ()) if isinstance(dataset, Location) else self._load_for(request.strategy)
        request.count(embedded)
        location = self._with_runs(
            dataset if isinstance(dataset, Location) else self._locate_dataset(dataset, embedded)
        )
        if limit is not None and measures_runs and location.query is not None:
            request = replace(request, limit=replace(limit, measure=self._short_run_measurer(location.query, limit)))
        answer = recommend(replace(location, notes=(*notes, *location.notes)), request, seed=self.seed)
        if workload is not None and limit is None:
            from warmstart.timing.durations import with_seconds

            answer = replace(answer, suggestions=with_seconds(answer.suggestions, location))
        return replace(answer, workload=workload)

    def _asked(
        self,
        dataset: "Dataset | Location",
        workload: str | None,
        space: "SpaceLike | None",
        rename: Mapping[str, str] | None,
    ) -> "tuple[Advisor, str | None, str]":
        """Return the advisor with the history to ask, what the configurations train, and a note on that choice."""
        if isinstance(dataset, Location) or is_history_named(self.history):
            return self, workload, ""
        if workload is not None:
            return replace(self, history=history_path(workload=workload)), workload, ""
        advisor, default = self.of_question(dataset, space, rename)
        assert default is not None  # noqa: S101  no history is named
        # A space of one's own trains something of one's own.
        return advisor, default.name if space is None else None, default.note

    @staticmethod
    def _read_limit(time: "str | float | TimeLimit") -> "TimeLimit":
        """Parse the time limit.

        Raises:
            UsageError: not a positive length of time.
        """
        from warmstart.timing.plan import TimeLimit
        from warmstart.training.collection.plan import parse_time

        if isinstance(time, TimeLimit):
            return time
        check_length("time", time)
        return TimeLimit(parse_time(time, param="time"))

    def _short_run_measurer(self, query: Query, limit: "TimeLimit") -> "MeasureShortRun":
        """Return a function that measures short runs on a dataset, within a share of the time."""
        from warmstart.timing.short_run import LONGER_SHARE, measure_on

        return measure_on(
            query.source,
            device=self.device,
            threads=self.threads,
            skip_broken=self.skip_broken,
            longer_s=LONGER_SHARE * limit.seconds,
        )

    def of_workload(self, workload: str | None) -> "Advisor":
        """Return an advisor with a workload's history: its own if it has one, else the shipped one; None = the default's.

        Raises:
            UsageError: no such workload, or one that the history never measured.
        """
        return replace(self, history=measured_history(workload, self.history, model=self.model))

    def of_question(
        self, dataset: "Dataset | Location", space: "SpaceLike | None" = None, rename: Mapping[str, str] | None = None
    ) -> "tuple[Advisor, DefaultWorkload | None]":
        """Return the advisor and the workload of a question that names neither a workload nor a history.

        Returns: this advisor and None for a named history, or a dataset that was located in one.

        Raises:
            UnknownExtractorError: a descriptor that no shipped model computed.
        """
        if isinstance(dataset, Location) or is_history_named(self.history):
            return self, None
        if isinstance(dataset, Descriptor) and not is_model_named(self.model):
            workload = workload_of_extractor(dataset.extractor)
            if workload is None:
                raise _unknown_extractor(dataset.extractor, shipped_extractors())
            default = DefaultWorkload(workload)
        else:
            default = default_workload(space, rename=rename, model=self.model)
        return replace(self, history=history_path(workload=default.name)), default

    def has_measured(self, workload: str) -> bool:
        """Tell whether the history measured a workload.

        Raises:
            UsageError: an unknown workload.
        """
        get_workload(workload)
        return measures(glance(history_path(self.history)).space_json, workload)

    def refresh(self) -> tuple[str, ...]:
        """Compute the embeddings and references that the history lacks, and store them in it.

        Returns: the datasets embedded. Those without images are left out.

        Raises:
            ImagesMissingError: no dataset has an embedding, nor the images to compute one from.
            StorageError: a history or model that cannot be used, or a history that cannot be written.
        """
        from warmstart.suggestions.history_refresh import store_embeddings

        history = history_path(self.history)
        model = usual_model(history, self.model)
        names = store_embeddings(history, model, device=self.device, threads=self.threads, progress=self.progress)
        keep_index(history, model)
        return names


def _unknown_extractor(extractor: str, accepted: tuple[str, ...]) -> UnknownExtractorError:
    """Return the error for a descriptor by another model than the accepted ones."""
    msg = f"expected a descriptor by model {' or '.join(accepted)}, got one by {extractor[:80]!r}. Compute it with that model: `model` names its file."
    return UnknownExtractorError(msg, accepted)


def _check_same_workload(workload: str | None, space: "SpaceLike | None") -> None:
    """Refuse a built-in space of another workload; a user's own space may have any names.

    Raises:
        UsageError: names both.
    """
    if workload is None or not isinstance(space, str):
        return
    expected, space_names = get_workload(workload), named_space(space)
    if space_names is not None and expected.missing_names(list(space_names)):
        names = ", ".join(name if workload == DEFAULT else f"{workload}:{name}" for name in expected.spaces)
        msg = f"expected a space of the workload {workload!r} ({names}), got {space!r}, which is another one's. Leave one of `space` and `workload` out."
        raise UsageError(msg, param="space")


def _broken_notes(look: SourceEmbedding) -> tuple[str, ...]:
    """Return a note for every picture that cannot be decoded."""
    return tuple(picture.left_out for picture in look.broken)
