"""The example that compares logs: what its script simulates is what the gate decides and the guide
says.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import answerkey as ak
from answerkey.metrics.paired import Flips

from .scripts import ROOT, Call, read

FOLDER = ROOT / "examples" / "compare_logs"
SCRIPT = runpy.run_path(str(FOLDER / "error_rates.py"))


def test_the_guide_shows_what_the_script_prints() -> None:
    """Its table and the number of questions that finds four of five losses."""
    assert SCRIPT["write_table"]() in read("docs/guide/ci-gate.md")
    (needed,) = ak.plan_comparison(omega2=0.08, difference=0.02).needed
    assert needed == (0.02, SCRIPT["CASES"][-1][0])


@pytest.mark.parametrize(("name", "is_worse"), [("after", False), ("quantised", True)])
def test_the_simulated_gate_decides_as_the_real_one(
    tmp_path: Path, call: Call, name: str, *, is_worse: bool
) -> None:
    """On the logs of the example."""
    baseline = ("--not-worse-than", FOLDER / "before")
    done = call("score", FOLDER / name, *baseline, "--out", tmp_path / "run", "--json")
    (gate,) = done.json["gates"]
    (check,) = gate["checks"]
    assert (done.code, check["status"]) == ((1, "FAIL") if is_worse else (0, "PASS"))
    flips = Flips(**check["details"]["flips"])
    right = flips.both + flips.first_only
    assert SCRIPT["GATES"]["`--not-worse-than`"](check["n"], right, flips) == is_worse
