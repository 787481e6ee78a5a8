"""`warmstart serve`: suggestions and studies for a team, over HTTP."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.options import (
    Format,
    FormatOption,
    HistoryOption,
    ModelOption,
    QuietOption,
    SeedOption,
    VerboseOption,
)
from warmstart.cli.shell import Shell, write
from warmstart.history_store import system


def serve(
    *,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; another than this machine's needs --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes any free one.")] = 8383,
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage", help="Studies: a path or a URL, as `tune` takes it; warmstart-studies.db if left out."
        ),
    ] = None,
    history: HistoryOption = None,
    model: ModelOption = None,
    classifier: Annotated[
        Path | None,
        typer.Option("--classifier", help="A classifier of `warmstart classify`, for POST /v1/predictions."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="Who may: lines of names, scopes and digests of tokens.")
    ] = None,
    new_token: Annotated[
        str | None,
        typer.Option("--new-token", metavar="NAME", help="Make a token in --token-file, show it once, and end."),
    ] = None,
    scope: Annotated[str, typer.Option("--scope", help="With --new-token: read, run or admin.")] = "run",
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key, PEM.")] = None,
    root_path: Annotated[
        str, typer.Option("--root-path", metavar="/PREFIX", help="Prefix under which a proxy shows the server.")
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name by which clients call it; may be repeated."),
    ] = None,
    allow_uploads: Annotated[
        bool,
        typer.Option("--allow-uploads", help="Take datasets and pictures on other addresses than loopback, too."),
    ] = False,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Requests a second of each client, at most; any when left out.")
    ] = None,
    max_body: Annotated[int, typer.Option("--max-body", min=1000, help="Bytes of a JSON body, at most.")] = 1_000_000,
    grace: Annotated[
        float, typer.Option("--grace", min=1, help="Seconds that requests have to finish when it stops.")
    ] = 10.0,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001  every command has it
) -> None:
    """Serve suggestions and studies over HTTP. Pictures stay with the clients; no code of theirs runs here."""
    from warmstart.history_store.extras import require_extra

    shell = Shell(format, quiet=quiet)
    system.check_process_trees()
    require_extra("serve", "`warmstart serve`")
    if new_token is not None:
        secret = _new_token(new_token, scope, token_file)
        if format is Format.TABLE:
            write(secret)
        else:
            shell.result({"schema_version": 1, "name": new_token, "scope": scope, "token": secret}, [{"token": secret}])
        return
    from warmstart.service.logs import log_to_stderr
    from warmstart.service.server import run_server
    from warmstart.service.settings import ServiceSettings

    settings = ServiceSettings(
        host=host,
        port=port,
        history=history,
        model=model,
        storage=storage,
        classifier=classifier,
        token_file=token_file,
        tls_cert=tls_cert,
        tls_key=tls_key,
        root_path=root_path,
        allowed_hosts=tuple(allow_host or ()),
        allow_uploads=allow_uploads,
        most_bytes=max_body,
        rate=rate,
        grace_s=grace,
    )
    log_to_stderr(quiet=quiet)

    def announce(url: str) -> None:
        shell.note(f"warmstart serves {url} (Ctrl-C ends it)")
        if format is not Format.TABLE:
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
