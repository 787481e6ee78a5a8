"""How a meta-feature model is trained: a preset, and what a person wants otherwise."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from warmstart.training.siamese.settings import SiameseSettings


@dataclass(frozen=True)  # without slots, so that commands can read the defaults
class Recipe:
    """How a meta-feature model is trained; None and False leave a part as the preset has it.

    Attributes:
        preset_name: ``modern`` or ``paper``.
        extractor: set encoder.
        target: distance that embeddings shall imitate.
        backbone: convolutions.
        handcrafted: append the handcrafted features.
        steps: updates.
    """

    preset_name: str = "modern"
    extractor: str | None = None
    target: str | None = None
    backbone: str | None = None
    handcrafted: bool = False
    steps: int | None = None

    def settings(self) -> SiameseSettings:
        """Return the settings of the training.

        Raises:
            UsageError: an unknown name, or a backbone of a model that looks at no image.
        """
        from warmstart.training.siamese.settings import preset

        if self.backbone is not None and self.extractor == "handcrafted":
            msg = f"expected none beside the extractor handcrafted, which looks at no image, got {self.backbone!r}. Leave one of the two out."
            raise UsageError(msg, param="backbone")

        # modern alone looks at no image
        looking = "adf" if self.backbone is not None and self.preset_name == "modern" else None
        found = preset(self.preset_name, extractor=self.extractor or looking)  # type: ignore[arg-type]  # checked by the function itself
        chosen: dict[str, Any] = {
            "target": self.target,
            "backbone": self.backbone,
            "handcrafted": self.handcrafted or None,
        }
        spec = dataclasses.replace(found.spec, **{name: value for name, value in chosen.items() if value is not None})
        return dataclasses.replace(found, spec=spec, steps=found.steps if self.steps is None else self.steps)

    def settings_of(self, model: Path) -> SiameseSettings:
        """Return how a model was trained; one that does not tell gives the preset with the model's architecture.

        Of the recipe the number of steps counts, and the preset where the model tells nothing.
        """
        from warmstart.metafeat.model_file import read_header
        from warmstart.training.siamese.settings import SiameseSettings

        header = read_header(model)
        told = header.fields.get("training")
        found = SiameseSettings.from_dict(told) if told else Recipe(self.preset_name).settings()
        return dataclasses.replace(found, spec=header.spec, steps=found.steps if self.steps is None else self.steps)
