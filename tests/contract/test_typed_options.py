"""A misspelt option is an error for a type checker, and the types are those of the options there
are.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from answerkey.evaluate.options import RunOptions, ScoreOptions
from answerkey.spec import Options

SNIPPET = """\
import answerkey as ak
import polars as pl

def ask(messages: list[dict[str, str]]) -> str:
    return "A"

async def ask_later(messages: list[dict[str, str]]) -> str:
    return "A"

rows: list[dict[str, object]] = [{"question": "Which?", "answer": "A"}]
task: ak.Task = ak.mcqa(question="{{ sample.question }}", choices=["A", "B"], truth="{{ sample.answer }}")
run: ak.Run = ak.run(task, dataset=rows, model=ask, max_concurrent=4, num_samples=3)
ak.run("project", dataset=pl.DataFrame(rows), model=ask_later, out="runs/a", subsampling="random", seed=1)
ak.score(task, pl.LazyFrame(rows), ["A"], allow_failed="2%")
ak.score(task, {"question": ["Which?"]}, (text for text in ["A"]))
ak.rescore(run, task, max_calls=3)
frame: pl.DataFrame = run.to_frame()
saved: ak.Run = run.save("runs/b")

async def main() -> ak.Run:
    return await ak.arun(task, dataset=rows, model=ask_later)

ak.run(task, modle=ask)  # line 23
ak.run(task, num_samples="3")  # line 24
ak.score(task, rows, ["A"], allow_faild=1)  # line 25
ak.resume("runs/a", max_cals=3)  # line 26
ak.check("project", modell="x")  # line 27
ak.audit_dataset(rows, truht="answer")  # line 28
ak.compare(run, run, comon=True)  # line 29
ak.export(run, too="csv")  # line 30
"""  # noqa: E501 - the text as it is written


def test_a_misspelt_option_is_an_error_for_mypy(tmp_path: Path) -> None:
    """What is right passes in strict mode.

    Each mistake is told at its line, and nothing else is.
    """
    from mypy import api  # it takes long to import

    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET, encoding="utf-8")
    cache = Path(__file__).parents[2] / ".mypy_cache"
    out, _, _ = api.run(["--strict", "--no-error-summary", "--cache-dir", str(cache), str(file)])
    told = [int(line.split(":")[1]) for line in out.splitlines() if ": error:" in line]
    assert sorted(set(told)) == list(range(23, 31)), out


def test_every_option_has_its_type() -> None:
    """`RunOptions` names exactly the fields of `Options`; `score` is given samples and
    completions.
    """
    names = {field.name for field in fields(Options)}
    assert names == RunOptions.__optional_keys__
    assert names - ScoreOptions.__optional_keys__ == {"dataset", "completions"}
