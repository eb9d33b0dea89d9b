"""Laws of rendering: no row sees anything of another, and a worker process gives the same
outcomes.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import resource
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.samples import read_cases, samples_from_frame

from answerkey.errors import Place, SpecError
from answerkey.sandbox.process import SnippetError
from answerkey.templates import RowError, Template, TemplateStopped, rendering
from answerkey.templates.rendering import Recipe, render_rows
from answerkey.templates.values import RowExcessError
from answerkey.types import Row, Samples

CASES = read_cases(__file__)


def make_samples(*encoded: str, **columns: object) -> Samples:
    """Return a table of these columns."""
    return samples_from_frame(pl.DataFrame(columns, strict=False), encoded=encoded)


def values(source: str, samples: Samples) -> list[object]:
    """Return the value of every row, its message where it is in error."""
    result = Template.compile(source).values(samples)
    return [value.message if isinstance(value, RowError) else value for value in result]


TOO_LONG = "the template makes a value of more than 10,000,000 elements or 1,000,000 parts"


@pytest.mark.parametrize(
    ("source", "columns", "expected"),
    [
        *CASES["rows"],
        ("{{ sample.x }}{{ sample.x }}", {"x": ["y" * 6_000_000, "z"]}, [TOO_LONG, "zz"]),
        ("{{ sample.x ~ sample.x }}", {"x": ["y" * 6_000_000, "z"]}, [TOO_LONG, "zz"]),
    ],
)
def test_no_row_sees_anything_of_another(
    source: str, columns: dict[str, object], expected: list[object]
) -> None:
    """Its names, its steps, its lazy values and its error are its own."""
    assert values(source, make_samples(**columns)) == expected


def test_a_lone_path_is_followed_without_jinja() -> None:
    """Through encoded cells, with the values and the errors that Jinja has."""
    samples = make_samples("x", x=['{"k": [1, 2]}', '{"k": null}', '{"j": 1}', "null", None, "3"])
    assert values("{{ sample.x.k }}", samples) == [
        [1, 2],
        None,
        "there is no field `k`",
        "null has no field `k`",
        "null has no field `k`",
        "a number has no field `k`",
    ]
    assert values("{{ sample.x.k[-1] }}", samples)[:2] == [2, "null has no element -1"]
    assert values("{{ sample.x.items }}", samples)[0] == "there is no field `items`"


def test_a_template_may_read_more_than_the_sample() -> None:
    """A missing key beside the sample is a missing field."""
    names = ("sample", "scores")
    context = {"sample": {"x": "b"}, "scores": {"s": {"v": 1}}}
    assert Template.compile("{{ sample.x ~ (scores.s.v + 1) }}", names).evaluate(**context) == "b2"
    with pytest.raises(RowError) as caught:
        Template.compile("{{ sample.x ~ scores.t }}", names).evaluate(**context)
    assert (caught.value.message, caught.value.hint) == ("there is no field `t`", "fields: `s`")


#: Not bounded, and does nothing.
UNBOUNDED = "{% set ns = namespace(x=1) %}"

ENDLESS = (
    "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
    "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}"
)


def make_recipe(source: str, *, keeps_value: bool = True) -> Recipe:
    """Return a recipe that is not bounded."""
    return Recipe(source, keeps_value=keeps_value)


def render(source: str, **sample: object) -> object:
    """Return what a worker makes of one row."""
    return render_rows(make_recipe(source), [{"sample": Row(sample)}])[0]


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(
    "value",
    [
        *("text", "", "é\n\u2028", 7, -(10**300), 1.5, True, None),
        *(["a", 1], [[1], {"a": [None]}], {"a": 1, "b": {"c": []}}, {}, []),
        *(float("inf"), {"mapping": [["a", 1]]}, {"RowError": 1}),
    ],
)
def test_values_come_back_as_they_are(value: object) -> None:
    """With their types, whatever a cell can hold."""
    result = render("{{ sample.x }}", x=value)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.usefixtures("everywhere")
def test_a_value_that_no_cell_holds_comes_back_as_text() -> None:
    """JSON has no type for it."""
    assert render("{{ [sample.x] }}", x=dt.date(2024, 2, 29)) == ["2024-02-29"]


@pytest.mark.usefixtures("everywhere")
def test_errors_come_back_whole() -> None:
    """With hint, column and all."""
    result = render("{{ sample.nothing }}", a=1)
    assert isinstance(result, RowError)
    parts = (result.message, result.hint, result.column, result.is_undefined)
    assert parts == ("`nothing` is not a column", "columns: `a`", "nothing", True)


@pytest.mark.usefixtures("everywhere")
def test_many_rows_keep_their_order() -> None:
    """In batches, with the errors in between."""
    samples = make_samples(x=list(range(3000)))
    template = Template.compile(UNBOUNDED + "{{ 10 // (sample.x % 1000) }}{{ sample.x }}")
    result = template.values(samples)
    problems = [place for place, value in enumerate(result) if isinstance(value, RowError)]
    assert problems == [0, 1000, 2000]
    assert (result[1], result[2999]) == ("101", "02999")


@pytest.mark.usefixtures("everywhere")
def test_large_rows_are_sent_a_few_at_a_time() -> None:
    """However many there are, no message is larger than the worker can hold."""
    samples = make_samples(x=["y" * 3_000_000] * 5)
    assert values(UNBOUNDED + "{{ sample.x | length }}", samples) == ["3000000"] * 5


@pytest.mark.usefixtures("everywhere")
def test_a_bounded_template_that_takes_many_steps_is_rendered_elsewhere() -> None:
    """The value is the same; only a template that takes more than all steps is refused."""
    template = Template.compile(
        "{% for i in range(9999) %}{% if i == sample.x %}{{ i }}{% endif %}{% endfor %}"
    )
    assert template.evaluate(sample={"x": 9998}) == "9998"
    assert template.values(make_samples(x=[3, 4])) == ["3", "4"]


@pytest.mark.usefixtures("everywhere")
def test_rows_that_are_large_are_rendered_elsewhere() -> None:
    """Among others, each in its place."""
    samples = make_samples(x=[["a"], ["b" * 20_000], ["c"]])
    result = values("{% for y in sample.x %}{{ y | upper }}{% endfor %}", samples)
    assert result == ["A", "B" * 20_000, "C"]


def test_a_template_that_never_ends_is_stopped() -> None:
    """After a second of computing.

    Another template is rendered as ever, and this one is not tried again.
    """
    for _ in range(2):
        with pytest.raises(TemplateStopped) as caught:
            Template.compile(ENDLESS).evaluate(sample={})
        assert (caught.value.code, caught.value.source) == ("E120", ENDLESS)
        assert "it takes more than 1 s of computing time on one row" in caught.value.message
    assert render("{{ sample.x }}", x=1) == 1


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' | center(10 ** 9) }}",
        "{% set xs = [1] %}{% for i in range(60) %}{% do xs.extend(xs) %}{% endfor %}{{ xs }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ ('a' * 5000 ~ 'c') | regex_replace('(a|aa)+$', 'x') }}",
    ],
)
def test_what_is_not_counted_is_stopped_by_the_worker(source: str) -> None:
    """Its memory or its second of computing ends."""
    with pytest.raises((RowError, TemplateStopped)):
        Template.compile(source).evaluate(sample={})


def test_a_template_that_takes_memory_without_end_is_the_rows_error() -> None:
    """The worker has its own limit, and goes on."""
    source = "{% set k = [] %}{% for i in range(999) %}{% do k.append('x' * 9999999) %}{% endfor %}"
    assert isinstance(render(source.replace("'x'", "'\U0001f600'")), RowExcessError)


@pytest.mark.usefixtures("everywhere")
def test_a_template_that_does_too_much_on_row_after_row_is_stopped() -> None:
    """On the fifth row; the first four are in error of their own."""
    samples = make_samples(x=list(range(8)))
    template = Template.compile("{{ sample.x }}{% for i in range(99999) %}xxxxxxxxxx{% endfor %}")
    assert all(isinstance(value, RowExcessError) for value in template.values(samples.slice(0, 4)))
    with pytest.raises(
        TemplateStopped, match="on 5 rows it exceeds a limit: the template makes 999,991"
    ):
        template.values(samples)


def test_an_error_that_travels_keeps_its_template() -> None:
    """Between processes, and when it is placed."""
    stopped = TemplateStopped("{{ x }}", "too slow").at(Place("task.yaml", 3))
    again = pickle.loads(pickle.dumps(stopped))  # noqa: S301 - our own
    assert (again.code, again.source, again.where) == ("E120", "{{ x }}", Place("task.yaml", 3))
    assert (again.message, again.hint) == ("the template was stopped: too slow", stopped.hint)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the process of a worker, started in an environment with a secret in it."""
    monkeypatch.setenv("SECRET_TOKEN", "this is the secret")
    monkeypatch.setattr(rendering, "_idle", [])
    assert render("{{ sample.x }}", x=1) == 1
    (process,) = rendering._idle
    return process._process.pid


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="needs /proc")
def test_the_worker_has_an_empty_environment_and_no_way_to_files(worker: int) -> None:
    """No secret is in it.

    It can open no file and no connection, write none, and start no process.
    """
    environment = Path(f"/proc/{worker}/environ").read_bytes()
    assert b"SECRET" not in environment
    assert os.environ["HOME"].encode() not in environment.replace(b"PYTHON", b"")
    limits = Path(f"/proc/{worker}/limits").read_text(encoding="utf-8").splitlines()
    results = {line[:26].strip(): line[26:].split()[:2] for line in limits}
    assert (results["Max open files"], results["Max file size"]) == (["1", "1"], ["0", "0"])
    assert (results["Max processes"], results["Max core file size"]) == (["0", "0"], ["0", "0"])
    assert int(results["Max address space"][0]) < 2**30


