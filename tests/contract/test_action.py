"""The GitHub Action: the shell of each step is run with the inputs of a workflow in place."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from ruamel.yaml import YAML

from .fresh import INSTALLS, Fresh
from .scripts import ROOT, read

ACTION: dict[str, Any] = YAML(typ="safe").load(read("action.yml"))
DEFAULTS = {name: entry.get("default", "") for name, entry in ACTION["inputs"].items()}
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
    names = ("PIP_NO_DEPS", "PIP_NO_INDEX")
    offline = {} if INSTALLS else {"PIP_NO_BUILD_ISOLATION": "0", **dict.fromkeys(names, "1")}
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
        for file in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
            environment[file] = str(self.folder / file.lower())
        done = self.fresh.run(step["run"], self.folder, environment | variables, shell=BASH)
        self.printed = done.stdout + done.stderr
        return done.returncode

    def fill(self, text: str) -> str:
        """Return a text with its expressions filled in, as GitHub does it."""
        values = {f"inputs.{name}": value for name, value in (DEFAULTS | self.inputs).items()}
        values |= {f"steps.run.outputs.{name}": value for name, value in self.outputs.items()}
        values["github.action_path"] = str(self.fresh.folder / "checkout")
        return EXPRESSION.sub(lambda expression: values[expression[1]], text)

    def read(self, name: str) -> str:
        """Return a file of the job's folder, empty when it is not there."""
        file = self.folder / name
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @property
    def outputs(self) -> dict[str, str]:
        """What the steps have written for later steps."""
        return dict(line.split("=", 1) for line in self.read("github_output").splitlines())


Start = Callable[..., Job]


@pytest.fixture
def start(fresh: Fresh, tmp_path: Path) -> Start:
    """Return a function that starts a job with inputs in a repository that uses the action."""
    shutil.copytree(ROOT / "examples" / "gates", tmp_path / "evals" / "my gates")
    shutil.copyfile(ROOT / "examples/quickstart/questions.jsonl", tmp_path / "questions.jsonl")
    return lambda **inputs: Job(fresh, tmp_path, inputs)


def test_a_job_passes_and_leaves_run_gates_and_report(start: Start) -> None:
    """The outputs lead to what was written, and the summary of the job has the numbers."""
    job = start(file="evals/my gates")
    assert job.run_step("run") == 0, job.printed
    assert job.run_step("report") == 0, job.printed
    run = "answerkey-run"
    assert job.outputs == {"run": run, "junit": f"{run}.xml", "report": f"{run}.html"}
    assert job.read("answerkey-run/run.json")
    assert ET.fromstring(job.read("answerkey-run.xml")).get("failures") == "0"  # noqa: S314  # ours
    assert "<title>" in job.read("answerkey-run.html")
    assert "100 samples = 100 scored" in job.read("github_step_summary")


def test_a_gate_that_fails_fails_the_job_and_still_leaves_the_report(start: Start) -> None:
    """A data file with a model, and a threshold that the model cannot reach: exit code 1."""
    gate = {"fail-under": "0.9", "out": "runs/new one"}
    job = start(file="questions.jsonl", model="builtin/longest", **gate)
    assert job.run_step("run") == 1, job.printed
    assert job.run_step("report") == 0, job.printed
    assert job.outputs["report"] == "runs/new one.html"
    assert job.read("runs/new one.html")
    assert "FAIL" in job.read("github_step_summary")


def test_every_input_reaches_the_command(start: Start) -> None:
    """Dataset, recorded completions, a baseline, and further options, one per line."""
    released = start(file="evals/my gates", out="released")
    assert released.run_step("run") == 0, released.printed
    options = "--completion-column=candidate\n\n--num-samples=40\n"
    inputs = {"not-worse-than": "released", "arguments": options}
    candidate = start(file="evals/my gates", out="candidate", **inputs)
    candidate.run_step("run")
    assert "baseline" in candidate.printed
    assert "40" in candidate.printed
    seed = ROOT / "examples" / "seed"
    files = {"file": "task.yaml", "dataset": "table.csv", "completions": "completions.jsonl"}
    recorded = start(**{key: str(seed / name) for key, name in files.items()}, out="recorded")
    assert recorded.run_step("run") == 0, recorded.printed


def test_an_input_is_never_run_by_the_shell(start: Start) -> None:
    """What a pull request can choose, such as a file name, stays text.

    A broken file leaves no report.
    """
    job = start(file='"; touch stolen; $(touch stolen) `touch stolen`')
    assert job.run_step("run") == 2, job.printed
    assert job.run_step("report") == 0, job.printed
    assert not (job.folder / "stolen").exists()
    assert "report" not in job.outputs
    assert [step for step in STEPS if "${{" in step.get("run", "")] == []


def test_steps_and_outputs_refer_to_what_exists() -> None:
    """Every input is used and described, every expression leads to an input, a step or its
    output.
    """
    assert set(re.findall(r"inputs\.([\w-]+)", read("action.yml"))) == ACTION["inputs"].keys()
    entries = [*ACTION["inputs"].values(), *ACTION["outputs"].values()]
    assert all(entry["description"] for entry in entries)
    scripts = {step["id"]: step["run"] for step in STEPS if "run" in step}
    for entry in ACTION["outputs"].values():
        output = re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}", entry["value"])
        assert output
        assert f'echo "{output[2]}=' in scripts[output[1]]
    assert [step["uses"] for step in STEPS if "uses" in step] == ["actions/setup-python@v5"]


def test_the_page_has_every_input_and_output() -> None:
    """The reference lists them with their defaults."""
    page = read("docs/reference/github-action.md")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (?:`([^`]*)`)? *\|", page, re.MULTILINE))
    assert {name: rows.get(name) for name in DEFAULTS} == DEFAULTS
    assert [name for name in ACTION["outputs"] if f"`{name}`" not in page] == []
