"""`/v1/studies`: studies of `warmstart tune` for remote workers; the server runs no trial."""

import contextlib
import math
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from anyio import current_time, to_thread
from fastapi import APIRouter, Request, Response

from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import dump_space, load_space
from warmstart.locations import glance, history_path
from warmstart.service.auth import LOOPBACK_TOKEN, Token
from warmstart.service.bodies import StrictRoute, plain_key, problems
from warmstart.service.core import Reader, Service, Shared, audit, check_scope, writes
from warmstart.service.descriptors import read_descriptor
from warmstart.service.etags import UNCHANGED, NoneMatch, with_etag
from warmstart.service.pages import Cursor, Limit, page_of
from warmstart.service.problems import ProblemError
from warmstart.service.records import BegunStudy, ImportanceRecord, StudyPage, StudyRecord, TrialPage, TrialRecord
from warmstart.service.spaces import space_from_wire
from warmstart.service.study_bodies import (
    ArchiveRequest,
    AskKey,
    AskRequest,
    HeartbeatRequest,
    Number_,
    Offered,
    OfferedTrial,
    ReleaseRequest,
    Renewed,
    Reported,
    ReportRequest,
    StudyName,
    StudyRequest,
    TellRequest,
)
from warmstart.service.study_records import study_record, trial_record
from warmstart.service.turns import Turns
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.objectives.metric import ContradictionError
from warmstart.studies.objectives.result import one_line
from warmstart.studies.state.attributes import PLAN
from warmstart.studies.state.lease import TOKEN_END
from warmstart.studies.state.spec import StudySpec, multitask_surrogates
from warmstart.suggestions.lookup import Sources
from warmstart.training.workloads import get_workload

if TYPE_CHECKING:
    from warmstart.descriptor import Descriptor
    from warmstart.studies.state.leased_trials import LeasedTrial, LeasedTrials

router = APIRouter(tags=["studies"], route_class=StrictRoute)

_OF_STUDY = {
    "ask": {"operationId": "ask", "parameters": {"name": "$response.body#/name"}},
    "trials": {"operationId": "get_trials", "parameters": {"name": "$response.body#/name"}},
    "study": {"operationId": "get_study", "parameters": {"name": "$response.body#/name"}},
}
_TRIAL = {"name": "$response.body#/trials/0/study", "number": "$response.body#/trials/0/number"}
_CLIENT = {"client": "$request.body#/client"}
_OF_TRIAL = {
    "report": {"operationId": "report", "parameters": _TRIAL, "requestBody": {**_CLIENT, "step": 1, "error": 0.5}},
    "heartbeat": {"operationId": "heartbeat", "parameters": _TRIAL, "requestBody": _CLIENT},
    "release": {"operationId": "release", "parameters": _TRIAL, "requestBody": _CLIENT},
    "tell": {"operationId": "tell", "parameters": _TRIAL, "requestBody": {**_CLIENT, "error": 0.5}},
}
_EXISTING_STUDY: dict[str, Any] = {"model": BegunStudy, "description": "It was begun before.", "links": _OF_STUDY}


@router.post(
    "/studies",
    status_code=201,
    response_model=None,
    responses={**problems(404, 409, 507), 200: _EXISTING_STUDY, 201: {"model": BegunStudy, "links": _OF_STUDY}},
)
async def post_study(
    body: StudyRequest,
    request: Request,
    response: Response,
    service: Shared,
    token: Annotated[Token, writes("studies.begin", "read")],
) -> dict[str, Any]:
    """Begin a study; the same request again returns it, a different one of that name is refused."""
    request.state.write["study"] = body.name
    for name in (body.name, *body.members):
        check_scope(token, "run", name)
    is_new, record = await to_thread.run_sync(_begin_study, body, service, token, limiter=service.answers)
    if is_new:
        audit(request)
    else:
        response.status_code = 200
    response.headers["location"] = request.url_for("get_study", name="-").path[:-1] + quote(body.name, safe="")
    return record


