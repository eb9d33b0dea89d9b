"""Laws of the process of a snippet: what it is given, what it gives, what it may not, and that it
ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from tests.processes import run_python

from answerkey.sandbox import Snippet, SnippetError, SnippetProcess, worker

#: Far more than any call here needs, however busy the machine.
SECONDS = 60.0

#: For calls that never end.
SHORT = 1.0


def make_snippet(source: str, function: str = "compute_scores") -> Snippet:
    """Return a snippet of this source."""
    return Snippet(function, source, label="scorers[0]")


def run(
    source: str,
    *calls: Sequence[object],
    function: str = "compute_scores",
    seconds: float = SECONDS,
) -> list[object]:
    """Return the outcomes of these calls, or of one."""
    snippet = make_snippet(source, function)
    with SnippetProcess(snippet, seconds=seconds, memory_bytes=256 * 1024**2) as process:
        return list(process.call_all(calls or [[{}, {}]]))


def require_ended(handle: int) -> None:
    """Require that the process of a handle ends within a minute, and close the handle."""
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    assert ended.poll(60_000)
    os.close(handle)


def find_error(source: str, *, seconds: float = SECONDS) -> SnippetError:
    """Return the error of one call."""
    outcome = run(source, seconds=seconds)[0]
    assert isinstance(outcome, SnippetError)
    return outcome


def find_load_error(source: str, *, seconds: float = SECONDS) -> SnippetError:
    """Return the error of a snippet that does not load."""
    with pytest.raises(SnippetError) as caught:
        run(source, seconds=seconds)
    assert caught.value.kind == "load"
    return caught.value


def find_children() -> set[str]:
    """Return the ids of this process's children, living or waiting to be reaped."""
    result = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if status.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                result.add(status.parent.name)
    return result


COPYING = (
    "import copy\ndef compute_scores(sample):\n    one = copy.deepcopy(sample)\n    "
    "one.meta['x'] = 2\n"
    "    return [sample.meta.x, one.meta.x, copy.copy(sample) == sample]\n"
)
DATACLASS = """
from __future__ import annotations
import pickle
from dataclasses import dataclass
from typing import ClassVar
@dataclass
class Point:
    x: int
    k: ClassVar[int] = 1
def compute_scores(s):
    return pickle.loads(pickle.dumps(Point(s['n']))).x
"""


@pytest.mark.parametrize(
    ("source", "arguments", "value"),
    [
        ("def compute_scores(a, b): return {'x': a['n'] + b['m']}", [{"n": 1}, {"m": 2}], {"x": 3}),
        # A function of one parameter gets the sample alone, one of `*arguments` gets both.
        ("def compute_scores(sample): return sample", [{"n": 1}, {}], {"n": 1}),
        ("def compute_scores(sample, *, strict=False): return sample", [{"n": 1}, {}], {"n": 1}),
        ("def compute_scores(s, /): return s", [{"n": 1}, {}], {"n": 1}),
        ("def compute_scores(*a): return len(a)", [{}, {}], 2),
        ("def compute_scores(s): return 'é🙂'", [{}, {}], "é🙂"),
        # A column named as a method of dicts is read with brackets; its dots mean the method.
        (
            "def compute_scores(s): return [s['items'], callable(s.items)]",
            [{"items": 3}],
            [3, True],
        ),
        ("def compute_scores(s): return s['d']", [{"d": date(2026, 11, 5)}, {}], "2026-11-05"),
        (COPYING, [{"meta": {"x": 1}}, {}], [1, 2, True]),
        (DATACLASS, [{"n": 4}, {}], 4),
        (
            "import sys\ndef compute_scores(s):\n    print('')\n    return sys.stdin.read()",
            [{}],
            "",
        ),
        ("import os\ndef compute_scores(s):\n    os.fork()\n    return s['n']", [{"n": 1}, {}], 1),
    ],
)
def test_functions_give_their_value(source: str, arguments: list[object], value: object) -> None:
    """Once for each call, with what it asks for.

    Printing is harmless, and standard input is empty.
    """
    assert run(source, arguments, arguments) == [value, value]


