"""The page opened in the user's browser, without the token on a command line that others can list."""

from __future__ import annotations

import atexit
import os
import tempfile
import webbrowser
from html import escape
from pathlib import Path


def open_browser(url: str) -> bool:
    """Open an address by way of a file that only this user can read; return whether a browser was found."""
    handle, name = tempfile.mkstemp(prefix="answerkey-view-", suffix=".html")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(draw_redirect(url))
    try:
        return webbrowser.open(Path(name).as_uri())
    except webbrowser.Error:
        return False


def draw_redirect(url: str) -> str:
    """Return a page that goes on to an address at once."""
    safe = escape(url, quote=True)
    return (
        "<!doctype html>\n"
        '<meta charset="utf-8">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta http-equiv="refresh" content="0; url={safe}">\n'
        "<title>answerkey</title>\n"
        f'<p><a href="{safe}">Go on to the runs</a></p>\n'
    )
