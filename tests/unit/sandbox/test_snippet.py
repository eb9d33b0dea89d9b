"""Laws of what a snippet's text shows, and of trust in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.samples import read_cases

from answerkey.errors import Place, SpecError
from answerkey.sandbox import Snippet, check_snippet, require_trust

CASES = read_cases(__file__)


def find_reason(source: str, function: str = "compute_scores") -> str | None:
    """Return what is wrong with a source, None if nothing is."""
    error = check_snippet(Snippet(function, source, Place("task.yaml", 7), "scorers[0]"))
    if error is None:
        return None
    assert (error.code, error.where) == ("E108", Place("task.yaml", 7))
    return error.message.removeprefix("Python snippet of `scorers[0]`: ")


@pytest.mark.parametrize("source", CASES["good"])
def test_good_snippet_has_no_error(source: str) -> None:
    """Every way of defining the function at the top level is accepted."""
    assert find_reason(source) is None


@pytest.mark.parametrize(("source", "reason"), CASES["bad"])
def test_a_bad_snippet_is_reported_without_running_it(source: str, reason: str) -> None:
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
    snippet = Snippet("compute_scores", "x", Place("a.yaml"), "first")
    assert snippet.digest == Snippet("compute_scores", "x", None, "second").digest
    assert snippet.digest != Snippet("compute_metrics", "x").digest
    assert snippet.digest != Snippet("compute_scores", "y").digest


ONE = Snippet(
    "compute_scores", "def compute_scores(s):\n    return 1", Place("task.yaml", 12), "scorers[0]"
)

TWO = Snippet("compute_metrics", "\n\n# mine\ndef compute_metrics(s): ...", None, "metrics[1]")


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the user's own record out of the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "config"


def list_untrusted(*snippets: Snippet) -> list[str]:
    """Return the labels of the snippets that would be refused."""
    try:
        require_trust(snippets, trust_code=False)
    except SpecError as error:
        return [line.split("`")[1] for line in error.message.splitlines()[1:]]
    return []


def test_trust_is_remembered_by_text() -> None:
    """Exactly the recorded text is trusted, wherever it is.

    A changed one is not; trust adds up.
    """
    assert list_untrusted(ONE, TWO, replace(ONE, label="again")) == ["again", "metrics[1]"]
    require_trust([ONE], trust_code=True)
    assert list_untrusted(ONE, TWO, replace(ONE, label="elsewhere")) == ["metrics[1]"]
    assert list_untrusted(replace(ONE, source=ONE.source + "\n")) == ["scorers[0]"]
    require_trust([TWO], trust_code=True)
    assert list_untrusted(ONE, TWO) == []


def test_refusal_lists_every_snippet() -> None:
    """Without trust the error names each snippet, its place, its first line and its hash."""
    with pytest.raises(SpecError) as caught:
        require_trust([ONE, TWO], trust_code=False)
    error = caught.value
    assert (error.code, error.where) == ("E118", Place("task.yaml", 12))
    a, b = ONE.digest[:12], TWO.digest[:12]
    assert error.message.splitlines() == [
        "2 Python snippets that you have not trusted yet would run:",
        f"  - task.yaml:12: `scorers[0]`, compute_scores, sha256 {a}…: 'def compute_scores(s):'",
        f"  - snippet: `metrics[1]`, compute_metrics, sha256 {b}…: '# mine'",
    ]
    assert "--trust-code" in str(error.hint)
    assert list_untrusted(ONE) == ["scorers[0]"]


def test_no_snippets_need_no_trust(config_home: Path) -> None:
    """Nothing to run, nothing asked, nothing written."""
    require_trust([], trust_code=True)
    assert not config_home.exists()


def test_trust_that_cannot_be_written_stops_nothing(config_home: Path) -> None:
    """A run that is allowed goes on, and the next one asks again."""
    config_home.write_text("a file where the folder should be")
    require_trust([ONE], trust_code=True)
    assert list_untrusted(ONE) == ["scorers[0]"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"trusted": []}', "\x00"])
def test_damaged_file_trusts_nothing(config_home: Path, content: str) -> None:
    """A file that cannot be read trusts nothing and is replaced by the next trust."""
    path = config_home / "answerkey" / "trust.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert list_untrusted(ONE) == ["scorers[0]"]
    require_trust([ONE], trust_code=True)
    assert list_untrusted(ONE) == []


def test_file_is_plain_and_nothing_else_is_left(config_home: Path) -> None:
    """The file says what is trusted; the write leaves no other file."""
    require_trust([ONE], trust_code=True)
    folder = config_home / "answerkey"
    assert [path.name for path in folder.iterdir()] == ["trust.json"]
    assert json.loads((folder / "trust.json").read_text()) == {
        "version": 1,
        "trusted": {ONE.digest: {"function": "compute_scores", "label": "scorers[0]"}},
    }


def test_a_relative_config_home_is_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative XDG_CONFIG_HOME is not used; the default is."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    require_trust([ONE], trust_code=True)
    assert (tmp_path / "home" / ".config" / "answerkey" / "trust.json").exists()
