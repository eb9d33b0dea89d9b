"""Laws of runs, comparisons and audits where Python shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import answerkey as ak
from answerkey.runs import Run

HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e\x1b[31m"
SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}


def score(completions: tuple[str, ...] = ("A", "The answer is B", HOSTILE)) -> Run:
    """Return a run in memory whose texts would all like to be markup."""
    words = {"key": "small", "display_name": HOSTILE, "description": HOSTILE}
    task = {**words, "definition": {"scorers": [{**SCORER, "display_name": HOSTILE}]}}
    rows = [
        {"answer": "A", "category": HOSTILE},
        {"answer": "B", "category": "art"},
        {"answer": "B"},
    ]
    return ak.score(task, rows, list(completions))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(score, "33.33 %", id="run"),
        pytest.param(
            lambda: ak.compare(score(), score(("A", "B", "B"))), "-66.67", id="comparison"
        ),
        pytest.param(lambda: ak.audit(score()), "stated_answer", id="audit"),
    ],
)
def test_a_notebook_shows_the_text(make: Callable[[], Any], said: str) -> None:
    """What `print` shows, in one `<pre>`; nothing from data is markup, and no hidden character is
    left.
    """
    thing = make()
    assert said in str(thing)
    html: str = thing._repr_html_()
    body = html.removeprefix("<pre>").removesuffix("</pre>")
    assert len(body) == len(html) - len("<pre></pre>")
    assert said in body
    assert not {"<", ">", "\x1b", "\u202e"} & set(body)
