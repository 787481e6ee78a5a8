"""Evaluate suggestions on a history or on tables of errors, and write the report."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.arguments import check_replaceable
from warmstart.bo.transfer.calibration import calibrate, can_calibrate
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.extras import require_extra
from warmstart.history_store.history import History
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.quoting import in_json
from warmstart.history_store.wording import some_of
from warmstart.locations import usual_model
from warmstart.metafeat.cache import cache_folder
from warmstart.metafeat.device import resolve_device
from warmstart.metafeat.embed import embed_history, is_landmarks
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.model_file import ModelHeader, check_stored_size, is_trained_on, read_header
from warmstart.metafeat.spec import Extractor
from warmstart.models.evaluation_settings import EvaluationSettings
from warmstart.models.recipe import Recipe
from warmstart.models.train import choose_datasets
from warmstart.notebook import shows_progress
from warmstart.plots.read_study import table_stems
from warmstart.suggestions.embedded_history import calibration_key
from warmstart.suggestions.references import read_references
from warmstart.training.evaluation.methods import (
    Method,
    choose_methods,
    make_methods,
    make_paper_methods,
    reference_method,
)
from warmstart.training.evaluation.metrics import Metric, embedding_metric, euclidean, feature_metric, given_metric
from warmstart.training.evaluation.protocol import deal
from warmstart.training.evaluation.replay import ReplaySettings, evaluate
from warmstart.training.evaluation.report import check_reference, make_figures, make_report
from warmstart.training.evaluation.table import ErrorTable, history_table, read_table
from warmstart.training.siamese.settings import SiameseSettings

Show = Callable[[int, int, str], None]
LEARNED = "learned"
METRICS = (LEARNED, "handcrafted", "random network")
"""Kinds of distance between datasets of a history."""
PAPER: dict[str, Extractor] = {"ADF": "adf", "Bi-LSTM": "bilstm"}
"""The two models of [Kim2017warmstart] by their labels in its figures."""


@shows_progress("evaluating")
def evaluate_table(path: Path, plan: EvaluationSettings, *, progress: Show | None = None) -> dict[str, Any]:
    """Evaluate on a table of errors with the meta-features and distances of its file.

    Raises:
        UsageError: an unknown name, or numbers out of range.
        MissingPathError: no such file.
        DataError: not a table, too few rows, or two distances of one name.
    """
    table = read_table(path)
    if table.meta_features is not None and "handcrafted" in table.distances:
        msg = f"{path}: expected one of the arrays meta_features and distances_handcrafted, got both: the distances of meta_features bear that name. Rename the other."
        raise DataError(msg)
    metrics: dict[str, Metric] = {name: given_metric(matrix) for name, matrix in table.distances.items()}
    if table.meta_features is not None:
        metrics["handcrafted"] = feature_metric(table.meta_features)
    reference_by = "learned" if "learned" in metrics else next(iter(metrics), None)
    return _report(
        table, metrics, plan, reference_by, figure_metrics={name: name for name in metrics}, progress=progress
    )


@shows_progress("evaluating")
def evaluate_history(path: Path, plan: EvaluationSettings, *, progress: Show | None = None) -> dict[str, Any]:
    """Evaluate on a history, holding every source out of the model's training in turn.

    Only what the chosen methods need is computed: without distances no image is read. With them, datasets that no model
    could be trained on (`warmstart.models.train.choose_datasets`) are left out, as `notes` of the report says.

    Raises:
        UsageError: an unknown name, or numbers out of range.
        ImagesMissingError: a history without images, for methods with distances.
        StorageError: a history, model or folder that cannot be used.
    """
    with History.open(path) as history:
        landmarks = None if plan.model is not None or plan.paper_figure else stored_landmarks(history)
        kinds = METRICS if landmarks is None else (LEARNED,)
        methods = choose_methods(make_methods(list(kinds), LEARNED, has_unit=True), plan.methods)
        metric_names = [name for name in kinds if any(method.metric == name for method in methods.values())]
        needs_images = landmarks is None and (metric_names or plan.paper_figure)
        chosen, notes = choose_datasets(history) if needs_images else (None, [])
        table = history_table(history, path.name, chosen)
        if landmarks is not None:
            features = np.array([landmarks[name] for name in table.datasets])
            by_name = {name: feature_metric(features) for name in metric_names}
            report = _report(table, by_name, plan, LEARNED, figure_metrics={}, progress=progress, metric_names=kinds)
            return {**report, "notes": notes}
        metrics = HistoryMetrics(history, table, plan, progress)
        nested = any(method.metric == LEARNED and method.is_calibrated for method in methods.values())
        by_name = {name: metrics.make(name, nested=nested) for name in metric_names}
        figure_metrics = {}
        if plan.paper_figure:
            by_name |= {label: metrics.learned(metrics.paper(kind), nested=False) for label, kind in PAPER.items()}
            figure_metrics = {label: label for label in PAPER} | ({"the model": LEARNED} if plan.model else {})
            if plan.model:
                by_name.setdefault(LEARNED, metrics.make(LEARNED, nested=nested))
        report = _report(
            table, by_name, plan, LEARNED, figure_metrics=figure_metrics, progress=progress, metric_names=METRICS
        )
        return {**report, "notes": notes}


def stored_landmarks(history: "History") -> dict[str, NDArray[np.float64]] | None:
    """Return the landmark features that a history without images stores, by dataset; None for any other history.

    Its model standardises them and has nothing to train, so that a fold needs no image.
    """
    if history.holds_images:
        return None
    header = read_header(usual_model(history.path))
    references = read_references(history, header.hash) if is_landmarks(header) else None
    if references is None or references.features is None or set(references.names) < set(history.names):
        return None
    return dict(zip(references.names, references.features, strict=True))


class HistoryMetrics:
    """The distances between a history's datasets under one evaluation plan.

    Args:
        history: open.
        table: of its errors.
        plan: protocol, folds, recipe, folder.
        progress: of the trainings.

    Raises:
        UsageError: unknown settings.
        ModelError: the recipe's model cannot be read.
    """

    def __init__(
        self, history: "History", table: "ErrorTable", plan: EvaluationSettings, progress: Show | None
    ) -> None:

        self.history, self.table, self.plan, self.progress = history, table, plan, progress
        self.parts = deal(plan.protocol, table.datasets, table.groups, plan.folds, seed=plan.seed)
        self.settings = plan.recipe.settings() if plan.model is None else plan.recipe.settings_of(plan.model)
        self.folder = cache_folder() / "evaluate" / history.id if plan.models is None else plan.models

    def make(self, name: str, *, nested: bool) -> "Metric":
        """Return a metric by its name in `METRICS`."""
        from warmstart.training.evaluation.fold_models import handcrafted_features, make_folder, random_embeddings

        make_folder(self.folder)
        if name == LEARNED:
            return self.external() or self.learned(self.settings, nested=nested)
        if name == "handcrafted":
            return feature_metric(handcrafted_features(self.history, self.table.datasets, folder=self.folder))
        fixed = random_embeddings(
            self.history, self.table.datasets, self.settings, folder=self.folder, seed=self.plan.seed
        )
        return given_metric(euclidean(fixed))

    def external(self) -> "Metric | None":
        """Return the metric of a model that was trained on another history, unchanged, as it saw none of these datasets.

        Returns: the metric; None for this history's model, or without one.
        """
        if self.plan.model is None:
            return None
        header, history = read_header(self.plan.model), self.history
        if is_trained_on(header, history_id=history.id, space_json=history.space_json, names=history.names):
            return None
        check_stored_size(header, stored_size=history.stored_size, location=str(history.path))
        embeddings = embed_history(history, self.table.datasets, header, device=self.plan.device)
        return given_metric(euclidean([embeddings[name] for name in self.table.datasets]))

    def learned(self, settings: "SiameseSettings", *, nested: bool) -> "Metric":
        """Train the missing models of the folds and return their metric."""
        from warmstart.training.evaluation.fold_models import FoldModels

        models = FoldModels(
            self.history,
            self.table.datasets,
            self.parts,
            settings,
            folder=self.folder,
            seed=self.plan.seed,
            device=resolve_device(self.plan.device),
            progress=self.progress,
        )
        parts = sorted(set(self.parts.tolist()))
        nested = nested and len(parts) > 2
        query_parts = [
            self.parts[row] for row, name in enumerate(self.table.datasets) if name in (self.plan.only or (name,))
        ]
        for part in sorted({int(part) for part in query_parts}):
            for second in parts if nested else [part]:
                models.embeddings(frozenset((part, second)))
        return embedding_metric(models.embeddings, self.parts, nested=nested)

    def paper(self, extractor: Extractor) -> "SiameseSettings":
        """Return the paper's recipe with one of its two set encoders and the plan's number of steps."""
        return Recipe("paper", extractor, steps=self.plan.recipe.steps).settings()


def _report(
    table: "ErrorTable",
    metrics: "Mapping[str, Metric]",
    plan: EvaluationSettings,
    reference_by: str | None,
    *,
    figure_metrics: Mapping[str, str],
    progress: Show | None,
    metric_names: Sequence[str] = (),
) -> dict[str, Any]:
    """Replay the methods, and the runs of the paper's figures if requested, and return the report."""
    methods = choose_methods(
        make_methods(metric_names or list(metrics), reference_by, has_unit=table.unit is not None), plan.methods
    )
    reference = plan.reference or reference_method(reference_by)
    if plan.reference is None and reference not in methods:
        reference = next(iter(methods))
    check_reference(reference, methods)
    settings = ReplaySettings(
        protocol=plan.protocol,
        horizon=plan.horizon,
        repeats=plan.repeats,
        seed=plan.seed,
        only=plan.only,
        workers=plan.workers,
        surrogate=plan.surrogate,
    )

    def play(chosen: "Mapping[str, Method]", note: str) -> Any:
        show = None if progress is None else (lambda done, total, text: progress(done, total, f"{note}{text}"))
        return evaluate(table, chosen, metrics=metrics, settings=settings, progress=show)

    figures = None
    if plan.paper_figure:
        if table.unit is None:
            msg = f"expected a table with configurations X, got none in {table.name}. Add the array, or leave the option out."
            raise UsageError(msg, param="paper_figure")
        runs = {f"{a}/{start}": method for (a, start), method in make_paper_methods(figure_metrics).items()}
        figures = make_figures(play(runs, "figures: "))
    outcome = play(methods, "")
    report = make_report(outcome, reference=reference, figures=figures)
    if reference_by in outcome.distances and not plan.only and can_calibrate(table.known_errors(), table.groups):
        calibration = calibrate(table.known_errors(), outcome.distances[reference_by], table.groups)
        report["calibration"] = {"distance": reference_by, **calibration.to_dict()}
    return report