def _begin_study(body: StudyRequest, service: Service, token: Token) -> tuple[bool, dict[str, Any]]:
    """Begin a study, which is its token's, or find it; return whether it is new, and its record."""
    descriptor = None if body.descriptor is None else read_descriptor(body.descriptor, service)
    notes: list[str] = []

    def complete(plan: "StudySpec") -> "StudySpec":
        from warmstart.studies.history.warm_start import ask_history

        if plan.warm == "none" and plan.pruner != "history" and not plan.related:
            return plan
        sources = Sources(history=service.settings.history, model=service.settings.model, cache=False)
        return ask_history(plan, sources=sources, on_message=notes.append, query=descriptor)

    owner = None if token is LOOPBACK_TOKEN else token.name
    is_new = service.studies.begin(body.name, _plan(body, descriptor, service, notes), complete, owner)
    with service.studies.study(body.name) as trials:
        return is_new, {**study_record(trials.queue), "notes": notes if is_new else []}


@router.get("/studies", response_model=None, responses={**problems(), **UNCHANGED, 200: {"model": StudyPage}})
def get_studies(
    service: Shared,
    response: Response,
    token: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    none_match: NoneMatch = None,
) -> dict[str, Any]:
    """List the studies that the token may read in the order in which they were begun, with their numbers of trials."""
    part, following = page_of(
        [item for item in list_studies(service) if token.allows("read", item["name"])], limit, cursor
    )
    return with_etag({"items": part, "next": following}, response, none_match)


@router.get(
    "/studies/{name}", response_model=None, responses={**problems(404), **UNCHANGED, 200: {"model": StudyRecord}}
)
def get_study(
    name: StudyName, service: Shared, response: Response, _: Reader, none_match: NoneMatch = None
) -> dict[str, Any]:
    """Return a study: options, numbers of trials, best trial."""
    with service.studies.study(name) as trials:
        return with_etag(study_record(trials.queue), response, none_match)


@router.get("/studies/{name}/importance", responses=problems(404))
async def get_importance(name: StudyName, service: Shared, _: Reader) -> ImportanceRecord:
    """Return the importance of the hyperparameters, by the study's surrogate; 422 with fewer than five errors."""
    return await to_thread.run_sync(lambda: service.views().importance(name), limiter=service.asks)


@router.post("/studies/{name}/archive", status_code=204, responses=problems(404, 507))
def archive_study(
    name: StudyName,
    body: ArchiveRequest,
    request: Request,
    service: Shared,
    _: Annotated[Token, writes("studies.archive")],
) -> None:
    """Put a study out of sight on the page, or back; nothing else changes."""
    audit(request, archived=body.archived)
    service.studies.archive(name, archived=body.archived)


@router.delete("/studies/{name}", status_code=204, responses=problems(404, 409, 507))
def delete_study(
    name: StudyName, request: Request, service: Shared, _: Annotated[Token, writes("studies.delete", "admin")]
) -> None:
    """Delete a study with its trials; refused while one of them is under way."""
    audit(request)
    service.studies.delete(name)


@router.get(
    "/studies/{name}/trials", response_model=None, responses={**problems(404), **UNCHANGED, 200: {"model": TrialPage}}
)
def get_trials(
    name: StudyName,
    service: Shared,
    response: Response,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    none_match: NoneMatch = None,
) -> dict[str, Any]:
    """List the trials of a study by number."""
    with service.studies.study(name) as trials:
        part, following = page_of(trials.queue.trials(), limit, cursor)
    return with_etag({"items": [trial_record(trial) for trial in part], "next": following}, response, none_match)


