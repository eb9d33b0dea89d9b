"""The first promise: templates of strangers do no harm, and those that try are refused in time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from .corpus import Outcome, read_templates, require_refusal, run_cases, write_evil

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
