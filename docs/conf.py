"""The site of the documentation: `make docs` builds it strictly, without a network, into build/site.

The sources are README.md, docs/, research/ and the generated pages in build/reference, so that links between all of them
are checked.
"""

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import reference_pages  # noqa: E402

project = "warmstart"
author = "The warmstart authors"
root_doc = "README"
smartquotes = False
html_theme = "furo"
html_title = project
html_show_copyright = False
html_copy_source = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/**.md", "research/**.md", "history_store/*.md", "build/reference/*.md"]
exclude_patterns = [".*", "**/.*", "warmstart", "tests", "scripts", "build/[!r]*", "dist", "*.egg-info", "examples"]
suppress_warnings = ["ref.python"]  # a name that two modules show
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
myst_heading_anchors = 4
myst_links_external_new_tab = False

PAGES = {
    "Use it": [
        "classify",
        "suggest",
        "tune",
        "studies",
        "optuna-ray",
        "python",
        "spaces",
        "histories",
        "datasets",
        "service",
    ],
    "Know it": ["expectations", "safety", "how-it-works", "extending", "from-0.2-to-0.3"],
}


def _add_contents(_: Any, name: str, source: list[str]) -> None:
    """Append the table of contents to the README, which is read elsewhere, too."""
    trees = {title: [f"docs/{page}" for page in pages] for title, pages in PAGES.items()}
    trees["Look up"] = [
        "build/reference/commands",
        "build/reference/python",
        "history_store/FORMAT",
        "build/reference/size",
    ]
    trees["Research"] = [
        "research/README",
        *sorted(f"research/{page.stem}" for page in ROOT.glob("research/*.md") if page.stem != "README"),
    ]
    trees["Project"] = ["CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"]
    if name == root_doc:
        for title, pages in trees.items():
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def _write_index(app: Any, failure: Exception | None) -> None:
    """Copy the first page to where a browser looks for it."""
    if failure is None and app.builder.name == "html":
        page = Path(app.outdir, f"{root_doc}.html")
        page.with_name("index.html").write_text(page.read_text(encoding="utf-8"), encoding="utf-8")


def setup(app: Any) -> None:
    """Generate the pages that are made from the program, before Sphinx looks for its sources."""
    reference_pages.write(ROOT / "build" / "reference")
    app.connect("source-read", _add_contents)
    app.connect("build-finished", _write_index)
