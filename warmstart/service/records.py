"""Response models for the OpenAPI document; responses are built elsewhere as plain dicts, without validation by these."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Values = dict[str, int | float | str | bool]


class BestTrial(BaseModel):
    """The best trial of a study."""

    number: int
    error: float
    value: float = Field(description="Of the study's metric; the error where it has none.")
    config: Values
    natural: dict[str, float] = Field(description="Hyperparameters that the space has as logarithms.")


class WarmStartRecord(BaseModel):
    """The warm start of a study."""

    mode: Literal["design", "initial", "extra", "none"]
    configs: list[dict[str, Any]]
    n_design: int = Field(description="Trials before the surrogate decides.")


class StudyRecord(BaseModel):
    """A study."""

    model_config = ConfigDict(extra="allow")

    schema_version: int
    name: str
    space: dict[str, Any] = Field(description="ConfigSpace JSON.")
    objective: dict[str, str | None]
    search: dict[str, Any]
    warm: WarmStartRecord
    related: list[dict[str, Any]]
    members: list[str] = Field(description="Studies that are tuned together with it, itself among them.")
    split: Literal["equal", "gain"]
    trials: dict[str, int] = Field(description="How many are in each state.")
    n_trials: int
    exhausted: bool = Field(description="Every configuration of the space had its trial.")
    best: BestTrial | None


class Share(BaseModel):
    """Share of the variance of the predicted error that a hyperparameter has, in [0, 1]."""

    name: str
    total: float = Field(description="Interactions included; the median of the posterior.")
    low: float = Field(description="5 % of the posterior of the total lies below.")
    high: float = Field(description="5 % of the posterior of the total lies above.")
    alone: float = Field(description="By itself.")


class ImportanceRecord(BaseModel):
    """Importance of all hyperparameters of a study."""

    surrogate: str
    n_trials: int = Field(description="That ended, among them those without an error.")
    hyperparameters: list[Share] = Field(description="The most important first.")


class BegunStudy(StudyRecord):
    """A new or existing study."""

    notes: list[str] = Field(description="Notes for people.")


class TrialRecord(BaseModel):
    """A trial of a study."""

    number: int
    state: Literal["running", "ok", "diverged", "failed", "crashed", "timeout", "oom", "killed", "pruned"]
    config: Values
    seed: int | None
    error: float | None
    duration: float | None = Field(description="Seconds.")
    note: str
    metrics: dict[str, float]
    constraints: dict[str, float]
    curve: list[list[float | None]] = Field(description="Pairs [step, error].")
    client: str | None = Field(description="Who runs it, or ran it last; null where it was given back.")
    lease_until: float | None = Field(description="Seconds since 1970; null where nobody holds it.")
    offers: int
    extra_of: int | None = Field(description="The trial for which this result came too late.")


class TrialPage(BaseModel):
    """Part of a study's trials; `next` is the cursor of the part after it, null at the end."""

    items: list[TrialRecord]
    next: str | None


class StudyItem(BaseModel):
    """A study in a list."""

    name: str
    n_trials: int
    n_ended: int


class StudyPage(BaseModel):
    """Part of the studies; `next` is the cursor of the part after it, null at the end."""

    items: list[StudyItem]
    next: str | None


class HistoryRecord(BaseModel):
    """The history as a whole."""

    model_config = ConfigDict(extra="allow")

    history: str = Field(description="Name of its file.")
    id: str
    revision: int
    n_datasets: int
    n_configs: int
    n_evaluations: int


class DatasetItem(BaseModel):
    """A dataset of the history, in a list."""

    model_config = ConfigDict(extra="allow")

    name: str
    group: str
    n_classes: int
    n_evaluations: int
    best_error: float | None


class DatasetPage(BaseModel):
    """Part of the datasets; `next` is the cursor of the part after it, null at the end."""

    items: list[DatasetItem]
    next: str | None


class DatasetRecord(BaseModel):
    """A dataset of the history: record, best configurations, nearest datasets."""

    model_config = ConfigDict(extra="allow")

    name: str
    group: str
    best_configs: list[dict[str, Any]]
    nearest: list[dict[str, Any]]


class RunItem(BaseModel):
    """A run of one configuration."""

    config: Values
    error: float | None
    status: Literal["ok", "diverged", "crashed", "timeout", "oom"]
    duration: float | None
    seed: int | None
    curve: list[list[float]]
    origin: str


class RunPage(BaseModel):
    """Part of the runs; `next` is the cursor of the part after it, null at the end."""

    items: list[RunItem]
    next: str | None


class MapPoint(BaseModel):
    """A dataset of the history in the plane."""

    name: str
    group: str
    position: list[float] = Field(min_length=2, max_length=2)


class MapRecord(BaseModel):
    """The map of the history's datasets."""

    share: float = Field(description="Of all differences that the plane shows.")
    datasets: list[MapPoint]
    own: list[float] | None = Field(description="Where the descriptor's dataset lies.")