ODD = "class Odd(Exception):\n def __str__(self): raise EOFError\ndef compute_scores(s): raise Odd"
DEEP = "def compute_scores(s):\n v = []\n for _ in range(100000):\n  v = [v]\n return v"
FAILING = (
    "class Odd(dict):\n def items(self): raise OSError\ndef compute_scores(s): return Odd(a=1)"
)
DEAF = (
    "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\ndef compute_scores(s):\n    while True: pass\n"
)
BIG_FILE = "def compute_scores(s):\n with open('big', 'wb') as f:\n  f.write(bytes(32 << 20))"
SLOW = "the snippet took longer than its limit of 1 s"
ENDED = "the snippet's process ended: exit code"
NOT_JSON = "the snippet returned a value that is not plain JSON"
INTRUDER = (
    "import os, stat\ndef compute_scores(s):\n    for fd in range(3, 512):\n        try:\n"
    "            if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, FRAME)\n"
    "        except OSError: pass\n"
)


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("import time\ndef compute_scores(s): time.sleep(60)", "timeout", SLOW),
        (DEAF, "timeout", SLOW),
        ("def compute_scores(s):\n    while True: print('x' * 1000)", "timeout", SLOW),
        (ODD, "raised", ""),
        ("def compute_scores(s): return {}['x']", "raised", "KeyError: 'x'"),
        ("import sys\ndef compute_scores(s): sys.exit(2)", "raised", "SystemExit: 2"),
        (BIG_FILE, "raised", "OSError"),
        (DEEP, "bad_value", f"{NOT_JSON} (RecursionError"),
        (FAILING, "bad_value", NOT_JSON),
        ("import os\ndef compute_scores(s): os._exit(0)", "crashed", f"{ENDED} 0"),
        ("import os\ndef compute_scores(s): os.kill(os.getpid(), 11)", "crashed", f"{ENDED} -11"),
        ("import os\ndef compute_scores(s): os.closerange(0, 4096)", "crashed", ""),
        # What writes into the private connection is told, not believed.
        (INTRUDER.replace("FRAME", "bytes(7) + b'\\x02{}'"), "crashed", "the snippet corrupted"),
        (INTRUDER.replace("FRAME", "bytes(7) + b'\\x02}{'"), "crashed", "the snippet corrupted"),
        (INTRUDER.replace("FRAME", "b'\\xff' * 64"), "bad_value", "the snippet returned more than"),
    ],
)
def test_a_failed_call_is_reported_with_its_cause(source: str, kind: str, message: str) -> None:
    """Timeouts, exceptions, invalid values and dead processes, each by its kind."""
    problem = find_error(source, seconds=SHORT if kind == "timeout" else SECONDS)
    assert problem.kind == kind
    assert problem.message.startswith(message)


UNFIT = "`compute_scores({})` cannot be called with the arguments it is given"
LOADING = "while the snippet was loaded"


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("x = 1", "the snippet defines no function `compute_scores`", ""),
        ("def compute_scores(): return 1", UNFIT.format(""), ""),
        ("def compute_scores(a, b, c): return 1", UNFIT.format("a, b, c"), ""),
        ("def compute_scores(a, *, b): return 1", UNFIT.format("a, *, b"), ""),
        ("while True: pass", f"{SLOW} while it was loaded", ""),
        ("import os\nos._exit(4)", f"{ENDED} 4 while it was loaded", ""),
        ("def compute_scores(s)", f"SyntaxError {LOADING}", 'File "<scorers[0]>", line 1'),
        ("import no_module_here", f"ModuleNotFoundError {LOADING}", "import no_module_here"),
    ],
)
def test_a_snippet_that_does_not_load_is_found_first(source: str, message: str, line: str) -> None:
    """No function, one that cannot take the arguments, no Python, no end: with the line if there is
    one.
    """
    problem = find_load_error(source, seconds=SHORT if "while" in source else SECONDS)
    assert problem.message == message
    assert line in problem.traceback


def test_solver_output_is_read_with_dots_or_brackets() -> None:
    """Arguments are OpenAI-like objects: dots reach as deep as brackets do, and they stay dicts."""
    source = (
        "def compute_scores(sample, solver_output):\n"
        "    return [solver_output.output.choices[0].message.content,\n"
        "            solver_output['output']['choices'][0]['message']['content'],\n"
        "            solver_output.output.usage.completion_tokens, "
        "solver_output.messages[-1].role,\n"
        "            sample.meta.topic, sample.get('none', 7), sorted(sample.items()),\n"
        "            isinstance(sample, dict), sample]\n"
    )
    message = {"role": "assistant", "content": "B"}
    output = {"choices": [{"message": message}], "usage": {"completion_tokens": 1}}
    sample = {"meta": {"topic": "art"}}
    (value,) = run(source, [sample, {"output": output, "messages": [message]}])
    assert value == ["B", "B", 1, "assistant", "art", 7, [["meta", {"topic": "art"}]], True, sample]


def test_a_missing_key_after_a_dot_is_named_with_the_existing_keys() -> None:
    """An unknown key is an AttributeError that lists the keys."""
    (problem,) = run("def compute_scores(sample):\n    return sample.anser", [{"answer": "A"}, {}])
    assert isinstance(problem, SnippetError)
    assert problem.message == "AttributeError: there is no key 'anser'; keys: 'answer'"


