"""Bodies of requests and responses on studies and trials."""

import re
from dataclasses import Field as DataclassField
from dataclasses import fields
from typing import Annotated, Any, Literal

from fastapi import Header, Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from warmstart.option import about
from warmstart.service.bodies import KEY, Body, Name
from warmstart.service.suggestions import DescriptorOrId, Seed
from warmstart.studies.options import Search, WarmStart

NAME = r"^(\.{0,2}[^./\x00-\x1f\x7f][^/\x00-\x1f\x7f]*|\.{3,}[^/\x00-\x1f\x7f]*)$"
"""Pattern of names: no slash, no control character, and neither . nor .., which clients take for folders."""


def _check_name(name: str) -> str:
    if re.fullmatch(NAME, name) is None:
        msg = "expected a name without slashes and control characters, other than . and .., which clients take for folders"
        raise ValueError(msg)
    return name


StudyName = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^/]+$")]
StudyId = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": NAME}), AfterValidator(_check_name)
]
Number_ = Annotated[int, Path(ge=0, le=2**31 - 1, description="Of the trial, as it was offered.")]
Client = Annotated[
    str,
    Field(
        min_length=1,
        max_length=100,
        pattern=r"^[\w.:@-]+$",
        description="Names the worker: what it asked for, it tells of.",
    ),
]
LeaseS = Annotated[
    float, Field(gt=0, le=86_400, description="Seconds in which a report, a heartbeat or a result has to come.")
]
AskKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", pattern=KEY, description="The same key again gets the same trial."),
]
Config = Annotated[dict[str, int | float | str | bool], Field(min_length=1, max_length=1000)]


def _option_type(item: DataclassField[Any]) -> Any:
    """Return the type of an option in a request: that of the record, with its limits."""
    option = about(item)
    if option.choices and item.name != "surrogate":  # checked with the related datasets in view
        choices = option.choices if isinstance(option.choices, tuple) else tuple(option.choices())
        return Literal[choices] if item.default is not None else Literal[choices] | None
    types = {
        "seed": Seed,
        "exclude_group": Annotated[list[Name], Field(max_length=200)],
        "related": Annotated[list[Name], Field(max_length=100)],
        "rename": Annotated[dict[Name, Name], Field(max_length=200)],
        "initial": Annotated[list[Config], Field(max_length=1000)],
        "neighbours": Annotated[int, Field(ge=1, le=100)],
        "budget": Annotated[float, Field(gt=0, le=3e38)] | None,
        "maximize": bool,
    }
    if item.name in types:
        return types[item.name]
    if option.least is not None:
        return Annotated[int, Field(ge=option.least, le=1000)]
    text = Annotated[str, Field(max_length=200)]
    return text if item.default is not None else text | None


def _option_field(item: DataclassField[Any]) -> tuple[Any, Any]:
    default: dict[str, Any] = {"default": item.default}
    if item.default == ():
        default = {"default_factory": dict if item.name == "rename" else list}
    return _option_type(item), Field(**default, description=about(item).help)


RENAMED = {"n_startup_trials": "startup"}
"""Options that have another name in requests."""
_OPTIONS: dict[str, Any] = {
    RENAMED.get(item.name, item.name): _option_field(item) for group in (Search, WarmStart) for item in fields(group)
}


