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


def find_load_trouble(source: str, *, seconds: float = SECONDS) -> SnippetTrouble:
    """Return the trouble of a snippet that does not load."""
    with pytest.raises(SnippetTrouble) as caught:
        run(source, seconds=seconds)
    assert caught.value.kind == "load"
    return caught.value


def find_children() -> set[str]:
    """Return the ids of this process's children, living or waiting to be reaped."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if status.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(status.parent.name)
    return found


def test_function_sees_sample_and_solver_output() -> None:
    """Two parameters get the sample and the solver's output as dicts."""
    source = "def compute_scores(sample, solver_output):\n    return {'x': sample['a'] + solver_output['b']}"
    assert run(source, [{"a": 1}, {"b": 2}]) == [{"x": 3}]


def test_solver_output_is_read_with_dots_or_brackets() -> None:
    """Arguments are OpenAI-like objects: dots reach as deep as brackets do, and they stay dicts."""
    source = (
        "def compute_scores(sample, solver_output):\n"
        "    return [solver_output.output.choices[0].message.content,\n"
        "            solver_output['output']['choices'][0]['message']['content'],\n"
        "            solver_output.output.usage.completion_tokens, solver_output.messages[-1].role,\n"
        "            sample.meta.topic, sample.get('none', 7), sorted(sample.items()),\n"
        "            isinstance(sample, dict), sample]\n"
    )
    message = {"role": "assistant", "content": "B"}
    output = {"choices": [{"message": message}], "usage": {"completion_tokens": 1}}
    sample = {"meta": {"topic": "art"}}
    (value,) = run(source, [sample, {"output": output, "messages": [message]}])
    assert value == ["B", "B", 1, "assistant", "art", 7, [["meta", {"topic": "art"}]], True, sample]


def test_method_of_a_dict_wins_over_a_key_of_that_name() -> None:
    """A column named as a method of dicts is read with brackets; its dots mean the method."""
    source = "def compute_scores(sample):\n    return [sample['items'], callable(sample.items)]"
    assert run(source, [{"items": 3}, {}]) == [[3, True]]


def test_missing_key_after_a_dot_is_named_with_the_keys_there_are() -> None:
    """A name that is no key is an AttributeError that lists the keys."""
    (trouble,) = run("def compute_scores(sample):\n    return sample.anser", [{"answer": "A"}, {}])
    assert isinstance(trouble, SnippetTrouble)
    assert trouble.message == "AttributeError: there is no key 'anser'; keys: 'answer'"


def test_arguments_can_be_copied() -> None:
    """Copies are independent of what was copied, however deep."""
    source = (
        "import copy, pickle\ndef compute_scores(sample):\n    one = copy.deepcopy(sample)\n"
        "    one.meta['x'] = 2\n    return [sample.meta.x, one.meta.x, copy.copy(sample) == sample]\n"
    )
    assert run(source, [{"meta": {"x": 1}}, {}]) == [[1, 2, True]]


@pytest.mark.parametrize(
    "signature",
    ["sample", "sample, *, strict=False", "sample, /", "s"],
)
def test_function_with_one_parameter_sees_the_sample(signature: str) -> None:
    """A function of one parameter gets the sample alone."""
    name = signature.partition(",")[0]
    assert run(f"def compute_scores({signature}):\n    return {name}", [{"a": 1}, {"b": 2}]) == [{"a": 1}]


def test_function_may_take_any_number_of_arguments() -> None:
    """A function of `*arguments` gets both."""
    assert run("def compute_scores(*a):\n    return len(a)", [{}, {}]) == [2]


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
        "def compute_metrics(scores):\n"
        "    one = scores[0]\n"
        "    return {'a': one.values['x'], 'b': one['values']['x'], 'c': one.metadata['m'],\n"
        "            'd': one.get('metadata')['m'], 'e': sorted(one.keys()), 'f': 'values' in one,\n"
        "            'g': len(scores), 'h': one.get('nothing', 7), 'i': sorted(one), 'j': len(one),\n"
        "            'k': one.values.x, 'l': one.metadata.get('m'), 'm': repr(one)[:6]}\n"
    )
    scores = [{"values": {"x": 1.0}, "metadata": {"m": "VALID"}}, {"values": {"x": 0.0}, "metadata": {}}]
    assert run(source, [scores], function="compute_metrics") == [
        {
            "a": 1.0,
            "b": 1.0,
            "c": "VALID",
            "d": "VALID",
            "e": ["metadata", "values"],
            "f": True,
            "g": 2,
            "h": 7,
            "i": ["metadata", "values"],
            "j": 2,
            "k": 1.0,
            "l": "VALID",
            "m": "Score(",
        }
    ]


