"""Laws of the command line itself, and of `init`, `demo`, `schema`, `tasks` and `import`."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from tests.processes import run_python
from tests.projects import SCORER, write_rows

from answerkey._version import __version__
from answerkey.cli import app
from answerkey.models.cache import CallCache
from answerkey.models.calls import Call as ModelCall
from answerkey.spec.ready_made import list_ready_made
from answerkey.types import Completion
from answerkey.viewer.catalog import Catalog

from .conftest import Call

UNUSED = {
    *("jinja2", "ruamel", "aiohttp"),
    *(f"answerkey.{part}" for part in ("spec", "templates", "scorers", "models.client")),
}
#: What the score of a task and recorded completions has no use for, and how many modules of ours it
#: loads.
UNSCORED = {
    *("aiohttp", "asyncio", "multiprocessing", "ray", "rich", "ssl"),
    *(f"answerkey.models.{part}" for part in ("builtin", "calls", "client", "model", "providers")),
    *(f"answerkey.spec.{part}" for part in ("data_file", "models", "parameters", "ready_made")),
    *(f"answerkey.{part}" for part in ("spec.run_file", "spec.schema", "importers", "viewer")),
    *(f"answerkey.{part}" for part in ("datasets.recognition", "evaluate.session", "reports.html")),
    "answerkey.metrics.classification",
}
MOST_MODULES = 120


def test_help_lists_the_commands_there_are(call: Call) -> None:
    """Every working command is listed, with `-h` as with `--help`; `--version` names the
    program.
    """
    shown = call("-h")
    assert (shown.code, shown.out) == (0, call("--help").out)
    listed = [
        line.split()[0] for line in shown.out.splitlines() if line.startswith("  ") and line.strip()
    ]
    assert set(app.commands) <= set(listed)
    assert call("--version").out == f"answerkey {__version__}\n"


@pytest.mark.parametrize("words", [("-q", "runs"), ("runs", "-q"), ("runs", "--quiet")])
def test_quiet_works_before_and_after_the_command(call: Call, words: tuple[str, ...]) -> None:
    """With `-q` nothing is said."""
    assert call(*words).err == ""
    assert call("runs").err == "no runs here yet; `answerkey demo` makes one\n"


@pytest.mark.parametrize(
    ("commands", "unused"),
    [
        ([["--help"], ["run", "--help"]], {"polars", "pydantic", "ruamel", "jinja2", "rich"}),
        (
            [["-q", "show", "small/done"], ["show", "small/done", "--json"], ["runs", "small"]],
            UNUSED,
        ),
    ],
    ids=["help", "show"],
)
@pytest.mark.usefixtures("run_folder")
def test_no_more_is_loaded_than_needed(commands: list[list[str]], unused: set[str]) -> None:
    """Help needs no library for tables or YAML.

    Showing a run needs no model and no template engine.
    """
    script = (
        f"import sys; from answerkey.cli import main; [main(words) for words in {commands!r}];"
        f"loaded = sorted({unused!r} & set(sys.modules)); sys.exit(str(loaded) if loaded else 0)"
    )
    done = run_python("-c", script)
    assert (done.returncode, done.stderr) == (0, "")


def test_scoring_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """Nothing of live calls, of other metrics, of data files without a task.

    And Python's end is short. The installed packages are not searched for plugins of
    pydantic or of ours.
    """
    metrics = [{"type": "mean", "field": "is_correct", "name": "accuracy"}]
    definition = {"dataset": {"key": "d"}, "scorers": [{**SCORER, "metrics": metrics}]}
    task = {"key": "t", "display_name": "t", "description": "t", "definition": definition}
    (tmp_path / "t.yaml").write_text(json.dumps(task))
    write_rows(tmp_path / "d.jsonl", [{"answer": letter} for letter in "ABA"])
    replies = ("A", "B. yes", "Answer: A")
    write_rows(tmp_path / "c.jsonl", [{"completion": text} for text in replies])
    words = ["score", "t.yaml", "--dataset", "d.jsonl", "--completions", "c.jsonl", "--out", "r"]
    script = (
        "import gc, sys, importlib.metadata; importlib.metadata.entry_points = None;"
        f"from answerkey.cli import main; sys.argv[1:] = {words!r}; assert main() == 0;"
        f"loaded = sorted({UNSCORED!r} & set(sys.modules));"
        "modules = [one for one in sys.modules if one.split('.')[0] == 'answerkey'];"
        f"assert not loaded, loaded; assert len(modules) <= {MOST_MODULES}, sorted(modules);"
        "assert gc.get_freeze_count()"
    )
    done = run_python("-c", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_init_makes_a_project_that_runs(call: Call) -> None:
    """The files are listed.

    The first line of a YAML file leads editors to its schema; it runs at once.
    """
    made = call("init", "mine")
    assert (made.code, made.err) == (0, "next: answerkey run mine\n")
    assert "mine/run.yaml" in made.out.splitlines()
    for kind in ("task", "run", "dataset"):
        first = Path(f"mine/{kind}.yaml").read_text(encoding="utf-8").splitlines()[0]
        assert first == f"# yaml-language-server: $schema=.schemas/{kind}.json"
        assert Path(f"mine/.schemas/{kind}.json").is_file()
    assert call("check", "mine").code == 0
    assert call("run", "mine", "-q").code == 0
    printed = call("init", "other", "--json").json
    assert (printed["folder"], "other/questions.jsonl" in printed["files"]) == ("other", True)


@pytest.mark.parametrize("kind", ["task", "run", "dataset", "model"])
def test_schema_prints_json_schema(call: Call, kind: str) -> None:
    """Each kind has a schema."""
    assert json.loads(call("schema", kind).out)["$schema"].startswith("https://json-schema.org/")


def test_demo_runs_twice(call: Call) -> None:
    """The first time it makes the project, then it uses it; each run has its own folder."""
    first, second = call("demo"), call("demo")
    assert (first.code, second.code) == (0, 0)
    assert "run answerkey-demo/runs/demo-1\n" in first.out
    assert "run answerkey-demo/runs/demo-2\n" in second.out
    assert "SIMULATED" in first.out
    assert second.err.startswith("using the project in answerkey-demo\nNext\n")


def test_tasks_lists_what_is_ready(call: Call) -> None:
    """Name, questions, options, chance, language and licence of each; or all of it for programs."""
    listed = call("tasks")
    assert (listed.code, listed.err) == (0, "next: answerkey tasks show NAME\n")
    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == list_ready_made()
    assert "mmlu_pro           12,032   1 to 10  11.12 %  en" in listed.out
    assert [task["name"] for task in call("tasks", "--json").json["tasks"]] == list_ready_made()
    (task,) = call("tasks", "show", "arc", "--json").json["tasks"]
    assert (task["chance"], task["category"]) == (0.2502, "category")
    assert task["licence"] == "CC BY-SA 4.0"
    source = {"path": "allenai/ai2_arc", "name": "ARC-Challenge", "split": "test"}
    assert task["hub"] == {**source, "revision": "210d026faf9955653af8916fad021475a3f00453"}


@pytest.mark.parametrize("words", [("show", "mmlu"), ("mmlu",), ("show", "MMLU")])
def test_tasks_shows_one(call: Call, words: tuple[str, ...]) -> None:
    """Its citation, licence, data and config, and commands to begin with."""
    shown = call("tasks", *words).out
    for part in (
        "chance      25.00 %",
        "category    column `subject`",
        "arXiv:2009.03300",
        "licence     MIT",
        "on the hub  cais/mmlu, all, test",
        "CSV without a header line",
        "extraction  stated_answer",
        "answerkey run mmlu --model openai/gpt-4.1-nano",
    ):
        assert part in shown


def test_tasks_shows_published_numbers_and_terms(call: Call) -> None:
    """Each number with its model, how it was measured and who published it."""
    shown = call("tasks", "show", "gpqa").out
    assert "Idavidrein/gpqa, gpqa_diamond, train (it wants a token and accepted terms)" in shown
    assert "  expected    gpt-5.1-2025-11-13: 65.20% (Diamond, zero-shot with reasoning" in shown
    (task,) = call("tasks", "show", "gpqa", "--json").json["tasks"]
    assert (task["gated"], task["expected"][1]["value"]) == (True, 0.717)
    assert task["expected"][1]["source"].endswith("/inspect_evals/gpqa/README.md")


def test_a_ready_made_task_is_run_by_its_name(call: Call) -> None:
    """Like any task file, by every command.

    Its groups are the subjects; `init` makes a project of it.
    """
    Path("data").mkdir()
    Path("data/sums_test.csv").write_text("1+1?,1,2,3,4,B\n2+2?,1,2,3,4,D\n")
    words = ("mmlu", "--dataset", "data")
    assert call("check", *words).code == 0
    model = ("--model", "builtin/constant?choice=B")
    (task,) = call("run", *words, *model, "--out", "out", "--json", "-q").json["tasks"]
    assert task["metrics"][0]["value"] == 0.5
    (groups,) = task["metrics"][0]["groups"]
    assert [(group["group"], group["n"]) for group in groups["values"]] == [("sums", 2)]
    Path("said.jsonl").write_text('{"completion": "B"}\n{"completion": "D"}\n')
    (task,) = call(
        "score", *words, "--completions", "said.jsonl", "--out", "s", "--json", "-q"
    ).json["tasks"]
    assert task["metrics"][0]["value"] == 1.0
    assert "sums_test.csv:2" in call("explain", "s", "2").out
    assert "25.00 %" in call("audit-dataset", *words).out
    made = call("init", "mine", "--task", *words)
    assert made.out.splitlines()[:3] == ["mine/run.yaml", "mine/task.yaml", "mine/dataset.yaml"]
    assert call("run", "mine", "-q").code == 0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a table with replies and the answers that a person read in them."""
    row = {"options": ["x", "yy"], "question": "Which?"}
    first = {"id": "a", "answer": "A", "output": "A", "pred": "A"}
    second = {"id": "b", "answer": "B", "output": "Well.", "pred": "B"}
    return write_rows(tmp_path / "mine.jsonl", [row | first, row | second])


