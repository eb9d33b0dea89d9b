"""The viewer over a folder of runs, in a real browser."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.forked import Forked
from tests.projects import write_rows

from answerkey.testing import Behaviour, Reply, TestServer

from .conftest import OpenStage, serve
from .material import MODELS, Call, answer_from, carry_out, make_project
from .stage import Stage

View = Callable[[Path], str]
# What is asked for, the first sample of it, and how many there are.
QUERIES = (
    ("", "000001", 125),
    ("?sort=id&descending=true", "000125", 125),
    ("?sort=reason", "000072", 125),
    ("?show=wrong", "000003", 15),
    ("?reason=NOT_A_CHOICE", "000018", 11),
    ("?truth=B&predicted=A", "000044", 6),
    ("?text=capital", "000003", 5),
    ("?show=flipped", "000003", 40),
)
RUN_FILE = """\
datasets: [{$ref: dataset.yaml}]
tasks: [{$ref: task.yaml}]
models:
  - key: slow
    display_name: Slow
    max_concurrent_requests: 2
    config: {url: "URL", model_key: slow}
evaluation:
  key: quickstart
  display_name: Quickstart
  task_specifications: [{task_key: mcqa, model_key: slow, num_samples: 60}]
"""


@pytest.fixture
def stage(plain_runs: Path, view: View, open_first: OpenStage) -> Stage:
    """Return the list of the three ordinary runs."""
    return open_first(view(plain_runs))


def open_run(stage: Stage, name: str) -> str:
    """Open a run from the list and return its route."""
    stage.find("table.runs tbody th").get_by_role("link", name=name, exact=True).click()
    stage.page.locator("main .headline").wait_for()
    route: str = stage.page.evaluate("location.hash")
    return route


def test_the_list_has_every_run_with_its_number(stage: Stage) -> None:
    """Name, status, model, number with interval; no line joins the numbers of different models."""
    row = stage.find("table.runs tbody tr", has_text="first")
    expect(row).to_contain_text("complete")
    expect(row).to_contain_text("70\u00a0%")
    expect(row).to_contain_text("[62, 78]")
    expect(stage.find("table.runs tbody tr")).to_have_count(3)
    expect(stage.find(".trends")).to_be_hidden()


def test_a_line_over_time_is_of_one_task_model_and_dataset(
    tmp_path: Path, call: Call, view: View, open_first: OpenStage
) -> None:
    """Another model or other samples make another line; one run alone makes none."""
    project = make_project(tmp_path / "project")
    planned = [("first", 125), ("second", 125), ("first", 40), ("first", 125), ("first", 40)]
    for number, (name, samples) in enumerate(planned):
        out = tmp_path / "runs" / f"run-{number}"
        words = ("run", project, "--model", MODELS[name], "--num-samples", samples, "--out", out)
        carry_out(call, *words)
    stage = open_first(view(tmp_path / "runs"))
    expect(stage.find(".trends svg.sparkline")).to_have_count(2)
    for of, share in (("125", "70\u00a0%"), ("40", "65\u00a0%")):
        line = stage.find(".trends tbody tr", has_text=share)
        expect(line, f"of {of} samples").to_have_count(1)
        expect(line).to_contain_text("accuracy=0.8")
        expect(line).to_contain_text("Quickstart questions (")
        expect(line.locator("td").last).to_have_text("2")


def test_the_token_leaves_the_address(stage: Stage) -> None:
    """It is not in the address bar, nor in the history, and the page can be loaded again all the
    same.
    """
    assert "token" not in stage.page.url
    stage.page.reload()
    expect(stage.find("table.runs tbody tr")).to_have_count(3)
    assert "token" not in stage.page.url


def test_the_list_is_searched(stage: Stage) -> None:
    """A word of a run's name, model or task leaves the runs that have it."""
    stage.page.get_by_label("Search").fill("small-model")
    expect(stage.find("table.runs tbody tr")).to_have_count(1)
    expect(stage.find("table.runs tbody tr")).to_contain_text("asked")


def test_server_and_report_find_the_same(stage: Stage, report: str, open_stage: OpenStage) -> None:
    """One interface, two sources of rows, the same rows in the same order."""
    route = open_run(stage, "first")
    page = open_stage(report)
    page.go()
    for query, first, number in QUERIES:
        stage.turn(f"{route}/samples{query}")
        page.turn(f"#/run/r0/0/samples{query}")
        expect(stage.find("tr[data-index='0'] a")).to_have_text(first)
        for shown in (stage, page):
            expect(shown.find("table.rows")).to_have_attribute("aria-rowcount", str(number + 1))
        assert stage.list_ids() == page.list_ids()


def test_ticked_runs_are_compared(stage: Stage) -> None:
    """Two ticks and a press show the verdict, the difference with its interval, and the changed
    samples.
    """
    for name in ("first", "second"):
        stage.page.get_by_role("checkbox", name=f"Compare {name}").check()
    stage.page.get_by_role("link", name="Compare 2 runs").click()
    expect(stage.find("h1")).to_have_text(re.compile("(worse than first|better than second)$"))
    expect(stage.find(".headline .value")).to_have_text(re.compile("[+\u2212]16 points"))
    expect(stage.find(".flips tr[data-index]").first).to_be_visible()
    stage.page.go_back()
    expect(stage.page.get_by_role("checkbox", name="Compare first")).to_be_checked()


