"""From a history, or tables of errors, to the report of an evaluation."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.arguments import check_replaceable
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.wording import some_of
from warmstart.metafeat.cache import cache_folder
from warmstart.models.evaluation_settings import EvaluationSettings
from warmstart.models.recipe import Recipe

if TYPE_CHECKING:
    from warmstart.history_store.history import History
    from warmstart.metafeat.model_file import ModelHeader
    from warmstart.training.evaluation.methods import Method
    from warmstart.training.evaluation.metrics import Metric
    from warmstart.training.evaluation.table import ErrorTable
    from warmstart.training.siamese.settings import SiameseSettings

Show = Callable[[int, int, str], None]
LEARNED = "learned"
METRICS = (LEARNED, "handcrafted", "random network")
"""The distances between datasets of a history."""
PAPER = {"ADF": "adf", "Bi-LSTM": "bilstm"}
"""The two models of [Kim2017warmstart], by their label in its figures."""


def evaluate_table(path: Path, plan: EvaluationSettings, *, progress: Show | None = None) -> dict[str, Any]:
    """Replay a table of errors with the meta-features and distances that its file gives.

    Raises:
        UsageError: an unknown name, or numbers out of range.
        MissingPathError: no such file.
        DataError: a file that is no table, too little in it, or two distances of one name.
    """
    from warmstart.training.evaluation.metrics import feature_metric, given_metric
    from warmstart.training.evaluation.table import read_table

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


def evaluate_history(path: Path, plan: EvaluationSettings, *, progress: Show | None = None) -> dict[str, Any]:
    """Hold every source of a history out and train the models that never saw it.

    Only what the chosen methods need is computed: without those that ask for distances no image is looked at. With them,
    datasets that no model could be trained on (`warmstart.models.train.choose_datasets`) are left out; `notes` of the
    report says which.

    Raises:
        UsageError: an unknown name, or numbers out of range.
        ImagesMissingError: a history without images, where distances are wanted.
        StorageError: a history, model or folder that cannot be used.
    """
    from warmstart.history_store.history import History
    from warmstart.models.train import choose_datasets
    from warmstart.training.evaluation.methods import choose_methods, make_methods
    from warmstart.training.evaluation.table import history_table

    with History.open(path) as history:
        methods = choose_methods(make_methods(list(METRICS), LEARNED, has_unit=True), plan.methods)
        wanted = [name for name in METRICS if any(method.metric == name for method in methods.values())]
        chosen, notes = choose_datasets(history) if wanted or plan.paper_figure else (None, [])
        table = history_table(history, path.name, chosen)
        metrics = HistoryMetrics(history, table, plan, progress)
        nested = any(method.metric == LEARNED and method.is_calibrated for method in methods.values())
        found = {name: metrics.make(name, nested=nested) for name in wanted}
        figure_metrics = {}
        if plan.paper_figure:
            found |= {label: metrics.learned(metrics.paper(kind), nested=False) for label, kind in PAPER.items()}
            figure_metrics = {label: label for label in PAPER} | ({"the model": LEARNED} if plan.model else {})
            if plan.model:
                found.setdefault(LEARNED, metrics.make(LEARNED, nested=nested))
        report = _report(table, found, plan, LEARNED, figure_metrics=figure_metrics, progress=progress, known=METRICS)
        return {**report, "notes": notes}


class HistoryMetrics:
    """Makes the distances between a history's datasets, under one plan.

    Args:
        history: open.
        table: made of it.
        plan: protocol, folds, recipe, folder.
        progress: of the trainings.

    Raises:
        UsageError: settings that do not exist.
        ModelError: the recipe's model cannot be read.
    """

    def __init__(
        self, history: "History", table: "ErrorTable", plan: EvaluationSettings, progress: Show | None
    ) -> None:
        from warmstart.training.evaluation.protocol import deal

        self.history, self.table, self.plan, self.progress = history, table, plan, progress
        self.parts = deal(plan.protocol, table.datasets, table.groups, plan.folds, seed=plan.seed)
        self.settings = plan.recipe.settings() if plan.model is None else plan.recipe.settings_of(plan.model)
        self.folder = cache_folder() / "evaluate" / history.id if plan.models is None else plan.models

    def make(self, name: str, *, nested: bool) -> "Metric":
        """Make a metric by its name in `METRICS`."""
        from warmstart.training.evaluation.fold_models import handcrafted_features, make_folder, random_embeddings
        from warmstart.training.evaluation.metrics import euclidean, feature_metric, given_metric

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
        """Make the metric of a model that was trained on another history: as it is, for it saw none of these datasets.

        Returns: the metric; None where the model is this history's, or none is named.
        """
        from warmstart.metafeat.embed import embed_history
        from warmstart.metafeat.model_file import check_stored_size, is_trained_on, read_header
        from warmstart.training.evaluation.metrics import euclidean, given_metric

        if self.plan.model is None:
            return None
        header, history = read_header(self.plan.model), self.history
        if is_trained_on(header, history_id=history.id, space_json=history.space_json, names=history.names):
            return None
        check_stored_size(header, stored_size=history.stored_size, location=str(history.path))
        known = embed_history(history, self.table.datasets, header, device=self.plan.device)
        return given_metric(euclidean([known[name] for name in self.table.datasets]))

    def learned(self, settings: "SiameseSettings", *, nested: bool) -> "Metric":
        """Train whatever models are not there yet, and make their metric."""
        from warmstart.metafeat.device import resolve_device
        from warmstart.training.evaluation.fold_models import FoldModels
        from warmstart.training.evaluation.metrics import embedding_metric

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
        asked = [self.parts[row] for row, name in enumerate(self.table.datasets) if name in (self.plan.only or (name,))]
        for part in sorted({int(part) for part in asked}):
            for other in parts if nested else [part]:
                models.embeddings(frozenset((part, other)))
        return embedding_metric(models.embeddings, self.parts, nested=nested)

    def paper(self, extractor: str) -> "SiameseSettings":
        """Return the paper's recipe with one of its two set encoders, as long as the plan's steps."""
        return Recipe("paper", extractor, steps=self.plan.recipe.steps).settings()


def _report(
    table: "ErrorTable",
    metrics: "Mapping[str, Metric]",
    plan: EvaluationSettings,
    reference_by: str | None,
    *,
    figure_metrics: Mapping[str, str],
    progress: Show | None,
    known: Sequence[str] = (),
) -> dict[str, Any]:
    """Play the methods, and the runs of the figures where they are wanted, and summarise."""
    from warmstart.bo.transfer.calibration import calibrate, can_calibrate
    from warmstart.training.evaluation.methods import choose_methods, make_methods, make_paper_methods, reference_method
    from warmstart.training.evaluation.replay import ReplaySettings, evaluate
    from warmstart.training.evaluation.report import check_reference, make_figures, make_report

    methods = choose_methods(
        make_methods(known or list(metrics), reference_by, has_unit=table.unit is not None), plan.methods
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

    def play(some: "Mapping[str, Method]", note: str) -> Any:
        show = None if progress is None else (lambda done, total, text: progress(done, total, f"{note}{text}"))
        return evaluate(table, some, metrics=metrics, settings=settings, progress=show)

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
        found = calibrate(table.known_errors(), outcome.distances[reference_by], table.groups)
        report["calibration"] = {"distance": reference_by, **found.to_dict()}
    return report


def check_trains_nothing(plan: EvaluationSettings, beside: str) -> None:
    """Refuse settings of models beside something for which none is trained.

    Raises:
        UsageError: naming the first of them.
    """
    usual, recipe = EvaluationSettings(), plan.recipe
    given = {
        "folds": plan.folds != usual.folds,
        "models": plan.models is not None,
        "preset": recipe.preset_name != usual.recipe.preset_name,
        **{name: getattr(recipe, name) is not None for name in ("extractor", "target", "steps")},
        "model": beside == "table" and plan.model is not None,
    }
    for name in (name for name, is_given in given.items() if is_given):
        msg = f"expected none beside `{beside}`, for which no model is trained, got one. Leave one of the two out."
        raise UsageError(msg, param=name)


def check_calibrates(plan: EvaluationSettings, history: "History", model: "ModelHeader") -> None:
    """Refuse, before hours are spent, an evaluation whose calibration could not be stored; see `store_calibration`.

    Raises:
        UsageError: it is of some datasets alone, of another protocol or of methods without learned distances, or the history has
            too few groups.
        ModelMismatchError: the model belongs to another history.
    """
    from warmstart.bo.transfer.calibration import can_calibrate
    from warmstart.metafeat.model_file import check_stored_size
    from warmstart.models.train import choose_datasets
    from warmstart.training.evaluation.methods import choose_methods, make_methods
    from warmstart.training.evaluation.table import history_table

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
    """Put a report's calibration into a history open for writing, for the model's distances; returns what to tell.

    Raises:
        UsageError: the report has none.
        StorageError: the history cannot be written.
        ModelMismatchError: the model belongs to another history.
    """
    from warmstart.metafeat.model_file import check_stored_size
    from warmstart.suggestions.embedded_history import calibration_key

    _check_calibrates(report["protocol"], is_calibrated=report.get("calibration", {}).get("distance") == LEARNED)
    check_stored_size(model, stored_size=history.stored_size, location=str(history.path))
    history.set_result(calibration_key(model.hash), {**report["calibration"], "revision": history.revision})
    return f"Calibrated {history.path} for model {model.hash}."


def _check_calibrates(protocol: str, *, is_calibrated: bool) -> None:
    if protocol != "leave-source-out" or not is_calibrated:
        msg = "expected learned distances of all datasets, of at least three groups, under leave-source-out, got an evaluation without. Leave `only` out, and let `methods` name joint."
        raise UsageError(msg, param="calibrate")


def as_document(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON document: the report itself, or a list of several."""
    return dict(reports[0]) if len(reports) == 1 else {"schema_version": 1, "reports": list(reports)}