def test_a_log_is_imported_and_run(call: Call, log: Path) -> None:
    """The command says what it read, where it lies, and what to do next; what it says works."""
    done = call("import", "auto", log)
    assert done.code == 0
    assert done.out.splitlines() == [
        "Imported",
        "  log            table (plain)",
        "  task           mine",
        "  samples        2 samples",
        "  completions    2 OK",
        "  their verdict  `pred`: 100.00 % right, 2 judged",
        "  folder         imported/mine",
    ]
    assert done.err == "next: answerkey run imported/mine\nnext: answerkey audit latest\n"
    ran = call("run", "imported/mine")
    assert (ran.code, "Imported verdicts and ours" in ran.out) == (0, True)
    assert "of 2 completions; right by the imported verdicts 100.00 %, by ours 50.00 %" in ran.out
    assert call("audit", "latest").code == 0
    explained = call("explain", "latest", "b").out
    assert explained.endswith("Imported verdict\n  imported_score   1.0\n  imported_answer  B\n")
    (shown,) = call("explain", "latest", "b", "--json").json["samples"]
    assert shown["imported"]["imported_answer"] == "B"
    printed = call("import", "plain", log, "--out", "here", "--json").json
    assert (printed["folder"], printed["kind"], printed["samples"]) == ("here", "plain", 2)
    assert printed["next"] == ["answerkey run here", "answerkey audit latest"]


