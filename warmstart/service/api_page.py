"""A page of the routes and their bodies, made from the OpenAPI document; no script, nothing from other servers."""

from collections.abc import Mapping
from typing import Any

from warmstart.history_store.quoting import in_markup

Schema = Mapping[str, Any]


def api_page(document: Schema) -> str:
    """Return HTML with each route of an OpenAPI document, and each schema that a body names."""
    routes = "".join(
        _route(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    schemas = "".join(_schema(name, schema) for name, schema in document["components"]["schemas"].items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Interface · warmstart</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="./static/style.css"></head><body><main><h1>Interface</h1>'
        f'<p>{in_markup(document["info"]["description"])} For programs: <a href="./v1/openapi.json">openapi.json</a>.</p>'
        f"<h2>Requests</h2>{routes}<h2>Bodies</h2>{schemas}</main></body></html>"
    )


def _route(method: str, path: str, operation: Schema) -> str:
    rows = [
        (item["name"], item["in"], _type(item["schema"]), item.get("description", ""))
        for item in operation.get("parameters", ())
    ]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append(("body", kind, _type(content.get("schema", {})), ""))
    for status, response in operation["responses"].items():
        for kind, content in response.get("content", {}).items():
            if status.startswith("2"):
                rows.append(("answer", kind, _type(content.get("schema", {})), ""))
    head = f"<code>{method.upper()} {in_markup(path)}</code>"
    return f"<details><summary>{head}</summary><p>{in_markup(operation.get('description', ''))}</p>{_table(rows)}</details>"


def _schema(name: str, schema: Schema) -> str:
    needed = schema.get("required", ())
    rows = [
        (field, "needed" if field in needed else "", _type(about), about.get("description", ""))
        for field, about in schema.get("properties", {}).items()
    ]
    return (
        f'<details id="{in_markup(name)}"><summary><code>{in_markup(name)}</code></summary>'
        f"<p>{in_markup(schema.get('description', ''))}</p>{_table(rows)}</details>"
    )


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    """Return a table; the third cell of a row is HTML."""
    cells = "".join(
        f"<tr><td><code>{in_markup(name)}</code></td><td>{in_markup(kind)}</td><td>{html}</td><td>{in_markup(text)}</td></tr>"
        for name, kind, html, text in rows
    )
    return f'<div class="scroll"><table><tbody>{cells}</tbody></table></div>' if rows else ""


def _type(schema: Schema) -> str:
    """Return the type of a schema as HTML, with a link to a named one."""
    if "$ref" in schema:
        name = in_markup(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    if "enum" in schema:
        return in_markup(", ".join(map(str, schema["enum"])))
    return in_markup(schema.get("format") or schema.get("type", "any"))