def test_function_may_be_async() -> None:
    """An async function is awaited, every time on the same loop."""
    source = (
        "import asyncio\nloops = set()\n"
        "async def compute_scores(sample):\n"
        "    await asyncio.sleep(0)\n"
        "    loops.add(id(asyncio.get_running_loop()))\n"
        "    return [sample['n'], len(loops)]\n"
    )
    assert run(source, [{"n": 1}, {}], [{"n": 2}, {}]) == [[1, 1], [2, 1]]


def test_scores_have_attributes_and_brackets() -> None:
    """`compute_metrics` reaches values and metadata as attributes and by brackets alike."""
    source = (
        "def compute_metrics(scores):\n    one = scores[0]\n"
        "    return [one.values['x'], one['values']['x'], one.values.x, one.metadata['m'],\n"
        "            sorted(one.keys()), 'values' in one, len(scores), one.get('nothing', 7)]\n"
    )
    scores = [{"values": {"x": 1.0}, "metadata": {"m": "VALID"}}, {"values": {"x": 0.0}}]
    (value,) = run(source, [scores], function="compute_metrics")
    assert value == [1.0, 1.0, 1.0, "VALID", ["metadata", "values"], True, 2, 7]


def test_many_calls_come_back_in_order() -> None:
    """Calls beyond one batch keep their order."""
    calls = [[{"n": n}, {}] for n in range(250)]
    assert run("def compute_scores(sample):\n    return sample['n']", *calls) == list(range(250))


def test_exception_shows_only_the_users_lines() -> None:
    """A traceback begins at the snippet's first own line and shows its source."""
    problem = find_error(
        "def inner():\n    return 1 / 0\n\ndef compute_scores(sample):\n    return inner()"
    )
    assert (problem.kind, problem.message) == ("raised", "ZeroDivisionError: division by zero")
    assert 'File "<scorers[0]>", line 5, in compute_scores\n    return inner()' in problem.traceback
    assert 'File "<scorers[0]>", line 2, in inner\n    return 1 / 0' in problem.traceback
    assert problem.traceback.endswith("ZeroDivisionError: division by zero")
    assert "worker" not in problem.traceback
    assert str(problem) == f"{problem.message}\n{problem.traceback}"


FULL = "the snippet ran out of memory; its limit is 256 MiB"
CHAINED = "try: {}['k']\n    except KeyError as e: raise ValueError('bad') from e"


@pytest.mark.parametrize(
    ("source", "parts", "frames"),
    [
        ("async def compute_scores(s):\n    raise ValueError('no')", ["ValueError: no"], 1),
        (f"def compute_scores(s):\n    {CHAINED}", ["KeyError: 'k'", "ValueError: bad"], 2),
        # Deep recursion is told in at most about 8,000 characters.
        ("def compute_scores(s):\n    return compute_scores([s])", ["RecursionError"], None),
    ],
)
def test_no_frame_but_the_users_is_shown(source: str, parts: list[str], frames: int | None) -> None:
    """Neither those of the event loop nor ours.

    The exception that led to another stands before it.
    """
    traceback = find_error(source).traceback
    places = [traceback.index(part) for part in parts]
    assert places == sorted(places)
    assert frames is None or traceback.count("File ") == frames
    assert "worker" not in traceback
    assert len(traceback) < 8100


@pytest.mark.parametrize(
    ("body", "seconds", "kind", "message"),
    [
        ("1 // 0", SECONDS, "raised", "ZeroDivisionError: "),
        ("time.sleep(60)", 3.0, "timeout", "the snippet took longer than its limit of 3 s"),
        ("os._exit(1)", SECONDS, "crashed", "the snippet's process ended: exit code 1"),
        ("bytearray(10**9)", SECONDS, "memory", FULL),
        ("while True: kept.append(bytearray(1 << 20))", SECONDS, "memory", FULL),
    ],
)
def test_one_failure_leaves_other_calls(body: str, seconds: float, kind: str, message: str) -> None:
    """The values before it are kept.

    The call after it has a new process unless it merely raised.
    """
    source = (
        "import os, time\nseen = []\ndef compute_scores(s):\n    seen.append(1)\n    kept = []\n"
        f"    if s['n'] == 1:\n        {body}\n    return [s['n'], len(seen)]\n"
    )
    first, second, third = run(source, *([{"n": n}, {}] for n in range(3)), seconds=seconds)
    assert first == [0, 1]
    assert third in ([2, 3], [2, 1])
    assert isinstance(second, SnippetError)
    assert second.kind == kind
    assert second.message.startswith(message)
    assert kind in {"timeout", "crashed"} or "line 7, in compute_scores" in second.traceback
    assert kind != "raised" or third == [2, 3]