def test_what_is_broken_ends_the_import_unless_it_is_allowed(call: Call, log: Path) -> None:
    """Exit code 2, with the line, and how to go on without it."""
    batch = log.read_text().replace(
        '"id": "a"', '"custom_id": "a", "response": null, "error": null'
    )
    log.write_text(batch + '{"custom_id"\n')
    refused = call("import", "openai-batch", log)
    assert refused.code == 2
    assert "error[E202]: the line has no `custom_id`" in refused.err
    assert "mine.jsonl:3" in refused.err
    assert "= help: copy the log again, or import the rest with `--allow-failed 2`" in refused.err
    assert call("import", "openai-batch", log, "--allow-failed", "2").code == 0


def test_completions_alone_say_how_they_are_scored(call: Call, tmp_path: Path) -> None:
    """Batches know no questions."""
    body = {"choices": [{"message": {"role": "assistant", "content": "A"}}]}
    line = {"custom_id": "a", "response": {"status_code": 200, "body": body}, "error": None}
    write_rows(tmp_path / "output.jsonl", [line])
    advice = (
        "answerkey score TASK --dataset FILE --completions imported/output/output/completions.jsonl"
    )
    assert f"next: {advice}\n" in call("import", "auto", "output.jsonl").err


def import_and_run(call: Call, model: str, reply: str = "The answer is (A).") -> str:
    """Import a log of MMLU-Pro that this model wrote, run it as `runs/<model>` and return that."""
    row = {
        "question": "Which?",
        "options": ["one", "two"],
        "answer": "A",
        "pred": "A",
        "category": "maps",
    }
    rows = [{**row, "question_id": number, "model_outputs": reply} for number in range(3)]
    file = f"model_outputs_{model}_5shots.json"
    Path(file).write_text(json.dumps(rows), encoding="utf-8")
    assert call("import", "mmlu-pro", file, "--out", f"of/{model}").code == 0
    assert call("run", f"of/{model}", "--out", f"runs/{model}").code == 0
    return f"runs/{model}"


