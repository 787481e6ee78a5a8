"""`warmstart serve`: suggestions and studies for a team, over HTTP."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, write
from warmstart.history_store import system
from warmstart.service.settings import ServiceOptions


@takes_options
def serve(
    *,
    options: ServiceOptions,
    new_token: Annotated[
        str | None,
        typer.Option("--new-token", metavar="NAME", help="Make a token in --token-file, show it once, and end."),
    ] = None,
    scope: Annotated[str, typer.Option("--scope", help="With --new-token: read, run or admin.")] = "run",
    shell: Shell,
) -> None:
    """Serve suggestions and studies over HTTP. Pictures stay with the clients; no code of theirs runs here."""
    from warmstart.history_store.extras import require_extra

    system.check_process_trees()
    require_extra("serve", "`warmstart serve`")
    if new_token is not None:
        secret = _new_token(new_token, scope, options.token_file)
        if shell.format == "table":
            write(secret)
        else:
            shell.result({"schema_version": 1, "name": new_token, "scope": scope, "token": secret}, [{"token": secret}])
        return
    from warmstart.service.logs import log_to_stderr
    from warmstart.service.server import run_server
    from warmstart.service.settings import ServiceSettings

    settings = ServiceSettings(**vars(options))
    log_to_stderr(quiet=shell.quiet)

    def announce(url: str) -> None:
        shell.note(f"warmstart serves {url} (Ctrl-C ends it)")
        if shell.format != "table":
            shell.result({"schema_version": 1, "url": url}, [{"url": url}])
            sys.stdout.flush()

    run_server(settings, on_message=announce)


def _new_token(name: str, scope: str, token_file: Path | None) -> str:
    """Add a token to the token file and return its secret.

    Raises:
        UsageError: no file to keep its digest in, or no such scope.
    """
    from warmstart.history_store.errors import UsageError
    from warmstart.service.auth import SCOPES, add_token

    if token_file is None:
        msg = "needs `token_file`, which keeps the digests."
        raise UsageError(msg, param="new_token")
    valid_scope = next((candidate for candidate in SCOPES if candidate == scope), None)
    if valid_scope is None:
        msg = f"expected one of {', '.join(SCOPES)}, got {scope!r}. Leave it out for run."
        raise UsageError(msg, param="scope")
    return add_token(token_file, name, valid_scope)
