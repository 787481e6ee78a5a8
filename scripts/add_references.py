"""Store references in the shipped history as it is: statistics of its datasets, computed from the images it was measured on.

Usage: python scripts/add_references.py --root FOLDER [--history warmstart/defaults/history.h5] [--model warmstart/defaults/model.safetensors]

`scripts/build_default.py` does the same when it builds both anew.
"""

import argparse
import json
import tempfile
from pathlib import Path

from warmstart.history_store.history import History
from warmstart.history_store.manifest import load_manifests
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.history_refresh import compute_references
from warmstart.suggestions.references import store_references
from warmstart.training.collection.add_sources import rebuild


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="folder of the images that the manifests name")
    parser.add_argument("--manifests", type=Path, default=Path("data_manifests"))
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/compact-400"))
    parser.add_argument("--history", type=Path, default=Path("warmstart/defaults/history.h5"))
    parser.add_argument("--model", type=Path, default=Path("warmstart/defaults/model.safetensors"))
    options = parser.parse_args()
    model = read_header(options.model)
    names = {file.stem for file in options.shards.glob("*.jsonl")}
    manifests = [manifest for manifest in load_manifests([options.manifests]) if manifest.name in names]
    with History.open(options.history) as shipped, tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "history.h5"
        with rebuild(options.shards, path, manifests, root=options.root) as history:
            history.set_embeddings(model.hash, shipped.embeddings(model.hash))
            references = compute_references(history, model)
    if references is None:
        msg = "expected images of the manifests, got none"
        raise SystemExit(msg)
    with History.open(options.history, write=True) as shipped:
        store_references(shipped, references, model.hash)
        shipped.compact()
    print(json.dumps(dict(zip(references.sizes, references.movements, strict=True))))


if __name__ == "__main__":
    main()