class StudyRequest(create_model("_StudyOptions", __base__=Body, **_OPTIONS)):  # type: ignore[misc]  # made from records
    """A study to begin, or to return if it exists; the options are those of `warmstart tune`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "photos", "space": {"lr": {"log": [1e-5, 0.1]}, "layers": {"int": [1, 4]}}, "surrogate": "gp"}
            ]
        }
    )

    name: StudyId
    space: dict[str, Any] | Name | None = Field(
        None, description="ConfigSpace JSON, the short form, or a name; the history's when left out."
    )
    descriptor: DescriptorOrId | None = Field(
        None, description="Of the dataset: the study begins with what won on those like it."
    )
    fingerprint: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="Of the dataset, where `warmstart tune --dataset` shall be able to go on with the study."
    )
    objective: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        None, description="Name of the function that workers evaluate; never loaded here."
    )
    command: Annotated[str, Field(min_length=1, max_length=5000)] | None = Field(
        None, description="Command that workers run; never run here."
    )
    workload: Name | None = Field(None, description="Instead of these: what workers train; never trained here.")
    target_budget: Name | None = None
    members: Annotated[
        list[StudyId],
        Field(
            max_length=100,
            default_factory=list,
            description="Studies that are tuned together, this one among them: they share a number of trials, and each learns from the others.",
        ),
    ]
    split: Literal["equal", "gain"] = Field(
        "equal", description="How these share the trials: in turn, or where the next one promises the most."
    )


class ArchiveRequest(Body):
    """Whether a study is out of sight."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"archived": True}]})

    archived: bool


class AskRequest(Body):
    """A request for trials to run."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"client": "worker-1", "lease_s": 60}]})

    client: Client
    lease_s: LeaseS = 60.0
    count: Annotated[int, Field(ge=1, le=64, description="Trials, at most.")] = 1
    trials: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        None, description="That the study shall have in the end; any when left out."
    )


class OfferedTrial(BaseModel):
    """A trial that the client holds until its lease ends."""

    study: str = Field(description="Whose it is: of studies that are tuned together, it may be another one.")
    number: int
    config: dict[str, Any]
    seed: int
    budget: float | None
    lease_until: float = Field(description="Seconds since 1970; a report or a heartbeat moves it.")
    is_over: bool = Field(description="It was told of already: the request is an old one.")


class Offered(BaseModel):
    """The trials offered to a client."""

    state: Literal["offered", "wait", "done"] = Field(
        description="wait: the last trials run elsewhere, or too many ask, ask again; done: the study has all that it shall have."
    )
    trials: list[OfferedTrial]


class ReportRequest(Body):
    """An intermediate result of a trial: the error, or the study's metric as value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"client": "worker-1", "step": 100, "error": 0.35}]})

    client: Client
    step: Annotated[float, Field(ge=0, le=2**53)]
    error: float | None = None
    value: float | None = None
    lease_s: LeaseS = 60.0


class Reported(BaseModel):
    """The response to a report: whether to stop."""

    stop: bool = Field(description="The pruner would stop the trial here: tell its result with status pruned.")
    lease_until: float
    expected_error: dict[str, float] | None = Field(
        default=None, description="Of the trial at its end: value, low, high, level; where the pruner is history."
    )


class HeartbeatRequest(Body):
    """A request to renew a lease."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"client": "worker-1", "lease_s": 60}]})

    client: Client
    lease_s: LeaseS = 60.0


class Renewed(BaseModel):
    """A renewed lease."""

    lease_until: float


class ReleaseRequest(Body):
    """A request to release a trial without a result."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"client": "worker-1"}]})

    client: Client


class TellRequest(Body):
    """The result of a trial: the error, or the study's metric as value, or a status without an error."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"client": "worker-1", "error": 0.12, "duration": 340.5}]}
    )

    client: Client
    error: float | None = None
    value: float | None = None
    status: Literal["ok", "diverged", "failed", "crashed", "timeout", "oom", "killed", "pruned"] | None = Field(
        None, description="ok with an error, failed without one, when left out."
    )
    duration: Annotated[float, Field(ge=0)] | None = None
    note: Annotated[str, Field(max_length=1000)] = ""
    curve: Annotated[
        list[Annotated[list[float], Field(min_length=2, max_length=2)]],
        Field(max_length=100_000, default_factory=list),
    ]
    metrics: Annotated[dict[Name, float], Field(max_length=10_000, default_factory=dict)]
    constraints: Annotated[dict[Name, float], Field(max_length=200, default_factory=dict)]
