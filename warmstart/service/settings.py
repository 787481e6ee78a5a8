"""Settings of a server: address, history, storage, tokens, limits."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.service.audit import check_audit_file
from warmstart.service.identity_proxy import IdentityProxy
from warmstart.service.options import ServiceOptions
from warmstart.service.webhook import check_webhook
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


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(ServiceOptions):
    """Settings of one server.

    Attributes:
        writable_history: whether `/v1/history` takes runs.
        most_upload_bytes: of an uploaded dataset.
        most_pixels: of all pictures of an uploaded dataset together.
        most_picture_bytes: of an uploaded picture.
        body_timeout_s: seconds in which a body has to arrive.
    """

    writable_history: bool = True
    most_upload_bytes: int = 200_000_000
    most_pixels: int = 400_000_000
    most_picture_bytes: int = 20_000_000
    body_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            UsageError: an open address without tokens; half of a certificate; a number out of range; an audit log that
                cannot be written; a webhook that is no URL; a proxy without an address or a header.
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
        if self.webhook is not None:
            check_webhook(self.webhook)
        IdentityProxy.of(self)
        if self.audit_log is not None:
            check_audit_file(self.audit_log)
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