@router.get(
    "/studies/{name}/trials/{number}",
    response_model=None,
    responses={**problems(404), **UNCHANGED, 200: {"model": TrialRecord}},
)
def get_trial(
    name: StudyName, number: Number_, service: Shared, response: Response, _: Reader, none_match: NoneMatch = None
) -> dict[str, Any]:
    """Return one trial: configuration, state and result."""
    with service.studies.study(name) as trials:
        trial_list = trials.queue.trials()
    if number >= len(trial_list):
        detail = f"expected the number of a trial of {name[:80]!r}, got {number}. Ask for one."
        raise ProblemError(404, "No such trial", detail, pointer="/path/number")
    return with_etag(trial_record(trial_list[number]), response, none_match)


@router.post("/studies/{name}/trials:ask", responses={**problems(404, 409, 507), 200: {"links": _OF_TRIAL}})
async def ask(
    name: StudyName,
    body: AskRequest,
    request: Request,
    service: Shared,
    token: Annotated[Token, writes("trials.ask")],
    key: AskKey = None,
) -> Offered:
    """Ask for trials: first those that lost their worker, once, then new ones. The same key again gets the same."""
    turns, began = service.turns.setdefault(name, Turns()), current_time()
    token_key = f"{token.name}{TOKEN_END}{plain_key(key) or uuid.uuid4().hex}"
    offered = Offered(state="wait", trials=[])
    async with turns.turn() as is_here:
        # Nobody would run a trial of who is gone, and others wait for it.
        if is_here and await request.is_disconnected():
            raise ProblemError(503, "Gone", "expected a client that waits for the answer, got none. Ask again.")
        if is_here:
            offered = await to_thread.run_sync(
                _offer_trials, name, body, service, token, token_key, limiter=service.asks
            )
    if offered.state == "wait":
        await turns.pause(began, lambda: service.is_stopping)
    if offered.trials:
        audit(request, client=body.client, trials=[trial.number for trial in offered.trials])
    return offered


def _offer_trials(name: str, body: AskRequest, service: Service, token: Token, key: str) -> Offered:
    """Offer a client the number of trials that it asks for, of all studies that are tuned together with one."""
    total = math.inf if body.trials is None else body.trials
    offered: list[OfferedTrial] = []
    for i in range(body.count):
        with service.studies.group(name) as group:
            for member in group.members:
                check_scope(token, "run", member.queue.study.study_name)
            leased = group.ask(body.client, f"{key}.{i}", lease_s=body.lease_s, total=total)
        if leased is None and service.webhook is not None:
            service.webhook.notify(member.queue.study.study_name for member in group.members)
        if leased is None or leased == "wait":
            return Offered(state="offered" if offered else "done" if leased is None else "wait", trials=offered)
        offered.append(_offered_trial(*leased))
    return Offered(state="offered", trials=offered)


@router.post("/studies/{name}/trials/{number}:report", responses=problems(404, 409, 507))
def report(
    name: StudyName,
    number: Number_,
    body: ReportRequest,
    request: Request,
    service: Shared,
    token: Annotated[Token, writes("trials.report")],
) -> Reported:
    """Report the error so far; renews the lease and returns whether to stop."""
    with _trials_of(service, name, number, body.client, token) as trials:
        error = _error_of(body.error, body.value, trials.queue.plan)
        if error is None:
            raise _no_result()
        stop, lease = trials.report(number, body.client, body.step, error, lease_s=body.lease_s)
        heading = trials.heading(number)
    audit(request, client=body.client, trial=number)
    return Reported(stop=stop, lease_until=lease.until, expected_error=None if heading is None else heading.to_dict())


@router.post("/studies/{name}/trials/{number}:heartbeat", responses=problems(404, 409, 507))
def heartbeat(
    name: StudyName,
    number: Number_,
    body: HeartbeatRequest,
    service: Shared,
    token: Annotated[Token, writes("trials.heartbeat")],
) -> Renewed:
    """Renew the lease of a trial."""
    with _trials_of(service, name, number, body.client, token) as trials:
        lease = trials.renew(number, body.client, lease_s=body.lease_s)
    return Renewed(lease_until=lease.until)


