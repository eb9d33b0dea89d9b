from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked

ROW = "{question: '1+1?', answer: %s, completion: A}"
RUN = """\
datasets:
  - key: sums
    display_name: Sums
    source: {type: inline, rows: [%s]}
tasks:
  - key: sums
    display_name: Sums
    description: Sums.
    definition:
      dataset: {key: sums}
      scorers:
        - type: string_equals_mcqa
          ground_truth_choice: "{{ sample.answer }}"
          choices: [A, B]
"""
POLICIES = """\
policies:
  - key: gate
    rules:
      - key: good
        display_name: Good enough
        definition: {type: threshold, metric: Accuracy, operator: ">=", threshold: 0.9}
      - {key: there, definition: {type: exists, metric: Accuracy}}
"""


def write_project(folder: Path, answers: str, *, policies: str = POLICIES) -> None:
    """Write a run file whose completions are all A."""
    folder.mkdir(parents=True)
    rows = ", ".join(ROW % answer for answer in answers)
    (folder / "run.yaml").write_text(RUN % rows + policies)


def run_pytest(folder: Path, *words: str, is_new: bool = False) -> tuple[int, str]:
    """Return the exit code of pytest and what it says.

    Answerkey is loaded before unless it `is_new`.
    """
    options = "-p answerkey.testing.pytest_plugin -p no:cacheprovider --basetemp temporary"
    plugin = options.split()
    arguments = ["-q", "-rs", "-W", "ignore::pytest.PytestAssertRewriteWarning", *plugin, *words]
    names = [name for name in os.environ if not name.startswith("PYTEST_")]
    environment = {name: os.environ[name] for name in names}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "XDG_CACHE_HOME": str(folder / "cache")}
    settings: dict[str, Any] = {
        "cwd": folder,
        "env": environment,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
    }
    with (
        subprocess.Popen([sys.executable, "-m", "pytest", *arguments], **settings)
        if is_new
        else Forked([], first=f"import sys, pytest; sys.exit(pytest.main({arguments}))", **settings)
    ) as process:
        printed, _ = process.communicate()
    return process.returncode, printed


def test_every_rule_of_a_named_run_file_is_a_test(tmp_path: Path) -> None:
    """The run is done once.

    A gate that does not pass fails its test with the numbers, and no traceback.
    """
    write_project(tmp_path / "evals" / "good", "AAAA")
    write_project(tmp_path / "evals" / "bad", "ABBB")
    write_project(tmp_path / "elsewhere", "B")
    (tmp_path / "pytest.ini").write_text("[pytest]\nanswerkey_files = evals/*/run.yaml\n")
    code, printed = run_pytest(tmp_path, "--answerkey-out", "runs")
    assert code == 1
    assert "1 failed, 3 passed" in printed
    assert "FAIL  Good enough" in printed
    assert "Traceback" not in printed
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["bad-1", "good-1"]


def test_nothing_is_collected_unless_it_is_named(tmp_path: Path) -> None:
    """Who does not use the plugin does not notice it: nothing of answerkey is imported."""
    write_project(tmp_path / "evals", "B")
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n    assert 'answerkey.evaluate' not in sys.modules\n"
        "    assert 'aiohttp' not in sys.modules\n    assert 'polars' not in sys.modules\n"
    )
    code, printed = run_pytest(tmp_path, is_new=True)
    assert (code, "1 passed" in printed) == (0, True)


def test_a_run_file_with_mistakes_is_an_error_of_collection(tmp_path: Path) -> None:
    """With file, line and hint."""
    write_project(tmp_path / "evals", "A", policies="polcies: []\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nanswerkey_files = evals/run.yaml\n")
    code, printed = run_pytest(tmp_path)
    assert code == 2
    assert "error[E107]: unknown key `polcies`" in printed


def test_the_fixture_runs_a_file_within_a_test(tmp_path: Path) -> None:
    """It returns the run.

    A gate that does not pass fails the test, and options are those of `run`.
    """
    write_project(tmp_path / "good", "AAAA")
    write_project(tmp_path / "bad", "AABB")
    (tmp_path / "test_it.py").write_text(
        "def test_good(answerkey_gates):\n"
        "    run = answerkey_gates('good/run.yaml')\n"
        "    assert run.metrics['Accuracy'].value == 1.0\n\n"
        "def test_bad(answerkey_gates):\n    answerkey_gates('bad')\n\n"
        "def test_first(answerkey_gates):\n    answerkey_gates('bad', num_samples=2)\n"
    )
    code, printed = run_pytest(tmp_path)
    assert code == 1
    assert "1 failed, 2 passed" in printed
    assert "Gates  FAIL  1 of 2 passed, 1 failed" in printed
    kept = (tmp_path / "temporary").glob("answerkey-gates[0-9]/*/run.json")
    assert sorted(path.parent.name for path in kept) == ["bad-1", "bad-1", "good-1"]


def test_the_plugin_is_an_entry_point() -> None:
    """It comes with the package."""
    from importlib.metadata import distribution

    (point,) = distribution("answerkey").entry_points.select(group="pytest11")
    assert (point.name, point.value) == ("answerkey", "answerkey.testing.pytest_plugin")


@pytest.mark.parametrize("name", ["Behaviour", "TestServer", "Reply"])
def test_names_of_the_package_are_imported_on_first_use(name: str) -> None:
    """And one that there is not is an AttributeError."""
    import answerkey.testing

    assert getattr(answerkey.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Server'"):
        _ = answerkey.testing.Server