def check_trains_nothing(plan: EvaluationSettings, option: str) -> None:
    """Refuse settings of models with an option for which no model is trained.

    Raises:
        UsageError: names the first of them.
    """
    defaults, recipe = EvaluationSettings(), plan.recipe
    is_set = {
        "folds": plan.folds != defaults.folds,
        "models": plan.models is not None,
        "preset": recipe.preset_name != defaults.recipe.preset_name,
        **{name: getattr(recipe, name) is not None for name in ("extractor", "target", "steps")},
        "model": option == "table" and plan.model is not None,
    }
    for name in (name for name, differs in is_set.items() if differs):
        msg = f"cannot be used with `{option}`, for which no model is trained."
        raise UsageError(msg, param=name)


def check_calibrates(plan: EvaluationSettings, history: "History", model: "ModelHeader") -> None:
    """Refuse early an evaluation whose calibration could not be stored; see `store_calibration`.

    Raises:
        UsageError: only some datasets, another protocol, methods without learned distances, or a history with
            too few groups.
        ModelMismatchError: the model belongs to another history.
    """
    methods = choose_methods(make_methods(list(METRICS), LEARNED, has_unit=True), plan.methods)
    has_learned = any(method.metric == LEARNED for method in methods.values())
    _check_calibrates(plan.protocol, is_calibrated=has_learned and not plan.only)
    check_stored_size(model, stored_size=history.stored_size, location=str(history.path))
    table = history_table(history, history.path.name, choose_datasets(history)[0])
    if not can_calibrate(table.known_errors(), table.groups):
        groups = sorted(set(table.groups))
        msg = f"expected at least three groups of datasets with images and runs, two of them with a configuration in common, got {len(groups)}: {some_of(groups)}. Add datasets of other groups: `warmstart history add`."
        raise UsageError(msg, param="calibrate")


