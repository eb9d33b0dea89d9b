"""What a type checker says of options: mypy reads this file with all others, nothing runs it.

An unused `type: ignore` is an error of mypy: each marked line is a mistake that it reports.
"""

from __future__ import annotations

import polars as pl

import answerkey as ak


def ask(messages: list[dict[str, str]]) -> str:
    """Answer as a model that is a function."""
    return "A" if messages else ""


async def ask_later(messages: list[dict[str, str]]) -> str:
    """Answer as a model that is a coroutine."""
    return ask(messages)


rows: list[dict[str, object]] = [{"question": "Which?", "answer": "A"}]
task: ak.Task = ak.mcqa(
    question="{{ sample.question }}", choices=["A", "B"], truth="{{ sample.answer }}"
)
run: ak.Run = ak.run(task, dataset=rows, model=ask, max_concurrent=4, num_samples=3)
ak.run("p", dataset=pl.DataFrame(rows), model=ask_later, out="a", subsampling="random", seed=1)
ak.score(task, pl.LazyFrame(rows), ["A"], allow_failed="2%")
ak.score(task, {"question": ["Which?"]}, iter(["A"]))
ak.rescore(run, task, max_calls=3)
frame: pl.DataFrame = run.to_frame()
saved: ak.Run = run.save("runs/b")


async def run_later() -> ak.Run:
    """Run a task where a loop is running."""
    return await ak.arun(task, dataset=rows, model=ask_later)


ak.run(task, modle=ask)  # type: ignore[call-arg]
ak.run(task, num_samples="3")  # type: ignore[arg-type]
ak.score(task, rows, ["A"], allow_faild=1)  # type: ignore[call-arg]
ak.resume("runs/a", max_cals=3)  # type: ignore[call-arg]
ak.check("project", modell="x")  # type: ignore[call-arg]
ak.audit_dataset(rows, truht="answer")  # type: ignore[call-arg]
ak.compare(run, run, comon=True)  # type: ignore[call-arg]
ak.export(run, too="csv")  # type: ignore[call-arg]
