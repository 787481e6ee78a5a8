"""Networks of the best trials of a call, kept until it ends, so that none of them is trained again to be saved."""

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
class KeptNetworks:
    """A folder that all trials of a call write to, in whatever process they run.

    Attributes:
        folder: path; whoever makes it removes it.
        most: networks that are kept.
    """

    folder: str
    most: int

    def wants(self, error: float) -> bool:
        """Tell whether a trial of such an error is among the best so far."""
        kept = sorted(_error_of(path) for path in self._paths())
        return len(kept) < self.most or error < kept[self.most - 1]

    def put(self, prepared: Prepared, member: Member, model: object) -> None:
        """Write a network, and remove those that it beats."""
        place = Path(self.folder) / f"{member.error!r}-{_key(member.config, member.seed)}.safetensors"
        prepared.combine([member], [model], error=member.error).save(place)
        for path in sorted(self._paths(), key=_error_of)[self.most :]:
            path.unlink(missing_ok=True)  # another process may have been first

    def get(self, config: Config, seed: int) -> object | None:
        """Return the model of a trial, as its `Prepared` gave it; None where none is kept."""
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
