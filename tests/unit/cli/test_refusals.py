"""What a command refuses: in words, with what to do, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.cli import main

from .conftest import Call, write_project

REFUSED = [
    ("rnu", "E119", "No such command 'rnu'", "did you mean `run`?"),
    ("run f --modle x", "E119", "No such option '--modle'", "did you mean `--model`?"),
    ("run", "E119", "Missing argument 'FILE'", "`answerkey run --help` shows what there is"),
    ("run f --num-samples 0", "E119", "0 is not in the range", "shows what there is"),
    ("run f --config k", "E119", "`--config k` is not of the form `name=value`",
    "write `--config k=4`"),
    ("score small/task.yaml --dataset small/rows.jsonl --out small/done", "E502",
    "`small/done` already exists", ""),
    ("resume nothing", "E501", "there is no run `nothing`", ""),
    ("rescore small/done nowhere.yaml", "E101", "`nowhere.yaml` does not exist", ""),
    ("show nowhere", "E501", "there is no run `nowhere`", ""),
    ("show latest", "E501", "there is no run `latest`", ""),
    ("show small", "E501", "", "`small/done`"),
    ("explain small/done 44", "E504", "there is no sample `44` in this run",
    "did you mean `000004`?"),
    ("runs nowhere", "E501", "`nowhere` is not a folder", ""),
    ("export small/done --to parquet", "E119", "Parquet is not text and needs a file", ""),
    ("export small/done --json", "E119", "the rows need a file: `--json` keeps stdout", ""),
    ("export small/done --to json", "E119", "", "did you mean `jsonl`?"),
    ("export small/done --to csv -o no/rows.csv", "E502", "cannot write `no/rows.csv`", ""),
    ("audit small", "E501", "", ""),
    ("audit-dataset none.jsonl", "E201", "none.jsonl", ""),
    ("audit-dataset small/rows.jsonl --column question=qestion", "E206", "",
    "did you mean `question`?"),
    ("compare small/done --fail-on-regression", "E119", "worse than what", "--baseline RUN"),
    ("power --difference x", "E119", "`--difference x` is no number",
    "write it like 0.03, 1/9 or 3%"),
    ("report nowhere", "E501", "there is no run `nowhere`", ""),
    ("report small/done -o no/such/folder/x.html", "E502", "no/such/folder/x.html", ""),
    ("report small/done --max-samples -1", "E119", "--max-samples", ""),
    ("report", "E119", "Missing argument 'RUN...'", ""),
    ("view", "E501", "there is no folder `runs` here", "name the folder that holds your runs"),
    ("view nowhere", "E501", "nowhere", ""),
    *((f"view small/done --port {port}", "E119", "--port", "") for port in ("-1", "65536", "x")),
    ("schema tsk", "E119", "'task', 'run', 'dataset', 'model'", ""),
    ("init small", "E119", "`small/task.yaml` already exists; nothing was written",
    "a new or empty"),
    ("init other --dataset small", "E119", "`--dataset small` is no data file",
    "add `--task NAME`"),
    ("tasks show mlu", "E113", "there is no ready-made task `mlu`", "did you mean `mmlu`?"),
    ("import auto nowhere", "E201", "the log `nowhere`", ""),
    ("import inspct small/rows.jsonl", "E119", "unknown kind of log `inspct`", ""),
    ("import plain small/rows.jsonl --column x", "E119", "not of the form `PART=NAME`", ""),
    ("import plain small/rows.jsonl --allow-failed x", "E119",
    "neither a number of rows nor a share", ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the project `small` and its run `small/done`."""
    result = tmp_path_factory.mktemp("refused")
    small = write_project(result)
    words = ["score", str(small / "task.yaml"), "--dataset", str(small / "rows.jsonl"), "-q"]
    assert main([*words, "--out", str(small / "done")]) == 0
    return result


@pytest.mark.parametrize(
    ("line", "code", "message", "hint"), REFUSED, ids=[row[0] for row in REFUSED]
)
def test_a_command_that_cannot_be_done_is_explained(
    call: Call,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    code: str,
    message: str,
    hint: str,
) -> None:
    """Exit code 2, one error on stderr, with `--json` on stdout too; no file comes or goes."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    refused = call(*line.split())
    assert refused.code == 2
    assert refused.err.startswith(f"error[{code}]: ")
    explanation, _, help_said = refused.err.partition("  = help: ")
    assert (message in explanation, hint in help_said) == (True, True), refused.err
    assert "--json" in line or refused.out == ""
    assert call(*line.split(), "--json").json["errors"][0]["code"] == code
    assert [path for path in sorted(folder.rglob("*")) if path.name != "imported"] == before
