"""`classify`: train a classifier of a person's pictures in a given time. It is `tune` of the pretrained workload."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time as clock
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart.arguments import check_path, check_replaceable
from warmstart.classification.arrange import (
    Arranged,
    arrange,
    keys_by_column,
    keys_by_name,
    left_out_line,
    together_line,
)
from warmstart.classification.classifier import ImageClassifier, LabelChecks, Tested
from warmstart.classification.label_table import label_table, write_label_table
from warmstart.classification.look import look_at
from warmstart.classification.options import ClassifyOptions
from warmstart.classification.progress import LOOKING, PlainBar, Teller
from warmstart.history_store.canonical import canonical, images_of, labelled
from warmstart.history_store.errors import AllTrialsFailedError, DataError, StorageError, UsageError
from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers.arranged import MARK
from warmstart.locations import PathLike
from warmstart.metafeat.files import replace_file
from warmstart.notebook import live_line
from warmstart.option import check_keywords, show_options
from warmstart.prediction import predict
from warmstart.studies.results.classifier_record import judgement_of
from warmstart.studies.results.summary import TuneResult
from warmstart.studies.state.storage import local_path
from warmstart.studies.tune import tune_dataset
from warmstart.studies.tune_options import TuneOptions
from warmstart.suggestions.query import open_path
from warmstart.training.collection.plan import parse_time
from warmstart.training.workloads.classifier_file import read_header

WORKLOAD = "transfer"
NETWORKS = 8
"""Most models that are saved together: all heads of a plan, and its fine-tuning."""
_PAGE_STARTS, _PAGE_S, _PAGE_SHARE = 0.6, 12.0, 0.1
"""Seconds kept for the page and for judging, in those of the start before the tuning; at most so many, and this share of
the time."""
_MOST_THREADS = 16
_TABLE = "label_table"
"""Key of the digest of the table of labels in what is stored of a study."""


def classify(pictures: PathLike, **options: Any) -> ImageClassifier:  # noqa: D417  options show themselves
    """Train a classifier of pictures, and say how good it is.

    The same call again goes on where the last one ended: a better classifier replaces the file, else it stays.

    Args:
        pictures: a folder with a folder a class, or any layout of `warmstart.suggest`.
        {options}

    Raises:
        TypeError: an option that does not exist.
        UsageError: arguments that do not fit.
        MissingPathError: no pictures there.
        DataError: pictures or labels that cannot be used.
        StorageError: a file that cannot be read or written.
        AllTrialsFailedError: no network was trained in this time.
    """
    check_path("pictures", pictures)
    check_keywords("classify", ClassifyOptions, options)
    named = {name: value for name, value in options.items() if value is not None}
    bar = PlainBar(LOOKING)
    with nullcontext() if "progress" in named else live_line(bar):
        return classify_pictures(os.fspath(pictures), ClassifyOptions(**{"progress": bar.tell, **named}))


show_options(classify, ClassifyOptions)


def classify_pictures(path: str, options: ClassifyOptions, *, began: float | None = None) -> ImageClassifier:
    """Classify: `classify` with its options as one record.

    Args:
        path: of the pictures.
        options: of the call.
        began: `time.monotonic` when the command began, from which its time counts.
    """
    began = clock.monotonic() if began is None else began
    seconds = parse_time(options.time, param="time")
    out, report = output_paths(path, options)
    teller = Teller(options.progress, options.on_message, began, began + seconds)
    source = _open(path, options)
    teller.looked(0, len(source))
    look = look_at(source, workers=usable_cores(), progress=teller.looked)
    arranged = arrange(source, look, keys=_keys(source, options), strict=options.strict, seed=options.seed)
    options.on_message(_found_line(path, arranged, options))
    keeper = Keeper(out, options.on_message)
    keeper.check()
    result = _tune(_location(path, arranged, options), options, keeper, teller, seconds)
    teller.reporting()
    if result.report is None:
        msg = f"{out}: expected a report to be written, got none. Correct what was said above, and run the same command again."
        raise DataError(msg)
    judged = _judged(Path(result.report), keeper)
    told = judged["classifier"] | {
        "counts": arranged.counts,
        "doubtful_copies": [copy.to_dict() for copy in arranged.copies],
    }
    table = _write_labels(source, told, out, Path(result.report).parent, options)
    _store(Path(result.report), judged | {"classifier": told | {"labels_file": None if table is None else str(table)}})
    _write_page(Path(result.report), report, options)
    checks = LabelChecks(len(told.get("doubted_labels", ())), len(arranged.copies), table)
    return ImageClassifier(
        out, result, judgement_of(told), report, arranged.broken, arranged.n_alike, stays=keeper.stays,
        tested=_tested(out, options), checks=checks, seconds=clock.monotonic() - began,
    )  # fmt: skip


def output_paths(path: str, options: ClassifyOptions) -> tuple[Path, Path]:
    """Return the files of the classifier and of the report, checked.

    Raises:
        UsageError: a report or a file of another ending.
    """
    name = Path(canonical(path.split("::")[0])).name or "pictures"
    stem = name.partition(":")[2] or name
    stem = Path(stem).stem if Path(stem).suffix in (".zip", ".tar", ".npz", ".parquet") else stem
    out = Path(options.out) if options.out is not None else Path(f"{stem}.safetensors")
    if out.suffix != ".safetensors":
        msg = f"expected a file that ends in .safetensors, got {out}. Name it {out}.safetensors."
        raise UsageError(msg, param="out")
    report = Path(options.report) if options.report is not None else out.with_suffix(".html")
    if report.suffix != ".html":
        msg = f"expected a file that ends in .html, got {report}. Name it {report}.html."
        raise UsageError(msg, param="report")
    for param, file in (("out", out), ("report", report)):
        if not file.absolute().parent.is_dir():
            msg = f"expected a file in a folder that is there, got {file}. Make the folder first."
            raise UsageError(msg, param=param)
    return out, report


def usable_cores() -> int:
    """Return the cores that this process may use."""
    from joblib import cpu_count

    return int(cpu_count())


def _open(path: str, options: ClassifyOptions) -> ImageSource:
    if options.groups is not None and options.group_column is not None:
        msg = "cannot be used with `group_column`."
        raise UsageError(msg, param="groups")
    if options.group_column is not None and options.labels is None:
        msg = "needs `labels`, the table that has this column."
        raise UsageError(msg, param="group_column")
    return open_path(_labelled(path, options))


def _labelled(path: str, options: ClassifyOptions) -> str:
    return labelled(path, None if options.labels is None else os.fspath(options.labels), options.labels_column)


def _keys(source: ImageSource, options: ClassifyOptions) -> list[str] | None:
    """Return the keys by which pictures belong together; None if nothing is known."""
    if options.group_column is not None:
        return keys_by_column(source, options.group_column)
    return None if options.groups is None else keys_by_name(source, options.groups)


def _found_line(path: str, arranged: Arranged, options: ClassifyOptions) -> str:
    size = f", about {arranged.side} pixels a side" if arranged.side else ""
    n = sum(arranged.counts.values()) + len(arranged.broken)
    parts = [f"{path.rstrip('/')}: {n:,} pictures of {len(arranged.counts)} classes{size}."]
    is_grouped = options.groups is not None or options.group_column is not None
    parts += [left_out_line(arranged.broken), together_line(arranged, is_grouped=is_grouped)]
    return " ".join(filter(None, parts))


def _location(path: str, arranged: Arranged, options: ClassifyOptions) -> str:
    """Return the dataset for the study: as it is, or with a table of its parts beside the storage."""
    location = _labelled(path, options)
    if arranged.arrangement is None:
        return location
    text = arranged.arrangement.to_csv().encode("utf-8", "surrogateescape")
    storage = local_path(options.storage) or Path.cwd() / "warmstart"
    table = storage.with_name(f"{storage.stem}-reports") / f"pictures-{hashlib.sha256(text).hexdigest()[:12]}.csv"
    if not table.is_file():
        table.parent.mkdir(parents=True, exist_ok=True)
        replace_file(table, text, durable=False)
    return f"{location}{MARK}{table}"


def _tune(
    location: str,
    options: ClassifyOptions,
    keeper: Keeper,
    teller: Teller,
    seconds: float,
) -> TuneResult:
    """Tune the pretrained workload on the arranged pictures, and save its best networks."""
    start = clock.monotonic() - teller.began
    reserve_s = min(_PAGE_STARTS * start, _PAGE_S, _PAGE_SHARE * seconds) * (1 if options.test is None else 2)
    tune_options = TuneOptions.of(
        {
            "workload": WORKLOAD,
            "time": seconds - reserve_s,
            "save_model": keeper.new,
            "ensemble": NETWORKS,
            "workers": 1,
            "threads": min(usable_cores(), _MOST_THREADS),
            "report": True,
            "study": options.study,
            "storage": options.storage,
            "device": options.device,
            "seed": options.seed,
            "skip_broken": False,
            "progress": teller.compared,
            "before_saving": teller.training,
            "on_message": lambda line: options.on_detail(line.replace(str(keeper.new), str(keeper.path))),
        }
    )
    teller.reading()
    keeper.new.unlink(missing_ok=True)
    result = tune_dataset(location, tune_options, began=teller.began)
    is_of_study = result.report is not None and judged_before(Path(result.report).parent) is not None
    if not keeper.accept(is_of_study=is_of_study):
        msg = f"expected time for one network at least, got {seconds:.0f} s, in which none was trained. Run the same command again, which goes on, or give more `time`: 10m is usual."
        raise AllTrialsFailedError(msg)
    return result


def _judged(report: Path, keeper: Keeper) -> dict[str, Any]:
    """Return how the saved classifier was judged: in this call, or in the one that saved it."""
    for path in (report, report.with_suffix(".json")):  # its first name is of no use to anybody
        text = path.read_text(encoding="utf-8").replace(str(keeper.new), str(keeper.path))
        replace_file(path, text.encode(), durable=False)
    document: dict[str, Any] = json.loads(text)
    if "classifier" in document and not keeper.stays:
        return {name: document[name] for name in ("classifier", "saved_model")}
    return judged_before(report.parent) or {}


def _store(report: Path, judged: Mapping[str, Any]) -> None:
    """Store how the saved classifier was judged, for later calls and in the report."""
    store_judged(report.parent, {**(judged_before(report.parent) or {}), **judged})
    path = report.with_suffix(".json")
    document = json.loads(path.read_text(encoding="utf-8"))
    replace_file(path, (json.dumps({**document, **judged}, indent=2) + "\n").encode(), durable=False)


def _write_labels(
    source: ImageSource, told: Mapping[str, Any], out: Path, folder: Path, options: ClassifyOptions
) -> Path | None:
    """Write the table of labels to check beside the classifier; None if there are none, or no folder of pictures."""
    doubted, copies = told.get("doubted_labels", ()), told["doubtful_copies"]
    if not (doubted or copies) or not images_of(source.location).is_dir():
        return None
    before = (judged_before(folder) or {}).get(_TABLE)
    text = label_table(source, doubted, copies)
    try:
        table, digest = write_label_table(
            out.with_name(f"{out.stem}-labels.csv"), text, written=before, labels=options.labels
        )
    except (OSError, StorageError) as error:
        options.on_message(f"No table of the labels to check could be written: {error}")
        return None
    store_judged(folder, {**(judged_before(folder) or {}), _TABLE: digest})
    return table


def _write_page(report: Path, page: Path, options: ClassifyOptions) -> None:
    """Write the page of the report; a failure is a line."""
    from warmstart.plots.study_page import write_report_page

    try:
        for note in write_report_page(report, page):
            options.on_detail(note)
    except OSError as error:
        options.on_message(f"{page}: no report could be written: {error}")


def _tested(model: Path, options: ClassifyOptions) -> Tested | None:
    """Judge the classifier by the test pictures of the call, if any."""
    if options.test is None:
        return None

    predictions = predict(model, dataset=os.fspath(options.test))
    wrong = sum(row.label != row.truth for row in predictions.rows)
    return Tested(os.fspath(options.test), len(predictions.rows), wrong, predictions)


_JUDGED = "classifier.json"
"""File in the study's folder: how the saved classifier was judged, for a call whose own is no better."""


