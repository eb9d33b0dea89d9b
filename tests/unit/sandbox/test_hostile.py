from __future__ import annotations

import os
import select
from collections.abc import Sequence
from pathlib import Path

import pytest

from answerkey.sandbox import Snippet, SnippetProcess, SnippetTrouble

#: Far more than any call here needs, however busy the machine.
SECONDS = 60.0
#: For calls that never end.
SHORT = 1.0
MEMORY_BYTES = 256 * 1024**2


def make_snippet(source: str, function: str = "compute_scores") -> Snippet:
    """Return a snippet of this source."""
    return Snippet(function, source, label="scorers[0]")


def run(
    source: str, *calls: Sequence[object], function: str = "compute_scores", seconds: float = SECONDS
) -> list[object]:
    """Return the outcomes of these calls, or of one."""
    snippet = make_snippet(source, function)
    with SnippetProcess(snippet, seconds=seconds, memory_bytes=MEMORY_BYTES) as process:
        return list(process.call_all(calls or [[{}, {}]]))


def find_trouble(source: str, *, seconds: float = SECONDS) -> SnippetTrouble:
    """Return the trouble of one call."""
    outcome = run(source, seconds=seconds)[0]
    assert isinstance(outcome, SnippetTrouble)
    return outcome


def test_endless_loop_is_a_timeout() -> None:
    """A call that does not end is ended after its time, and the next has a new process."""
    source = "def compute_scores(sample):\n    while sample['n']:\n        pass\n    return 'done'"
    first, second, third = run(source, [{"n": 0}, {}], [{"n": 1}, {}], [{"n": 0}, {}], seconds=3.0)
    assert (first, third) == ("done", "done")
    assert isinstance(second, SnippetTrouble)
    assert (second.kind, second.message) == ("timeout", "the snippet took longer than its limit of 3 s")


def test_blocking_call_is_a_timeout() -> None:
    """A call that waits without using the CPU is ended too."""
    assert (
        find_trouble("import time\ndef compute_scores(s):\n    time.sleep(60)", seconds=SHORT).kind
        == "timeout"
    )


def test_ignored_signals_do_not_help_a_loop() -> None:
    """A snippet that ignores signals is ended all the same."""
    source = (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "def compute_scores(s):\n    while True:\n        pass\n"
    )
    assert find_trouble(source, seconds=SHORT).kind == "timeout"


def test_memory_hog_is_told() -> None:
    """More memory than allowed is a trouble of its own kind, with the line."""
    trouble = find_trouble("def compute_scores(sample):\n    return len(bytearray(10**9))")
    assert trouble.kind == "memory"
    assert trouble.message == "the snippet ran out of memory; its limit is 256 MiB"
    assert "line 2, in compute_scores" in trouble.traceback


def test_growing_list_is_told() -> None:
    """Memory that grows bit by bit ends in the same trouble, and the next call works."""
    source = (
        "def compute_scores(sample):\n    kept = []\n    while sample['n']:\n"
        "        kept.append(bytearray(1 << 20))\n    return 'done'\n"
    )
    first, second = run(source, [{"n": 1}, {}], [{"n": 0}, {}])
    assert isinstance(first, SnippetTrouble)
    assert first.kind == "memory"
    assert second == "done"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("os._exit(3)", "the snippet's process ended: exit code 3"),
        ("os._exit(0)", "the snippet's process ended: exit code 0"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the snippet's process ended: signal SIGSEGV"),
        ("os.abort()", "the snippet's process ended: signal SIGABRT"),
    ],
)
def test_death_is_told_with_its_cause(statement: str, message: str) -> None:
    """A process that ends by itself is told by exit code or signal."""
    trouble = find_trouble(f"import os, signal\ndef compute_scores(s):\n    {statement}")
    assert (trouble.kind, trouble.message) == ("died", message)


def test_death_leaves_the_other_calls() -> None:
    """The call after a death runs in a new process; the values before it are kept."""
    source = "import os\ndef compute_scores(s):\n    return os._exit(1) if s['n'] == 1 else s['n']"
    first, second, third = run(source, [{"n": 0}, {}], [{"n": 1}, {}], [{"n": 2}, {}])
    assert (first, third) == (0, 2)
    assert isinstance(second, SnippetTrouble)


def test_sys_exit_is_an_exception() -> None:
    """`sys.exit` ends the call, not the process, and shows where it was called."""
    trouble = find_trouble("import sys\ndef compute_scores(s):\n    sys.exit(2)")
    assert (trouble.kind, trouble.message) == ("raised", "SystemExit: 2")
    assert "line 3, in compute_scores" in trouble.traceback


def test_print_flood_breaks_nothing() -> None:
    """What a snippet prints goes elsewhere than its values, however much it is; the end is kept."""
    source = (
        "import sys\ndef compute_scores(s):\n    for n in range(3000):\n"
        "        print('{\"value\": 0}' * 100)\n    print('é end')\n    sys.stdout.flush()\n    1 / 0\n"
    )
    trouble = find_trouble(source)
    assert trouble.kind == "raised"
    assert trouble.output.endswith("é end\n")
    assert len(trouble.output) <= 4000


def test_endless_print_flood_is_a_timeout() -> None:
    """A flood that never ends is ended after its time."""
    source = "def compute_scores(s):\n    while True:\n        print('x' * 1000)"
    assert find_trouble(source, seconds=SHORT).kind == "timeout"


