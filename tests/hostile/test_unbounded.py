"""What is not known to be cheap is rendered in a worker, which stops it on the largest of rows."""

from __future__ import annotations

import os
import time

import pytest

from answerkey.templates import Template
from answerkey.templates.rendering import CPU_SECONDS, TemplateStopped, render_rows
from answerkey.templates.values import RowExcessError
from answerkey.types import Row

ROW = Row(
    {
        "letters": ["a"] * 5400,
        "words": "a b " * 4000,
        "text": "é" * 16_000,
        "number": 10**4200,
        "fields": {f"k{number}": "v" for number in range(1500)},
    }
)
BODIES = [
    "{% if sample.words | title %}{% endif %}",
    "{% if sample.words | wordcount %}{% endif %}",
    "{% if sample.words | regex_replace('[a-z]+[0-9]', '') %}{% endif %}",
    "{% if sample.text.casefold() %}{% endif %}",
    "{% if sample.fields | merge(sample.fields) %}{% endif %}",
    "{% if sample.letters | select('in', sample.letters) | list %}{% endif %}",
    "{% if [sample.words] | map('title') | list %}{% endif %}",
    "{% if sample.number // 7 == sample.number * 7 %}{% endif %}",
]


@pytest.mark.parametrize("body", BODIES if os.environ.get("ANSWERKEY_LONG") else BODIES[::3])
def test_an_unbounded_template_costs_this_process_nothing(body: str) -> None:
    """A worker finishes it, refuses its many steps, or is stopped after its second of computing."""
    recipe = Template.compile(f"{{% for i in range(9999) %}}{body}{{% endfor %}}")._recipe
    assert recipe is not None
    assert not recipe.is_bounded
    started = time.process_time()
    try:
        (outcome,) = render_rows(recipe, [{"sample": ROW}])
    except TemplateStopped as stopped:
        reason = stopped.reason
    else:
        reason = outcome.message if isinstance(outcome, RowExcessError) else str(outcome)
    assert time.process_time() - started < CPU_SECONDS / 2
    assert reason in {
        "",
        "the template takes more than 1,000,000 steps on this row",
        "it takes more than 1 s of computing time on one row",
    }
