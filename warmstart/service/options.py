"""The options of `warmstart serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from warmstart.locations import PathLike
from warmstart.option import option, option_of
from warmstart.suggestions.lookup import Sources


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Address, history, storage, tokens and limits of a server."""

    TITLE: ClassVar[str] = "Server"
    VARIABLES: ClassVar[str] = "WARMSTART_"
    host: str = option(
        "127.0.0.1", "Address to listen on; another than this machine's needs --token-file.", is_main=True
    )
    port: int = option(8383, "TCP port; 0 takes any free one.", least=0, most=65535, is_main=True)
    storage: PathLike | None = option(
        None, "Studies: a path or a URL, as `tune` takes it; warmstart-studies.db if left out.", is_main=True
    )
    history: PathLike | None = option_of(Sources, "history", is_main=True)
    model: PathLike | None = option_of(Sources, "model")
    classifier: PathLike | None = option(
        None, "A classifier of `warmstart classify`, for POST /v1/predictions.", is_main=True
    )
    token_file: Path | None = option(
        None, "Who may: lines of names, scopes and digests of tokens.", type=Path, is_main=True
    )
    audit_log: Path | None = option(None, "A line for each write, also refused ones: a file to append to.", type=Path)
    webhook: str | None = option(
        None, "Where to POST a note when a study ends or fails; see docs/service.md.", metavar="URL"
    )
    tls_cert: Path | None = option(None, "Certificate chain, PEM.", type=Path)
    tls_key: Path | None = option(None, "Its key, PEM.", type=Path)
    root_path: str = option("", "Prefix under which a proxy shows the server.", metavar="/PREFIX")
    allowed_hosts: tuple[str, ...] = option(
        (), "A name by which clients call it; may be repeated.", flags=("--allow-host",), metavar="NAME"
    )
    trust_proxy: tuple[str, ...] = option(
        (),
        "Address or network of a proxy that signs people in; may be repeated.",
        metavar="ADDRESS",
    )
    proxy_header: str | None = option(None, "Its header with the user, like X-Forwarded-Email.", metavar="NAME")
    proxy_groups_header: str | None = option(
        None, "Its header with the user's groups, if it sends any.", metavar="NAME"
    )
    allow_uploads: bool = option(False, "Take datasets and pictures on other addresses than loopback, too.")
    rate: float | None = option(None, "Requests a second of each client, at most; any when left out.", type=float)
    most_bytes: int = option(1_000_000, "Bytes of a JSON body, at most.", least=1000, flags=("--max-body",))
    grace_s: float = option(10.0, "Seconds that requests have to finish when it stops.", least=1, flags=("--grace",))
