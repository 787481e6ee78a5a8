"""Settings of a server: address, history, storage, tokens, limits."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.locations import PathLike
from warmstart.training.workloads.classifier_file import read_header

UPLOADS = {
    "application/zip": "zip",
    "application/x-zip-compressed": "zip",
    "application/x-tar": "tar",
    "application/gzip": "tar",
    "application/x-gzip": "tar",
    "application/x-npz": "npz",
}
"""Content types of uploaded datasets, and the kinds of archive."""
PICTURES = ("image/jpeg", "image/png", "image/webp", "image/bmp", "image/gif", "image/tiff")
"""Content types of uploaded pictures."""
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Settings of one server.

    Attributes:
        host: address to listen on.
        port: TCP port; 0 = any free one.
        history: to suggest from; ``$WARMSTART_HISTORY`` or the shipped one when left out.
        model: of the meta-features; ``$WARMSTART_MODEL`` or the shipped one when left out.
        storage: of the studies, a path or a URL; None = ``warmstart-studies.db`` in the working folder.
        token_file: of the clients' tokens; needed unless only this machine can connect.
        tls_cert: PEM file of the certificate chain.
        tls_key: PEM file of its key.
        root_path: prefix under which a proxy shows the server.
        allowed_hosts: names by which clients may call it, besides those of this machine on loopback.
        writable_history: whether `/v1/history` takes runs.
        most_bytes: of a JSON body.
        most_upload_bytes: of an uploaded dataset.
        most_pixels: of all pictures of an uploaded dataset together.
        most_picture_bytes: of an uploaded picture.
        classifier: file of the classifier that answers `/v1/predictions`; None = no answers.
        allow_uploads: take uploaded datasets on other addresses than loopback, too.
        body_timeout_s: seconds in which a body has to arrive.
        rate: requests a second of each client, in bursts of ten times as many; None = any.
        grace_s: seconds that requests under way have when the server stops.
    """

    host: str = "127.0.0.1"
    port: int = 8383
    history: PathLike | None = None
    model: PathLike | None = None
    storage: PathLike | None = None
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    root_path: str = ""
    allowed_hosts: tuple[str, ...] = ()
    writable_history: bool = True
    most_bytes: int = 1_000_000
    most_upload_bytes: int = 200_000_000
    most_pixels: int = 400_000_000
    most_picture_bytes: int = 20_000_000
    classifier: PathLike | None = None
    allow_uploads: bool = False
    body_timeout_s: float = 60.0
    rate: float | None = None
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            UsageError: an open address without tokens; half of a certificate; a number out of range.
            MissingPathError: a token file, a certificate, a key or a classifier that is not there.
            ModelError: a file that is no classifier.
        """
        if self.classifier is not None:
            read_header(Path(self.classifier))
        if not 0 <= self.port <= 65535:
            msg = f"expected a port from 0 to 65535, got {self.port}. Leave it out for 8383."
            raise UsageError(msg, param="port")
        if self.rate is not None and not self.rate > 0:
            msg = f"expected requests a second above 0, got {self.rate}. Leave it out for no limit."
            raise UsageError(msg, param="rate")
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            msg = f"expected a path like /warmstart, got {self.root_path!r}. Begin it with a slash, and end it without."
            raise UsageError(msg, param="root_path")
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_cert"
            msg = "expected both a certificate and its key, got one of them. Give the other too."
            raise UsageError(msg, param=missing)
        for name in ("token_file", "tls_cert", "tls_key"):
            path: Path | None = getattr(self, name)
            if path is not None and not path.is_file():
                msg = f"expected a file, got {str(path)!r}, which is not there. Check the path."
                raise MissingPathError(msg, param=name)
        if not self.is_loopback and self.token_file is None:
            msg = (
                f"needs `token_file`, as other machines can reach {self.host!r}. "
                "Make tokens with `new_token`, or listen on 127.0.0.1."
            )
            raise UsageError(msg, param="host")

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def takes_uploads(self) -> bool:
        """Tell whether datasets may be uploaded."""
        return self.allow_uploads or self.is_loopback


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