@router.post(
    "/studies/{name}/trials/{number}:release",
    response_model=None,
    responses={**problems(404, 409, 507), 200: {"model": TrialRecord}},
)
def release(
    name: StudyName,
    number: Number_,
    body: ReleaseRequest,
    request: Request,
    service: Shared,
    token: Annotated[Token, writes("trials.release")],
) -> dict[str, Any]:
    """Release a trial without a result: the next request gets it at once, and this offer does not count."""
    audit(request, client=body.client, trial=number)
    with _trials_of(service, name, number, body.client, token) as trials:
        return trial_record(trials.release(number, body.client))


@router.post(
    "/studies/{name}/trials/{number}:tell",
    response_model=None,
    responses={**problems(404, 409, 507), 200: {"model": TrialRecord}},
)
def tell(
    name: StudyName,
    number: Number_,
    body: TellRequest,
    request: Request,
    service: Shared,
    token: Annotated[Token, writes("trials.tell")],
) -> dict[str, Any]:
    """Record the result of a trial, stored before the response; the same result again changes nothing.

    After the end of the lease: 409, and the result is kept as an extra trial.
    """
    audit(request, client=body.client, trial=number)
    with _trials_of(service, name, number, body.client, token) as trials:
        record = trial_record(trials.tell(number, body.client, _outcome(body, trials.queue.plan)))
    if service.webhook is not None:
        service.webhook.look_at(name)
    return record


def list_studies(service: Service) -> list[dict[str, Any]]:
    """Return the studies of warmstart in the order in which they were begun; raises `StorageError`."""
    if service.studies.is_empty:
        return []
    with service.studies.store() as store:
        by_id = sorted(store.optuna.get_all_studies(), key=lambda study: study._study_id)  # noqa: SLF001
        items = []
        for entry in by_id:
            if PLAN in entry.user_attrs:
                trials = store.optuna.get_all_trials(entry._study_id, deepcopy=False)  # noqa: SLF001
                ended = sum(trial.state.is_finished() for trial in trials)
                items.append({"name": entry.study_name, "n_trials": len(trials), "n_ended": ended})
    return items


def _plan(body: StudyRequest, descriptor: "Descriptor | None", service: Service, notes: list[str]) -> "StudySpec":
    """Build the specification of a study from a request; notes for people are appended to `notes`."""
    from warmstart.suggestions.initial_configs import convert_initial

    _check_surrogate(body.surrogate)
    _check_members(body)
    space = _space_of(service, body.workload) if body.space is None else dump_space(space_from_wire(body.space))
    has_warm_start = descriptor is not None or bool(body.initial)
    fields = body.model_dump(
        exclude={"name", "space", "descriptor", "objective", "command", "workload", "target_budget", "startup"}
    )
    configs: tuple[Mapping[str, Any], ...] = ()
    if body.initial:
        converted = convert_initial(load_space(space), body.initial, rename=body.rename, seed=body.seed)
        configs = converted.configs
        notes += converted.notes
    fingerprint = body.fingerprint or (None if descriptor is None else f"descriptor:{descriptor.id}")
    return StudySpec(
        **{
            **fields,
            "n_startup_trials": body.startup,
            "space": space,
            "objective": _objective(body),
            "dataset": None,
            "fingerprint": fingerprint,
            "warm": body.warm if has_warm_start else "none",
            "exclude_group": tuple(body.exclude_group),
            "rename": tuple(body.rename.items()),
            "initial": tuple(configs),
            "members": tuple(sorted(body.members)),
            "device": "cpu",
        }
    )


def _space_of(service: Service, workload: str | None) -> str:
    """Return the space of the history, which may be empty; of the shipped ones, that of a workload."""
    return glance(history_path(service.settings.history, workload=workload)).space_json


