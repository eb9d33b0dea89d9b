"""Why bounded templates may be rendered in our own process: even the worst of them are soon done
there.
"""

from __future__ import annotations

import time

import pytest

from answerkey.templates import Template
from answerkey.templates.limits import FEW_STEPS
from answerkey.templates.rendering import render_row
from answerkey.types import Row

#: Each column as large as a row that is rendered here may be.
ROW = Row(
    {
        "letters": ["a"] * 5400,
        "same": ["a"] * 5400,
        "lists": [["a"]] * 1600,
        "words": "a b " * 4000,
        "text": "é" * 16_000,
        "number": 10**4200,
        "json": "[" + "1," * 8000 + "1]",
        "fields": {f"k{number}": "v" for number in range(1500)},
    }
)
BODIES = [
    "{% if " + " and ".join(["sample.letters == sample.same"] * 60) + " %}{% endif %}",
    "{% if 'z' in sample.letters %}{% endif %}",
    "{% if sample.letters | upper %}{% endif %}",
    "{% if sample.letters is lower %}{% endif %}",
    "{% if sample.letters | json_escape %}{% endif %}",
    "{% if sample.lists | string %}{% endif %}",
    "{% if sample.lists | tojson(indent=1) %}{% endif %}",
    "{% if sample.lists < sample.lists %}{% endif %}",
    "{% if sample.words.split() %}{% endif %}",
    "{% if sample.json | fromjson %}{% endif %}",
    "{% if sample.letters | zip(sample.same) %}{% endif %}",
    "{% for b in [[sample.lists, sample.lists]] %}{% if b == b %}{% endif %}{% endfor %}",
    "{{ sample.number }}",
    "{% for a in sample.lists %}{% for b in a %}{% if a == b %}{% endif %}{% endfor %}{% endfor %}",
]
#: The fewer turns, the more of them are made before the steps are used up.
TURNS = (9999, 1400, 250, 30)


@pytest.mark.parametrize("body", BODIES)
def test_the_slowest_bounded_template_is_fast_enough(body: str) -> None:
    """In some tenths of a second of computing, however often it asks for the whole of the largest
    row.
    """
    for turns in TURNS:
        source = f"{{% for i in range({turns}) %}}{body}{{% endfor %}}"
        recipe = Template.compile(source)._recipe
        assert recipe is not None
        assert recipe.is_bounded
        started = time.process_time()
        render_row(recipe, {"sample": ROW}, FEW_STEPS)
        assert time.process_time() - started < 5
