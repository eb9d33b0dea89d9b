"""A second model, be it a fallback or a judge, is cached, resumed, paid and missed as the first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import answerkey as ak
from answerkey.models.store import CallStore
from answerkey.testing import Reply
from answerkey.testing.replies import Messages

from .second_models import JUDGE, SecondModel, read_numbers, use_fallback

Call = Callable[..., Any]
#: The row about which there is nothing but an error, how the call about it begins and what becomes
#: of the counts.
FAILURES = {
    "quiz": (12, "number 2 [B]? \n", "FALLBACK", "16 samples = 15 scored + 0 failed + 1 errors"),
    "quality": (4, "RATE q4", "JUDGE", "6 samples = 6 scored + 0 failed + 0 errors"),
}


def stop_early(second: SecondModel) -> None:
    """Stop a run when three calls of the second model have been made."""
    limit = len(second.rows) + 3
    with pytest.raises(ak.SolverError, match="E305"):
        second.run("stopped", cache_policy="no-cache", max_calls=limit, allow_failed=1)


def test_a_second_run_calls_nothing(second: SecondModel) -> None:
    """What was said of the same completion comes from the cache."""
    first = second.run("first", cache_policy="update")
    second.server.forget()
    again = second.run("again", cache_policy="reuse")
    assert second.server.asked.total == 0
    assert read_numbers(again) == read_numbers(first)


def test_a_resumed_run_calls_nothing_twice(second: SecondModel) -> None:
    """One that stopped at a limit amid the second calls goes on with the others, without the cache,
    too; its journal has them under their purpose.
    """
    whole = second.run("whole", cache_policy="no-cache")
    second.server.forget()
    stop_early(second)
    count = len(second.rows)
    assert second.count_asked() == (count, 3)
    with closing(CallStore(second.folder / "stopped" / "calls.sqlite")) as journal:
        purposes = {usage.purpose: usage.calls for usage in journal.sum_usage("quiz")}
    assert purposes == {"solve": count, second.purpose: 3}
    resumed = ak.resume(second.folder / "stopped")
    assert (resumed.status, second.count_asked()) == ("complete", (count, second.asked))
    assert read_numbers(resumed) == read_numbers(whole)
    assert resumed.tasks["quiz"].manifest["calls"][second.purpose]["calls"] == second.asked


def test_resume_wants_the_same_model(second: SecondModel) -> None:
    """One that the run file defines otherwise by now is not that of the run."""
    stop_early(second)
    file = second.folder / "run.yaml"
    file.write_text(file.read_text().replace(f"m-{second.model}", "m-other"))
    message = f"the model of its scorer `{second.key}` is not the same any more"
    with pytest.raises(ak.RunError, match=message):
        ak.resume(second.folder / "stopped")


def test_a_failed_call_makes_the_run_incomplete(second: SecondModel, call: Call) -> None:
    """Its sample is an ERROR of that scorer, and no other; a resume makes only that call."""
    row, words, name, counts = FAILURES[second.key]
    answers = second.answers

    def fail(messages: Messages) -> str | Reply:
        is_failed = words in str(messages[0]["content"])
        return Reply(kind="error_body") if is_failed else answers(messages)

    second.server.change(fail)
    out = second.folder / "run"
    done = call("run", second.folder / "run.yaml", "--out", out, "--allow-failed", 1)
    assert done.code == 3
    assert "INCOMPLETE: 1 call to a judge or fallback failed, so no accuracy is shown" in done.out
    assert counts in done.out
    assert "Accuracy is" not in done.out
    run = ak.load_run(out)
    score = second.list_scores(run)[row]
    assert (score["status"], score["reason"]) == ("ERROR", f"{name}_CALL_FAILED")
    reasons = run.tasks["quiz"].totals["failures"][second.key]
    assert reasons[f"{name}_CALL_FAILED"]["count"] == 1
    (explained,) = call("explain", out, row + 1, "--json").json["samples"]
    verdict = explained["scores"][second.key]
    assert verdict["why"] == verdict["metadata"][f"{name.lower()}_error"] != ""
    second.server.change(answers)
    second.server.forget()
    assert ak.resume(out).status == "complete"
    assert second.count_asked() == (0, 1)


def test_rescore_calls_the_second_model_alone(second: SecondModel) -> None:
    """One that is new to an old run is called, within limits; the cache knows it from then on.

    Taken away again, the old numbers are back.
    """
    folder = second.folder
    second.write(second.without)
    old = second.run("old")
    without = second.read_task()
    second.server.forget()
    second.write()
    with pytest.raises(ak.SolverError, match="E305"):
        ak.rescore(
            folder / "old",
            second.read_task(),
            out=folder / "new",
            max_calls=2,
            cache_policy="no-cache",
        )
    run = ak.resume(folder / "new", allow_failed=1)
    assert (run.status, second.count_asked()) == ("complete", (0, second.asked))
    second.server.forget()
    for name in ("newer", "newest"):
        again = ak.rescore(folder / "new", out=folder / name, cache_policy="reuse")
        assert second.list_scores(again) == second.list_scores(run)
    assert second.count_asked() == (0, second.asked)
    back = ak.rescore(folder / "new", without, out=folder / "back")
    assert read_numbers(back) == read_numbers(old)


def test_a_key_is_only_needed_to_call(second: SecondModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` does without it; `run` says so before the first model is called."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    name = "openai/gpt-4.1-nano"
    scorers = {"quiz": use_fallback(name), "quality": [JUDGE | {"model_key": name}]}
    assert not ak.check(second.write(scorers[second.key])).errors
    with pytest.raises(ak.SpecError, match="E117"):
        second.run()
    assert second.server.asked.total == 0


def test_the_cost_counts(second: SecondModel) -> None:
    """Its tokens are paid for out of the same purse, and stated apart."""
    calls = second.run(price="1:1").tasks["quiz"].manifest["calls"]
    assert set(calls) == {"solve", second.purpose}
    assert all(usage["cost"] > 0 for usage in calls.values())
    with pytest.raises(ak.AnswerkeyError, match=f"what `{second.model}` costs is not known"):
        second.run("other", max_cost=1.0)
