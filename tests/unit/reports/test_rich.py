"""Laws of runs, comparisons and audits as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

import answerkey as ak
from answerkey.reports.pages.fragments import Point, Reference, draw_forest, draw_table, show
from answerkey.runs import Run

HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e\x1b[31m"
SCORER = {"type": "string_equals_mcqa", "ground_truth_choice": "{{ sample.answer }}", "choices": ["A", "B"]}


class Seen(HTMLParser):
    """Collects the elements and attributes of a fragment, and whether all are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element without content."""
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the last element."""
        assert self.open.pop() == tag


ALLOWED = {
    *("div", "span", "strong", "ol", "li", "br", "table", "thead", "tbody", "tr", "th", "td", "details"),
    *("summary", "pre", "svg", "title", "g", "line", "text", "rect", "circle"),
}


def score(key: str = "small", completions: tuple[str, ...] = ("A", "The answer is B", HOSTILE)) -> Run:
    """Return a run in memory whose texts would all like to be markup."""
    task = {
        "key": key,
        "display_name": HOSTILE,
        "description": HOSTILE,
        "definition": {"scorers": [{**SCORER, "display_name": HOSTILE}]},
    }
    rows = [{"answer": "A", "category": HOSTILE}, {"answer": "B", "category": "art"}, {"answer": "B"}]
    return ak.score(task, rows, list(completions))


def draw(thing: Any) -> str:  # noqa: ANN401 - a run, a comparison or an audit
    """Return what a notebook shows."""
    fragment: str = thing._repr_html_()
    return fragment


@pytest.mark.parametrize(
    "fragment",
    [
        pytest.param(lambda: draw(score()), id="run"),
        pytest.param(lambda: draw(ak.compare(score(), score(completions=("A", "B", "B")))), id="comparison"),
        pytest.param(lambda: draw(ak.audit(score())), id="audit"),
    ],
)
def test_nothing_from_data_is_markup(fragment: Callable[[], str]) -> None:
    """Only elements of ours, none that runs or loads anything, all of them closed; no hidden character."""
    text = fragment()
    seen = Seen(text)
    assert seen.tags <= ALLOWED
    assert seen.open == []
    assert not {name for name in seen.attributes if name.startswith("on") or name in {"src", "href"}}
    assert not any("url(" in one or "x onerror" in one for one in seen.attributes["style"])
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_run_shows_number_counts_and_findings() -> None:
    """What a reader wants first stands first; the whole summary opens below."""
    text = draw(score())
    assert "33.33 %" in text
    assert "3 samples = 3 scored + 0 failed + 0 errors" in text
    assert "<summary>As text</summary>" in text
    assert text.index("33.33 %") < text.index("<summary>")


def test_an_incomplete_run_shows_no_percentage(make_run: Callable[..., Run]) -> None:
    """Its counts, and why there is no more."""
    text = draw(make_run("incomplete")).partition("<details")[0]
    assert "INCOMPLETE: " in text
    assert "50.00 %" not in text


def test_a_comparison_says_what_may_be_chance() -> None:
    """Runs by letters, differences in points, a sentence for each pair."""
    text = draw(ak.compare(score(), score(completions=("A", "B", "B"))))
    assert "A - B may be chance" in text
    assert "-66.67" in text


def test_the_own_number_has_a_mark_of_its_own() -> None:
    """A square, not only another colour; an interval beyond the scale ends at its edge."""
    points = [Point("own", 0.5, (0.4, 0.6), "x", is_own=True), Point("other", 0.2, (-0.5, 2.0), "y")]
    text = draw_forest(points, "t", reference=Reference(0.25, "chance"), is_share=True)
    assert text.count("<rect ") == 1
    assert text.count("<circle ") == 1
    assert 'x1="210.0" x2="490.0"' in text
    assert ">chance</text>" in text


def test_nothing_to_draw_is_nothing() -> None:
    """No rows, no table; no number, no plot."""
    assert draw_table(("a",), [], "<") == ""
    assert draw_forest([Point("a", None, None, "")], "t", is_share=True) == ""
    assert show("<b>\n") == "&lt;b&gt;\\n"
