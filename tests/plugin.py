"""The example plug-in, installed: its code and a dist-info folder, made from its own pyproject, on the path."""

import shutil
import tomllib
from pathlib import Path

PLUGIN = Path(__file__).parents[1] / "examples" / "plugin"


def install(folder: Path, *, only: str | None = None, changes: dict[str, dict[str, str]] | None = None) -> Path:
    """Write what `pip install examples/plugin` would, below a folder that is to be put on the path."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    points = {**project["entry-points"], **(changes or {})}
    shutil.copytree(PLUGIN / "nightly", folder / "nightly", dirs_exist_ok=True)
    info = folder / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in points.items():
        if only in (None, group):
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder
