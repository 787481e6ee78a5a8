"""`/v1/descriptors`: post and get descriptors of datasets."""

from itertools import pairwise
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field

from warmstart.descriptor import MOST_BYTES, MOST_COUNTS, Descriptor
from warmstart.service.bodies import Body, Number, StrictRoute, problems
from warmstart.service.core import Reader, Shared
from warmstart.service.problems import ProblemError

router = APIRouter(tags=["suggestions"], route_class=StrictRoute)
ROUNDING = 1.2
"""Largest ratio of the sum of counts, rounded to two digits, to the rounded number of images."""
EXAMPLE: dict[str, Any] = {
    "schema_version": 1,
    "extractor": "f87e4b23fa293525",
    "vector": [0.01] * 256,
    "n_images": 396,
    "n_classes": 3,
    "class_counts": [150, 130, 116],
    "sample": None,
}
"""A reduced descriptor; the vector of a real one is what the extractor computed."""


class SignalBody(Body):
    """The class signal of the pictures."""

    score: Number
    weight: Number


class SampleBody(Body):
    """Statistics of the sampled pictures."""

    n_images: Annotated[int, Field(ge=1, le=10_000)]
    distinct: Annotated[float, Field(ge=0, le=1)]
    paired: Annotated[float, Field(ge=0, le=1)]
    signal: SignalBody
    pixels: Annotated[list[Number], Field(min_length=10, max_length=64)]


class DescriptorBody(Body):
    """A dataset without its pictures: computed by `warmstart.Client`, or by `Advisor.describe`."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    schema_version: Literal[1]
    extractor: Annotated[str, Field(min_length=1, max_length=128, description="Hash of the model of the vector.")]
    vector: Annotated[list[Number], Field(min_length=1, max_length=4096, description="The meta-feature.")]
    n_images: Annotated[int, Field(ge=2, le=2**53)]
    n_classes: Annotated[int, Field(ge=2, le=2**53)]
    class_counts: Annotated[
        list[Annotated[int, Field(ge=1, le=2**53)]],
        Field(min_length=1, max_length=MOST_COUNTS, description="Images of each class, the largest first; no names."),
    ]
    sample: SampleBody | None = Field(None, description="Left out of a reduced descriptor.")
    features: Annotated[list[Number], Field(max_length=200)] | None = Field(
        None, description="Handcrafted features, for the error to expect; left out likewise."
    )

    def read(self) -> Descriptor:
        """Return the descriptor.

        Raises:
            ProblemError: 413, too large; 422, contradicting numbers.
        """
        self._check_counts()
        descriptor = Descriptor.from_dict(self.model_dump())
        is_small = (
            len(descriptor.class_counts) + descriptor.vector.size < MOST_BYTES // 40
        )  # cheaper than to write it out
        if not is_small and len(descriptor.to_json()) > MOST_BYTES:
            detail = f"expected a descriptor of at most {MOST_BYTES:,} bytes, got {len(descriptor.to_json()):,}. Tell of fewer classes."
            raise ProblemError(413, "Too large", detail, pointer="/class_counts")
        return descriptor

    def _check_counts(self) -> None:
        """Check the class counts against the numbers of images and classes; a reduced descriptor has rounded ones."""
        counts, n_counts = self.class_counts, min(self.n_classes, MOST_COUNTS)
        fault = None
        if len(counts) != n_counts:
            fault = f"{n_counts:,} counts for {self.n_classes:,} classes, got {len(counts):,}"
        elif any(larger < smaller for larger, smaller in pairwise(counts)):
            fault = "the largest count first, got another order"
        elif sum(counts) > ROUNDING * self.n_images:
            fault = f"counts of {self.n_images:,} images, got {sum(counts):,} in all"
        if fault is not None:
            detail = f"expected {fault}. Compute the descriptor with `warmstart.Client`, or by `Advisor.describe`."
            raise ProblemError(422, "No descriptor", detail, pointer="/class_counts")


class DescriptorRecord(Body):
    """A descriptor stored until the server restarts or a thousand newer ones are posted."""

    id: str
    descriptor: DescriptorBody
    notes: list[str] = Field(default_factory=list, description="Of an upload: pictures left out.")


_OF_DESCRIPTOR: dict[str, Any] = {
    "descriptor": {"operationId": "get_descriptor", "parameters": {"descriptor_id": "$response.body#/id"}},
    "suggestions": {"operationId": "post_suggestions", "requestBody": {"descriptor": "$response.body#/id"}},
    "neighbours": {"operationId": "post_neighbours", "requestBody": {"descriptor": "$response.body#/id"}},
}


@router.post("/descriptors", status_code=201, responses={**problems(), 201: {"links": _OF_DESCRIPTOR}})
def post_descriptor(
    body: DescriptorBody, request: Request, response: Response, service: Shared, _: Reader
) -> DescriptorRecord:
    """Check and store a descriptor; later requests can name it by its id."""
    descriptor = body.read()
    # Refuses an unknown extractor.
    service.advisor().locate(descriptor)
    descriptor_id = service.add_descriptor(descriptor)
    response.headers["location"] = request.url_for("get_descriptor", descriptor_id=descriptor_id).path
    return _record(descriptor_id, descriptor)


@router.get("/descriptors/{descriptor_id}", responses=problems(404))
def get_descriptor(descriptor_id: Annotated[str, Path(max_length=64)], service: Shared, _: Reader) -> DescriptorRecord:
    """Return a posted descriptor."""
    return _record(descriptor_id, service.find_descriptor(descriptor_id))


def _record(descriptor_id: str, descriptor: Descriptor) -> DescriptorRecord:
    return DescriptorRecord(id=descriptor_id, descriptor=DescriptorBody.model_validate(descriptor.to_dict()))


def read_descriptor(descriptor: DescriptorBody | str, service: Shared) -> Descriptor:
    """Return a descriptor given by its body or by its id."""
    return service.find_descriptor(descriptor) if isinstance(descriptor, str) else descriptor.read()
