"""The training recipe of a meta-feature model: a preset with changes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import UsageError
from warmstart.metafeat.model_file import read_header
from warmstart.training.siamese.settings import SiameseSettings, preset


# Without slots, so that commands can read the defaults.
@dataclass(frozen=True)
class Recipe:
    """The training recipe of a meta-feature model; None and False keep the preset's value.

    Attributes:
        preset_name: ``modern`` or ``paper``.
        extractor: set encoder.
        target: distance for the embeddings to imitate.
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
            UsageError: an unknown name, or a backbone for a model without images.
        """
        if self.backbone is not None and self.extractor == "handcrafted":
            msg = "cannot be used with the extractor handcrafted, which uses no image."
            raise UsageError(msg, param="backbone")

        # The preset modern uses no image by itself: a backbone needs a set encoder.
        encoder = "adf" if self.backbone is not None and self.preset_name == "modern" else None
        settings = preset(self.preset_name, extractor=self.extractor or encoder)  # type: ignore[arg-type]  # checked by the function itself
        chosen: dict[str, Any] = {
            "target": self.target,
            "backbone": self.backbone,
            "handcrafted": self.handcrafted or None,
        }
        spec = dataclasses.replace(
            settings.spec, **{name: value for name, value in chosen.items() if value is not None}
        )
        return dataclasses.replace(settings, spec=spec, steps=settings.steps if self.steps is None else self.steps)

    def settings_of(self, model: Path) -> SiameseSettings:
        """Return the training settings of a model file; without them the preset with the model's architecture.

        Of this recipe only the steps count, and the preset if the model file has no settings.
        """
        header = read_header(model)
        fields = header.fields.get("training")
        settings = SiameseSettings.from_dict(fields) if fields else Recipe(self.preset_name).settings()
        return dataclasses.replace(
            settings, spec=header.spec, steps=settings.steps if self.steps is None else self.steps
        )