class Worker:
    """A worker that fails in one way, or says nonsense."""

    def __init__(self, failure: BaseException | bytes) -> None:
        self.failure = failure
        self.is_closed = False

    def send(self, payload: bytes) -> float:
        """Take a message."""
        return len(payload) / 10**9

    def receive(self, *, seconds: float) -> bytes:
        """Fail."""
        assert seconds
        if isinstance(self.failure, bytes):
            return self.failure
        raise self.failure

    def close(self) -> None:
        """End."""
        self.is_closed = True


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (
            SnippetError("crashed", "killed by signal 9"),
            "its process ended (killed by signal 9); it may have 128 MB of memory",
        ),
        (b'["what", {"is": "this"}]', "its process corrupted its connection"),
        (b"1", "its process corrupted its connection"),
    ],
)
def test_a_worker_that_dies_or_sends_nonsense_stops_the_template(
    monkeypatch: pytest.MonkeyPatch, failure: BaseException | bytes, reason: str
) -> None:
    """What it says is data: anything that is no outcome ends it."""
    worker = Worker(failure)
    monkeypatch.setattr(rendering, "_idle", [worker])
    monkeypatch.setattr(rendering, "_stopped", {})
    with pytest.raises(TemplateStopped) as caught:
        render("{{ sample.x }}", x=1)
    assert caught.value.message == f"the template was stopped: {reason}"
    assert (worker.is_closed, rendering._idle) == (True, [])


