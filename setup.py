"""Make the page that an index shows of README.md: its links are relative, which only a repository can follow.

All else is in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RELATIVE = re.compile(r"(!?)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")


def page(text: str, source: str | None, version: str) -> str:
    """Return a README with absolute links, to the files of its version.

    Args:
        text: the README.
        source: the address of the repository; where there is none, a link becomes the words that it is on.
        version: of the project.
    """
    if source is None:
        return RELATIVE.sub(r"\2", text)
    files = f"{source.rstrip('/')}/blob/v{version}"
    return RELATIVE.sub(lambda match: f"{match[1]}[{match[2]}]({files}/{match[3]})", text)


if __name__ == "__main__":
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=page(readme, PROJECT.get("urls", {}).get("Source"), PROJECT["version"]),
        long_description_content_type="text/markdown",
    )