def test_a_model_has_its_own_name_everywhere(call: Call) -> None:
    """The name that the log has: in every command, in every file that is written, and in the
    viewer.
    """
    name, second = "Qwen1.5-7B-Chat", "gemini-1.5-flash-002"
    run = import_and_run(call, name)
    (task,) = call("import", "auto", f"model_outputs_{name}_5shots.json", "--json").json["tasks"]
    assert task["model"] == name
    assert f"completions  of {name}, recorded in" in call("show", run).out
    assert f"Completions of {name}." in call("show", run, "--format", "markdown").out
    assert call("show", run, "--json").json["tasks"][0]["completions"]["model"] == name
    assert f"  {name}  3  " in call("runs").out
    assert call("runs", "--json").json["runs"][0]["model"] == name
    exported = call("export", run, "--to", "every_eval_ever").out.splitlines()
    assert {json.loads(line)["model_id"] for line in exported} == {name}
    assert call("rescore", run, "--out", "runs/later").code == 0
    assert f"completions  of {name}, recorded in" in call("show", "runs/later").out
    assert [entry["model"] for entry in Catalog("runs").list()] == [name, name]
    assert call("report", run, "-o", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert f'"model": "{name}"' in page.replace('":"', '": "')
    assert "completions.jsonl" not in page
    compare = ("compare", run, import_and_run(call, second, reply="The answer is (B)."))
    compared = call(*compare, "--json").json["comparison"]["tasks"][0]["runs"]
    assert [entry["model"] for entry in compared] == [name, second]
    assert all(f"  {entry}  " in call(*compare).out for entry in (name, second))


def test_completions_of_the_caller_are_not_said_to_be_of_the_log(call: Call) -> None:
    """Whose completions the caller brings is not known.

    A model that is not asked has not written them.
    """
    import_and_run(call, "Qwen1.5-7B-Chat")
    completions = "of/Qwen1.5-7B-Chat/MMLU-Pro/completions.jsonl"
    brought = call("run", "of/Qwen1.5-7B-Chat", "--completions", completions)
    assert "  completions  recorded in " in brought.out
    unasked = call("run", "of/Qwen1.5-7B-Chat", "--model", "builtin/random")
    assert "  completions  of Qwen1.5-7B-Chat, recorded in " in unasked.out


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's cache folder, with two entries of the call cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with closing(CallCache("reuse")) as cache:
        calls = [ModelCall(key=key, sample_id=key, trial=0, messages=[]) for key in "ab"]
        replies = [Completion("A" * 2_000_000), Completion("B")]
        cache.add(list(zip(calls, replies, strict=True)))
    return tmp_path / "cache" / "answerkey"


def test_cache_shows_sizes(call: Call, caches: Path) -> None:
    """Every cache has a line; the last one is the sum, and the folder."""
    shown = call("cache")
    lines = shown.out.splitlines()
    assert shown.code == 0
    assert lines[0].split() == ["cache", "entries", "size", "holds"]
    assert lines[1].split() == ["calls", "2", "2.0", "MB", "replies", "of", "models"]
    assert lines[2].split() == ["downloads", "0", "0", "B", "fetched", "files"]
    assert lines[-1] == f"2.0 MB in {caches}"


def test_cache_as_json(call: Call, caches: Path) -> None:
    """The same as one object; sizes are in bytes."""
    printed = json.loads(call("cache", "--json").out)
    size = (caches / "calls.sqlite").stat().st_size
    path = str(caches / "calls.sqlite")
    calls = {"name": "calls", "path": path, "bytes": size, "entries": 2}
    assert printed["caches"][0] == calls
    assert (printed["folder"], printed["bytes"], printed["deleted"]) == (str(caches), size, False)
