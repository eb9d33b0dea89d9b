"""Templates of strangers do no harm, and even the worst that are rendered here are soon done."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import pytest

from answerkey.templates import Template
from answerkey.templates.limits import MAX_LOCAL_STEPS
from answerkey.templates.rendering import CPU_SECONDS, TemplateStopped, render_row, render_rows
from answerkey.templates.values import RowExcessError
from answerkey.types import Row

from .corpus import Outcome, read_templates, require_refusal, run_cases, write_evil

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
#: Known to be cheap, and not known to be.
BOUNDED = [
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
UNBOUNDED = [
    "{% if sample.words | title %}{% endif %}",
    "{% if sample.words | wordcount %}{% endif %}",
    "{% if sample.words | regex_replace('[a-z]+[0-9]', '') %}{% endif %}",
    "{% if sample.text.casefold() %}{% endif %}",
    "{% if sample.fields | merge(sample.fields) %}{% endif %}",
    "{% if sample.letters | select('in', sample.letters) | list %}{% endif %}",
    "{% if [sample.words] | map('title') | list %}{% endif %}",
    "{% if sample.number // 7 == sample.number * 7 %}{% endif %}",
]
#: The fewer turns, the more of them are made before the steps are used up.
TURNS = (9999, 1400, 250, 30)


@pytest.mark.parametrize("body", BOUNDED)
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
        render_row(recipe, {"sample": ROW}, MAX_LOCAL_STEPS)
        assert time.process_time() - started < 5


@pytest.mark.parametrize("body", UNBOUNDED if os.environ.get("ANSWERKEY_LONG") else UNBOUNDED[::3])
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
    steps = "the template takes more than 1,000,000 steps on this row"
    assert reason in {"", steps, "it takes more than 1 s of computing time on one row"}


# Those that try harm are refused in time.

ATTACKS = read_templates("attacks")
BOMBS = read_templates("bombs")
#: Refused on the row or when it is loaded; stopped; or not even a template.
CODES = {"E112", "E120", "E206", "E207"}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    """Return what became of the attacks, and after them of the bombs, which take more memory."""
    cases: list[dict[str, object]] = [
        {"name": name, "files": {"evil.yaml": write_evil(template)}}
        for name, template in (ATTACKS | BOMBS).items()
    ]
    return run_cases(tmp_path_factory.mktemp("templates"), cases)


def test_the_corpora_are_as_large_as_promised() -> None:
    """At least 40 attacks, every published escape among them, and 15 bombs."""
    assert len(ATTACKS) >= 40
    assert len(BOMBS) >= 15
    assert ATTACKS.keys() & BOMBS.keys() == set()
    for name in ("2016-10745", "2019-10906", "2024-56201", "2024-56326", "2025-27516"):
        assert any(title.startswith(f"CVE-{name}") for title in ATTACKS)


@pytest.mark.parametrize("name", [*ATTACKS, *BOMBS])
def test_a_hostile_template_is_refused(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """Within five seconds of computing and 300 MB, with place and reason; and nothing else happens:
    no process, no file, no harm to the task beside it.
    """
    require_refusal(outcomes[name])
    assert {error["code"] for error in outcomes[name].errors} <= CODES