def test_many_calls_come_back_in_order() -> None:
    """Calls beyond one batch keep their order."""
    calls = [[{"n": n}, {}] for n in range(250)]
    assert run("def compute_scores(sample):\n    return sample['n']", *calls) == list(range(250))


def test_call_returns_one_value() -> None:
    """`call` gives the value itself."""
    with SnippetProcess(make_snippet("def compute_scores(s):\n    return 'é🙂'")) as process:
        assert process.call([{}, {}]) == "é🙂"


def test_call_raises_trouble() -> None:
    """`call` raises what `call_all` yields."""
    with (
        SnippetProcess(make_snippet("def compute_scores(s):\n    return {}['x']")) as process,
        pytest.raises(SnippetTrouble, match="KeyError: 'x'"),
    ):
        process.call([{}, {}])


def test_exception_shows_only_the_users_lines() -> None:
    """A traceback begins at the snippet's first own line and shows its source."""
    trouble = find_trouble(
        "def inner():\n    return 1 / 0\n\ndef compute_scores(sample):\n    return inner()"
    )
    assert trouble.kind == "raised"
    assert trouble.message == "ZeroDivisionError: division by zero"
    assert 'File "<scorers[0]>", line 5, in compute_scores\n    return inner()' in trouble.traceback
    assert 'File "<scorers[0]>", line 2, in inner\n    return 1 / 0' in trouble.traceback
    assert trouble.traceback.endswith("ZeroDivisionError: division by zero")
    assert "worker" not in trouble.traceback
    assert str(trouble) == f"{trouble.message}\n{trouble.traceback}"


def test_async_exception_shows_only_the_users_lines() -> None:
    """The frames of the event loop are left out too."""
    trouble = find_trouble("async def compute_scores(sample):\n    raise ValueError('no')")
    assert trouble.traceback.count("File ") == 1


def test_chained_exception_shows_both() -> None:
    """The exception that led to another is shown before it."""
    source = (
        "def compute_scores(sample):\n    try:\n        {}['k']\n    except KeyError as e:\n"
        "        raise ValueError('bad') from e\n"
    )
    trouble = find_trouble(source)
    assert trouble.traceback.index("KeyError: 'k'") < trouble.traceback.index("ValueError: bad")
    assert "worker" not in trouble.traceback


def test_endless_recursion_is_an_exception_with_a_short_traceback() -> None:
    """Deep recursion is told in at most about 8,000 characters."""
    trouble = find_trouble("def compute_scores(sample):\n    return compute_scores([sample])")
    assert trouble.kind == "raised"
    assert trouble.message.startswith("RecursionError")
    assert len(trouble.traceback) < 8100


def test_exception_that_cannot_be_shown_is_still_told() -> None:
    """An exception whose own text fails is a trouble like any other."""
    source = (
        "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\n"
        "def compute_scores(sample):\n    raise Odd\n"
    )
    assert find_trouble(source).kind == "raised"


def test_failure_of_one_call_leaves_the_others() -> None:
    """A call that raises takes nothing from its neighbours, nor from what the snippet remembers."""
    source = (
        "seen = []\ndef compute_scores(sample):\n    seen.append(1)\n"
        "    return [1 // sample['n'], len(seen)]\n"
    )
    first, second, third = run(source, [{"n": 1}, {}], [{"n": 0}, {}], [{"n": 2}, {}])
    assert (first, third) == ([1, 1], [0, 3])
    assert isinstance(second, SnippetTrouble)


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


