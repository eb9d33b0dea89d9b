from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.errors import Place
from answerkey.sandbox import Snippet, SnippetTrouble, check_snippet


def find_reason(source: str, function: str = "compute_scores") -> str | None:
    """Return what is wrong with a source, None if nothing is."""
    error = check_snippet(Snippet(function, source, Place("task.yaml", 7), "scorers[0]"))
    if error is None:
        return None
    assert (error.code, error.where) == ("E108", Place("task.yaml", 7))
    return error.message.removeprefix("Python snippet of `scorers[0]`: ")


@pytest.mark.parametrize(
    "source",
    [
        "def compute_scores(sample): return 1",
        "async def compute_scores(sample, solver_output): return 1",
        "def compute_scores(*everything): return 1",
        "def compute_scores(sample, solver_output=None, more=None): return 1",
        "compute_scores = lambda sample: 1",
        "compute_scores: object = print",
        "from math import sqrt as compute_scores",
        "from somewhere import *",
        "try:\n    import numpy\nexcept ImportError:\n    def compute_scores(s): return 1",
        "if True:\n    pass\nelse:\n    def compute_scores(s): return 1",
        "@decorate\ndef compute_scores(): return 1",
        "class compute_scores: pass",
        "def compute_scores(s): return '\\d'",
    ],
)
def test_good_snippet_has_no_error(source: str) -> None:
    """Every way of defining the function at the top level is accepted."""
    assert find_reason(source) is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1", "defines no function `compute_scores`"),
        ("", "defines no function `compute_scores`"),
        ("def other():\n    def compute_scores(s): return 1", "defines no function `compute_scores`"),
        (
            "def compute_scores(): return 1",
            "`compute_scores` cannot be called with the arguments it is given",
        ),
        (
            "def compute_scores(a, b, c): return 1",
            "`compute_scores` cannot be called with the arguments it is given",
        ),
        (
            "def compute_scores(a, *, b): return 1",
            "`compute_scores` cannot be called with the arguments it is given",
        ),
        ("def f(:\n  pass", "line 1 is not Python: invalid syntax"),
        ("x = 1\nreturn x", "line 2 is not Python: 'return' outside function"),
    ],
)
def test_bad_snippet_is_told_without_running_it(source: str, reason: str) -> None:
    """Syntax, a missing function and unfit parameters are seen in the text."""
    assert find_reason(source) == reason


def test_metric_function_takes_one_argument() -> None:
    """`compute_metrics` is given the scores alone."""
    assert find_reason("def compute_metrics(scores): return {}", "compute_metrics") is None
    assert find_reason("def compute_metrics(a, b): return {}", "compute_metrics") is not None


def test_hint_shows_the_form() -> None:
    """The hint shows how the function looks."""
    error = check_snippet(Snippet("compute_metrics", "x = 1"))
    assert error is not None
    assert error.hint == "write a function `compute_metrics(scores)`, with `def` or `async def`"


@pytest.mark.parametrize("source", ["x = '\0'", "(" * 5000])
def test_unreadable_text_is_an_error(source: str) -> None:
    """Text that the parser gives up on is an error like any other."""
    assert find_reason(source) is not None


def test_check_runs_nothing(tmp_path: Path) -> None:
    """Checking a snippet leaves no trace of it."""
    trace = tmp_path / "ran"
    source = f"open({str(trace)!r}, 'w')\ndef compute_scores(s): return 1"
    assert check_snippet(Snippet("compute_scores", source)) is None
    assert not trace.exists()


def test_digest_depends_on_function_and_source() -> None:
    """Two snippets are the same code if function and source are."""
    one = Snippet("compute_scores", "x", Place("a.yaml"), "first")
    assert one.digest == Snippet("compute_scores", "x", None, "second").digest
    assert one.digest != Snippet("compute_metrics", "x").digest
    assert one.digest != Snippet("compute_scores", "y").digest


def test_first_line_is_the_first_that_holds_something() -> None:
    """Listings show the first line with text."""
    assert Snippet("f", "\n\n  import os\nx").first_line == "import os"
    assert Snippet("f", "").first_line == ""


def test_trouble_without_traceback_reads_as_its_message() -> None:
    """A trouble's text is its message, and its traceback if there is one."""
    assert str(SnippetTrouble("died", "it ended")) == "it ended"
