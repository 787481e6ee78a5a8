"""Faults: small changes of the product's code, one a statement, drawn by a seed."""

import ast
import hashlib
import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

PACKAGES = ("warmstart", "training", "metafeat", "bo", "history_store")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
}
LOG_CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
PROSE_CALLS = LOG_CALLS | {"print", "echo", "secho", "warn", "TypeVar", "ParamSpec", "cast"}
PROSE_KEYWORDS = {"help", "msg", "message", "title", "text", "hint", "note", "description", "metavar", "doc", "epilog"}


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes of a file that become others."""

    kind: str
    start: int
    end: int
    after: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        digest: SHA-256 of the file that it was drawn for.
        first: first of the lines that a test runs to reach it, with `last`.
        name: that a statement outside functions binds; it runs at import, and a test sees it through its name.
        earlier: key of the same fault in an earlier tree; empty for a new one.
    """

    file: str
    digest: str
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str
    code: str
    first: int
    last: int
    at_import: bool
    name: str
    earlier: str = ""

    @property
    def key(self) -> str:
        """Return what tells it from other faults."""
        return self.earlier or f"{self.file}:{self.start}:{self.end}:{self.after}"

    def apply(self, text: bytes) -> bytes | None:
        """Return the file with the fault; None for a file that has changed."""
        if hashlib.sha256(text).hexdigest() != self.digest:
            return None
        return text[: self.start] + self.after.encode() + text[self.end :]

    def __str__(self) -> str:
        """Return its line and its change."""
        short = [" ".join(part.split())[:60] for part in (self.before, self.after)]
        return f"{self.file}:{self.line}: {self.kind}: {short[0]} -> {short[1]}   in: {self.code[:100]}"


class Source:
    """A file of the product: its bytes and its statements."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._starts = [0]
        for row in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(row))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the first byte of a node and the one after its last."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[end_line - 1] + end_column

    def segment(self, node: ast.expr | ast.stmt) -> bytes:
        """Return the bytes of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def edits(self, statement: ast.stmt, function: ast.AST | None = None) -> list[Edit]:
        """List the edits of a statement of a function, None outside; the odd one is no Python."""
        edits = [*_dropped(self, statement, function)]
        if isinstance(statement, ast.AugAssign):
            edits += _operator(
                "arithmetic", self, statement.target, statement.value, ARITHMETIC.get(type(statement.op))
            )
        for node, is_prose in _expressions(statement):
            edits += _edits_of(self, node, is_prose=is_prose)
        return edits

    def is_fault(self, edit: Edit) -> bool:
        """Tell whether an edit leaves Python, and another program."""
        try:
            changed = ast.parse(self.text[: edit.start] + edit.after + self.text[edit.end :])
        except SyntaxError:
            return False
        return ast.dump(changed) != ast.dump(self.tree)


def statements(body: list[ast.stmt], function: ast.AST | None = None) -> Iterator[tuple[ast.stmt, ast.AST | None]]:
    """Yield statements that may hold a fault, each with its function: None where it runs at import."""
    for node in body:
        if _is_skipped(node):
            continue
        yield node, function
        inner = node if isinstance(node, FUNCTIONS) else function
        for part in [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            for field in ("body", "orelse", "finalbody"):
                yield from statements(getattr(part, field, []), inner)


def _is_skipped(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # a docstring, or ...
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, FUNCTIONS):
        return any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    return isinstance(node, ast.Import | ast.ImportFrom)


def _expressions(node: ast.AST, *, is_prose: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield what a statement itself computes, and whether strings there are text for people or types."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if field in ("annotation", "returns") or not isinstance(child, ast.AST):
                continue
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case | ast.JoinedStr):
                inner = is_prose or _holds_prose(node)
                yield child, inner
                yield from _expressions(child, is_prose=inner)


def _holds_prose(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in PROSE_CALLS
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value).rpartition(".")[2] == "Literal"
    return isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg in PROSE_KEYWORDS)


def _edits_of(source: Source, node: ast.AST, *, is_prose: bool) -> Iterator[Edit]:
    match node:
        case ast.Compare():
            for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                yield from _operator("comparison", source, left, right, COMPARISONS[type(op)])
        case ast.BoolOp():
            swap = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from _operator("boolean", source, left, right, swap)
        case ast.UnaryOp(op=ast.Not()):
            start = source.span(node)[0]
            yield Edit("not", start, start + len(b"not "), b"")
        case ast.BinOp() if not any(_is_text(side) for side in (node.left, node.right)):
            yield from _operator("arithmetic", source, node.left, node.right, ARITHMETIC.get(type(node.op)))
        case ast.Constant():
            for value in _moved(node.value, is_prose=is_prose):
                yield Edit("constant", *source.span(node), repr(value).encode())
        case ast.Call() if not is_prose and not _holds_prose(node):
            for left, right in zip(node.args, node.args[1:], strict=False):
                if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
                    between = source.text[source.span(left)[1] : source.span(right)[0]]
                    after = source.segment(right) + between + source.segment(left)
                    yield Edit("arguments", source.span(left)[0], source.span(right)[1], after)


