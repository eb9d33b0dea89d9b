"""Laws of rendering in a worker process: the same outcomes, and no way out of it."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import zoneinfo
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from answerkey.errors import Place, SpecError
from answerkey.sandbox.snippet import SnippetTrouble
from answerkey.templates import RowTrouble, Template, TemplateStopped, rendering
from answerkey.templates.rendering import Recipe, Rows, decode, render_isolated
from answerkey.templates.values import Excess
from answerkey.types import Row, Samples

#: Not tame, and does nothing.
WILD = "{% set ns = namespace(x=1) %}"
ENDLESS = (
    "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
    "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}"
)


def make_recipe(source: str, *, keeps_value: bool = True) -> Recipe:
    """Return a recipe that is not tame."""
    return Recipe(source, ("sample",), keeps_value, None, is_tame=False)


def render(source: str, **sample: object) -> object:
    """Return what a worker makes of one row."""
    return render_isolated(make_recipe(source), Rows({"sample": Row(sample)}))[0]


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(
    "value",
    [
        *("text", "", "é\n\u2028", 7, -(10**300), 1.5, True, None),
        *(["a", 1], [[1], {"a": [None]}], {"a": 1, "b": {"c": []}}, {}, []),
        *({1: "a", None: 2}, float("inf"), {"mapping": [["a", 1]]}, {"trouble": 1}),
        *(
            dt.date(2024, 2, 29),
            dt.datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001 - as cells of tables are
            dt.time(1, 2, 3),
            dt.timedelta(1, 2, 3),
        ),
        *(Decimal("1.50"), b"\x00\xff", [dt.date(2024, 1, 1)]),
    ],
)
def test_values_come_back_as_they_are(value: object) -> None:
    """With their types, whatever a cell can hold."""
    found = render("{{ sample.x }}", x=value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.usefixtures("everywhere")
def test_a_time_comes_back_with_its_distance_to_utc() -> None:
    """Zones are files, which the worker cannot open; what is printed is the same."""
    value = dt.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Zurich"))
    assert render("{{ sample.x }}", x=value) == value
    assert render("{{ sample.x ~ '' }}", x=value) == str(value)


@pytest.mark.usefixtures("everywhere")
def test_troubles_come_back_whole() -> None:
    """With hint, column and all."""
    found = render("{{ sample.nothing }}", a=1)
    assert isinstance(found, RowTrouble)
    parts = (found.message, found.hint, found.column, found.is_undefined)
    assert parts == ("`nothing` is not a column", "columns: `a`", "nothing", True)


@pytest.mark.usefixtures("everywhere")
def test_many_rows_keep_their_order() -> None:
    """In batches, with the troubles in between."""
    frame = pl.DataFrame({"x": list(range(3000))})
    samples = Samples(frame, pl.Series([str(number) for number in range(3000)]))
    template = Template.compile(WILD + "{{ 10 // (sample.x % 1000) }}{{ sample.x }}")
    found = template.texts(samples)
    troubles = [place for place, one in enumerate(found) if isinstance(one, RowTrouble)]
    assert troubles == [0, 1000, 2000]
    assert found[1] == "101"
    assert found[2999] == "02999"


@pytest.mark.usefixtures("everywhere")
def test_large_rows_are_sent_a_few_at_a_time() -> None:
    """However many there are, no message is larger than the worker can hold; one that must be is refused."""
    rows = [{"x": "y" * 3_000_000} for _ in range(5)]
    samples = Samples(pl.DataFrame(rows), pl.Series(["1", "2", "3", "4", "5"]))
    assert Template.compile(WILD + "{{ sample.x | length }}").texts(samples) == ["3000000"] * 5
    found = render("{{ sample.x | length }}", x="y" * 40_000_000)
    assert isinstance(found, Excess)
    assert found.message == "a row of 38 MB is too large for this template"


@pytest.mark.usefixtures("everywhere")
def test_a_tame_template_that_takes_many_steps_is_rendered_elsewhere() -> None:
    """The value is the same; only a template that takes more than all steps is refused."""
    template = Template.compile(
        "{% for i in range(9999) %}{% if i == sample.x %}{{ i }}{% endif %}{% endfor %}"
    )
    assert template.evaluate(sample={"x": 9998}) == "9998"
    samples = Samples(pl.DataFrame({"x": [3, 4]}), pl.Series(["1", "2"]))
    assert template.values(samples) == ["3", "4"]


@pytest.mark.usefixtures("everywhere")
def test_rows_that_are_large_are_rendered_elsewhere() -> None:
    """Among others, each in its place."""
    rows = [{"x": ["a"]}, {"x": ["b" * 20_000]}, {"x": ["c"]}]
    samples = Samples(pl.DataFrame(rows), pl.Series(["1", "2", "3"]))
    found = Template.compile("{% for y in sample.x %}{{ y | upper }}{% endfor %}").values(samples)
    assert found == ["A", "B" * 20_000, "C"]


def test_a_template_that_never_ends_is_stopped() -> None:
    """After a second of computing; another template is rendered as ever, and this one is not tried again."""
    for _ in range(2):
        with pytest.raises(TemplateStopped) as caught:
            Template.compile(ENDLESS).evaluate(sample={})
        assert caught.value.code == "E120"
        assert caught.value.source == ENDLESS
        assert "it takes more than 1 s of computing time on one row" in caught.value.message
    assert render("{{ sample.x }}", x=1) == 1


def test_a_template_that_takes_memory_without_end_is_the_rows_trouble() -> None:
    """The worker has its own limit, and goes on."""
    source = "{% set kept = [] %}{% for i in range(999) %}{% do kept.append('x' * 9999999) %}{% endfor %}"
    found = render(source.replace("'x'", "'\U0001f600'"))
    assert isinstance(found, Excess)


@pytest.mark.usefixtures("everywhere")
def test_a_template_that_does_too_much_on_row_after_row_is_stopped() -> None:
    """On the fifth row; the first four are in trouble of their own."""
    frame = pl.DataFrame({"x": list(range(8))})
    samples = Samples(frame, pl.Series([str(number) for number in range(8)]))
    template = Template.compile("{{ sample.x }}{% for i in range(99999) %}xxxxxxxxxx{% endfor %}")
    found = template.texts(samples.slice(0, 4))
    assert all(isinstance(one, Excess) for one in found)
    with pytest.raises(TemplateStopped, match="on 5 rows it does too much: the template makes 999,991"):
        template.texts(samples)


def test_an_error_that_travels_keeps_its_template() -> None:
    """Between processes, and when it is placed."""
    stopped = TemplateStopped.of(make_recipe("{{ x }}"), "too slow")
    again = pickle.loads(pickle.dumps(stopped))  # noqa: S301 - our own
    assert (again.code, again.source, again.message) == (
        "E120",
        "{{ x }}",
        "the template was stopped: too slow",
    )


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
    """No secret is in it; it can open no file and no connection, write none, and start no process."""
    environment = Path(f"/proc/{worker}/environ").read_bytes()
    assert b"SECRET" not in environment
    assert os.environ["HOME"].encode() not in environment.replace(b"PYTHON", b"")
    limits = Path(f"/proc/{worker}/limits").read_text(encoding="utf-8").splitlines()
    found = {line[:26].strip(): line[26:].split()[:2] for line in limits}
    assert found["Max open files"] == ["1", "1"]
    assert found["Max file size"] == ["0", "0"]
    assert found["Max processes"] == ["0", "0"]
    assert found["Max core file size"] == ["0", "0"]
    assert int(found["Max address space"][0]) < 2**30


def test_a_worker_that_says_nonsense_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is data: anything that is no outcome ends it."""

    class Liar:
        def send_bytes(self, payload: bytes) -> float:
            return len(payload) / 10**9

        def receive_bytes(self, *, seconds: float) -> bytes:
            assert seconds
            return b'[{"what": "is this"}]'

        def close(self) -> None:
            """End."""

    monkeypatch.setattr(rendering, "_idle", [Liar()])
    with pytest.raises(TemplateStopped, match="its process broke its connection"):
        render("{{ sample.x }} never seen before", x=1)


