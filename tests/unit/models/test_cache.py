"""Laws of the call cache."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from answerkey.errors import SpecError
from answerkey.models.cache import CallCache, default_cache_file
from answerkey.types import Completion, CompletionStatus

#: What is asked, in every one of these calls.
ASKED = [{"role": "user", "content": "?"}]
WHOLE = Completion(
    text="B. Canberra \ud800 \u202e é",
    status=CompletionStatus.OK,
    prompt=ASKED,
    reply={"role": "assistant", "content": "B"},
    finish_reason="stop",
    prompt_tokens=12,
    completion_tokens=3,
    latency=0.25,
    reasoning="hm",
    logprobs=[{"token": "B", "logprob": -0.1}],
    attempts=2,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a cache file that is not there yet, in a folder that is not there either."""
    return tmp_path / "deep" / "calls.sqlite"


def test_what_was_stored_is_found_whole(file: Path) -> None:
    """Every field comes back as it was, but for the source, which is `cache`."""
    first = CallCache(file=file)
    first.add([("k", WHOLE)])
    first.close()
    found = CallCache(file=file).find({"k": ASKED, "other": ASKED})
    assert list(found) == ["k"]
    assert found["k"].source == "cache"
    assert {**vars(found["k"]), "source": None} == vars(WHOLE)


@pytest.mark.parametrize(
    ("status", "is_stored"),
    [
        (CompletionStatus.OK, True),
        (CompletionStatus.REFUSED, True),
        (CompletionStatus.NO_TEXT, True),
        (CompletionStatus.ERROR, False),
    ],
)
def test_failed_calls_are_not_stored(file: Path, status: CompletionStatus, is_stored: bool) -> None:  # noqa: FBT001  # a column of the table
    """A refusal and a reply without text are answers; an error is none."""
    cache = CallCache(file=file)
    cache.add([("k", Completion(None, status))])
    assert bool(cache.find({"k": ASKED})) is is_stored


def test_update_asks_anew_and_stores(file: Path) -> None:
    """Under `update` nothing is found, and what is added replaces what was there."""
    CallCache(file=file).add([("k", Completion("old"))])
    update = CallCache("update", file=file)
    assert update.find({"k": ASKED}) == {}
    assert update.list_known(["k"]) == set()
    update.add([("k", Completion("new"))])
    assert CallCache(file=file).find({"k": ASKED})["k"].text == "new"


def test_no_cache_neither_reads_nor_writes(file: Path) -> None:
    """Under `no-cache` the file is not even made."""
    cache = CallCache("no-cache", file=file)
    cache.add([("k", WHOLE)])
    assert cache.find({"k": ASKED}) == {}
    assert not file.exists()


def test_an_unknown_policy_is_refused() -> None:
    """E119 says what was meant."""
    with pytest.raises(SpecError, match="unknown cache policy 'reuze'") as caught:
        CallCache("reuze")  # type: ignore[arg-type]  # what a caller may pass
    assert (caught.value.code, caught.value.hint) == ("E119", "did you mean `reuse`?")


def test_known_keys_are_listed(file: Path) -> None:
    """`list_known` tells which keys would be found, also when they are many."""
    cache = CallCache(file=file)
    cache.add([(f"k{number}", Completion("A")) for number in range(0, 3000, 2)])
    assert len(cache.list_known([f"k{number}" for number in range(3000)])) == 1500
    assert len(cache.find({f"k{number}": ASKED for number in range(3000)})) == 1500


def test_a_cache_that_cannot_be_opened_is_one_notice(tmp_path: Path) -> None:
    """Nothing is found, nothing is stored, nothing is raised, and it is said once."""
    (tmp_path / "file").write_text("in the way")
    cache = CallCache(file=tmp_path / "file" / "calls.sqlite")
    cache.add([("k", WHOLE)])
    assert cache.find({"k": ASKED}) == {}
    assert len(cache.notices) == 1
    assert "the call cache" in cache.notices[0].message
    assert "every call is sent" in cache.notices[0].message


@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough" * 40, b"SQLite format 3\0 cut off"]
)
def test_a_damaged_cache_is_one_notice(file: Path, content: bytes) -> None:
    """A file that is no cache is left as it is."""
    file.parent.mkdir()
    file.write_bytes(content)
    cache = CallCache(file=file)
    assert cache.find({"k": ASKED}) == {}
    cache.add([("k", WHOLE)])
    assert [notice.hint for notice in cache.notices] == [
        "make room or correct its rights; a damaged cache may be deleted"
    ]
    assert file.read_bytes() == content


def test_a_cache_of_another_version_is_one_notice(file: Path) -> None:
    """A newer release's cache is neither read nor changed."""
    CallCache(file=file).add([("k", WHOLE)])
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    cache = CallCache(file=file)
    assert cache.find({"k": ASKED}) == {}
    assert "it has version 7, this release reads 1" in cache.notices[0].message


def test_an_entry_that_cannot_be_read_is_asked_anew(file: Path) -> None:
    """One bad entry does not spoil the others."""
    cache = CallCache(file=file)
    cache.add([("good", Completion("A")), ("bad", Completion("B")), ("worse", Completion("C"))])
    cache.close()
    connection = sqlite3.connect(file)
    connection.execute("""UPDATE calls SET completion = '{"text"' WHERE key = 'bad'""")
    connection.execute("""UPDATE calls SET completion = '{"text": "C"}' WHERE key = 'worse'""")
    connection.commit()
    connection.close()
    assert list(cache.find({"good": ASKED, "bad": ASKED, "worse": ASKED})) == ["good"]


def test_only_the_user_can_read_the_cache(file: Path) -> None:
    """The file is made with the rights 0600."""
    CallCache(file=file).add([("k", WHOLE)])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_threads_share_one_cache(file: Path) -> None:
    """Adding and finding from several threads at once loses nothing."""
    cache = CallCache(file=file)

    def work(number: int) -> int:
        keys = [f"{number}-{one}" for one in range(50)]
        for key in keys:
            cache.add([(key, Completion(key))])
        return len(cache.find(dict.fromkeys(keys, ASKED)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [50] * 8
    assert cache.notices == []


def test_processes_share_one_cache(file: Path) -> None:
    """Several processes write at once; each waits for the others."""
    script = (
        "import sys; from pathlib import Path;"
        "from answerkey.models.cache import CallCache; from answerkey.types import Completion;"
        "cache = CallCache(file=Path(sys.argv[1]));"
        "[cache.add([(f'{sys.argv[2]}-{n}', Completion('A'))]) for n in range(60)];"
        "sys.exit(len(cache.notices))"
    )
    workers = [subprocess.Popen([sys.executable, "-c", script, str(file), str(one)]) for one in range(2)]
    assert [worker.wait(timeout=600) for worker in workers] == [0, 0]
    keys = [f"{one}-{n}" for one in range(2) for n in range(60)]
    assert len(CallCache(file=file).find(dict.fromkeys(keys, ASKED))) == 120


def test_the_default_file_lies_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`$XDG_CACHE_HOME` decides, else `~/.cache`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_file() == tmp_path / "answerkey" / "calls.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache_file() == tmp_path / "home" / ".cache" / "answerkey" / "calls.sqlite"
