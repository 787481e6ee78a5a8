"""Write the manifests of a folder of npz datasets with an INDEX.csv.

Usage: python scripts/make_manifests.py FOLDER [--out data_manifests]
"""

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path

from warmstart.history_store.manifest import read_manifest
from warmstart.history_store.readers import open_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds INDEX.csv and NAME.npz")
    parser.add_argument("--out", type=Path, default=Path("data_manifests"))
    options = parser.parse_args()
    with (options.folder / "INDEX.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            path = options.out / f"{row['name']}.toml"
            path.write_text(manifest(row, options.folder), encoding="utf-8")
            read_manifest(path)


def manifest(row: dict[str, str], folder: Path) -> str:
    source = open_images(folder / f"{row['name']}.npz")
    return f"""name = {quoted(row["name"])}
group = {quoted(row["group"])}
what = {quoted(row["what"])}
source = {quoted(row["source"])}
licence = {quoted(row["licence"])}
n_images = {len(source)}
n_classes = {len(source.class_names)}
fingerprint = {quoted(source.fingerprint("content"))}
classes = [
{wrapped(source.class_names)}
]

[splits]
kind = "stratified"
fractions = [0.6, 0.2, 0.2]
seed = 0

[obtain]
kind = "file"
path = {quoted(row["name"] + ".npz")}
note = {quoted(f"Images {row['height']}x{row['width']}x{row['channels']}, {row['original_n_images']} in the source; size there: {row['original_size_note']}; made by: {row['resize']}.")}
"""


def wrapped(names: Sequence[str], width: int = 116) -> str:
    lines = [""]
    for name in map(quoted, names):
        if len(lines[-1]) + len(name) > width:
            lines.append("")
        lines[-1] += f" {name},"
    return "\n".join(f"   {line}" for line in lines)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    main()