def test_snippet_may_print_and_read_nothing() -> None:
    """Printing is harmless and standard input is empty."""
    source = "import sys\ndef compute_scores(s):\n    print('hi')\n    return sys.stdin.read()"
    assert run(source) == [""]


def test_environment_holds_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's environment does not reach the snippet."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-seen")
    (names,) = run("import os\ndef compute_scores(s):\n    return sorted(os.environ)")
    assert isinstance(names, list)
    threads = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"}
    assert set(names) <= {"HOME", "TMPDIR", "LC_CTYPE", "LD_LIBRARY_PATH", *threads}


def test_python_settings_of_the_caller_do_not_reach_the_snippet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's PYTHONPATH and working folder are not searched for modules."""
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    (paths,) = run("import sys\ndef compute_scores(s):\n    return sys.path")
    assert isinstance(paths, list)
    assert "/somewhere/else" not in paths
    assert str(Path.cwd()) not in paths


def test_fork_answers_once() -> None:
    """A snippet that forks gives one value for each call, and nothing of it stays."""
    source = "import os\ndef compute_scores(s):\n    os.fork()\n    return s['n']"
    assert run(source, [{"n": 1}, {}], [{"n": 2}, {}]) == [1, 2]


def test_death_with_a_living_child_is_told_as_death() -> None:
    """A child that keeps the connection open does not turn a death into a timeout."""
    source = "import os, time\ndef compute_scores(s):\n    os.fork() or time.sleep(60)\n    os._exit(5)\n"
    process = SnippetProcess(make_snippet(source), seconds=SECONDS)
    with process, pytest.raises(SnippetTrouble) as caught:
        process.call([{}, {}])
    assert (caught.value.kind, caught.value.message) == ("died", "the snippet's process ended: exit code 5")


def test_closing_ends_what_the_snippet_started() -> None:
    """Processes that the snippet has started end with it."""
    source = "import os, time\ndef compute_scores(s):\n    pid = os.fork()\n    return pid or time.sleep(60)"
    with SnippetProcess(make_snippet(source), seconds=SECONDS) as process:
        child = process.call([{}, {}])
        assert isinstance(child, int)
        handle = os.pidfd_open(child)
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    assert ended.poll(60_000)
    os.close(handle)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("float('nan')", "the snippet returned NaN or an infinity"),
        ("{'a': [float('inf')]}", "the snippet returned NaN or an infinity"),
        ("{1, 2}", "the snippet returned a value that is not plain JSON (TypeError: set is not JSON)"),
        ("object", "the snippet returned a value that is not plain JSON (TypeError: type is not JSON)"),
        ("{(1, 2): 3}", "the snippet returned a value that is not plain JSON"),
        ("'\\ud800'", "the snippet returned text that is not valid Unicode"),
        ("loop", "the snippet returned a value that holds itself"),
    ],
)
def test_value_that_cannot_be_passed_on_is_told(value: str, message: str) -> None:
    """Only plain JSON comes back: no NaN, no infinity, no foreign object."""
    trouble = find_trouble(f"loop = []\nloop.append(loop)\ndef compute_scores(s):\n    return {value}")
    assert trouble.kind == "bad_value"
    assert trouble.message.startswith(message)


def test_value_nested_too_deeply_is_told() -> None:
    """A value that JSON cannot hold for its depth is a bad value."""
    source = "def compute_scores(s):\n    v = []\n    for _ in range(100000):\n        v = [v]\n    return v"
    assert find_trouble(source).kind == "bad_value"


def test_value_whose_class_fails_is_told() -> None:
    """A class that raises while it is read makes a bad value, not a death."""
    source = (
        "class Odd(dict):\n    def items(self):\n        raise OSError('no')\n"
        "def compute_scores(s):\n    return Odd(a=1)\n"
    )
    assert find_trouble(source).kind == "bad_value"


def test_writing_big_files_fails() -> None:
    """A file beyond the limit is an error of the snippet."""
    source = (
        "def compute_scores(s):\n    with open('big', 'wb') as f:\n"
        "        for _ in range(32):\n            f.write(bytes(1 << 20))\n"
    )
    assert find_trouble(source).message.startswith("OSError")


def test_broken_connection_is_a_death() -> None:
    """A snippet that writes into the private connection is told, not believed."""
    source = (
        "import os, stat\ndef compute_scores(s):\n    for fd in range(3, 512):\n        try:\n"
        "            if stat.S_ISSOCK(os.fstat(fd).st_mode):\n                os.write(fd, FRAME)\n"
        "        except OSError:\n            pass\n"
    )
    for frame in ("bytes(7) + b'\\x02{}'", "b'\\xff' * 64", "bytes(7) + b'\\x02}{'"):
        assert find_trouble(source.replace("FRAME", frame)).kind in {"died", "bad_value"}


def test_closed_connection_is_a_death() -> None:
    """A snippet that closes every descriptor is told as dead."""
    assert find_trouble("import os\ndef compute_scores(s):\n    os.closerange(0, 64)").kind == "died"


def test_arguments_beyond_the_memory_are_told() -> None:
    """Arguments that the process cannot hold are a trouble with memory, not a death."""
    snippet = make_snippet("def compute_metrics(scores):\n    return len(scores)", "compute_metrics")
    scores = [{"values": {"x": 1.0}, "metadata": {}}] * 400_000
    with (
        SnippetProcess(snippet, memory_bytes=64 * 1024**2) as process,
        pytest.raises(SnippetTrouble) as caught,
    ):
        process.call([scores])
    assert caught.value.kind == "memory"
