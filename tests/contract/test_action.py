"""The GitHub Action: the shell of each step is run with the inputs of a workflow in place."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from .fresh import INSTALLS, ROOT, Fresh

ACTION: dict[str, Any] = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{ ([\w.-]+) \}\}")
#: How GitHub starts the shell of a step.
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Return an environment in which the first step has installed answerkey from the checkout."""
    made = Fresh.make(tmp_path_factory.mktemp("action"))
    checkout = made.folder / "checkout"  # pip builds there
    checkout.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, checkout / name)
    shutil.copytree(ROOT / "src", checkout / "src", ignore=shutil.ignore_patterns("__pycache__"))
    job = Job(made, made.folder, {"file": "unused"})
    offline = (
        {} if INSTALLS else {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    )
    assert job.run_step("install", **offline) == 0, job.printed
    return made


@dataclass
class Job:
    """A job of a workflow that uses the action: its folder, its inputs, and what GitHub keeps of
    it.
    """

    fresh: Fresh
    folder: Path
    inputs: dict[str, str]
    printed: str = ""

    def run_step(self, name: str, **variables: str) -> int:
        """Run the shell of a step and return its exit code."""
        (step,) = [step for step in STEPS if step.get("id") == name]
        assert step["shell"] == "bash"
        environment = {key: self.fill(value) for key, value in step["env"].items()}
        files = {
            name: str(self.folder / name.lower())
            for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        }
        done = self.fresh.run(step["run"], self.folder, environment | files | variables, shell=BASH)
        self.printed = done.stdout + done.stderr
        return done.returncode

    def fill(self, text: str) -> str:
        """Return a text with its expressions filled in, as GitHub does it."""
        defaults = {name: entry.get("default", "") for name, entry in ACTION["inputs"].items()}
        values = {f"inputs.{name}": value for name, value in {**defaults, **self.inputs}.items()}
        values["github.action_path"] = str(self.fresh.folder / "checkout")
        values |= {f"steps.run.outputs.{name}": value for name, value in self.outputs.items()}
        return EXPRESSION.sub(lambda expression: values[expression[1]], text)

    @property
    def outputs(self) -> dict[str, str]:
        """What the steps have written for later steps."""
        file = self.folder / "github_output"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the checkout of a repository that uses the action."""
    shutil.copytree(ROOT / "examples" / "gates", tmp_path / "evals" / "my gates")
    shutil.copyfile(ROOT / "examples/quickstart/questions.jsonl", tmp_path / "questions.jsonl")
    return tmp_path


def test_a_job_passes_and_leaves_run_gates_and_report(fresh: Fresh, folder: Path) -> None:
    """The outputs lead to what was written, and the summary of the job has the numbers."""
    job = Job(fresh, folder, {"file": "evals/my gates"})
    assert job.run_step("run") == 0, job.printed
    assert job.run_step("report") == 0, job.printed
    assert job.outputs == {
        "run": "answerkey-run",
        "junit": "answerkey-run.xml",
        "report": "answerkey-run.html",
    }
    assert (folder / "answerkey-run" / "run.json").exists()
    assert ET.parse(folder / "answerkey-run.xml").getroot().get("failures") == "0"  # noqa: S314  # ours
    assert "<title>" in (folder / "answerkey-run.html").read_text(encoding="utf-8")
    assert "100 samples = 100 scored" in (folder / "github_step_summary").read_text(
        encoding="utf-8"
    )


def test_a_gate_that_fails_fails_the_job_and_still_leaves_the_report(
    fresh: Fresh, folder: Path
) -> None:
    """A data file with a model, and a threshold that the model cannot reach: exit code 1."""
    inputs = {
        "file": "questions.jsonl",
        "model": "builtin/longest",
        "fail-under": "0.9",
        "out": "runs/new one",
    }
    job = Job(fresh, folder, inputs)
    assert job.run_step("run") == 1, job.printed
    assert job.run_step("report") == 0, job.printed
    assert job.outputs["report"] == "runs/new one.html"
    assert (folder / "runs/new one.html").exists()
    assert "FAIL" in (folder / "github_step_summary").read_text(encoding="utf-8")


def test_every_input_reaches_the_command(fresh: Fresh, folder: Path) -> None:
    """Dataset, recorded completions, a baseline, and further options, one per line."""
    first = Job(fresh, folder, {"file": "evals/my gates", "out": "released"})
    assert first.run_step("run") == 0, first.printed
    inputs = {
        "file": "evals/my gates",
        "not-worse-than": "released",
        "arguments": "--completion-column=candidate\n\n--num-samples=40\n",
        "out": "candidate",
    }
    second = Job(fresh, folder, inputs)
    second.run_step("run")
    assert "baseline" in second.printed
    assert "40" in second.printed
    seed = ROOT / "examples" / "seed"
    inputs = {
        "file": str(seed / "task.yaml"),
        "dataset": str(seed / "table.csv"),
        "completions": str(seed / "completions.jsonl"),
        "out": "recorded",
    }
    third = Job(fresh, folder, inputs)
    assert third.run_step("run") == 0, third.printed


def test_an_input_is_never_run_by_the_shell(fresh: Fresh, folder: Path) -> None:
    """What a pull request can choose, such as a file name, stays text.

    A broken file leaves no report.
    """
    job = Job(fresh, folder, {"file": '"; touch stolen; $(touch stolen) `touch stolen`'})
    assert job.run_step("run") == 2, job.printed
    assert job.run_step("report") == 0, job.printed
    assert not (folder / "stolen").exists()
    assert "report" not in job.outputs
    assert [step for step in STEPS if "${{" in step.get("run", "")] == []


def test_steps_and_outputs_refer_to_what_exists() -> None:
    """Every input is used and described, every expression leads to an input, a step or its
    output.
    """
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == ACTION["inputs"].keys()
    assert all(
        entry["description"] for entry in (*ACTION["inputs"].values(), *ACTION["outputs"].values())
    )
    written = {
        step["id"]: set(re.findall(r"echo \"(\w+)=", step["run"]))
        for step in STEPS
        if step.get("id") != "install" and "run" in step
    }
    outputs = [
        re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}", entry["value"])
        for entry in ACTION["outputs"].values()
    ]
    assert all(output and output[2] in written[output[1]] for output in outputs)
    assert [step["uses"] for step in STEPS if "uses" in step] == ["actions/setup-python@v5"]


def test_the_page_has_every_input_and_output() -> None:
    """The reference lists them with their defaults."""
    page = (ROOT / "docs" / "reference" / "github-action.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (?:`([^`]*)`)? *\|", page, re.MULTILINE))
    defaults = {name: entry.get("default", "") for name, entry in ACTION["inputs"].items()}
    assert {name: rows.get(name) for name in defaults} == defaults
    assert [name for name in ACTION["outputs"] if f"`{name}`" not in page] == []