def test_missing_function_is_found_at_the_start() -> None:
    """A snippet without the function does not load."""
    assert find_load_trouble("x = 1").message == "the snippet defines no function `compute_scores`"


@pytest.mark.parametrize("signature", ["", "a, b, c", "sample, *, needed"])
def test_unfit_function_is_found_at_the_start(signature: str) -> None:
    """A function that cannot take the arguments does not load."""
    message = find_load_trouble(f"def compute_scores({signature}):\n    return 1").message
    assert message.endswith("cannot be called with the arguments it is given")


def test_syntax_error_is_found_at_the_start() -> None:
    """A snippet that is not Python does not load; its line is shown."""
    trouble = find_load_trouble("def compute_scores(sample)\n    return 1")
    assert trouble.message == "SyntaxError while the snippet was loaded"
    assert 'File "<scorers[0]>", line 1' in trouble.traceback


def test_failing_import_is_found_at_the_start() -> None:
    """A module that is not there is told with the line that wants it."""
    trouble = find_load_trouble("import no_such_module_here\ndef compute_scores(s):\n    return 1")
    assert trouble.message == "ModuleNotFoundError while the snippet was loaded"
    assert "import no_such_module_here" in trouble.traceback


def test_top_level_that_does_not_end_is_found_at_the_start() -> None:
    """Loading has the time of one call."""
    message = find_load_trouble("while True:\n    pass", seconds=SHORT).message
    assert message == "the snippet took longer than its limit of 1 s while it was loaded"


def test_top_level_that_exits_is_found_at_the_start() -> None:
    """A snippet that ends its process while loading does not load."""
    message = find_load_trouble("import os\nos._exit(4)").message
    assert message == "the snippet's process ended: exit code 4 while it was loaded"


def test_no_process_is_left() -> None:
    """After use, after trouble and after a failed start no process of ours is left, living or dead."""
    before = find_children()
    find_trouble("import os\ndef compute_scores(s):\n    os._exit(3)")
    find_trouble("def compute_scores(s):\n    while True:\n        pass", seconds=SHORT)
    find_load_trouble("x = 1")
    assert find_children() == before


def test_forgotten_process_ends_with_its_owner() -> None:
    """A process that nobody closed ends when its owner is gone."""
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
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    pid, folder = ended.stdout.split()
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(folder).exists()


@pytest.mark.parametrize("body", ["return [os.getpid(), os.getcwd()]", "time.sleep(600)"])
def test_killed_program_leaves_no_process_and_no_folder(body: str, tmp_path: Path) -> None:
    """A worker whose parent is killed ends, idle or in the middle of a call, and removes its folder."""
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
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as parent:
        assert parent.stdout is not None
        worker_id = int(parent.stdout.readline())
        assert len(list(folders.iterdir())) == 1
        handle = os.pidfd_open(worker_id)
        parent.kill()
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    assert ended.poll(60_000)
    os.close(handle)
    assert list(folders.iterdir()) == []


def test_closed_process_can_be_called_again() -> None:
    """Closing is not the end: a later call starts anew."""
    process = SnippetProcess(make_snippet("def compute_scores(s):\n    return 1"))
    assert process.call([{}, {}]) == 1
    process.close()
    assert process.call([{}, {}]) == 1
    process.close()
    process.close()


def test_dates_reach_the_snippet_as_text() -> None:
    """A value without a JSON form arrives as its text."""
    day = date(2026, 11, 5)
    assert run("def compute_scores(s):\n    return s['d']", [{"d": day}, {}]) == ["2026-11-05"]


def test_snippet_may_define_dataclasses() -> None:
    """Classes that look up their own module find it."""
    source = (
        "from __future__ import annotations\nimport pickle\nfrom dataclasses import dataclass\n"
        "from typing import ClassVar\n@dataclass\nclass Point:\n    x: int\n    k: ClassVar[int] = 1\n"
        "def compute_scores(s):\n    return pickle.loads(pickle.dumps(Point(s['n']))).x\n"
    )
    assert run(source, [{"n": 4}, {}]) == [4]
