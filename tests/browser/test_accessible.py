"""Every page under the rules of axe-core, in light and in dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT

from .conftest import OpenStage
from .stage import DRAW, Stage

GRAVE = ("serious", "critical")
REPORT_PAGES = ["#/", "#/run/r0/0", "#/run/r2/0", "#/compare/r0,r1", "#/compare/r0,r1,r2"]
REPORT_PAGES += ["#/run/r0/0/samples", "#/run/r0/0/samples?text=no+such+words", "#/nowhere"]
REPORT_PAGES += ["#/run/r0/0/sample/000003", "#/run/r0/0/sample/000018"]


#: The rules that look at colours: in the dark scheme nothing else differs.
OF_COLOURS = ["color-contrast", "link-in-text-block"]
FIND_VIOLATIONS = "options => axe.run(options).then(results => results.violations)"


def list_barriers(stage: Stage) -> list[str]:
    """Return what axe-core finds serious or critical in light and dark, with the first element of
    each.
    """
    page = stage.page
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    violations = page.evaluate(FIND_VIOLATIONS, options)
    page.emulate_media(color_scheme="dark")
    page.evaluate(DRAW)
    violations += page.evaluate(FIND_VIOLATIONS, options | {"runOnly": OF_COLOURS})
    page.emulate_media(color_scheme="light")
    return [describe_barrier(barrier) for barrier in violations if barrier["impact"] in GRAVE]


def describe_barrier(barrier: dict[str, Any]) -> str:
    """Return a barrier on one line: the rule, how many elements, the first and what is wrong."""
    nodes = barrier["nodes"]
    first = f"{nodes[0]['html'][:160]} {nodes[0]['failureSummary']}"
    return f"{barrier['id']} ({len(nodes)}): {first}"


def test_the_report_has_no_barriers(comparison: str, open_first: OpenStage) -> None:
    """No page of a report has a serious or critical finding, in either scheme of colours."""
    stage = open_first(comparison)
    for route in REPORT_PAGES:
        stage.turn(route)
        assert list_barriers(stage) == [], route
    stage.page.keyboard.press("?")
    assert list_barriers(stage) == []


def test_the_viewer_has_no_barriers(
    plain_runs: Path, view: Callable[[Path], str], open_first: OpenStage
) -> None:
    """The list of runs, and a sample."""
    stage = open_first(view(plain_runs))
    result = list_barriers(stage)
    stage.find("table.runs tbody th a").first.click()
    stage.settle()
    stage.turn(stage.page.evaluate("location.hash") + "/sample/000003")
    assert result + list_barriers(stage) == []


def test_a_barrier_is_found_in_each_scheme(comparison: str, open_stage: OpenStage) -> None:
    """A text that one cannot read in the dark, and a picture without words, do not pass."""
    stage = open_stage(comparison)
    stage.go("#/nowhere")
    stage.page.evaluate(
        """() => {
            const sheet = new CSSStyleSheet();
            const rule = "h1 { color: #111 !important }";
            sheet.replaceSync(`@media (prefers-color-scheme: dark) { ${rule} }`);
            document.adoptedStyleSheets = [sheet];
            document.querySelector("main").append(document.createElement("img"));
        }"""
    )
    rules = [barrier.split()[0] for barrier in list_barriers(stage)]
    assert rules == ["image-alt", "color-contrast"]
