"""Replies that are not asked for anew: said wherever a number stands, and never believed when
damaged.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.projects import write_rows

import answerkey as ak
from answerkey.errors import SolverError
from answerkey.evaluate.display import Display
from answerkey.evaluate.observer import Observer
from answerkey.testing import Reply, TestServer

from .conftest import Call

CACHE = Path("cache/answerkey/calls.sqlite")
REUSED = "40 of 40 replies were reused from the cache, the oldest 3 days old"


@pytest.fixture
def words(tmp_path: Path, server: TestServer, quiz: list[str]) -> list[str]:
    """Return the arguments of a run of 40 questions, of which `A`, said to all of them, answers
    ten.
    """
    rows = [{"question": f"question {n}?", "answer": "ABCD"[n % 4]} for n in range(40)]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert server.asked.total == 0
    return quiz


def ask_long_ago(call: Call, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the cache with the replies of a run of three days ago."""
    now = time.time
    with monkeypatch.context() as past:
        past.setattr(time, "time", lambda: now() - 3.2 * 86_400)
        assert call("run", *words, "--cache-policy", "update").code == 0


def read_accuracy(done: object) -> float:
    """Return the first metric of a command's JSON."""
    value: float = done.json["tasks"][0]["metrics"][0]["value"]  # type: ignore[attr-defined]
    return value


def test_calls_are_sent_without_a_policy(call: Call, server: TestServer, words: list[str]) -> None:
    """A model that answers otherwise has another number, one that is gone has none.

    No cache is written.
    """
    assert read_accuracy(call("run", *words, "--json")) == 0.25
    server.change(lambda messages: "B" if messages[-1]["content"] == "question 1?" else "A")
    assert read_accuracy(call("run", *words, "--json")) == 0.275
    assert server.asked.total == 80
    assert not CACHE.exists()
    server.change(Reply(status=400, body=b"gone"))
    assert call("run", *words, "--fail-under", "0.2").code != 0


def test_an_older_cache_is_not_read_without_a_policy(
    call: Call, server: TestServer, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in a run nor in a dry run."""
    ask_long_ago(call, words, monkeypatch)
    server.forget()
    planned = call("run", *words, "--dry-run", "--json").json["dry_run"]["tasks"][0]
    assert (planned["calls"], planned["cached"]) == (40, 0)
    assert "reused" not in call("run", *words, "--json").json["tasks"][0]
    assert server.asked.total == 40


def test_reused_replies_are_said_in_the_summary_and_the_gate(
    call: Call, server: TestServer, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many and how old: beside the model, below each gate, in files for CI and on pages."""
    ask_long_ago(call, words, monkeypatch)
    server.change("D")
    words = [*words, "--cache-policy", "reuse", "--fail-under", "0.3", "--out", "again"]
    done = call("run", *words, "--summary", "summary.md", "--junit", "junit.xml", "--json")
    assert (done.code, server.asked.total) == (1, 40)
    (task,) = done.json["tasks"]
    assert (task["reused"], task["calls"]["solve"]["cached"]) == (REUSED, 40)
    assert task["calls"]["solve"]["oldest_seconds"] // 3600 == 76
    assert f"{REUSED}." in done.json["gates"][0]["explanation"]
    shown = call("show", "again").out
    assert f"  replies  {REUSED}\n" in shown
    assert f"        {REUSED}\n" in shown
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert f"\x1b[33m{REUSED}\x1b[0m" in call("show", "again").out
    assert REUSED in Path("summary.md").read_text()
    assert REUSED in Path("junit.xml").read_text()
    assert call("report", "again", "-o", "page.html").code == 0
    assert REUSED in Path("page.html").read_text()


def test_changed_replies_are_asked_again(call: Call, server: TestServer, words: list[str]) -> None:
    """Forty letters that were changed in the file change no number."""
    words = [*words, "--cache-policy", "reuse"]
    assert read_accuracy(call("run", *words, "--json")) == 0.25
    raw = CACHE.read_bytes()
    assert raw.count(b'"text":"A"') == 40
    CACHE.write_bytes(raw.replace(b'"text":"A"', b'"text":"B"', 7))
    server.forget()
    done = call("run", *words, "--json")
    assert (done.code, read_accuracy(done), server.asked.total) == (0, 0.25, 7)
    assert done.json["tasks"][0]["reused"].startswith("33 of 40 replies were reused from the cache")
    cache = f"the call cache `{CACHE.absolute()}`"
    notice = f"warning: 7 records of {cache} are damaged, and their calls are made again"
    assert done.json["notices"][0].startswith(notice)
    assert (call("run", *words, "--json").json["notices"], server.asked.total) == ([], 7)


def test_the_progress_of_a_resumed_run_counts_all_answers(words: list[str]) -> None:
    """Those of the journal as well as those that are asked for now."""

    class Onlooker(Display):
        """Keeps the observer of the task."""

        observer: Observer

        def follow(self, observer: Observer) -> None:
            """Keep it."""
            self.observer = observer

    with pytest.raises(SolverError, match="stopped at the limit of 30 calls"):
        ak.run(words[0], dataset=words[2], model=words[4], out="half", max_calls=30)
    onlooker = Onlooker()
    ak.resume("half", display=onlooker)
    seen = onlooker.observer.look()
    assert (seen.done, seen.remembered) == (40, 30)