def check_places(out: Path | None, plots: Path | None) -> None:
    """Refuse places that cannot be written before hours are spent.

    Raises:
        UsageError: a folder that does not exist, a file at `out` that is no JSON, or plots without what draws them.
    """
    if out is not None:
        check_replaceable("out", out, lambda path: parse_json(path.read_text(encoding="utf-8")), "a JSON report")
    for param, folder in (("out", None if out is None else out.parent), ("plots", plots)):
        if folder is not None and not folder.is_dir():
            msg = f"expected a place in a folder that exists, got {folder}. Make the folder first."
            raise UsageError(msg, param=param)
    if plots is not None and find_spec("matplotlib") is None:
        msg = "expected matplotlib, got none. Install it with pip install 'warmstart[plots]'."
        raise UsageError(msg, param="plots")


def keep(reports: Sequence[Mapping[str, Any]], out: Path | None, plots: Path | None) -> list[str]:
    """Write and draw reports where that is wanted.

    Returns: what to tell.

    Raises:
        StorageError: a place that cannot be written.
    """
    notes = []
    if out is not None:
        from warmstart.metafeat.files import replace_file
        from warmstart.suggestions.formats import to_json

        replace_file(out, (to_json(as_document(reports)) + "\n").encode())
        notes.append(f"Wrote {out}.")
    if plots is not None:
        from warmstart.plots.read_report import table_stems
        from warmstart.plots.regret import draw_regret

        for report, table in zip(reports, table_stems(reports), strict=True):
            stem = "regret" if len(reports) == 1 else f"{table}-regret"
            notes.extend(f"Wrote {path}." for path in draw_regret(report, plots, stem=stem))
    return notes
