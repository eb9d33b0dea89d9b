"""Proxies that the environment names: they see what is fetched, so they are used only when that is said."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from answerkey.errors import remember_url

#: The variable that says so; `environment` is the one value that does.
PROXIES = "ANSWERKEY_PROXIES"
_NONE_FOR = ("NO_PROXY", "no_proxy")


def choose_proxies() -> dict[str, str]:
    """Return the proxies that may be used, by the scheme of the address."""
    return _find_proxies() if _is_said() else {}


def hint_at_proxies() -> str | None:
    """Return what to do if the way out is through a proxy that is named and not used; None otherwise."""
    is_left = not _is_said() and {"http", "https", "all"} & _find_proxies().keys()
    return f"`{PROXIES}=environment` uses the proxy that the environment names" if is_left else None


@contextmanager
def hide_proxies(forget: Callable[[], object]) -> Iterator[None]:
    """Keep a library that looks for proxies itself from finding any, unless they may be used.

    `forget` makes the library look again: before, and for whoever uses it next.
    """
    if hint_at_proxies() is None:
        yield
        return
    before = {name: os.environ.get(name) for name in _NONE_FOR}
    os.environ.update(dict.fromkeys(_NONE_FOR, "*"))
    forget()
    try:
        yield
    finally:
        forget()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _find_proxies() -> dict[str, str]:
    """Return the proxies that the environment names; a password in them is not shown."""
    found = urllib.request.getproxies()
    for url in found.values():
        remember_url(url)
    return found


def _is_said() -> bool:
    return os.environ.get(PROXIES, "").strip().lower() == "environment"
