"""What every body of a request has in common, and how problems look in the OpenAPI document."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from warmstart.service.problems import MEDIA_TYPE


class Body(BaseModel):
    """A JSON object of known fields, whose values are of the types stated."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class FieldProblem(BaseModel):
    """One field at fault."""

    pointer: str
    detail: str


class ProblemBody(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="What was expected, what came, the next step.")
    pointer: str | None = Field(None, description="JSON pointer to the field of the body at fault.")
    accepted: list[str] | None = Field(None, description="With an unknown extractor: those that the server accepts.")
    errors: list[FieldProblem] | None = None
    request_id: str


KEY = r"^[\x21-\x7e]{1,200}$"
"""An idempotency key: printed characters, in quotes or without."""


def plain_key(key: str | None) -> str | None:
    """Return an idempotency key without the quotes in which some clients put it."""
    return None if key is None else key.strip('"')


Number = Annotated[float, Field(ge=-3e38, le=3e38)]
"""Of meta-features, which are float32; what workers measure may be any finite number."""
Name = Annotated[str, Field(min_length=1, max_length=200)]
_TEXTS = {
    400: "A call that cannot be carried out.",
    401: "No token, or one that is not known.",
    403: "Another host, another origin, or a token of a lesser scope.",
    404: "It is not there.",
    408: "The body did not arrive in time.",
    409: "It does not fit the present state.",
    413: "The body is too large.",
    415: "The content type is another.",
    422: "The body does not fit the schema, or an unknown extractor.",
    423: "Another writer holds the history.",
    429: "Too many requests.",
    500: "An error of the server.",
    503: "A file or a database of the server does not answer.",
    507: "No space is left.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that a route may answer with, those of every route among them."""
    every = {400, 401, 403, 408, 413, 415, 422, 429, 503, *statuses}
    schema = {"schema": {"$ref": "#/components/schemas/ProblemBody"}}
    return {status: {"description": _TEXTS[status], "content": {MEDIA_TYPE: schema}} for status in sorted(every)}
