"""Tokens, and people whom a proxy signs in, with names and scopes; the token file stores digests only."""

import contextlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from warmstart.history_store import system
from warmstart.history_store.errors import DataError, MissingPathError, StorageError, UsageError, WarmstartError
from warmstart.history_store.file.durable import beside, open_companion
from warmstart.history_store.wording import in_shell, in_words
from warmstart.suggestions.embedded_history import file_state

Scope = Literal["read", "run", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Scopes, each with those before it: read answers; run studies and record runs; metrics and everything else."""
PROJECT_END = ":"
"""What ends the project in a study's name; a study without it is in none."""
HEAD = "# warmstart tokens: NAME SCOPE sha256:DIGEST, or user:NAME or group:NAME, SCOPE, proxy\n"
SIGNED_IN = re.compile(r"(user|group):[\w.@+/:-]{1,128}")
"""Names of users and groups in a token file; no token has a colon in its name."""
_LINE = re.compile(
    rf"(?P<token>[\w.@-]{{1,64}})\s+(?P<scope>\S+)\s+sha256:(?P<digest>[0-9a-f]{{64}})|(?P<signed_in>{SIGNED_IN.pattern})\s+(?P<their_scope>\S+)\s+proxy"
)
_IN_PROJECT = re.compile(r"(?P<project>[\w.-]{1,64})=(?P<scope>read|run|admin)")


@dataclass(frozen=True, slots=True)
class Token:
    """A token: name, scope and digest of the secret; or who was signed in by a proxy.

    Attributes:
        name: of whom it is for.
        scope: on the whole server, or outside of studies, if it is for projects.
        digest: SHA-256 of the secret; empty for users and groups.
        projects: scopes by project; empty for a token of all studies.
        grants: of who was signed in: the lines of the file for the user and the groups.
    """

    name: str
    scope: Scope
    digest: str
    projects: tuple[tuple[str, Scope], ...] = ()
    grants: tuple["Token", ...] = ()

    def allows(self, needed: Scope, study: str | None = None) -> bool:
        """Tell whether the token's scope includes another scope, for a study by its name, or for all else."""
        if self.grants:
            return any(grant.allows(needed, study) for grant in self.grants)
        scope: Scope | None = self.scope
        if self.projects and study is not None:
            project, end, _ = study.partition(PROJECT_END)
            scope = dict(self.projects).get(project) if end else None
        return scope is not None and SCOPES.index(scope) >= SCOPES.index(needed)

    @property
    def scope_text(self) -> str:
        """Return the scope as the token file has it."""
        if self.grants:
            return " and ".join(grant.scope_text for grant in self.grants)
        return ",".join(f"{project}={scope}" for project, scope in self.projects) or self.scope


LOOPBACK_TOKEN = Token("loopback", "admin", "")
"""Token of every caller of a server without tokens, which listens on loopback."""

UNKNOWN_TOKEN = Token("unknown", "read", "")
"""Token of refused callers, for the log."""


class TokenFile:
    """The tokens of a file, read again when it changes."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            DataError: an invalid line, or a file that others may write.
        """
        self.path = path
        self._state: tuple[int, ...] = ()
        self._tokens: tuple[Token, ...] = ()
        self._refresh()

    def find(self, secret: str) -> Token | None:
        """Find the token of a secret, comparing all digests in constant time.

        Raises:
            DataError: the file became invalid.
        """
        self._refresh()
        digest = sha256(secret.encode(errors="surrogateescape")).hexdigest()
        match = None
        # No early exit: the time must not show which token matched.
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                match = token
        return match

    def of_signed_in(self, user: str, groups: Sequence[str]) -> Token | None:
        """Return what the file grants to a user and its groups; None where it has none of them.

        Raises:
            DataError: the file became invalid.
        """
        self._refresh()
        names = {f"user:{user}", *(f"group:{group}" for group in groups)}
        grants = tuple(token for token in self._tokens if token.name in names)
        return Token(f"user:{user}", "read", "", grants=grants) if grants else None

    def has(self, token: Token) -> bool:
        """Tell whether a token is in the file, with the same scope; False for a file that became invalid."""
        with contextlib.suppress(DataError):
            self._refresh()
            return set(token.grants or (token,)) <= set(self._tokens)
        return False

    def _refresh(self) -> None:
        state = file_state(self.path)
        if state != self._state:
            self._tokens, self._state = read_tokens(self.path), state


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Read a token file.

    Raises:
        DataError: an invalid line, a repeated name, or a file that others may write.
    """
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path}: expected a readable token file, got: {error}. Check the path and its permissions."
        raise DataError(msg) from error
    if mode & 0o022:
        msg = (
            f"{path}: expected a token file that you alone can write, got mode {mode & 0o777:o}. Run `chmod 600` on it."
        )
        raise DataError(msg)
    tokens: dict[str, Token] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        token = None
        if match is not None:
            name, scope = match["token"] or match["signed_in"], match["scope"] or match["their_scope"]
            token = _token(name, scope, match["digest"] or "")
        if token is None or token.name in tokens:
            got = "another text" if token is None else f"the name {token.name!r} again"
            msg = f"{path}:{number}: expected NAME SCOPE sha256:DIGEST, or user:NAME SCOPE proxy, got {got}. `warmstart serve --new-token NAME --token-file {in_shell(path)}` writes such lines."
            raise DataError(msg)
        tokens[token.name] = token
    return tuple(tokens.values())


def _token(name: str, scope_text: str, digest: str) -> Token | None:
    """Make a token from a scope, or from PROJECT=SCOPE, several with commas; None for another text."""
    if scope_text in SCOPES:
        return Token(name, scope_text, digest)
    parts = [_IN_PROJECT.fullmatch(part) for part in scope_text.split(",")]
    projects: dict[str, Scope] = {part["project"]: part["scope"] for part in parts if part is not None}  # type: ignore[misc]  # the pattern has the three
    return Token(name, "read", digest, tuple(projects.items())) if len(projects) == len(parts) else None


def add_token(path: Path, name: str, scope: str) -> str:
    """Create a token and append its digest to a file, which is created if needed; a link stays a link.

    Args:
        path: of the file.
        name: of whom the token is for; with user: or group: before it, of whom a proxy signs in.
        scope: one of `SCOPES`, or PROJECT=SCOPE, several with commas.

    Returns: the secret, which is not stored; empty for a user or a group.

    Raises:
        UsageError: an invalid name or scope, or a name that the file has already.
        MissingPathError: no folder for the file.
        DataError: a file that is no token file.
        StorageError: a file or a folder that cannot be written.
    """
    is_signed_in = SIGNED_IN.fullmatch(name) is not None
    if not is_signed_in and not re.fullmatch(r"[\w.@-]{1,64}", name):
        msg = f"expected a name of up to 64 letters, digits and . @ - _, or user:NAME or group:NAME, got {name!r}. Name whom the token is for."
        raise UsageError(msg, param="new_token")
    secret = "" if is_signed_in else secrets.token_urlsafe(32)
    digest = sha256(secret.encode()).hexdigest()
    if _token(name, scope, digest) is None:
        msg = f"expected one of {', '.join(SCOPES)}, or PROJECT=SCOPE, each project once, got {scope!r}. Leave it out for run."
        raise UsageError(msg, param="scope")
    with _locked(path) as real:
        tokens = read_tokens(real) if real.exists() else ()
        if any(token.name == name for token in tokens):
            msg = f"expected a new name, got {name!r}, which {path} has already. Choose another, or take its line out first."
            raise UsageError(msg, param="new_token")
        lines = real.read_text(encoding="utf-8") if real.exists() else HEAD
        end = "" if lines.endswith("\n") or not lines else "\n"
        _write_private(real, f"{lines}{end}{name} {scope} {f'sha256:{digest}' if secret else 'proxy'}\n")
    return secret


def remove_token(path: Path, name: str) -> None:
    """Take the line of a token out of a file.

    Raises:
        UsageError: the file has no such name.
        DataError: a file that is no token file.
        StorageError: a file or a folder that cannot be written.
    """
    with _locked(path) as real:
        names = [token.name for token in read_tokens(real)]
        if name not in names:
            msg = f"expected one of {', '.join(names) or 'its names, of which there are none'}, got {name!r}. Take it from {path}."
            raise UsageError(msg, param="revoke_token")
        lines = real.read_text(encoding="utf-8").splitlines(keepends=True)
        _write_private(real, "".join(line for line in lines if line.split()[:1] != [name]))


def bearer(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the bearer token of a request; None without one."""
    kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return secret.strip() if kind.lower() == "bearer" and secret.strip() else None


def cookie_name(port: int) -> str:
    """Return the name of the cookie with the token: a browser shares cookies among the ports of a host."""
    return f"warmstart-{port}"


def cookie(headers: Mapping[bytes, bytes], name: str) -> str | None:
    """Return the value of a cookie of a request; None without one."""
    pairs = (pair.partition("=") for pair in headers.get(b"cookie", b"").decode("latin-1").split(";"))
    return next((value.strip() for key, _, value in pairs if key.strip() == name and value.strip()), None)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[Path]:
    """Lock a token file against other processes; yield its path without links. Raises as `add_token`."""
    try:
        real = Path(os.path.realpath(path))
        if not real.parent.is_dir():
            msg = f"expected a folder for the tokens, got none at {real.parent}. Make it, or name another file."
            raise MissingPathError(msg, param="token_file")
        lock = open_companion(beside(real, ".lock"), os.O_RDWR | os.O_CREAT, real)
        try:
            system.wait_for_lock(lock)
            yield real
        finally:
            os.close(lock)
    except WarmstartError:
        raise
    except OSError as error:
        msg = f"expected a file and a folder that can be written, got {str(path)!r} ({in_words(error)}). Check their permissions, or name another file."
        raise StorageError(msg, param="token_file") from error


def _write_private(path: Path, text: str) -> None:
    """Replace a file by one of mode 600; an existing file keeps owner, group and mode, so that a service can still read it."""
    # A draft that replaces the file: readers and crashes never see half of it.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with contextlib.suppress(FileNotFoundError):
            before = path.stat()
            # Only root may change owners.
            with contextlib.suppress(PermissionError):
                system.set_owner(file, before.st_uid, before.st_gid)
                system.set_mode(file, before.st_mode & 0o660)
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
