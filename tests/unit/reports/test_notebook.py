"""Laws of runs, comparisons and audits where Python shows them."""

from __future__ import annotations

from tests.quiz import MCQA, make_task

import answerkey as ak
from answerkey.runs import Run

HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e\x1b[31m"
ROWS = [{"answer": "A", "category": HOSTILE}, {"answer": "B", "category": "art"}, {"answer": "B"}]


def score(*completions: str) -> Run:
    """Return a run in memory whose texts would all like to be markup."""
    task = make_task({**MCQA, "display_name": HOSTILE})
    return ak.score({**task, "display_name": HOSTILE, "description": HOSTILE}, ROWS, completions)


def test_a_notebook_shows_the_text() -> None:
    """What `print` shows, in one `<pre>`; nothing from data is markup, and no hidden character is
    left.
    """
    run = score("A", "The answer is B", HOSTILE)
    comparison = ak.compare(run, score("A", "B", "B"))
    for shown, text in ((run, "33.33 %"), (comparison, "-66.67"), (ak.audit(run), "stated_answer")):
        assert text in str(shown)
        html = shown._repr_html_()
        body = html.removeprefix("<pre>").removesuffix("</pre>")
        assert len(body) == len(html) - len("<pre></pre>")
        assert text in body
        assert not {"<", ">", "\x1b", "\u202e"} & set(body)
