"""Laws of the call cache."""

from __future__ import annotations

import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from answerkey.errors import RunError, SpecError
from answerkey.models import store
from answerkey.models.cache import CallCache, clear_cache, default_cache_file, list_caches
from answerkey.models.calls import Call
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


def ask(*keys: str) -> list[Call]:
    """Return calls with these keys."""
    return [Call(key=key, sample_id="1", trial=0, messages=ASKED) for key in keys]


def say(**completions: Completion) -> list[tuple[Call, Completion]]:
    """Return finished calls, by key."""
    return [(ask(key)[0], completion) for key, completion in completions.items()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a cache file that is not there yet, in a folder that is not there either."""
    return tmp_path / "deep" / "calls.sqlite"


def test_what_was_stored_is_found_whole(file: Path) -> None:
    """Every field comes back as it was, but for the source, which is `cache`, and when it was asked
    for.
    """
    first = CallCache("reuse", file=file)
    first.add(say(k=WHOLE))
    first.close()
    replies = CallCache("reuse", file=file).find(ask("k", "other"))
    assert (list(replies), replies["k"].source) == (["k"], "cache")
    assert {**vars(replies["k"]), "source": None, "asked_at": None} == vars(WHOLE)
    assert abs(time.time() - (replies["k"].asked_at or 0)) < 3600


def test_failed_calls_are_not_stored(file: Path) -> None:
    """A refusal and a reply without text are answers; an error is none."""
    cache = CallCache("reuse", file=file)
    cache.add(say(**{status: Completion(None, status) for status in CompletionStatus}))
    assert list(cache.find(ask(*CompletionStatus))) == ["OK", "REFUSED", "NO_TEXT"]


def test_update_asks_anew_and_stores(file: Path) -> None:
    """Under `update` nothing is found, and what is added replaces what was there."""
    CallCache("reuse", file=file).add(say(k=Completion("old")))
    update = CallCache("update", file=file)
    assert update.find(ask("k")) == {}
    assert update.list_known(["k"]) == set()
    update.add(say(k=Completion("new")))
    assert CallCache("reuse", file=file).find(ask("k"))["k"].text == "new"


def test_no_cache_neither_reads_nor_writes(file: Path) -> None:
    """Under `no-cache` the file is not even made."""
    cache = CallCache("no-cache", file=file)
    cache.add(say(k=WHOLE))
    assert cache.find(ask("k")) == {}
    assert not file.exists()


def test_an_unknown_policy_is_refused() -> None:
    """E119 says what was meant."""
    with pytest.raises(SpecError, match="unknown cache policy 'reuze'") as caught:
        CallCache("reuze")  # type: ignore[arg-type]  # what a caller may pass
    assert (caught.value.code, caught.value.hint) == ("E119", "did you mean `reuse`?")


def test_known_keys_are_listed(file: Path) -> None:
    """`list_known` tells which keys would be found, also when they are many."""
    cache = CallCache("reuse", file=file)
    cache.add(say(**{f"k{number}": Completion("A") for number in range(0, 3000, 2)}))
    assert len(cache.list_known([f"k{number}" for number in range(3000)])) == 1500
    assert len(cache.find(ask(*(f"k{number}" for number in range(3000))))) == 1500


def write_newer(file: Path) -> None:
    """Make a cache of a later release."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA user_version = 7")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda file: file.write_bytes(b"no database at all" * 80), "file is not a database"),
        (lambda file: file.write_bytes(b"SQLite format 3\0 cut off"), "file is not a database"),
        (write_newer, "it has version 7, this release reads 4"),
        (lambda file: file.mkdir(), "Is a directory"),
    ],
)
def test_a_bad_cache_is_one_notice(file: Path, spoil: Callable[[Path], object], why: str) -> None:
    """Nothing is found, stored or raised, it is said once, and the file is left as it is."""
    file.parent.mkdir()
    spoil(file)
    content = file.is_file() and file.read_bytes()
    cache = CallCache("reuse", file=file)
    assert cache.find(ask("k")) == {}
    cache.add(say(k=WHOLE))
    (notice,) = cache.notices
    assert why in notice.message
    assert notice.message.endswith("; every call is sent")
    clear = "`answerkey cache --clear` deletes a damaged cache"
    assert notice.hint == f"free some space or correct its permissions; {clear}"
    assert (file.is_file() and file.read_bytes()) == content


