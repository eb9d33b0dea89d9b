from __future__ import annotations

import json
from pathlib import Path

import pytest

from answerkey.errors import Place, SpecError
from answerkey.sandbox import Snippet, remember_trust, require_trust, untrusted

ONE = Snippet("compute_scores", "def compute_scores(s):\n    return 1", Place("task.yaml", 12), "scorers[0]")
TWO = Snippet("compute_metrics", "# mine\ndef compute_metrics(s): ...", None, "metrics[1]")


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the user's own record out of the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "config"


def test_nothing_is_trusted_at_first() -> None:
    """A snippet never seen before is not trusted."""
    assert untrusted([ONE, TWO]) == [ONE, TWO]


def test_trust_is_remembered_by_text() -> None:
    """Exactly the recorded text is trusted, wherever it stands; a changed one is not."""
    remember_trust([ONE])
    assert untrusted([ONE, TWO]) == [TWO]
    assert untrusted([Snippet(ONE.function, ONE.source, label="elsewhere")]) == []
    changed = Snippet(ONE.function, ONE.source + "\n")
    assert untrusted([changed]) == [changed]


def test_recording_adds() -> None:
    """Earlier trust stays when more is recorded."""
    remember_trust([ONE])
    remember_trust([TWO])
    assert untrusted([ONE, TWO]) == []


def test_refusal_lists_every_snippet() -> None:
    """Without trust the error names each snippet, where it stands, its first line and its hash."""
    with pytest.raises(SpecError) as caught:
        require_trust([ONE, TWO], trust_code=False)
    error = caught.value
    assert (error.code, error.where) == ("E118", Place("task.yaml", 12))
    one, two = ONE.digest[:12], TWO.digest[:12]
    assert error.message.splitlines() == [
        "2 Python snippets would run that you have not trusted yet:",
        f"  - `scorers[0]` (task.yaml:12), compute_scores, sha256 {one}…: 'def compute_scores(s):'",
        f"  - `metrics[1]`, compute_metrics, sha256 {two}…: '# mine'",
    ]
    assert "--trust-code" in str(error.hint)
    assert untrusted([ONE]) == [ONE]


def test_same_text_is_listed_once() -> None:
    """A text that is used twice needs one trust."""
    assert [one.digest for one in untrusted([ONE, Snippet(ONE.function, ONE.source), TWO])] == [
        ONE.digest,
        TWO.digest,
    ]


def test_trust_code_records() -> None:
    """`--trust-code` is needed once."""
    assert require_trust([ONE], trust_code=True) == []
    assert require_trust([ONE], trust_code=False) == []


def test_no_snippets_need_no_trust(config_home: Path) -> None:
    """Nothing to run, nothing asked, nothing written."""
    assert require_trust([], trust_code=True) == []
    assert not config_home.exists()


def test_trust_that_cannot_be_written_is_a_notice(config_home: Path) -> None:
    """A folder that cannot be written does not stop a run that is allowed."""
    config_home.write_text("a file where the folder should be")
    (notice,) = require_trust([ONE], trust_code=True)
    assert notice.message.startswith("the trust in these snippets could not be remembered")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"trusted": []}', "\x00"])
def test_damaged_file_trusts_nothing(config_home: Path, content: str) -> None:
    """A file that cannot be read trusts nothing and is replaced by the next trust."""
    path = config_home / "answerkey" / "trust.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert untrusted([ONE]) == [ONE]
    remember_trust([ONE])
    assert untrusted([ONE]) == []


def test_file_is_plain_and_nothing_else_is_left(config_home: Path) -> None:
    """The file says what is trusted; the write leaves no other file."""
    remember_trust([ONE])
    folder = config_home / "answerkey"
    assert [path.name for path in folder.iterdir()] == ["trust.json"]
    assert json.loads((folder / "trust.json").read_text()) == {
        "version": 1,
        "trusted": {ONE.digest: {"function": "compute_scores", "label": "scorers[0]"}},
    }


def test_relative_config_home_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative XDG_CONFIG_HOME is not used; the default is."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    remember_trust([ONE])
    assert (tmp_path / "home" / ".config" / "answerkey" / "trust.json").exists()
