"""The first promise: templates of strangers do no harm, and those who try are refused in good
time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from random import Random

import pytest

from .corpus import Outcome, make_cases, read_templates, require_refusal, run_cases

ATTACKS = read_templates("attacks")
BOMBS = read_templates("bombs")
#: They use the whole second of computing that a row has; the short series takes one of them, drawn
#: by a seed.
WHOLE_SECOND = [
    "A list of lists of lists: as upper case",
    "A list of lists of lists: compared with another",
    "A list of lists of lists: in an error message",
    "A tuple of tuples of tuples: as a key",
    "Comments of HTML, again and again",
    "Wrapping a long word",
    "Zipped with itself again and again",
]
LEFT_OUT = [] if os.environ.get("ANSWERKEY_LONG") else Random(1).sample(WHOLE_SECOND, 6)
TRIED = {name: BOMBS[name] for name in BOMBS if name not in LEFT_OUT}
#: Refused on the row or when it is loaded; stopped; or not even a template.
CODES = {"E112", "E120", "E206", "E207"}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    """Return what became of the attacks, and after them of the bombs, which take more memory."""
    return run_cases(tmp_path_factory.mktemp("templates"), make_cases(ATTACKS | TRIED))


def test_the_corpora_are_as_large_as_promised() -> None:
    """At least 40 attacks, every published escape among them, and 15 bombs."""
    assert len(ATTACKS) >= 40
    assert len(BOMBS) >= 15
    assert set(WHOLE_SECOND) <= set(BOMBS)
    assert ATTACKS.keys() & BOMBS.keys() == set()
    published = [
        "CVE-2016-10745",
        "CVE-2019-10906",
        "CVE-2024-56201",
        "CVE-2024-56326",
        "CVE-2025-27516",
    ]
    for name in published:
        assert any(title.startswith(name) for title in ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """With place and reason, and nothing else happens: no process, no file, no harm to the task
    beside it.
    """
    require_refusal(outcomes[name])
    assert {error["code"] for error in outcomes[name].errors} <= CODES


@pytest.mark.parametrize("name", TRIED)
def test_a_bomb_is_refused(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """Within five seconds of computing and 300 MB, with place and reason."""
    require_refusal(outcomes[name])
    assert {error["code"] for error in outcomes[name].errors} <= CODES
