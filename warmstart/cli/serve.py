"""`warmstart serve`: suggestions and studies for a team, over HTTP."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, write
from warmstart.history_store import system
from warmstart.history_store.errors import UsageError
from warmstart.history_store.extras import require_extra
from warmstart.service.logs import log_to_stderr
from warmstart.service.options import ServiceOptions


@takes_options
def serve(
    *,
    options: ServiceOptions,
    new_token: Annotated[
        str | None,
        typer.Option(
            "--new-token",
            metavar="NAME",
            rich_help_panel="Tokens",
            help="Make a token in --token-file, show it once, and end; user:NAME or group:NAME is for --trust-proxy.",
        ),
    ] = None,
    scope: Annotated[
        str,
        typer.Option(
            "--scope",
            rich_help_panel="Tokens",
            help="With --new-token: read, run or admin, or for the studies of a project alone, as vision=run,audio=read.",
        ),
    ] = "run",
    revoke_token: Annotated[
        str | None,
        typer.Option(
            "--revoke-token",
            metavar="NAME",
            rich_help_panel="Tokens",
            help="Take a token out of --token-file, and end.",
        ),
    ] = None,
    list_tokens: Annotated[
        bool,
        typer.Option(
            "--list-tokens",
            rich_help_panel="Tokens",
            help="List the names and scopes of --token-file, and end.",
            show_default=False,
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check-config", help="Check that all of it can be used, and end.", show_default=False)
    ] = False,
    shell: Shell,
) -> None:
    """Serve suggestions and studies over HTTP. Pictures stay with the clients; no code of theirs runs here."""
    system.check_process_trees()
    require_extra("serve", "`warmstart serve`")
    if new_token is not None:
        from warmstart.service.auth import add_token

        secret = add_token(_token_file(options, "new_token"), new_token, scope)
        if not secret:
            shell.note(f"{new_token} may as soon as --trust-proxy signs them in.")
        if shell.format != "table":
            shell.result(
                {"schema_version": 1, "name": new_token, "scope": scope, "token": secret or None}, [{"token": secret}]
            )
        elif secret:
            write(secret)
        return
    if revoke_token is not None or list_tokens:
        from warmstart.service.auth import read_tokens, remove_token

    if revoke_token is not None:
        remove_token(_token_file(options, "revoke_token"), revoke_token)
        shell.note(f"{revoke_token} may no longer; a server that runs knows it with the next request.")
        return
    if list_tokens:
        rows = [
            {"name": token.name, "scope": token.scope_text}
            for token in read_tokens(_token_file(options, "list_tokens"))
        ]
        shell.result({"schema_version": 1, "tokens": rows}, rows)
        return
    from warmstart.service.settings import ServiceSettings

    settings = ServiceSettings(**vars(options))
    if check:
        from warmstart.service.check_config import check_config

        state = check_config(settings)
        shell.result({"schema_version": 1, **state}, [{"part": part, "state": text} for part, text in state.items()])
        return
    from warmstart.service.server import run_server

    log_to_stderr(quiet=shell.quiet)

    def announce(url: str) -> None:
        shell.note(f"warmstart serves {url} (Ctrl-C ends it)")
        if shell.format != "table":
            shell.result({"schema_version": 1, "url": url}, [{"url": url}])
            sys.stdout.flush()

    run_server(settings, on_message=announce)


def _token_file(options: ServiceOptions, param: str) -> Path:
    """Return the file of digests; raises `UsageError` without one."""
    if options.token_file is None:
        msg = "needs `token_file`, which keeps the digests."
        raise UsageError(msg, param=param)
    return options.token_file