def test_an_interruption_ends_the_worker_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was about to say would be taken for the answer to the next question."""
    worker = Worker(KeyboardInterrupt())
    monkeypatch.setattr(rendering, "_idle", [worker])
    with pytest.raises(KeyboardInterrupt):
        render("{{ sample.x }}", x=1)
    assert (worker.is_closed, rendering._idle) == (True, [])


def test_a_worker_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it said, and no worker is kept."""
    worker = Worker(SnippetError("crashed", "no Python here"))
    monkeypatch.setattr(rendering, "_idle", [])
    monkeypatch.setattr(rendering, "WorkerProcess", lambda *_words: worker)
    with pytest.raises(SpecError) as caught:
        render("{{ sample.x }}", x=1)
    assert (caught.value.code, worker.is_closed) == ("E120", True)
    assert caught.value.message == "the process for templates does not start: no Python here"


class Wire:
    """A channel that keeps what is sent, and hangs up after its last message."""

    def __init__(self, *messages: bytes) -> None:
        self.sent: list[Any] = []
        self._messages = list(messages)

    def send(self, payload: bytes) -> None:
        """Keep an answer."""
        self.sent.append(json.loads(payload))

    def receive(self) -> bytes:
        """Return the next message; end like a worker whose parent is gone."""
        if not self._messages:
            raise SystemExit
        return self._messages.pop(0)


