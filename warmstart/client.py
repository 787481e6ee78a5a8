"""The client of a server of `warmstart serve`: it sends descriptors, no pictures."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.default_workload import DefaultWorkload, default_workload, extractors_of, is_model_named
from warmstart.descriptor import Description, Descriptor
from warmstart.history_store.errors import DataError, StorageError
from warmstart.history_store.numbering import to_unit
from warmstart.history_store.records import Value
from warmstart.history_store.space import load_space
from warmstart.locations import never_measured
from warmstart.remote_study import RemoteStudy
from warmstart.service.answers import answer_from_wire
from warmstart.service.shapes import STUDY, answer_shape
from warmstart.service.spaces import space_to_wire
from warmstart.service.transport import Transport, segment
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.confidence import Doubt, doubt_class_names
from warmstart.suggestions.query import Dataset
from warmstart.training.workloads import DEFAULT, measures

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike


_LISTED = {"name": str, "n_trials": int, "n_ended": int}


class Client:
    """A client with the methods of `warmstart.Advisor`, answered by a server.

    Failed requests are repeated under an idempotency key. No proxy of the environment is used and no redirect is followed.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        advisor: Advisor | None = None,
        reduced: bool = False,
        timeout: float = 60.0,
        retries: int = 5,
        ca_file: str | None = None,
    ) -> None:
        """Set the server's address; nothing is sent yet.

        Args:
            url: as shown by `warmstart serve`.
            token: for the server; ``$WARMSTART_TOKEN`` when left out.
            advisor: computes descriptors here, with its model, seed, device and cache; its history is not used.
            reduced: send reduced descriptors: see docs/service.md.
            timeout: seconds without a response.
            retries: most repeats of a request.
            ca_file: PEM file of the authority to trust instead of the system's.

        Raises:
            UsageError: not a URL of http or https.
        """
        self.transport = Transport(url, token, timeout, retries, ca_file)
        self.advisor = Advisor() if advisor is None else advisor
        self._reduced = reduced
        self._extractors: frozenset[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        self.transport.close()

    def about(self) -> dict[str, Any]:
        """Return the server's version, accepted extractors and history."""
        return self.transport.get("")

    def describe(self, dataset: Dataset, *, workload: str | None = None) -> Descriptor:
        """Return the descriptor of a dataset as it would be sent; arguments and errors as in `Advisor.describe`."""
        return self._description(dataset, workload or self.accepted(default_workload()).name).descriptor

    def suggest(
        self,
        dataset: Dataset | Descriptor,
        k: int | None = None,
        *,
        strategy: str | None = None,
        space: "SpaceLike | None" = None,
        rename: Mapping[str, str] | None = None,
        explain: bool = False,
        workload: str | None = None,
    ) -> Answer:
        """Suggest configurations for a dataset; arguments and errors as in `Advisor.suggest`.

        Raises:
            UsageError: a workload that the server's history never measured; else as `Advisor.suggest`.
            StorageError: no server, or one that fails.
        """
        default = None
        if workload is None and not isinstance(dataset, Descriptor):
            default = self.accepted(default_workload(space, rename=rename))
        about = self._description(dataset, workload if default is None else default.name)
        body = {
            "descriptor": about.descriptor.to_dict(),
            "k": k,
            "strategy": strategy,
            "space": None if space is None else space_to_wire(space),
            "rename": dict(rename) if rename else None,
            "exclude_group": list(self.advisor.excluded),
            "explain": explain,
            "seed": self.advisor.seed,
        }
        answer = self._answer("/suggestions", body, about)
        # An answer in another space lacks the history's own.
        if workload is not None and space is None:
            _check_measured(answer, workload)
        if default is not None and space is None and measures(answer.space_json, default.name):
            workload = default.name
        notes = answer.notes if default is None or not default.note else (default.note, *answer.notes)
        return replace(answer, workload=workload, notes=notes)

    def neighbours(self, dataset: Dataset | Descriptor, k: int = 10, *, workload: str | None = None) -> Answer:
        """Return the nearest datasets; arguments and errors as in `Advisor.neighbours`."""
        about = self._description(dataset, workload or self.accepted(default_workload()).name)
        body = {"descriptor": about.descriptor.to_dict(), "k": k, "exclude_group": list(self.advisor.excluded)}
        answer = self._answer("/neighbours", body, about)
        if workload is not None:
            _check_measured(answer, workload)
        return answer

    def record(
        self,
        dataset: str,
        config: Mapping[str, Any],
        *,
        error: float | None = None,
        status: str = "ok",
        duration: float | None = None,
        seed: int | None = None,
        curve: tuple[tuple[int, float], ...] = (),
        origin: str = "client",
        key: str | None = None,
    ) -> dict[str, Any]:
        """Record one run in the server's history, on its disk when this returns.

        Args:
            dataset: its name in that history.
            config: hyperparameter values by name.
            error: validation error in [0, 1]; None without one.
            status: ok, diverged, crashed, timeout or oom.
            duration: seconds.
            seed: of the run.
            curve: pairs (update, error).
            origin: who measured it.
            key: idempotency key; the same key again, also from another process, records nothing.

        Raises:
            WarmstartError: as `History.append`, or no server.
        """
        body = {
            "dataset": dataset,
            "config": dict(config),
            "error": error,
            "status": status,
            "duration": duration,
            "seed": seed,
            "curve": [list(point) for point in curve],
            "origin": origin,
        }
        return self.transport.post("/history/runs", body, key=key)

    def begin_study(self, name: str, **options: Any) -> RemoteStudy:
        """Begin a study on the server, or return an existing one with the same options.

        Args:
            name: of the study.
            options: fields of ``POST /v1/studies``, e.g. ``space``, ``surrogate``, ``seed``; ``descriptor`` from `describe`.

        Raises:
            UsageError: a study of that name with other options.
            WarmstartError: invalid options, or no server.
        """
        descriptor = options.get("descriptor")
        if isinstance(descriptor, Descriptor):
            options["descriptor"] = descriptor.to_dict()
        self.transport.post("/studies", {"name": name, **options}, shape=STUDY)
        return RemoteStudy(self.transport, name)

    def study(self, name: str) -> RemoteStudy:
        """Return a study of the server, without checking that it exists."""
        return RemoteStudy(self.transport, name)

    def studies(self) -> list[dict[str, Any]]:
        """Return the studies of the server: name, number of trials and of ended trials."""
        return self.transport.list_all("/studies", shape=_LISTED)

    def dataset(self, name: str) -> dict[str, Any]:
        """Return one dataset of the server's history."""
        return self.transport.get(f"/history/datasets/{segment(name)}")

    def accepted(self, default: DefaultWorkload) -> DefaultWorkload:
        """Return the default workload, or the small network where the server takes no descriptors of that kind."""
        if default.name == DEFAULT or is_model_named(self.advisor.model):
            return default
        if self._extractors is None:
            self._extractors = frozenset(self.about()["extractors"])
        return default if self._extractors & set(extractors_of(default.name)) else DefaultWorkload(DEFAULT)

    def _answer(self, path: str, body: Mapping[str, Any], about: Description) -> Answer:
        """Ask for an answer, and add the client's notes and doubts."""
        document = self.transport.post(path, body, shape=answer_shape(STRATEGIES))
        answer = _read_answer(document, about)
        sent = json.dumps(body["space"]) if body.get("space") else answer.space_json
        if answer.suggestions:
            self._check_configs(sent, [design.config for design in answer.suggestions])
        return answer

    def _check_configs(self, space_json: str, configs: list[Mapping[str, Value]]) -> None:
        """Check that configurations that arrived are of a space; raises `StorageError`."""
        try:
            to_unit(load_space(space_json), configs)
        except DataError as error:
            msg = f"{self.transport.url}: {error.message} The server's answer is of another space, or was altered."
            raise StorageError(msg) from error

    def _description(self, dataset: Dataset | Descriptor, workload: str | None = None) -> Description:
        if isinstance(dataset, Descriptor):
            description = Description.of(dataset)
        else:
            description = self.advisor.describe(dataset, workload=workload)
        return replace(description, descriptor=description.descriptor.reduced()) if self._reduced else description


def _read_answer(document: Mapping[str, Any], about: Description) -> Answer:
    """Build an answer from the server's document, with the client's summary, notes and doubts."""
    answer = answer_from_wire(document, about.summary)
    names = [near.name for near in answer.neighbours]
    doubts = [doubt for doubt in doubt_class_names(about.class_names, names) if doubt is not None]
    return replace(_add_doubts(answer, doubts), notes=(*about.notes, *answer.notes, *(doubt.text for doubt in doubts)))


def _check_measured(answer: Answer, workload: str) -> None:
    """Check that the server's history measured a workload.

    Raises:
        UsageError: it never did.
    """
    if not measures(answer.space_json, workload):
        raise never_measured(workload, answer.history)


def _add_doubts(answer: Answer, doubts: list[Doubt]) -> Answer:
    """Add doubts about class names, which the server does not know."""
    if not doubts:
        return answer
    confidence = replace(
        answer.confidence,
        typical=False,
        note=" ".join([*(doubt.text for doubt in doubts), answer.confidence.note]),
        reasons=(*answer.confidence.reasons, *(doubt.code.value for doubt in doubts)),
    )
    return replace(answer, confidence=confidence)
