"""The page around what it shows: its HTML, its style and its scripts, which are files beside this package.

The page has a policy of its own: only this style and these scripts run, and nothing is fetched from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import escape
from importlib.resources import files

from answerkey.text import make_visible

WEB = "web"
PAGE, STYLE = "page.html", "page.css"
#: The scripts in the order in which they run; the last two are for the viewer.
SCRIPTS = (
    "core.js",
    "charts.js",
    "overview.js",
    "list.js",
    "samples.js",
    "sample.js",
    "compare.js",
    "runs.js",
    "embedded.js",
    "server.js",
    "main.js",
)
VIEWER_ONLY = frozenset({"runs.js", "server.js"})
MARKS = ("policy", "title", "style", "blocks", "script")


@dataclass(frozen=True)
class Skeleton:
    """The page in parts: what stands before, between and after its marks, in their order."""

    parts: tuple[str, ...]
    style: str
    script: str

    @cached_property
    def policy(self) -> str:
        """What the page may do: run its own script and style, and nothing else."""
        return "; ".join(
            (
                "default-src 'none'",
                f"script-src '{hash_source(self.script)}'",
                f"style-src '{hash_source(self.style)}'",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
            )
        )

    def begin(self, title: str, *, with_policy: bool = True) -> str:
        """Return the page up to its blocks; a server sends the policy as a header instead."""
        before, after_policy, after_title, after_style, *_ = self.parts
        meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(self.policy)}">'
        return "".join(
            (
                before,
                meta if with_policy else "",
                after_policy,
                escape(make_visible(title)),
                after_title,
                f"<style>{self.style}</style>",
                after_style,
            )
        )

    def end(self) -> str:
        """Return the page after its blocks."""
        *_, after_blocks, after_script = self.parts
        return f"{after_blocks}<script>{self.script}</script>{after_script}"


def hash_source(text: str) -> str:
    """Return how a policy names a script or style: the hash of its text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@lru_cache(maxsize=2)
def load_skeleton(*, is_viewer: bool = False) -> Skeleton:
    """Return the page of a report, or of the viewer, which has two scripts more."""
    folder = files("answerkey.reports").joinpath(WEB)
    text = folder.joinpath(PAGE).read_text("utf-8")
    parts = []
    for mark in MARKS:
        part, found, text = text.partition(f"<!-- {mark} -->")
        if not found:
            raise LookupError(mark)
        parts.append(part)
    names = [name for name in SCRIPTS if is_viewer or name not in VIEWER_ONLY]
    script = "\n".join(folder.joinpath(name).read_text("utf-8") for name in names)
    return Skeleton((*parts, text), folder.joinpath(STYLE).read_text("utf-8"), script)
