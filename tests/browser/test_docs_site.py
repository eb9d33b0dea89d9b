"""The documentation site in a real browser: from disk and over HTTP, with a log of every
request.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

from .conftest import OpenStage, serve

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None,
    reason="`make docs-site` installs what builds the site",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built and checked by the script."""
    out = tmp_path_factory.mktemp("docs") / "site"
    words = [sys.executable, str(ROOT / "scripts" / "docs_site.py"), "--out", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """Return the address of the site, served on this machine."""
    with serve(site) as address:
        yield address


def test_no_page_requests_anything_from_another_host(site: Path, open_stage: OpenStage) -> None:
    """Pages are opened from disk; the log has files of the site alone, the console has no error.

    The long series opens every page, `make test` every sixteenth; the script has checked the HTML
    of all.
    """
    stage = open_stage(f"{site.as_uri()}/")
    pages = sorted(set(site.rglob("*.html")) - {site / "404.html"})  # which servers show
    assert len(pages) > 50
    pages = pages if os.environ.get("ANSWERKEY_LONG") else pages[::16]
    for file in pages:
        stage.page.goto(file.as_uri())
        expect(stage.page.locator("h1").first).to_be_visible()
    assert {file.as_uri() for file in pages} <= set(stage.watch.requests)


@pytest.mark.parametrize("is_served", [False, True], ids=["disk", "http"])
def test_the_search_works_without_a_network(
    site: Path, served: str, open_stage: OpenStage, *, is_served: bool
) -> None:
    """A word is found on the page that explains it, and the result leads there.

    Nothing else is requested.
    """
    address = served if is_served else f"{site.as_uri()}/"
    stage = open_stage(address, offline=not is_served)
    stage.page.goto(f"{address}reference/commands.html")
    stage.page.get_by_role("button", name="Search").first.click()
    stage.page.get_by_role("combobox").fill("McNemar")
    links = stage.page.locator("a", has_text="McNemar").filter(has_text="Statistics")
    expect(links.first).to_be_visible()
    links.first.click()
    expect(stage.page.locator("h1")).to_contain_text("Statistics")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_its_screen_in_both_colour_schemes(
    site: Path, open_stage: OpenStage, scheme: Literal["light", "dark"]
) -> None:
    """Wide tables and code scroll in their place, the page itself does not; dark is dark."""
    stage = open_stage(f"{site.as_uri()}/", color_scheme=scheme)
    # Colours do not change how wide a page is.
    wide = ("performance", "reference/commands") if scheme == "light" else ()
    for name in ("index", *wide):
        stage.page.goto(f"{site.as_uri()}/{name}.html")
        for width in (1440, 390):
            stage.page.set_viewport_size({"width": width, "height": 900})
            assert stage.measure_overflow() <= 0
    ground = stage.page.evaluate("getComputedStyle(document.body).backgroundColor")
    levels = list(map(int, re.findall(r"\d+", ground)[:3]))
    assert max(levels) < 64 if scheme == "dark" else min(levels) > 192