def store_calibration(history: "History", model: "ModelHeader", report: Mapping[str, Any]) -> str:
    """Store a report's calibration of a model in a history open for writing; return a note.

    Raises:
        UsageError: the report has none.
        StorageError: the history cannot be written.
        ModelMismatchError: the model belongs to another history.
    """
    _check_calibrates(report["protocol"], is_calibrated=report.get("calibration", {}).get("distance") == LEARNED)
    check_stored_size(model, stored_size=history.stored_size, location=str(history.path))
    history.set_result(calibration_key(model.hash), {**report["calibration"], "revision": history.revision})
    return f"Calibrated {history.path} for model {model.hash}."


def _check_calibrates(protocol: str, *, is_calibrated: bool) -> None:
    if protocol != "leave-source-out" or not is_calibrated:
        msg = "expected learned distances of all datasets, of at least three groups, under leave-source-out, got an evaluation without. Leave `only` out, and let `methods` name joint."
        raise UsageError(msg, param="calibrate")


def as_document(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON document: one report, or a list of several."""
    return dict(reports[0]) if len(reports) == 1 else {"schema_version": 1, "reports": list(reports)}


def check_outputs(out: Path | None, plots: Path | None) -> None:
    """Refuse early output paths that cannot be written.

    Raises:
        UsageError: a missing folder, a file at `out` that is not JSON, or plots without matplotlib.
    """
    if out is not None:
        check_replaceable("out", out, lambda path: parse_json(path.read_text(encoding="utf-8")), "a JSON report")
    for param, folder in (("out", None if out is None else out.parent), ("plots", plots)):
        if folder is not None and not folder.is_dir():
            msg = f"expected a place in a folder that exists, got {folder}. Make the folder first."
            raise UsageError(msg, param=param)
    if plots is not None:
        require_extra("plots", "A plot")


def write_outputs(reports: Sequence[Mapping[str, Any]], out: Path | None, plots: Path | None) -> list[str]:
    """Write the reports to `out` and draw them into `plots`, if given.

    Returns: notes on the files written.

    Raises:
        StorageError: a file that cannot be written.
    """
    notes = []
    if out is not None:
        replace_file(out, (in_json(as_document(reports)) + "\n").encode())
        notes.append(f"Wrote {out}.")
    if plots is not None:
        from warmstart.plots.regret import draw_regret

        for report, table in zip(reports, table_stems(reports), strict=True):
            stem = "regret" if len(reports) == 1 else f"{table}-regret"
            notes.extend(f"Wrote {path}." for path in draw_regret(report, plots, stem=stem))
    return notes