def test_an_entry_that_cannot_be_read_is_asked_anew(file: Path) -> None:
    """One bad entry does not spoil the others."""
    cache = CallCache("reuse", file=file)
    cache.add(say(good=Completion("A"), bad=Completion("B"), worse=Completion("C")))
    cache.close()
    connection = sqlite3.connect(file)
    connection.execute("""UPDATE calls SET completion = '{"text"' WHERE key = 'bad'""")
    connection.execute("""UPDATE calls SET completion = '{"text": "C"}' WHERE key = 'worse'""")
    connection.commit()
    connection.close()
    assert list(cache.find(ask("good", "bad", "worse"))) == ["good"]
    assert cache.list_known(["good", "bad", "worse"]) == {"good"}
    text = f"2 records of the call cache `{file}` are damaged, and their calls are made again"
    assert [notice.message for notice in cache.notices] == [text]


def test_flipped_bits_are_never_an_answer(file: Path) -> None:
    """Whatever happens to the file, what is found is what was stored, and nothing is raised."""
    with closing(CallCache("reuse", file=file)) as cache:
        cache.add(say(**{f"k{number}": Completion(str(number)) for number in range(150)}))
    raw, notices = file.read_bytes(), 0
    for seed in range(25):
        draw = random.Random(seed)
        damaged = bytearray(raw)
        for _ in range(draw.choice([1, 10, 100, 1000])):
            damaged[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        file.write_bytes(damaged)
        with closing(CallCache("reuse", file=file)) as cache:
            replies = cache.find(ask(*(f"k{number}" for number in range(150))))
            assert all(reply.text == key.removeprefix("k") for key, reply in replies.items())
            cache.add(say(k1=Completion("1")))
            cache.measure()
            notices += len(cache.notices)
            cache.clear()
            file.unlink(missing_ok=True)
    assert notices > 12


def test_only_the_user_can_read_the_cache(file: Path) -> None:
    """The file is made with the rights 0600."""
    CallCache("reuse", file=file).add(say(k=WHOLE))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_threads_share_one_cache(file: Path) -> None:
    """Adding and finding from several threads at once loses nothing."""
    cache = CallCache("reuse", file=file)

    def work(number: int) -> int:
        keys = [f"{number}-{place}" for place in range(50)]
        for key in keys:
            cache.add(say(**{key: Completion(key)}))
        return len(cache.find(ask(*keys)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [50] * 8
    assert cache.notices == []


def test_the_file_lies_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`$XDG_CACHE_HOME` decides, else `~/.cache`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_file() == tmp_path / "answerkey" / "calls.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache_file() == tmp_path / "home" / ".cache" / "answerkey" / "calls.sqlite"


def test_processes_that_write_at_once_leave_an_intact_cache(file: Path) -> None:
    """Two processes fill a cache; one is killed, the other goes on and loses nothing."""
    script = (
        "import sys; from pathlib import Path;"
        "from answerkey.models.cache import CallCache; from answerkey.types import Completion;"
        "from answerkey.models.calls import Call;"
        "cache = CallCache('reuse', file=Path(sys.argv[1]));"
        "print('ready', flush=True);"
        "call = lambda n: Call(key=f'{sys.argv[2]}-{n}', sample_id='1', trial=0, messages=[]);"
        "[cache.add([(call(n), Completion('x' * 4000))]) for n in "
        "range(int(sys.argv[3]))];"
        "sys.exit(len(cache.notices))"
    )
    command = [sys.executable, "-c", script, str(file)]
    with subprocess.Popen([*command, "killed", "1000000"], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        assert subprocess.run([*command, "other", "200"], check=False, timeout=600).returncode == 0
        killed.kill()
    cache = CallCache("reuse", file=file)
    cache.add(say(k=Completion("A")))
    assert cache.find(ask("k"))["k"].text == "A"
    assert len(cache.list_known([f"other-{n}" for n in range(200)])) == 200
    assert cache.notices == []
    cache.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's cache folder with an entry in each cache, and files outside that links lead
    to.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "cache" / "answerkey"
    with closing(CallCache("reuse")) as cache:
        cache.add(say(k=WHOLE))
    for name in ("downloads", "runs/abc"):
        (home / name).mkdir(parents=True)
        (home / name / "file").write_text("12345")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("12345")
    (home / "downloads" / "link").symlink_to(outside)
    (home / "hub").symlink_to(outside)
    return home


def test_caches_are_listed_without_following_links(home: Path) -> None:
    """Sizes are those below the folder.

    A link in place of a cache, and journals, cannot be cleared.
    """
    results = {
        cache.name: (cache.entries, cache.size, cache.is_clearable) for cache in list_caches()
    }
    assert results.pop("calls") == (1, (home / "calls.sqlite").stat().st_size, True)
    assert results == {"downloads": (2, 5, True), "hub": (0, 0, False), "runs": (1, 5, False)}


def test_clearing_deletes_nothing_outside(home: Path, tmp_path: Path) -> None:
    """Links go, what they lead to stays; journals of runs and a link in place of a cache stay."""
    for cache in list_caches():
        clear_cache(cache)
    assert (tmp_path / "outside" / "file").read_text() == "12345"
    assert sorted(path.name for path in home.iterdir()) == ["calls.sqlite", "hub", "runs"]
    assert (home / "runs" / "abc" / "file").exists()
    assert CallCache("reuse").find(ask("k")) == {}
    assert list_caches()[0].size == 0
    for cache in list_caches():  # there is nothing left to delete
        clear_cache(cache)


def test_a_cache_that_is_not_there_is_empty(file: Path) -> None:
    """It is not made to be measured or cleared."""
    cache = CallCache("reuse", file=file)
    cache.clear()
    assert cache.measure() == (0, 0)
    assert not file.exists()


def test_a_cache_that_others_use_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E502 says so; what it holds stays."""
    monkeypatch.setattr(store, "PATIENCE", 0.01)
    use = list_caches()[0]
    with closing(sqlite3.connect(home / "calls.sqlite", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(RunError, match="database is locked") as caught:
            clear_cache(use)
    assert caught.value.code == "E502"
    assert list(CallCache("reuse").find(ask("k"))) == ["k"]


def test_a_linked_call_cache_is_not_cleared(home: Path, tmp_path: Path) -> None:
    """The file that it leads to is not in the cache folder."""
    (home / "calls.sqlite").rename(tmp_path / "elsewhere.sqlite")
    (home / "calls.sqlite").symlink_to(tmp_path / "elsewhere.sqlite")
    clear_cache(list_caches()[0])
    assert list(CallCache("reuse").find(ask("k"))) == ["k"]


def test_a_process_goes_on_while_the_cache_is_cleared(home: Path) -> None:
    """Its connection stays good."""
    assert home.is_dir()
    with closing(CallCache("reuse")) as cache:
        assert list(cache.find(ask("k"))) == ["k"]
        clear_cache(list_caches()[0])
        assert cache.find(ask("k")) == {}
        cache.add(say(k=WHOLE))
        assert list(CallCache("reuse").find(ask("k"))) == ["k"]
        assert cache.notices == []


def test_a_damaged_call_cache_is_deleted(home: Path) -> None:
    """The next call makes a new one."""
    (home / "calls.sqlite").write_bytes(b"no database at all, but long enough" * 40)
    listed = list_caches()[0]
    assert (listed.entries, listed.size) == (0, 1400)
    clear_cache(listed)
    assert not (home / "calls.sqlite").exists()


def test_what_cannot_be_deleted_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E502 says which."""
    assert home.is_dir()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(
        RunError, match=r"cannot clear the cache `.*downloads`: .*Permission denied"
    ) as caught:
        clear_cache(list_caches()[1])
    assert caught.value.code == "E502"


@pytest.mark.parametrize("is_read", [True, False])
def test_a_cache_that_breaks_in_use_is_one_notice(file: Path, is_read: bool) -> None:  # noqa: FBT001 - a column of the table
    """From then on it is as if it were empty."""
    cache = CallCache("reuse", file=file)
    cache.add(say(k=WHOLE))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TABLE calls")
    if is_read:
        assert cache.find(ask("k")) == {}
    else:
        cache.add(say(k=WHOLE))
    assert cache.find(ask("k")) == {}
    assert [notice.message.partition(": ")[2] for notice in cache.notices] == [
        "no such table: calls; every call is sent"
    ]