def _operator(
    kind: str, source: Source, left: ast.expr, right: ast.expr, swap: tuple[str, str] | None
) -> Iterator[Edit]:
    """Yield the edit of an operator, which stands between its sides and their parentheses."""
    start, end = source.span(left)[1], source.span(right)[0]
    between = source.text[start:end]
    if swap is None or b"#" in between:
        return
    operator = re.search(re.escape(swap[0]).replace(r"\ ", r"\s+").encode(), between)
    if operator:
        yield Edit(kind, start + operator.start(), start + operator.end(), swap[1].encode())


def _moved(value: object, *, is_prose: bool) -> list[object]:
    """List values beside a constant; none for text, which has blanks."""
    match value:
        case bool():
            return [not value]
        case int() | float():
            return [*sorted({value + 1, value - 1, 2 * value} - {value})]
        case str() if not is_prose and not re.search(r"\s", value):
            return [value + "_"]
    return []


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _dropped(source: Source, node: ast.stmt, function: ast.AST | None) -> Iterator[Edit]:
    """Yield the edit that drops a line; the only binding of a name stays, as any test would meet the NameError."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        bound = _bound(function) if function else []
        if node.value is None or any(bound.count(name) < 2 for target in targets for name in _bound(target)):
            return
    elif not isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Return):
        return
    returns_value = isinstance(node, ast.Return) and node.value is not None
    yield Edit("line", *source.span(node), b"return None" if returns_value else b"pass")


def _bound(node: ast.AST) -> list[str]:
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def tracked(root: Path) -> list[str]:
    """List the tracked files of a checkout, links as themselves."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    names = sorted(set(done.stdout.decode().split("\0")) - {""})
    return [name for name in names if (root / name).is_symlink() or (root / name).exists()]


def product_files(root: Path) -> list[str]:
    """List the product's files, each once by its real path."""
    ours = (name for name in tracked(root) if name.split("/")[0] in PACKAGES and name.endswith(".py"))
    return [name for name in ours if not (root / name).is_symlink()]


def draw(root: Path, seed: str, count: int) -> list[Fault]:
    """Draw faults, each in a statement of its own, all statements alike; more faults begin with the same ones."""
    sources = {file: Source((root / file).read_bytes()) for file in product_files(root)}
    lots = [(file, *lot) for file, source in sources.items() for lot in statements(source.tree.body)]
    rng = random.Random(seed)
    rng.shuffle(lots)
    faults: list[Fault] = []
    while lots and len(faults) < count:
        file, node, function = lots.pop()
        edit = _one_of(sources[file].edits(node, function), sources[file], rng)
        if edit is not None:
            faults.append(_fault(file, sources[file], node, edit, at_import=function is None))
    return faults


def follow(root: Path, faults: list[Fault]) -> list[Fault]:
    """Find faults of an earlier tree in this one: the same change of the same line.

    The line must be the only such one of its file or, where that has none, of all files. Others stay as they are.
    """
    sources = {file: Source((root / file).read_bytes()) for file in product_files(root)}

    def found(fault: Fault) -> Fault:
        if fault.file in sources and fault.apply(sources[fault.file].text) is not None:
            return fault
        own = [fault.file] if fault.file in sources else []
        for files in (own, list(sources)):
            alike = [other for file in files for other in _alike(fault, file, sources[file])]
            if alike:
                return replace(alike[0], earlier=fault.key) if len(alike) == 1 else fault
        return fault

    return [found(fault) for fault in faults]


def _alike(fault: Fault, file: str, source: Source) -> Iterator[Fault]:
    """Yield the faults of a file with the same change of the same line."""
    if fault.code.encode() not in source.text:
        return
    for node, function in statements(source.tree.body):
        if fault.kind not in ("line", "arguments") and fault.before.encode() not in source.segment(node):
            continue
        for edit in source.edits(node, function):
            if (edit.kind, edit.after.decode()) == (fault.kind, fault.after):
                other = _fault(file, source, node, edit, at_import=function is None)
                if (other.code, other.before) == (fault.code, fault.before):
                    yield other


def _one_of(edits: list[Edit], source: Source, rng: random.Random) -> Edit | None:
    """Draw a kind and one edit of it; None where no edit is a fault."""
    while edits:
        kind = rng.choice(sorted({edit.kind for edit in edits}))
        edit = rng.choice([edit for edit in edits if edit.kind == kind])
        if source.is_fault(edit):
            return edit
        edits.remove(edit)
    return None


def _fault(file: str, source: Source, node: ast.stmt, edit: Edit, *, at_import: bool) -> Fault:
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    last = node.end_lineno if body is None else max(first, getattr(body[0], "lineno", first + 1) - 1)
    if isinstance(node, FUNCTIONS) and at_import:  # defaults and decorators act when the function is called
        first, last, at_import = node.body[0].lineno, node.end_lineno, False
    line = source.text.count(b"\n", 0, edit.start) + 1
    target = getattr(node, "target", None) or (getattr(node, "targets", None) or [None])[0]
    return Fault(
        file=file,
        digest=hashlib.sha256(source.text).hexdigest(),
        line=line,
        kind=edit.kind,
        start=edit.start,
        end=edit.end,
        before=source.text[edit.start : edit.end].decode(),
        after=edit.after.decode(),
        code=source.text.splitlines()[line - 1].decode().strip(),
        first=first,
        last=last or first,
        at_import=at_import,
        name=str(getattr(node, "name", getattr(target, "id", ""))),
    )
