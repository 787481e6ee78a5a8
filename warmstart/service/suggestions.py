"""`/v1/suggestions` and `/v1/neighbours`: `warmstart suggest` and `warmstart neighbours` for a descriptor."""

from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.service.answers import answer_to_wire
from warmstart.service.bodies import Body, Name, StrictRoute, problems
from warmstart.service.core import Reader, Service, Shared
from warmstart.service.descriptors import EXAMPLE, DescriptorBody, read_descriptor
from warmstart.service.spaces import space_from_wire

router = APIRouter(tags=["suggestions"], route_class=StrictRoute)
DescriptorOrId = Annotated[
    Annotated[DescriptorBody, Tag("object")] | Annotated[str, Field(min_length=1, max_length=64), Tag("id")],
    Discriminator(lambda value: "id" if isinstance(value, str) else "object"),
    Field(description="A descriptor, or the id of one that was posted."),
]
Seed = Annotated[int, Field(ge=0, le=2**53)]


class SuggestionRequest(Body):
    """A request for suggestions."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"descriptor": EXAMPLE, "k": 3}]})

    descriptor: DescriptorOrId
    k: Annotated[int, Field(ge=1, le=10_000)] | None = Field(None, description="3 when left out.")
    strategy: Literal[tuple(STRATEGIES)] | None = Field(  # type: ignore[valid-type]
        None, description="The one that wins the evaluation when left out."
    )
    space: dict[str, Any] | Name | None = Field(
        None, description="Suggest for this space: ConfigSpace JSON, the short form, or the name of a workload's."
    )
    rename: Annotated[dict[Name, Name], Field(max_length=200)] | None = None
    exclude_group: Annotated[list[Name], Field(max_length=200, default_factory=list)]
    explain: bool = False
    seed: Seed = 0


class NeighbourRequest(Body):
    """A request for the nearest datasets."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"descriptor": EXAMPLE, "k": 5}]})

    descriptor: DescriptorOrId
    k: Annotated[int, Field(ge=1, le=100_000)] = 10
    exclude_group: Annotated[list[Name], Field(max_length=200, default_factory=list)]


class NeighbourBody(BaseModel):
    """A dataset of the history."""

    name: str
    distance: float
    distance_range: list[float] | None
    best_error: float | None


class ExpectedErrorBody(BaseModel):
    """An error in [0, 1], and the interval in which it lies with the probability `level`."""

    value: float
    low: float
    high: float
    level: float


class SuggestionBody(BaseModel):
    """A configuration to try."""

    config: dict[str, Any]
    natural: dict[str, float]
    source: str | None = Field(None, alias="from")
    distance: float | None
    source_error: float | None
    expected_regret: float | None
    expected_error: ExpectedErrorBody | None = Field(
        None, description="To expect of it here; null where the history or the descriptor tells too little."
    )
    measured: bool
    not_measured: list[str]
    why: str


class ConfidenceBody(BaseModel):
    """How much the history says about the dataset."""

    typical: bool
    distance_percentile: float | None
    note: str
    reasons: list[str]


class AnswerBody(BaseModel):
    """The document of `warmstart suggest --format json`, with notes, the space and a line on each suggestion."""

    schema_version: int
    dataset: dict[str, Any]
    neighbours: list[NeighbourBody]
    suggestions: list[SuggestionBody]
    strategy: str
    confidence: ConfidenceBody
    history: str
    model: str
    seed: int
    notes: list[str]
    space: dict[str, Any] | None
    expected_error: ExpectedErrorBody | None = Field(None, description="Of the best configuration after a search.")
    measured_with: dict[str, Any] | None = Field(None, description="What the configurations are for.")
    explanation: dict[str, Any] | None = None


@router.post("/suggestions", response_model=AnswerBody, response_model_exclude_unset=True, responses=problems(404, 409))
async def post_suggestions(body: SuggestionRequest, service: Shared, _: Reader) -> dict[str, Any]:
    """Suggest configurations that won on similar datasets."""
    return await to_thread.run_sync(_suggest, body, service, limiter=service.answers)


def _suggest(body: SuggestionRequest, service: Service) -> dict[str, Any]:
    descriptor = read_descriptor(body.descriptor, service)
    service.embedded(descriptor)
    answer = service.advisor(tuple(body.exclude_group), body.seed).suggest(
        descriptor,
        body.k,
        strategy=body.strategy,
        space=None if body.space is None else space_from_wire(body.space),
        rename=body.rename,
        explain=body.explain,
    )
    return answer_to_wire(answer)


@router.post("/neighbours", response_model=AnswerBody, response_model_exclude_unset=True, responses=problems(404, 409))
async def post_neighbours(body: NeighbourRequest, service: Shared, _: Reader) -> dict[str, Any]:
    """List the nearest datasets of the history."""
    return await to_thread.run_sync(_neighbours, body, service, limiter=service.answers)


def _neighbours(body: NeighbourRequest, service: Service) -> dict[str, Any]:
    descriptor = read_descriptor(body.descriptor, service)
    service.embedded(descriptor)
    return answer_to_wire(service.advisor(tuple(body.exclude_group)).neighbours(descriptor, body.k))
