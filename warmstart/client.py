"""A server of `warmstart serve`, as Python sees it: pictures are looked at here, numbers alone are sent."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from warmstart.descriptor import Description, Descriptor
from warmstart.history_store.errors import StorageError
from warmstart.locations import never_measured
from warmstart.remote_study import RemoteStudy
from warmstart.service.answers import answer_from_wire
from warmstart.service.transport import Transport, segment
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.doubts import Doubt, doubt_class_names
from warmstart.suggestions.query import Dataset
from warmstart.training.workloads import measures

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike


class Client:
    """Asks a server what `warmstart.Advisor` says here.

    Requests are repeated until they are answered, under a key by which the server knows them again. No proxy of the
    environment is used and no redirect is followed.
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
        """Take the address of a server; nothing is sent yet.

        Args:
            url: as `warmstart serve` shows it.
            token: that the server asks for; ``$WARMSTART_TOKEN`` when left out.
            advisor: who looks at pictures here: its model, seed, device and cache count, its history does not.
            reduced: tell less of a dataset: see docs/service-threats.md.
            timeout: seconds without an answer.
            retries: how often a request is repeated.
            ca_file: PEM file of the authority to trust instead of the system's.

        Raises:
            UsageError: no such URL.
        """
        self.transport = Transport(url, token, timeout, retries, ca_file)
        self.advisor = Advisor() if advisor is None else advisor
        self._reduced = reduced

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; a later request opens others."""
        self.transport.close()

    def about(self) -> dict[str, Any]:
        """Return what the server serves: its version, the extractors that it accepts, its history."""
        return self.transport.get("")

    def describe(self, dataset: Dataset, *, workload: str | None = None) -> Descriptor:
        """Describe a dataset, as it would be sent; arguments and refusals as in `Advisor.describe`."""
        return self._description(dataset, workload).descriptor

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
        """Say what to try first on a dataset; arguments and refusals as in `Advisor.suggest`.

        Raises:
            UsageError: a workload that the server's history never measured; else as there.
            StorageError: no server there, or one that cannot answer.
        """
        from warmstart.service.spaces import space_to_wire

        about = self._description(dataset, workload)
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
        found = _about(self.transport.post("/suggestions", body), about)
        if workload is not None and space is None:  # an answer in another space does not tell the history's
            _check_measured(found, workload)
        return replace(found, workload=workload)

    def neighbours(self, dataset: Dataset | Descriptor, k: int = 10, *, workload: str | None = None) -> Answer:
        """Say what a dataset resembles; arguments and refusals as in `Advisor.neighbours`."""
        about = self._description(dataset, workload)
        body = {"descriptor": about.descriptor.to_dict(), "k": k, "exclude_group": list(self.advisor.excluded)}
        found = _about(self.transport.post("/neighbours", body), about)
        if workload is not None:
            _check_measured(found, workload)
        return found

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
        """Record one run in the server's history; it is on the server's disk when this returns.

        Args:
            dataset: its name in that history.
            config: hyperparameter values by name.
            error: validation error in [0, 1]; None where the run gave none.
            status: ok, diverged, crashed, timeout or oom.
            duration: seconds.
            seed: of the run.
            curve: pairs (update, error).
            origin: who measured it.
            key: the same key again, from a later process too, records nothing again.

        Raises:
            WarmstartError: as `History.append`, or no server there.
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
        """Begin a study on the server, or find it as it was begun.

        Args:
            name: of the study.
            options: fields of ``POST /v1/studies``, e.g. ``space``, ``surrogate``, ``seed``; a ``descriptor`` as `describe` gives it.

        Raises:
            UsageError: a study of that name that was begun otherwise.
            WarmstartError: options that do not fit, or no server there.
        """
        told = options.get("descriptor")
        if isinstance(told, Descriptor):
            options["descriptor"] = told.to_dict()
        self.transport.post("/studies", {"name": name, **options})
        return RemoteStudy(self.transport, name)

    def study(self, name: str) -> RemoteStudy:
        """Return a study of the server; whether it is there is told when it is asked."""
        return RemoteStudy(self.transport, name)

    def studies(self) -> list[dict[str, Any]]:
        """List the studies of the server: name, trials, trials that ended."""
        return self.transport.list_all("/studies")

    def dataset(self, name: str) -> dict[str, Any]:
        """Return what the server's history knows of one dataset."""
        return self.transport.get(f"/history/datasets/{segment(name)}")

    def _description(self, dataset: Dataset | Descriptor, workload: str | None = None) -> Description:
        if isinstance(dataset, Descriptor):
            found = Description.of(dataset)
        else:
            found = self.advisor.describe(dataset, workload=workload)
        return replace(found, descriptor=found.descriptor.reduced()) if self._reduced else found


def _about(document: Mapping[str, Any], about: Description) -> Answer:
    """Read an answer, and add what this side alone knows."""
    try:
        found = answer_from_wire(document, about.summary)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"expected an answer of `warmstart serve`, got another ({type(error).__name__}: {error}). Upgrade the older side."
        raise StorageError(msg) from error
    names = [near.name for near in found.neighbours]
    doubts = [doubt for doubt in doubt_class_names(about.class_names, names) if doubt is not None]
    return replace(_doubted(found, doubts), notes=(*about.notes, *found.notes, *(doubt.text for doubt in doubts)))


def _check_measured(found: Answer, workload: str) -> None:
    """Refuse an answer of a history that never measured a workload.

    Raises:
        UsageError: it is one.
    """
    if not measures(found.space_json, workload):
        raise never_measured(workload, found.history)


def _doubted(found: Answer, doubts: list[Doubt]) -> Answer:
    """Add doubts that arise from the names of classes, which the server does not know."""
    if not doubts:
        return found
    confidence = replace(
        found.confidence,
        typical=False,
        note=" ".join([*(doubt.text for doubt in doubts), found.confidence.note]),
        reasons=(*found.confidence.reasons, *(doubt.code.value for doubt in doubts)),
    )
    return replace(found, confidence=confidence)
