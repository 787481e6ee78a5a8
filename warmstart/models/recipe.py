"""The training recipe of a meta-feature model: a preset with changes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

from warmstart.history_store.error_tables import TargetKind
from warmstart.history_store.errors import UsageError
from warmstart.metafeat.model_file import read_header
from warmstart.metafeat.spec import BACKBONES, EXTRACTORS, TARGETS, Backbone, Extractor
from warmstart.option import option
from warmstart.training.siamese.settings import PresetName, SiameseSettings, preset


@dataclass(frozen=True)
class Recipe:
    """The training recipe of a meta-feature model; None and False keep the preset's value."""

    TITLE: ClassVar[str] = "Recipe"
    preset_name: PresetName = option(
        "modern",
        "Recipe of the model: modern (ours) or paper (as published).",
        flags=("--preset",),
        choices=get_args(PresetName),
    )
    extractor: Extractor | None = option(
        None,
        "Set encoder; the preset's own when left out.",
        choices=EXTRACTORS,
    )
    target: TargetKind | None = option(
        None,
        "Distance between datasets to learn; the preset's own when left out.",
        choices=TARGETS,
    )
    backbone: Backbone | None = option(None, "Convolutions; the preset's own when left out.", choices=BACKBONES)
    handcrafted: bool = option(False, "Also use handcrafted features; takes 1 s more a dataset.")
    steps: int | None = option(None, "Training steps; the preset's own when left out.", type=int, least=1)

    def settings(self) -> SiameseSettings:
        """Return the settings of the training.

        Raises:
            UsageError: an unknown name, or a backbone for a model without images.
        """
        if self.backbone is not None and self.extractor == "handcrafted":
            msg = "cannot be used with the extractor handcrafted, which uses no image."
            raise UsageError(msg, param="backbone")

        # The preset modern uses no image by itself: a backbone needs a set encoder.
        encoder: Extractor | None = "adf" if self.backbone is not None and self.preset_name == "modern" else None
        settings = preset(self.preset_name, extractor=self.extractor or encoder)
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