@dataclass(slots=True)
class Keeper:
    """Decides whether a new classifier takes the place of the file.

    Attributes:
        path: of the file.
        on_message: called with each line.
        stays: whether the file of an earlier call stayed.
    """

    path: Path
    on_message: Callable[[str], object]
    stays: bool = field(default=False, init=False)

    @property
    def new(self) -> Path:
        """Return the path at which a new classifier is written first."""
        return self.path.with_name(f".{self.path.stem}.new.safetensors")

    def check(self) -> None:
        """Check that the file is none of something else; raises `UsageError`."""
        check_replaceable("out", self.path, read_header, "a classifier")

    def accept(self, *, is_of_study: bool) -> bool:
        """Put a new classifier in its place, unless that has one at least as good; return whether there is one.

        Args:
            is_of_study: whether the file there is of the same study.
        """
        is_there = self.path.is_file() and self.path.stat().st_size > 0
        if not self.new.is_file():
            self.stays = is_there and is_of_study
            return self.stays
        if is_there:
            before, after = read_header(self.path), read_header(self.new)
            if not is_of_study or any(before.get(name) != after.get(name) for name in ("dataset", "classes")):
                self._move_away()
            elif float(before["error"]) <= float(after["error"]):
                self.stays = True
                self.new.unlink()
                return True
        self.new.replace(self.path)
        return True

    def _move_away(self) -> None:
        """Keep the classifier of other pictures, or of another study, under the next free name."""
        names = (self.path.with_stem(f"{self.path.stem}-{number}") for number in itertools.count(1))
        backup = next(name for name in names if not name.exists())
        self.path.rename(backup)
        self.on_message(f"{self.path.name} was of other pictures, or of another study: it is kept as {backup.name}.")


def store_judged(folder: Path, record: Mapping[str, Any]) -> None:
    """Store how the saved classifier was judged."""
    replace_file(folder / _JUDGED, (json.dumps(record) + "\n").encode(), durable=False)


def judged_before(folder: Path) -> dict[str, Any] | None:
    """Return what `store_judged` stored; None without it."""
    try:
        record: dict[str, Any] = json.loads((folder / _JUDGED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record