def pack(source: str, *values: object) -> bytes:
    """Return the message that asks for a template over rows with these values of `x`."""
    rows = [pickle.dumps({"sample": Row(x=value)}) for value in values]
    return pickle.dumps((make_recipe(source), rows))


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list into which the seconds of every timer go; none is set."""
    results: list[float] = []
    monkeypatch.setattr(signal, "setitimer", lambda _which, seconds: results.append(seconds))
    return results


def answer(payload: bytes) -> list[Any]:
    """Return the messages with which one is answered."""
    recipe, rows = pickle.loads(payload)  # noqa: S301 - our own
    return [json.loads(message) for message in rendering.render_messages(recipe, rows)]


def test_a_worker_limits_itself_first(monkeypatch: pytest.MonkeyPatch, timers: list[float]) -> None:
    """It says that it is ready when it can open nothing any more, and answers message by
    message.
    """
    wire = Wire(pack("{{ sample.x + 1 }}", 1, 2), pack("{{ sample.x }}", "a"))
    events: list[object] = []

    def open_channel(descriptor: int, folder: str) -> Wire:
        events.append((descriptor, folder))
        return wire

    monkeypatch.setattr(rendering, "Channel", open_channel)
    monkeypatch.setattr(
        rendering, "_limit_worker", lambda: events.append(("limited", list(wire.sent)))
    )
    with pytest.raises(SystemExit):
        rendering.serve(7, "/a/folder")
    assert events == [(7, "/a/folder"), ("limited", [])]
    assert wire.sent == [[], ["value", 2], ["value", 3], ["value", "a"]]
    assert timers == [1.0, 1.0, 0, 1.0, 0]


def test_limits_that_a_system_does_not_know_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are set, the memory to a little more than the process has."""
    limits: dict[int, tuple[int, int]] = {}

    def keep(which: int, value: tuple[int, int]) -> None:
        if which == resource.RLIMIT_NPROC:
            raise ValueError
        limits[which] = value

    monkeypatch.setattr(resource, "setrlimit", keep)
    rendering._limit_worker()
    memory = limits.pop(resource.RLIMIT_AS)[0]
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    assert abs(memory - rendering.MEMORY_BYTES - pages * resource.getpagesize()) < 2**26
    assert limits == {
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NOFILE: (1, 1),
    }


def test_no_known_memory_means_no_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Elsewhere than on Linux the computing time alone is limited, and what can be opened."""
    limits: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    rendering._limit_worker(str(tmp_path / "statm"))
    assert resource.RLIMIT_AS not in limits
    assert resource.RLIMIT_NOFILE in limits


@pytest.mark.usefixtures("timers")
def test_a_value_that_cannot_be_written_is_the_error_of_its_row() -> None:
    """The other rows of its message have their values."""
    first, spoiled, last = answer(pack("{{ [sample.x] }}", 1, 10**5000, 2))
    assert (first, last) == (["value", [1]], ["value", [2]])
    kind, content = spoiled
    assert kind == "RowExcessError"
    assert content["message"].startswith(
        "the value cannot be sent back: Exceeds the limit (4300 digits)"
    )


@pytest.mark.parametrize("source", CASES["too_large"])
def test_what_is_too_large_ends_in_the_worker(source: str) -> None:
    """Widths, products and formats are rendered in a worker, whose limits stop them."""
    template = Template.compile(source)
    with pytest.raises((RowError, TemplateStopped)):
        template.evaluate(sample={"x": "f" * 5000})