def test_a_deep_link_opens_its_sample(
    plain_runs: Path, view: View, stage: Stage, open_stage: OpenStage
) -> None:
    """The printed address with a route behind it is enough, in a browser that was never here."""
    route = open_run(stage, "second")
    fresh = open_stage(view(plain_runs), is_new=True)
    fresh.go(f"{route}/sample/000077")
    expect(fresh.find(".pane h2")).to_have_text("000077")
    fresh.go(f"{route}/sample/999999")
    expect(fresh.find("[role=alert]")).to_contain_text("no sample with this id")


def test_the_list_works_by_keyboard(stage: Stage) -> None:
    """The keys j and k move, x ticks, c compares, Enter opens."""
    for key in ("j", "x", "j", "x", "c"):
        stage.page.keyboard.press(key)
    expect(stage.find(".compared .means tr")).to_have_count(2)
    stage.page.keyboard.press("Escape")
    expect(stage.find("table.runs")).to_be_visible()
    stage.page.keyboard.press("j")
    stage.page.keyboard.press("Enter")
    expect(stage.find(".headline")).to_be_visible()


#: A project whose model waits, and what it waits for.
SlowProject = tuple[Path, threading.Event]


@pytest.fixture
def slow_project(tmp_path: Path) -> Iterator[SlowProject]:
    """Return a project whose model answers some questions, and the others when it may go on."""
    project = make_project(tmp_path / "project")
    answers, may_go_on = answer_from(project / "questions.jsonl"), threading.Event()

    def answer(messages: Sequence[Mapping[str, object]]) -> Reply:
        if server.asked.answered >= 10:
            may_go_on.wait(600)
        return answers(messages)

    with TestServer(answer, Behaviour(delay=0.02)) as server:
        (project / "run.yaml").write_text(RUN_FILE.replace("URL", server.url), encoding="utf-8")
        yield project, may_go_on
        may_go_on.set()


def test_a_live_run_is_shown(slow_project: SlowProject, view: View, open_first: OpenStage) -> None:
    """It appears when one looks, and at the end its number is there by itself."""
    project, may_go_on = slow_project
    (runs := project.parent / "runs").mkdir()
    stage = open_first(view(runs))
    expect(stage.find(".runs-sum")).to_contain_text("no runs here yet")
    # As if one came back to the page again and again: it then looks for news at once.
    look = "document.dispatchEvent(new Event('visibilitychange'))"
    stage.page.evaluate(f"setInterval(() => {look}, 250)")
    words = ["run", str(project), "--out", str(runs / "live"), "--quiet"]
    with Forked(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        row = stage.find("table.runs tbody tr")
        expect(row).to_contain_text("running")
        may_go_on.set()
        expect(row).to_contain_text("complete")
        assert process.wait(timeout=600) == 0
    expect(row).to_contain_text("%")


ASK_FROM_ELSEWHERE = """async ([root, token]) => {
    const ask = (path, settings) => fetch(root + path, settings).then(answer => answer.text(), () => null);
    const frame = document.createElement("iframe");
    frame.src = root + "?token=" + token;
    document.body.append(frame);
    await new Promise(resume => { frame.onload = resume; });
    return [
        await ask("api/runs", {}),
        await ask("api/runs", {mode: "no-cors"}),
        await ask("api/runs", {headers: {"X-Answerkey-Token": token}}),
        await ask("?token=" + token, {}),
        frame.contentDocument === null ? null : frame.contentDocument.title,
    ];
}"""  # noqa: E501 - the text as it is written


def test_a_page_of_another_site_learns_nothing(
    tmp_path: Path, plain_runs: Path, view: View, open_stage: OpenStage
) -> None:
    """It can neither read the list nor show the page in a frame, not even with the token."""
    address = view(plain_runs)
    root, token = address.partition("?")[0], address.partition("token=")[2]
    with serve(tmp_path) as elsewhere:
        stage = open_stage(elsewhere)
        stage.page.goto(stage.address)
        got = stage.page.evaluate(ASK_FROM_ELSEWHERE, [root, token])
    assert [text or None for text in got] == [None] * 5
    stage.page.close()  # what its console says of this has come by then
    stage.watch.problems.clear()


THOUGHT = "First I look at each of them. " * 10
LONG_COMPLETION = (
    f"<think>{THOUGHT}The answer is (C).</think>\n"
    "The answer is (B). Wait, that is wrong: the year does not fit.\n\nThe answer is (A)."
)


def test_a_long_completion_shows_every_answer_it_states(
    tmp_path: Path, call: Call, view: View, open_first: OpenStage
) -> None:
    """The deciding one is marked strongly, the others dotted.

    The thought is folded, nothing in it marked.
    """
    row = {"question": "Which?", "options": ["one", "two", "three"], "answer": "A"}
    file = write_rows(tmp_path / "rows.jsonl", [row | {"completion": LONG_COMPLETION}])
    carry_out(call, "score", file, "--out", tmp_path / "runs" / "long")
    stage = open_first(view(tmp_path / "runs"))
    stage.turn(f"{open_run(stage, 'long')}/samples")
    expect(stage.find("td.col-said")).to_have_text("… the year does not fit. The answer is (A).")
    stage.find("tr[data-index='0'] a").click()
    expect(stage.find(".completion mark:not(.is-other)")).to_have_text("answer is (A)")
    expect(stage.find(".completion mark.is-other")).to_have_text("answer is (B)")
    thought = stage.find(".completion .thought")
    length = LONG_COMPLETION.index("The answer is (B)")
    expect(thought.locator("summary")).to_have_text(f"Thinking, {length} characters")
    expect(thought.locator(".text")).not_to_be_visible()
    thought.locator("summary").click()
    expect(thought.locator(".text")).to_contain_text("The answer is (C).")
