from __future__ import annotations

import base64
import hashlib
import re
from html import unescape

import pytest

from answerkey.reports.pages.skeleton import load_skeleton


def build(title: str, *, is_viewer: bool = False, with_policy: bool = True) -> str:
    """Return the page without any block."""
    skeleton = load_skeleton(is_viewer=is_viewer)
    return skeleton.begin(title, with_policy=with_policy) + skeleton.end()


def hash_text(text: str) -> str:
    """Return the hash as a policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("is_viewer", [False, True])
def test_the_policy_allows_this_script_and_this_style_alone(*, is_viewer: bool) -> None:
    """There is one of each in the page, and the policy has their hashes; nothing may be fetched."""
    page = build("x", is_viewer=is_viewer)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert unescape(policy).split("; ") == [
        "default-src 'none'",
        f"script-src {hash_text(script)}",
        f"style-src {hash_text(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    # Before anything that it should hold for.
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_a_report_cannot_ask_a_server() -> None:
    """The scripts that do are in the viewer alone."""
    report, viewer = build("x"), build("x", is_viewer=True)
    assert (
        re.search(r"\bfetch\s*\(|XMLHttpRequest|WebSocket|sendBeacon|EventSource|import\s*\(", report) is None
    )
    assert "X-Answerkey-Token" in viewer


def test_nothing_comes_from_elsewhere() -> None:
    """There is no address in the page but that of SVG's names."""
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", build("x", is_viewer=True)))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_scripts_never_parse_data_as_markup() -> None:
    """What would make a text run, or a page of it, is not used at all."""
    script = load_skeleton(is_viewer=True).script
    words = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|cssText"
    assert re.findall(words, script) == []


def test_the_title_is_text() -> None:
    """A title from data stays within its element; marks of the page in it are not filled in."""
    page = build("</title><script>alert(1)</script><!-- script -->")
    assert "<script>alert" not in page
    assert "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;!-- script --&gt;</title>" in page
    assert page.count("<script>") == 1


def test_the_title_turns_nothing() -> None:
    """Marks that turn text would turn the name of the window, too: they are written out."""
    assert "<title>\\u202eevil\\x1b[1m</title>" in build("\u202eevil\x1b[1m")


def test_a_server_says_the_policy_itself() -> None:
    """Then the page does not."""
    assert "Content-Security-Policy" not in build("x", with_policy=False)


def test_a_page_without_scripts_says_what_to_do() -> None:
    """Who has switched scripts off is told, within a landmark and in the page's language."""
    page = build("x")
    assert re.search(r"<noscript>\s*<main>\s*<h1>", page)
    assert '<html lang="en"' in page
