"""Proxies that sign people in (OIDC) and name them in headers, which are believed from their addresses alone."""

import contextlib
import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from starlette.types import Scope

from warmstart.history_store.errors import UsageError
from warmstart.service.auth import SIGNED_IN
from warmstart.service.options import ServiceOptions
from warmstart.service.problems import ProblemError


@dataclass(frozen=True, slots=True)
class IdentityProxy:
    """The headers of a proxy that signs people in, and where it is.

    Attributes:
        networks: from which the headers are believed.
        user: name of the header with the user.
        groups: name of the header with the groups; None without one.
    """

    networks: tuple[IPv4Network | IPv6Network, ...]
    user: bytes
    groups: bytes | None

    @classmethod
    def of(cls, options: ServiceOptions) -> Self | None:
        """Return the proxy of a server's options; None without one.

        Raises:
            UsageError: an option without the others that it needs, no address, or no name of a header.
        """
        if not options.trust_proxy:
            for name in ("proxy_header", "proxy_groups_header"):
                if getattr(options, name) is not None:
                    msg = "needs `trust_proxy`, from which the header is believed."
                    raise UsageError(msg, param=name)
            return None
        if options.token_file is None or options.proxy_header is None:
            missing = "token_file`, which says who may" if options.token_file is None else "proxy_header`, the user's"
            msg = f"needs `{missing}."
            raise UsageError(msg, param="trust_proxy")
        user, groups = options.proxy_header.lower(), (options.proxy_groups_header or "").lower() or None
        for name, header in (("proxy_header", user), ("proxy_groups_header", groups)):
            if header is not None and not re.fullmatch(r"[a-z0-9-]{1,64}", header):
                msg = f"expected the name of a header, like X-Forwarded-Email, got {header[:80]!r}. Use letters, digits and hyphens."
                raise UsageError(msg, param=name)
        if user == groups:
            msg = f"expected another header than that of the user, got {user!r}. Leave it out if the proxy sends no groups."
            raise UsageError(msg, param="proxy_groups_header")
        texts = [part.strip() for text in options.trust_proxy for part in text.split(",")]
        return cls(tuple(map(_network, texts)), user.encode(), None if groups is None else groups.encode())

    def is_trusted(self, scope: Scope) -> bool:
        """Tell whether a request comes from the proxy; one over a socket without an address does not."""
        client = scope.get("client")
        try:
            address = ip_address(client[0] if client else "")
        except ValueError:
            return False
        if isinstance(address, IPv6Address):
            address = address.ipv4_mapped or address  # as a socket for both kinds shows one of IPv4
        return any(address in network for network in self.networks)

    def is_named(self, scope: Scope) -> bool:
        """Tell whether a request has a header of the proxy."""
        return any(name in (self.user, self.groups) for name, _ in scope["headers"])

    def signed_in(self, scope: Scope) -> tuple[str, tuple[str, ...]] | None:
        """Return the user and the groups of a request of the proxy; None for nobody.

        Raises:
            ProblemError: 401, a header that is there twice or is no name.
        """
        user = _only(scope, self.user)
        groups = "" if self.groups is None else _only(scope, self.groups)
        if not user:
            return None
        if SIGNED_IN.fullmatch(f"user:{user}") is None:
            raise _refused(self.user, "as a name without spaces and commas", repr(user[:80]))
        return user, tuple(group.strip() for group in groups.split(","))


def _network(text: str) -> IPv4Network | IPv6Network:
    """Read an address or a network; raises `UsageError`."""
    with contextlib.suppress(ValueError):
        network = ip_network(text)
        mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
        if mapped is not None:
            network = IPv4Network((mapped, network.prefixlen - 96))
        if network.prefixlen > 0:  # 0 is everybody
            return network
    msg = f"expected an address like 10.0.0.7 or ::1, or a network like 10.0.0.0/24, got {text[:80]!r}. Give that of the proxy."
    raise UsageError(msg, param="trust_proxy")


def _only(scope: Scope, header: bytes) -> str:
    """Return the value of a header, empty without it; raises `ProblemError` where it is there twice or is no text."""
    values = [value for name, value in scope["headers"] if name == header]
    if len(values) > 1:
        got = f"it {len(values)} times"
        raise _refused(header, "once", got)
    try:
        return b"".join(values).decode().strip()
    except UnicodeDecodeError:
        raise _refused(header, "in UTF-8", "other bytes") from None


def _refused(header: bytes, expected: str, got: str) -> ProblemError:
    detail = f"expected the header {header.decode()} {expected}, got {got}. Ask who runs the proxy."
    return ProblemError(401, "Not known", detail)
