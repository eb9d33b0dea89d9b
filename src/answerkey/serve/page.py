"""The page that is served: the front end of the report file, without anything of a run in it."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.reports.pages.skeleton import load_skeleton

TITLE = "answerkey"
#: Beyond what a report needs: asking this server, and no frame around the page. Text can then not become
#: markup in any way that a browser knows of.
ADDED = (
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)


@dataclass(frozen=True)
class Page:
    """The bytes of the page, and the policy that is sent with them."""

    content: bytes
    policy: str


def build_page() -> Page:
    """Return the page of the viewer."""
    skeleton = load_skeleton(is_viewer=True)
    text = f"{skeleton.begin(TITLE, with_policy=False)}{skeleton.end()}"
    return Page(text.encode(), "; ".join((skeleton.policy, *ADDED)))
