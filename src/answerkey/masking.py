"""Secrets in text: every message, log line and file for people goes through `hide_secrets`."""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"
#: A shorter secret is not hidden by its letters alone: they may be a word of ours.
SHORTEST_WORD = 8
#: Names of URL parameters that hold a secret: keys, tokens, passwords, the signatures of presigned URLs.
HIDDEN_PARAMETER = (
    r"[\w.-]*(?:key(?:-?id)?|key-?pair-?id|token|secret|passw(?:or)?d|passphrase|pwd|sig|signature|credentials?|"
    r"auth|authorization|accessid|sas|jwt|session(?:-?id)?)|pass|code"
)
_PARAMETER = re.compile(rf"(?<=[?&;'\"])({HIDDEN_PARAMETER})=([^&#\s`'\"<>]+)", re.IGNORECASE)
#: User name and password before a host; a path holds an address with one slash. A password may hold a `/`
#: that should have been encoded, and a port is no password.
_USER = re.compile(
    r"(:/{1,3})(?:[^\s/?#:@\[]*:(?!\d*[/?#])[^\s?#]{0,500}|[^\s/?#]*)@"
    r"|(?<![^\s`'\"(=,])()[^\s/?#:@`'\"(=,]+:[^\s/@`'\"]+@(?=[\w\[])"
)
#: Every secret that this process has come to know.
_KNOWN: set[str] = set()


def hide_secrets(text: str) -> str:
    """Return a text for people with every secret in it as `***`, whoever wrote it.

    Hidden are the secrets that are known, and of any URL its user name, password and secret parameters.
    """
    for secret in sorted(_KNOWN, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if "@" in text:
        text = _USER.sub(rf"\1\2{HIDDEN}@", text)
    return _PARAMETER.sub(rf"\1={HIDDEN}", text) if "=" in text else text


def remember_secret(text: str) -> None:
    """Hide a text from now on, wherever it turns up."""
    if len(text) >= SHORTEST_WORD:
        _KNOWN.add(text)


def remember_url(url: str) -> None:
    """Hide the secrets of a URL from now on, also where a library writes them without their URL."""
    user, at, _ = url.partition("://")[2].rpartition("@")
    found = [user.partition(":")[2]] if at and "?" not in user else []
    found += [value for _, value in _PARAMETER.findall(url)]
    for secret in found:
        remember_secret(secret)
        remember_secret(unquote(secret))
