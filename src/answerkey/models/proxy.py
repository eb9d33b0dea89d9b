"""The proxy and the certificates that the environment names.

One rule for models, datasets and the hub: the proxy in `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY`
(also in lower case) is used and named once on stderr, except for this machine and for hosts in
`NO_PROXY`. A key goes through a proxy only inside TLS.
"""

from __future__ import annotations

import logging
import os
import ssl
import urllib.request
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from answerkey.errors import SpecError, hide_secrets, remember_url
from answerkey.models.config import is_loopback

LOG = logging.getLogger("answerkey")
#: Names additional certificates to trust. OpenSSL itself reads `SSL_CERT_FILE`.
CERTIFICATES = "REQUESTS_CA_BUNDLE"
#: Documented only in the source of the library, and missing from its types.
_is_excepted: Callable[[str, dict[str, str]], bool] = vars(urllib.request)[
    "proxy_bypass_environment"
]


def find_proxy(url: str) -> str | None:
    """Return the proxy for a URL, or None.

    Raises SpecError E119 for a proxy of an unknown kind.
    """
    proxies = urllib.request.getproxies_environment()
    parts = urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    host = parts.netloc.rpartition("@")[2]
    if not proxy or is_loopback(url) or _is_excepted(host, proxies):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    remember_url(proxy)
    if urlsplit(proxy).scheme not in {"http", "https"}:
        raise SpecError(
            "E119",
            f"the proxy `{hide_secrets(proxy)}` cannot be used for `{host}`",
            hint="name an `http://` proxy, or name the host in `NO_PROXY`",
        )
    _announce(proxy)
    return proxy


def find_proxy_for_key(url: str, model: str, *, has_key: bool) -> str | None:
    """Return the proxy for a model's endpoint.

    Raises SpecError E117 if a key would pass through it without TLS.
    """
    proxy = find_proxy(url)
    if proxy is not None and has_key and urlsplit(url).scheme != "https":
        host = urlsplit(url).hostname
        raise SpecError(
            "E117",
            f"model `{model}`: its key would pass through the proxy `{hide_secrets(proxy)}` "
            "without TLS",
            hint=f"use an `https://` address, or name `{host}` in `NO_PROXY` to reach it without "
            "the proxy",
        )
    return proxy


def open_tls_context(trusted: str | None = None) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates of the system and of the environment.

    `trusted` (PEM text) are certificates to trust instead; ssl.SSLError or ValueError if it has
    none.
    """
    context = ssl.create_default_context(cadata=trusted)
    if trusted is None and (bundle := os.environ.get(CERTIFICATES)):
        try:
            context.load_verify_locations(
                **{"capath" if Path(bundle).is_dir() else "cafile": bundle}
            )
        except OSError as error:  # ssl.SSLError is one
            why = f"which contains no certificates: {error.strerror or error}"
            raise SpecError(
                "E119",
                f"`{CERTIFICATES}` names `{bundle}`, {why}",
                hint="name a file of PEM certificates, or unset it",
            ) from None
    return context


@lru_cache
def _announce(proxy: str) -> None:
    LOG.warning(
        "requests go through the proxy `%s`; `NO_PROXY` names hosts to reach without it",
        hide_secrets(proxy),
    )