def test_working_folder_is_empty_and_goes_away() -> None:
    """A snippet works in a new folder that is removed with its process."""
    source = (
        "import os\ndef compute_scores(s):\n    before = os.listdir()\n    open('x', 'w').close()\n"
        "    return [os.getcwd(), before]\n"
    )
    with SnippetProcess(make_snippet(source)) as process:
        value = process.call([{}, {}])
        assert isinstance(value, list)
        folder = Path(value[0])
        assert value[1] == []
        assert folder.exists()
    assert not folder.exists()


def test_no_process_is_left() -> None:
    """After use, after an error and after a failed start no child process is left, living or
    dead.
    """
    before = find_children()
    find_error("import os\ndef compute_scores(s):\n    os._exit(3)")
    find_error("import time\ndef compute_scores(s):\n    time.sleep(60)", seconds=SHORT)
    find_load_error("x = 1")
    assert find_children() == before


def test_forgotten_process_ends_with_its_owner() -> None:
    """A process that was never closed ends when its owner is gone."""
    before = find_children()
    process = SnippetProcess(make_snippet("def compute_scores(s):\n    return 1"))
    assert process.call([{}, {}]) == 1
    assert len(find_children() - before) == 1
    del process
    assert find_children() == before


def test_interpreter_that_leaves_takes_the_process_with_it(tmp_path: Path) -> None:
    """A program that ends without closing leaves no process and no folder."""
    program = (
        "from answerkey.sandbox import Snippet, SnippetProcess\n"
        "p = SnippetProcess(Snippet('compute_scores', 'import os\\ndef compute_scores(s):\\n"
        "    return [os.getpid(), os.getcwd()]'))\n"
        "print(*p.call([{}, {}]))\n"
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    pid, folder = run_python(script, check=True).stdout.split()
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(folder).exists()


@pytest.mark.parametrize("body", ["return [os.getpid(), os.getcwd()]", "time.sleep(600)"])
def test_killed_program_leaves_no_process_and_no_folder(body: str, tmp_path: Path) -> None:
    """A worker whose parent is killed ends, idle or in the middle of a call, and removes its
    folder.
    """
    program = (
        "import os\nfrom answerkey.sandbox import Snippet, SnippetProcess\n"
        "p = SnippetProcess(Snippet('compute_scores', 'import os, time\\n"
        f"def compute_scores(s):\\n    {body}'), seconds=600)\n"
        "p.__enter__()\nprint(p._worker._process.pid, flush=True)\np.call([{}, {}])\n"
        "os.read(0, 1)\n"
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    folders = tmp_path / "folders"
    folders.mkdir()
    environment = {**os.environ, "TMPDIR": str(folders)}
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        worker_id = int(parent.stdout.readline())
        assert len(list(folders.iterdir())) == 1
        handle = os.pidfd_open(worker_id)
        parent.kill()
    require_ended(handle)
    assert list(folders.iterdir()) == []


def test_closed_process_can_be_called_again() -> None:
    """Closing is not the end: a later call starts anew."""
    process = SnippetProcess(make_snippet("def compute_scores(s):\n    return 1"))
    assert process.call([{}, {}]) == 1
    process.close()
    assert process.call([{}, {}]) == 1
    process.close()
    process.close()


def test_nothing_of_the_environment_reaches_the_snippet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no PYTHONPATH, and no module of the working folder."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-seen")
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    (value,) = run(
        "import os, sys\ndef compute_scores(s):\n    return [list(os.environ), sys.path]"
    )
    assert isinstance(value, list)
    names, paths = value
    threads = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"}
    assert set(names) <= {"HOME", "TMPDIR", "LC_CTYPE", "LD_LIBRARY_PATH", *threads}
    assert {"/somewhere/else", str(Path.cwd())}.isdisjoint(paths)


def test_the_end_of_a_process_with_a_living_child_is_noticed() -> None:
    """A child that keeps the connection open does not turn a death into a timeout."""
    source = "import os, time\ndef compute_scores(s):\n os.fork() or time.sleep(60)\n os._exit(5)"
    process = SnippetProcess(make_snippet(source), seconds=SECONDS)
    with process, pytest.raises(SnippetError) as caught:
        process.call([{}, {}])
    assert (caught.value.kind, caught.value.message) == ("crashed", f"{ENDED} 5")


def test_closing_ends_the_children_of_the_snippet() -> None:
    """Processes that the snippet has started end with it."""
    source = "import os, time\ndef compute_scores(s):\n return os.fork() or time.sleep(60)"
    with SnippetProcess(make_snippet(source), seconds=SECONDS) as process:
        child = process.call([{}, {}])
        assert isinstance(child, int)
        handle = os.pidfd_open(child)
    require_ended(handle)


NO_NUMBER = f"{NOT_JSON} (ValueError: Out of range float values are not JSON compliant)"
SPOILED = {
    "float('nan')": NO_NUMBER,
    "{'a': [float('inf')]}": NO_NUMBER,
    "{1, 2}": f"{NOT_JSON} (TypeError: set is not JSON)",
    "object": f"{NOT_JSON} (TypeError: type is not JSON)",
    "{(1, 2): 3}": f"{NOT_JSON} (TypeError: keys must be str, int, float, bool or None, not tuple)",
    "'\\ud800'": (
        f"{NOT_JSON} (UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud800' "
        "in position 11: surrogates not allowed)"
    ),
    "loop": f"{NOT_JSON} (ValueError: Circular reference detected)",
}


def test_a_value_that_cannot_be_sent_is_reported() -> None:
    """Only plain JSON comes back: no NaN, no infinity, no foreign object."""
    values = f"[{', '.join(SPOILED)}]"
    source = f"loop = []\nloop.append(loop)\ndef compute_scores(s):\n    return {values}[s['n']]"
    problems = run(source, *([{"n": n}, {}] for n in range(len(SPOILED))))
    reported = [
        (error.kind, error.message) for error in problems if isinstance(error, SnippetError)
    ]
    assert reported == [("bad_value", message) for message in SPOILED.values()]


def test_arguments_beyond_the_memory_limit_are_reported() -> None:
    """Arguments that the process cannot hold are an error of memory, not a death."""
    snippet = make_snippet(
        "def compute_metrics(scores):\n    return len(scores)", "compute_metrics"
    )
    scores = [{"values": {"x": 1.0}, "metadata": {}}] * 400_000
    small = SnippetProcess(snippet, memory_bytes=64 * 1024**2)
    with small as process, pytest.raises(SnippetError) as caught:
        process.call([scores])
    assert caught.value.kind == "memory"


can_refuse = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in worker.NETWORK_CALLS,
    reason="this system cannot refuse sockets to a process",
)

