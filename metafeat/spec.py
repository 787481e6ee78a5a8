"""Specification of a meta-feature model: the shape of its network and the meaning of its input."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from warmstart.history_store.error_tables import TargetKind
from warmstart.history_store.errors import ModelError, UsageError
from warmstart.metafeat.labels import LABEL_CODES, LabelCode

FORMAT = "warmstart-model"
VERSION = 2
METADATA_KEY = "warmstart"
"""The one metadata key of a model file, which holds the JSON header."""

Extractor = Literal["adf", "adf-sum", "adf-mix", "bilstm", "attention", "handcrafted"]
Backbone = Literal["paper", "residual"]
EXTRACTORS: tuple[Extractor, ...] = get_args(Extractor)
EMBEDDING = 256
"""Numbers in the embedding of every model with a network."""
WITHOUT_NETWORK = "landmarks"
"""The extractor of `warmstart.metafeat.pretrained.landmark_model`, of which nothing is trained."""
BACKBONES: tuple[Backbone, ...] = get_args(Backbone)
TARGETS: tuple[TargetKind, ...] = get_args(TargetKind)
_SINCE_VERSION_2 = {"backbone": "paper", "handcrafted": False}
"""Fields that version 1 did not have, with the values of its models."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Architecture and input of a meta-feature model.

    Attributes:
        extractor: set encoder, see `warmstart.metafeat.siamese_network`; `handcrafted` = none, nor convolutions: those features alone;
            `landmarks` = no network at all, see `warmstart.metafeat.pretrained.landmark_model`.
        label_code: how classes enter the encoder, see `warmstart.metafeat.labels`.
        label_plane: give the convolutions class index / 256 as a constant fourth channel too.
        image_size: side of the images in pixels.
        tau: images in one draw.
        target: distance between datasets that the embedding's distance imitates.
        backbone: the convolutions, see `warmstart.metafeat.siamese_network`.
        handcrafted: give the after-layers the handcrafted features too, see `warmstart.metafeat.handcrafted`.
    """

    extractor: Extractor | Literal["landmarks"] = "adf"
    label_code: LabelCode = "rank"
    label_plane: bool = False
    image_size: int = 32
    tau: int = 200
    target: TargetKind = "mean_l1"
    backbone: Backbone = "paper"
    handcrafted: bool = False

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("extractor", self.extractor, (*EXTRACTORS, WITHOUT_NETWORK)),
            ("label_code", self.label_code, LABEL_CODES),
            ("target", self.target, TARGETS),
            ("backbone", self.backbone, BACKBONES),
        ):
            if value not in allowed:
                msg = f"{name}: expected one of {', '.join(allowed)}, got {value!r}. Choose one of them."
                raise UsageError(msg)
        for name, number, least in (("image_size", self.image_size, 8), ("tau", self.tau, 1)):
            if type(number) is not int or number < least:
                msg = f"{name}: expected a whole number ≥ {least}, got {number!r}. Choose a larger one."
                raise UsageError(msg)

        if self.extractor == "handcrafted" and not self.handcrafted:
            msg = "handcrafted: expected true for the extractor 'handcrafted', got false. Leave the extractor out, or ask for the features."
            raise UsageError(msg)

    @property
    def channels(self) -> int:
        """Return the input channels of the first convolution."""
        return 3 + self.label_plane

    def accepts_size(self, size: int) -> bool:
        """Return whether images of this side can be embedded: the model's own; landmarks shrink larger ones."""
        return size == self.image_size or (self.extractor == "landmarks" and size > self.image_size)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return dataclasses.asdict(self)

    def identity(self) -> dict[str, Any]:
        """Return the fields that a model's hash covers."""
        # A field of version 2 counts only if it differs from version 1: hashes of old models stay.
        return {
            name: value
            for name, value in self.to_dict().items()
            if name not in _SINCE_VERSION_2 or value != _SINCE_VERSION_2[name]
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], *, version: int = VERSION) -> "ModelSpec":
        """Read the fields of `to_dict`.

        Args:
            fields: of a model file.
            version: of the file's format.

        Raises:
            UsageError: a field is missing, unknown or out of range.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        expected = names - set(_SINCE_VERSION_2) if version == 1 else names
        if set(fields) != expected:
            msg = f"model spec: expected the fields {sorted(expected)}, got {sorted(fields)}. Use a model of this version."
            raise UsageError(msg)
        return cls(**fields)


def check_version(header: Mapping[str, Any], location: object) -> None:
    """Check that a model file's header has a format that this release reads: version 1 or 2.

    Raises:
        ModelError: it is not.
    """
    version = header.get("version") if header.get("format") == FORMAT else None
    if version not in (1, VERSION):
        msg = f"{location}: expected format {FORMAT!r} version 1 or {VERSION}, got version {version}. Upgrade warmstart or train the model anew."
        raise ModelError(msg)


def space_digest(space_json: str) -> str:
    """Return 16 hex digits of a search space's content: hyperparameters, conditions, forbidden clauses.

    Key order, the space's name and the version of the library that wrote it do not count.

    Args:
        space_json: ConfigSpace JSON.
    """
    space = json.loads(space_json)
    if isinstance(space, dict):
        ignored = {"name", "meta", "format_version", "python_module_version"}
        space = {key: value for key, value in space.items() if key not in ignored}
    return hashlib.sha256(json.dumps(space, sort_keys=True).encode()).hexdigest()[:16]
