"""The frame of all pages that the server writes: head, navigation, and the form that asks for a token."""

import re
from collections.abc import Container, Mapping
from datetime import datetime
from urllib.parse import quote

from warmstart.history_store.quoting import in_lines, in_markup

_PARTS = (("Suggest", ""), ("Studies", "studies"), ("Datasets", "#datasets"))


def page(title: str, body: str, *, root: str, live_s: int | None = None, home: str = "Studies") -> str:
    """Return a page.

    Args:
        title: of the page, as text.
        body: HTML.
        root: relative address of the server's first page, with a slash at its end.
        live_s: seconds between two looks at whether the page changed; never when left out.
        home: the part of the navigation that it belongs to.
    """
    links = "".join(
        f'<a href="{root}{target}"{" aria-current=page" if name == home else ""}>{name}</a>' for name, target in _PARTS
    )
    live = "" if live_s is None else f' data-live="{live_s}"'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{in_markup(title)} · warmstart</title>'
        f'<link rel="icon" href="data:,"><link rel="stylesheet" href="{root}static/style.css">'
        f'<script src="{root}static/live.js" type="module"></script></head><body>'
        '<a class="skip" href="#main">To the content</a>'
        f'<header><p class="brand">warmstart</p><nav aria-label="Parts of the page">{links}</nav></header>'
        f'<main id="main" tabindex="-1" data-root="{root}"{live}><p id="status" role="status" aria-live="polite"></p>'
        f"{body}</main></body></html>"
    )


def sign_in_page(path: str) -> str:
    """Return the page that asks for a token; a right one leads to what was asked for.

    Args:
        path: that was asked for.
    """
    body = (
        '<h1>This server asks for a token</h1><form id="token-form"><label for="token">Token</label>'
        '<div class="row"><input id="token" type="password" autocomplete="off" required><button class="primary">Use it'
        '</button></div><p class="hint">It is kept until the browser is closed. Who runs the server has one for you.</p></form>'
    )
    return page("Token", body, root=root_of(path))


def error_page(path: str, title: str, detail: str) -> str:
    """Return the page of an error."""
    root = root_of(path)
    body = f'<h1>{in_markup(title)}</h1><p>{in_markup(detail)}</p><p><a href="{root}studies">All studies</a></p>'
    return page(title, body, root=root)


def root_of(path: str) -> str:
    """Return the relative address of the first page from a path."""
    return "../" * (path.count("/") - 1) or "./"


def address_of(name: str) -> str | None:
    """Return a study's name as a part of an address; None of a name that no address has a place for."""
    is_part = re.fullmatch(r"[^/]{1,200}", name) is not None and name not in (".", "..")
    return quote(name, safe="") if is_part else None


def time_element(moment: datetime) -> str:
    """Return a time as HTML, which the script writes in the reader's own zone."""
    local = moment.astimezone()
    return f'<time datetime="{local.isoformat(timespec="seconds")}">{local:%Y-%m-%d %H:%M}</time>'


def preformatted(text: str, name: str, *, hidden: bool = False) -> str:
    """Return lines of text as HTML that a button can copy by its name."""
    lines = "\n".join(in_markup(line) for line in in_lines(text).split("\n"))
    return f'<pre id="{name}"{" hidden" if hidden else ""} tabindex="0">{lines}</pre>'


def sort_heads(heads: Mapping[str, str], sort: str, link: str, anchor: str = "", numeric: Container[str] = ()) -> str:
    """Return the heads of a table whose links sort it.

    Args:
        heads: texts by key.
        sort: key by which it is sorted, after a minus sign from the greatest on.
        link: address up to the key.
        anchor: end of the address.
        numeric: keys of the columns of numbers.
    """
    cells = []
    for key, text in heads.items():
        descending = sort == f"-{key}"
        state = {key: ' aria-sort="ascending"', f"-{key}": ' aria-sort="descending"'}.get(sort, "")
        target = link + quote(key if descending else f"-{key}", safe="") + anchor
        mark = "" if not state else " ↓" if descending else " ↑"
        kind = ' class="number"' if key in numeric else ""
        cells.append(f'<th scope="col"{kind}{state}><a href="{in_markup(target)}">{in_markup(text)}{mark}</a></th>')
    return "".join(cells)