#: What each of them does, and the words that tell that it was refused.
ATTEMPTS = {
    "import socket; socket.socket()": "PermissionError: [Errno 13] Permission denied",
    "import socket; socket.socket(socket.AF_UNIX)": "PermissionError: [Errno 13] Permission denied",
    "import socket; socket.getaddrinfo('example.invalid', 80)": "gaierror",
    "import urllib.request as r; r.urlopen('http://127.0.0.1:9/')": "<urlopen error [Errno 13]",
    "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', 9))": "PermissionError: [Errno 13]",  # noqa: E501 - one case a line
}


def call(body: str, function: str = "compute_scores") -> object:
    """Return what a snippet gives, or its error."""
    source = f"def {function}(first, second=None):\n    {body}\n    return {{'said': 1}}\n"
    with SnippetProcess(Snippet(function, source), seconds=60) as process:
        return next(process.call_all([[{}, {}]]))


@can_refuse
@pytest.mark.parametrize("body", ATTEMPTS)
def test_a_snippet_reaches_nobody(body: str) -> None:
    """Every way to a socket is refused."""
    problem = call(body)
    assert isinstance(problem, SnippetError)
    assert problem.kind == "raised"
    assert ATTEMPTS[body] in problem.message


@can_refuse
def test_children_of_a_snippet_reach_nobody() -> None:
    """The children of a snippet have no network either."""
    body = (
        "import subprocess, sys; return {'said': subprocess.run("
        "[sys.executable, '-c', 'import socket; socket.socket()'], "
        "capture_output=True, text=True).stderr}"
    )
    result = call(body)
    assert isinstance(result, dict)
    assert "PermissionError" in str(result["said"])


def test_a_snippet_that_acts_as_a_model_may_use_the_network() -> None:
    """`infer` gets its sockets."""
    assert call("import socket; socket.socket().close()", function="infer") == {"said": 1}


def test_print_flood_breaks_nothing() -> None:
    """What a snippet prints goes elsewhere than its values, however much it is."""
    source = (
        "import sys\ndef compute_scores(s):\n    for n in range(3000):\n"
        "        print('{\"value\": 0}' * 100)\n    print('é end')\n    "
        "sys.stdout.flush()\n    1 / 0\n"
    )
    assert find_error(source).kind == "raised"
