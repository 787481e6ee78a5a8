"""Write `model.safetensors.gz`: run once, with the code that wrote version 1 of the model file (commit aeb23ce)."""

import gzip
import tempfile
from pathlib import Path

import torch

from warmstart.metafeat.model import MetaFeatureModel
from warmstart.metafeat.spec import ModelSpec


def main() -> None:
    model = MetaFeatureModel.random(ModelSpec(extractor="adf-mix", label_code="scalar", image_size=8, tau=6))
    for number, parameter in enumerate(model.wing.parameters()):  # a pattern, so that the archive is small
        parameter.data = ((torch.arange(parameter.numel()) * 7 + number) % 31 - 14).reshape(parameter.shape) / 160
    model = MetaFeatureModel(model.wing)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path, {"history_id": "h", "space_digest": "d", "quality": None})
        with gzip.GzipFile(Path(__file__).with_name("model.safetensors.gz"), "wb", mtime=0) as file:
            file.write(path.read_bytes())


if __name__ == "__main__":
    main()