class Worker:
    """A worker that fails in one way."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure
        self.is_closed = False

    def send_bytes(self, payload: bytes) -> float:
        """Take a message."""
        return len(payload) / 10**9

    def receive_bytes(self, *, seconds: float) -> bytes:
        """Fail."""
        assert seconds
        raise self.failure

    def close(self) -> None:
        """End."""
        self.is_closed = True


def test_a_worker_that_dies_stops_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says what ended it, and how much memory it may have."""
    worker = Worker(SnippetTrouble("died", "killed by signal 9"))
    monkeypatch.setattr(rendering, "_idle", [worker])
    monkeypatch.setattr(rendering, "_stopped", {})
    with pytest.raises(TemplateStopped) as caught:
        render("{{ sample.x }}", x=1)
    assert caught.value.message == (
        "the template was stopped: its process ended (killed by signal 9); it may have 128 MB of memory"
    )
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
    worker = Worker(SnippetTrouble("died", "no Python here"))
    monkeypatch.setattr(rendering, "_idle", [])
    monkeypatch.setattr(rendering, "WorkerProcess", lambda *_words: worker)
    with pytest.raises(SpecError) as caught:
        render("{{ sample.x }}", x=1)
    assert (caught.value.code, worker.is_closed) == ("E120", True)
    assert caught.value.message == "the process for templates does not start: no Python here"


@pytest.mark.usefixtures("here")
def test_rows_are_sent_in_halves_where_they_are_large_together() -> None:
    """Each half is halved again; the outcomes are in order."""
    texts = [letter * 2_000_000 for letter in "abcde"]
    rows = Rows({"sample": Row()}, 5, {"sample": ["x"]}, {"sample": [texts]})
    assert render_isolated(make_recipe("{{ sample.x[0] }}"), rows) == list("abcde")


def test_a_stopped_template_can_be_placed() -> None:
    """The error says where the template stands, and stays what it was."""
    stopped = TemplateStopped.of(make_recipe("{{ x }}"), "too slow")
    placed = stopped.at(Place("task.yaml", 3))
    assert (placed.code, placed.source, placed.message) == (stopped.code, stopped.source, stopped.message)
    assert (placed.where, placed.hint) == (Place("task.yaml", 3), stopped.hint)


def test_a_message_that_is_no_list_is_refused() -> None:
    """What a process says is data."""
    with pytest.raises(ValueError, match="no outcomes"):
        decode(b"1")
