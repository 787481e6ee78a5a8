"""Networks of the best trials of a call, stored until it ends, so that saving needs no retraining."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.records import Config, Value
from warmstart.training.workloads import Member, Prepared, load_classifier


@dataclass(frozen=True, slots=True)
class BestNetworks:
    """A folder of the best networks that all processes of a call write to.

    Attributes:
        folder: path; removed by its creator.
        limit: number of networks that stay.
    """

    folder: str
    limit: int

    def is_among_best(self, error: float) -> bool:
        """Tell whether an error is among the best so far."""
        errors = sorted(_error_of(path) for path in self._paths())
        return len(errors) < self.limit or error < errors[self.limit - 1]

    def save(self, prepared: Prepared, member: Member, model: object) -> None:
        """Write a network, and remove those beyond the limit."""
        target = Path(self.folder) / f"{member.error!r}-{_key(member.config, member.seed)}.safetensors"
        prepared.combine([member], [model], error=member.error).save(target)
        for path in sorted(self._paths(), key=_error_of)[self.limit :]:
            path.unlink(missing_ok=True)  # another process may have been first

    def load(self, config: Config, seed: int) -> object | None:
        """Return the stored model of a trial, as its `Prepared` returned it; else None."""
        models: Sequence[object] = ()
        for path in self._paths():
            if path.name.endswith(f"-{_key(config, seed)}.safetensors"):
                try:
                    models = load_classifier(path).models
                except WarmstartError:  # cut off by the end of its trial: it is trained again
                    continue
        return models[0] if models else None

    def _paths(self) -> list[Path]:
        return list(Path(self.folder).glob("*.safetensors"))


def _key(config: Mapping[str, Value], seed: int) -> str:
    return hashlib.sha256(json.dumps([dict(config), seed], sort_keys=True).encode()).hexdigest()[:32]


def _error_of(path: Path) -> float:
    return float(path.name.rsplit("-", 1)[0])