@contextlib.contextmanager
def _trials_of(service: Service, name: str, number: int, client: str, token: Token) -> Iterator["LeasedTrials"]:
    """Yield the trials of a study, one of which is a client's; turn the error of an unknown trial number into 404.

    Raises:
        ProblemError: 403, another token asked for the trial; one of scope admin may tell any.
    """
    try:
        with service.studies.study(name) as trials:
            if not token.allows("admin", name) and not trials.is_for(number, client, token.name):
                detail = f"expected the token with which {client!r} asked for trial {number}, got {token.name!r}. Use that one, or one of scope admin."
                raise ProblemError(403, "Another's trial", detail)
            yield trials
    except UsageError as error:
        if error.params == ("number",):
            raise ProblemError(404, "No such trial", error.message, pointer="/path/number") from error
        raise


def _check_surrogate(name: str) -> None:
    from warmstart.bo.surrogates import SURROGATES

    names = [surrogate for surrogate in SURROGATES if not surrogate.startswith("mt-")]
    if name not in names:
        msg = f"expected one of {', '.join(names)}, got {name!r}. Leave it out for gp."
        raise UsageError(msg, param="surrogate")


def _check_members(body: StudyRequest) -> None:
    """Check the names of studies that are tuned together."""
    members = body.members
    if members and (len(members) < 2 or len(set(members)) < len(members) or body.name not in members):
        detail = f"expected the names of at least two studies, each once, {body.name[:80]!r} among them, got {', '.join(members)[:200]}. Leave `members` out for one study alone."
        raise ProblemError(422, "Not together", detail, pointer="/members")
    surrogates = multitask_surrogates()
    if (members or body.related) and body.surrogate not in surrogates:
        purpose = "several studies" if members else "related datasets"
        detail = f"expected {', '.join(surrogates)} for {purpose}, got {body.surrogate!r}. Leave it out for gp."
        raise ProblemError(422, "Not together", detail, pointer="/surrogate")


def _objective(body: StudyRequest) -> dict[str, str | None]:
    """Return the objective of a study as `warmstart tune` stores it."""
    is_script = body.objective is not None or body.command is not None
    if is_script or body.workload is None:
        function = body.objective if is_script else "remote"
        return {"function": function, "command": body.command, "workload": None, "target_budget": None}

    budget = body.target_budget or get_workload(body.workload).budgets[0]
    return {"function": None, "command": None, "workload": body.workload, "target_budget": budget}


def _offered_trial(trials: "LeasedTrials", leased: "LeasedTrial") -> OfferedTrial:
    run = leased.run
    return OfferedTrial(
        study=trials.queue.study.study_name,
        number=run.number,
        config=dict(run.config),
        seed=run.seed,
        budget=trials.queue.plan.budget,
        lease_until=leased.lease.until,
        is_over=leased.is_over,
    )


def _error_of(error: float | None, value: float | None, plan: "StudySpec") -> float | None:
    """Return the error of a request, given directly or as a value of the study's metric."""
    if error is not None and value is not None:
        raise ProblemError(422, "Two results", "expected an error or a value, got both. Give one.", pointer="/value")
    if value is None:
        return error

    try:
        return plan.measure.to_error(value)
    except ContradictionError as problem:
        raise ProblemError(422, "Not of the metric", str(problem), pointer="/value") from problem


def _outcome(body: TellRequest, plan: "StudySpec") -> "Outcome":
    """Build the outcome of a trial from a request."""
    error = _error_of(body.error, body.value, plan)
    status = TrialStatus(body.status or ("failed" if error is None else "ok"))
    has_error = status in (TrialStatus.OK, TrialStatus.DIVERGED)
    if has_error and error is None:
        raise _no_result()
    if error is not None and not has_error:
        detail = f"expected no error with status {status.value}, got {error}. Leave one of them out."
        raise ProblemError(422, "An error too many", detail, pointer="/error")
    return Outcome(
        error,
        status,
        math.nan if body.duration is None else body.duration,
        one_line(body.note),
        tuple((step, value) for step, value in body.curve),
        body.metrics,
        body.constraints,
    )


def _no_result() -> ProblemError:
    return ProblemError(422, "No result", "expected error, or value, got neither. Give one.", pointer="/error")
