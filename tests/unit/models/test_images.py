"""Laws of images: what each API is sent, byte for byte.

What an image is; what a run keeps of it.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML
from tests.samples import samples_from_frame
from tests.servers import connect

from answerkey.datasets.tables import load_table
from answerkey.errors import SolverError, SpecError
from answerkey.models import images
from answerkey.models.batch import write_line
from answerkey.models.calls import Call
from answerkey.models.config import Adapter, FunctionConfig
from answerkey.models.model import FunctionModel, LiveModel, ObjectModel, SnippetModel, open_model
from answerkey.models.providers import AdapterApi, Connection
from answerkey.sandbox import Snippet
from answerkey.solvers.single_turn import (
    ChatInput,
    ChoiceRankingSolver,
    Examples,
    GenericInput,
    ImagePart,
    InputMessage,
    SingleTurnSolver,
    TextPart,
)
from answerkey.templates import RowError
from answerkey.testing import TestServer
from answerkey.types import Completion, Request, Samples

ROOT = Path(__file__).parents[3]
PNG = (ROOT / "examples/images/pictures/circle.png").read_bytes()
CODED = b64encode(PNG).decode()
STORED = {
    "type": "image",
    "media_type": "image/png",
    "size": 351,
    "sha256": "2189284913ea35136433104d9136d66db1aef6ab981153f54b8eb39c24949cdd",
}
ADDRESS = "https://images.example/cat.png"
OTHERS = {
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
}
Called = Any


def build(
    folder: Path, rows: Sequence[Mapping[str, object]], image: str = "{{ sample.image }}"
) -> list[Any]:
    """Return the prompts for the rows of a file, which have an image between two texts."""
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return make_solver(image).build_prompts(load(file), None)


def load(file: Path) -> Samples:
    """Return the rows of a file."""
    return load_table(file).rows.load()


def make_solver(image: str = "{{ sample.image }}") -> SingleTurnSolver:
    """Return a solver that sends an image between two texts."""
    parts = (TextPart("Look:"), ImagePart(image), TextPart("{{ 'A or B?' }}"))
    return SingleTurnSolver(
        ChatInput((InputMessage("system", "Be brief."), InputMessage("user", parts)))
    )


def build_one(folder: Path, value: object) -> object:
    """Return the parts of a prompt with an image, or the error."""
    prompt = build(folder, [{"image": value}])[0]
    return prompt if isinstance(prompt, RowError) else prompt[1]["content"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with an image in it, and one beside it."""
    inner = tmp_path / "data"
    inner.mkdir()
    (inner / "circle.png").write_bytes(PNG)
    (tmp_path / "secret.png").write_bytes(PNG)
    return inner


# What is sent.

TEXTS = [{"type": "text", "text": "Look:"}, {"type": "text", "text": "A or B?"}]
DATA_URI = f"data:image/png;base64,{CODED}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": CODED}
INLINE = {"inlineData": {"mimeType": "image/png", "data": CODED}}


def surround(image: object) -> list[object]:
    """Return the parts of the user's message."""
    return [TEXTS[0], image, TEXTS[1]]


CHAT_MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": surround({"type": "image_url", "image_url": {"url": DATA_URI}})},
]
SENT: dict[str, tuple[str, Mapping[str, object]]] = {
    "chat": ("{url}#m", {"model": "m", "messages": CHAT_MESSAGES}),
    "anthropic": (
        "{url}?api=anthropic#m",
        {
            "model": "m",
            "max_tokens": 4096,
            "messages": [
                {"role": "user", "content": surround({"type": "image", "source": SOURCE})}
            ],
            "system": "Be brief.",
        },
    ),
    "gemini": (
        "{root}/v1beta?api=gemini#m",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Look:"}, INLINE, {"text": "A or B?"}]}
            ],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
        },
    ),
}


@pytest.mark.parametrize("api", SENT)
def test_each_api_is_sent_the_image_in_its_own_form(api: str, folder: Path) -> None:
    """A file beside the dataset reaches the endpoint, byte for byte.

    The completion keeps a reference.
    """
    name, expected = SENT[api]
    solver = make_solver()
    build(folder, [{"image": "circle.png"}])
    with TestServer("A") as server:
        model = open_model(name.format(url=server.url, root=server.root))
        assert isinstance(model, LiveModel)
        with model:
            samples = load(folder / "questions.jsonl")
            replies = solver.solve(samples, model=model, facts=None, examples=None)
        body = server.asked.requests[-1].body
    assert body == expected
    [completion] = replies
    assert (completion.text, completion.prompt[1]["content"][1]) == ("A", STORED)  # type: ignore[index]


def test_an_address_is_passed_on(folder: Path) -> None:
    """Where an API takes addresses, nothing is fetched here."""
    [prompt] = build(folder, [{"image": ADDRESS}])
    assert prompt[1]["content"][1] == {"type": "image", "url": ADDRESS}
    for api, name, sent in (
        ("chat", "image_url", {"url": ADDRESS}),
        ("anthropic", "source", {"type": "url", "url": ADDRESS}),
    ):
        body: Any = connect(f"http://127.0.0.1:1/v1?api={api}#m").build(prompt[1:])
        assert body["messages"][0]["content"][1][name] == sent


def test_image_urls_of_a_generic_template_are_images(folder: Path) -> None:
    """Parts in OpenAI's form go to the chat API as they are, with `detail`, and to the others as
    well.
    """
    link = {"url": f"data:image/png;base64,{CODED}", "detail": "low"}
    written = [{"role": "user", "content": [{"type": "image_url", "image_url": link}]}]
    file = folder / "questions.jsonl"
    file.write_text(json.dumps({"written": json.dumps(written)}) + "\n", encoding="utf-8")
    [prompt] = SingleTurnSolver(GenericInput("{{ sample.written }}")).build_prompts(
        load(file), None
    )
    assert isinstance(prompt, list)
    assert prompt[0]["content"] == [STORED | {"detail": "low"}]
    bodies: dict[str, Any] = {
        api: connect(f"http://127.0.0.1:1/v1?api={api}#m").build(prompt)
        for api in ("chat", "anthropic")
    }
    assert bodies["chat"]["messages"] == written
    assert bodies["anthropic"]["messages"][0]["content"][0]["source"]["data"] == CODED


def test_code_of_users_sees_the_chat_form(folder: Path) -> None:
    """A function, a snippet, a model of a package and an adapter are given `image_url` parts."""
    [prompt] = build(folder, [{"image": "circle.png"}])
    expected = CHAT_MESSAGES
    seen: list[object] = []

    class Package:
        name, is_simulated = "acme/small", False

        def complete(self, questions: Sequence[Request]) -> list[Completion]:
            seen.extend(question.messages for question in questions)
            return [Completion("A")]

    def answer(messages: list[dict[str, object]]) -> str:
        seen.append(messages)
        return "A"

    source = "def infer(messages):\n    return messages[1]['content'][1]['image_url']['url']"
    for model in (
        FunctionModel("mine", FunctionConfig(answer)),
        ObjectModel("acme/small", Package()),
        SnippetModel("mine", Snippet("infer", source)),
    ):
        [reply] = model.complete([Request("1", prompt)])
        model.close()
    assert seen == [expected, expected]
    assert reply.text == f"data:image/png;base64,{CODED}"
    adapter = AdapterApi(Adapter("mine", "{{ input | tojson }}", "{{ body }}"))
    assert adapter.build(Connection("n", adapter, "http://h/", "m"), prompt) == {
        "messages": expected
    }


# What is an image.


@pytest.mark.parametrize(
    "value",
    [
        "circle.png",
        "./sub/../circle.png",
        f"data:image/png;base64,{CODED}",
        f"data:text/plain;base64,{CODED}",
        CODED,
        CODED[:80] + "\n" + CODED[80:],
        {"bytes": CODED, "path": "elsewhere.png"},
        {"bytes": None, "path": "circle.png"},
        {"url": "circle.png"},
        [None, "circle.png", "", {"bytes": None, "path": None}],
    ],
)
def test_every_form_of_a_value_gives_the_same_part(folder: Path, value: object) -> None:
    """The part depends on the bytes alone, so that a call has the same key whatever they came
    from.
    """
    (folder / "sub").mkdir()
    assert build_one(folder, value) == surround(STORED)


def test_a_null_image_is_left_out(folder: Path) -> None:
    """A row without an image is sent its texts; several images stand where their part does."""
    assert build_one(folder, None) == build_one(folder, "") == TEXTS
    two = build_one(folder, ["circle.png", ADDRESS])
    assert two == [TEXTS[0], STORED, {"type": "image", "url": ADDRESS}, TEXTS[1]]
    alone = SingleTurnSolver(ChatInput((InputMessage("user", (ImagePart("{{ none }}"),)),)))
    [problem] = alone.build_prompts(load(folder / "questions.jsonl"), None)
    assert isinstance(problem, RowError)
    assert problem.message == "a message has no content: its images are null"


@pytest.mark.parametrize(("kind", "raw"), OTHERS.items())
def test_the_first_bytes_tell_the_type(folder: Path, kind: str, raw: bytes) -> None:
    """The name of a file does not count."""
    (folder / "circle.png").write_bytes(raw)
    parts: Any = build_one(folder, "circle.png")
    assert parts[1]["media_type"] == kind
    assert parts[1]["sha256"] == sha256(raw).hexdigest()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text.png", "`text.png` is not a PNG, JPEG, GIF or WebP image"),
        ("drawing.svg", "`drawing.svg` is not a PNG, JPEG, GIF or WebP image"),
        ("large.png", "the image `large.png` has more than 20,000,000 bytes"),
        ("none.png", "the image `none.png` cannot be read: there is no such file"),
        ("pipe.png", "the image `pipe.png` cannot be read: there is no such file"),
        ("a\0b", "the image `a\0b` cannot be read: embedded null byte"),
        ("a" * 300, f"the image `{'a' * 80}` cannot be read: File name too long"),
        ("a/" * 3000, f"the image `{'a/' * 40}` cannot be read: it is not a path"),
        ("../secret.png", "the image `../secret.png` is not below the folder of its dataset"),
        ("link.png", "the image `link.png` is not below the folder of its dataset"),
        ("/etc/passwd", "the image `/etc/passwd` is not below the folder of its dataset"),
        ("data:image/png,x", "the image `data:image/png,x` cannot be read: there is no such file"),
        ("data:image/svg+xml;base64,PHN2Zy8+", "is not a PNG, JPEG, GIF or WebP image"),
        ("/9j/%%%", "the image `/9j/%%%` cannot be read: Only base64 data is allowed"),
        (3, "3 is not an image"),
        ([["circle.png"]], "['circle.png'] is not an image"),
    ],
)
def test_what_is_no_image_is_an_error_of_its_row(folder: Path, value: object, message: str) -> None:
    """Nothing but a real image of the dataset's folder is ever sent."""
    (folder / "text.png").write_text("root:x:0:0", encoding="utf-8")
    (folder / "drawing.svg").write_text("<svg/>", encoding="utf-8")
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    os.mkfifo(folder / "pipe.png")
    with (folder / "large.png").open("wb") as file:
        file.write(PNG)
        file.truncate(20_000_001)
    result = build_one(folder, value)
    assert isinstance(result, RowError)
    assert message in result.message


def test_the_error_names_sample_and_column(folder: Path) -> None:
    """The place is the line of the file and the column that the template reads."""
    build(folder, [{"image": "circle.png"}, {"image": "none.png"}])
    [(row, error)] = make_solver().check_prompts(load(folder / "questions.jsonl"), None)[1]
    assert (row, error.code) == (1, "E302")
    assert error.message.startswith("sample `000002`: the image `none.png` cannot be read")
    assert str(error.where).endswith("questions.jsonl:2, column `image`")


def test_a_folder_of_the_caller_is_allowed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ANSWERKEY_IMAGES` is the caller's word; rows that are in no file have no other folder."""
    monkeypatch.setenv("ANSWERKEY_IMAGES", f"{folder}{os.pathsep}{folder.parent}")
    assert STORED in build_one(folder, "../secret.png")  # type: ignore[operator]
    assert STORED in build_one(folder, "secret.png")  # type: ignore[operator]
    frame = pl.DataFrame({"image": ["circle.png"]})
    samples = samples_from_frame(frame, pl.Series("sample_id", ["1"]), "memory")
    [prompt] = make_solver().build_prompts(samples, None)
    assert not isinstance(prompt, RowError)
    monkeypatch.delenv("ANSWERKEY_IMAGES")
    [problem] = make_solver().build_prompts(samples, None)
    assert isinstance(problem, RowError)
    hint = "put it there, or name its folder in the environment: `ANSWERKEY_IMAGES=FOLDER`"
    assert problem.hint == hint


def test_a_prompt_has_at_most_a_hundred_images(folder: Path) -> None:
    """More are an error of the row."""
    problem = build_one(folder, ["circle.png"] * 101)
    assert isinstance(problem, RowError)
    assert problem.message == "the prompt has 101 images; 100 are allowed"


def test_only_the_user_shows_images(folder: Path) -> None:
    """An image in another role is an error of the row."""
    build(folder, [{"image": "circle.png"}])
    message = InputMessage("system", (ImagePart("{{ sample.image }}"),))
    [problem] = SingleTurnSolver(ChatInput((message,))).build_prompts(
        load(folder / "questions.jsonl"), None
    )
    assert isinstance(problem, RowError)
    assert problem.message == "only the user's messages can have images"


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_bytes_of_a_table_are_images(tmp_path: Path, ending: str) -> None:
    """A column of bytes, the struct of Hugging Face, lists of either, and nulls among them."""
    cell = {"bytes": PNG, "path": "x.png"}
    frame = pl.DataFrame({"image": [PNG, None], "told": [cell, None], "many": [[PNG, PNG], [None]]})
    file = tmp_path / f"rows.{ending}"
    frame.write_parquet(file) if ending == "parquet" else frame.write_ipc(file)
    for column, count in {"image": 1, "told": 1, "many": 2}.items():
        template = f"{{{{ sample.{column} }}}}"
        prompts: Any = make_solver(template).build_prompts(load(file), None)
        assert [len(images.list_images(prompt)) for prompt in prompts] == [count, 0]
        assert prompts[0][1]["content"][1] == STORED
    prompts = make_solver("{{ [sample.image, sample.told] }}").build_prompts(load(file), None)
    assert len(images.list_images(prompts[0])) == 2


def test_examples_have_images(folder: Path) -> None:
    """A message for each example may have its own image; its files lie beside the examples."""
    shown = folder.parent / "examples.jsonl"
    shown.write_text('{"image": "secret.png"}\n', encoding="utf-8")
    build(folder, [{"image": "circle.png"}])
    example = InputMessage("user", (ImagePart("{{ example.image }}"),), for_each="examples")
    question = InputMessage("user", (ImagePart("{{ sample.image }}"),))
    solver = SingleTurnSolver(ChatInput((example, question)), examples=Examples("shown", 1))
    [prompt] = solver.build_prompts(load(folder / "questions.jsonl"), load(shown))
    assert prompt == [{"role": "user", "content": [STORED]}] * 2
    lost = SingleTurnSolver(
        ChatInput((InputMessage("user", (ImagePart("{{ sample.none }}"),)),)),
        examples=Examples("shown", 1),
    )
    [problem] = lost.build_prompts(load(folder / "questions.jsonl"), load(shown))
    assert isinstance(problem, RowError)
    assert problem.column == "none"


def test_parts_that_make_no_sense_are_refused() -> None:
    """A message without parts, and images for a solver that sends text alone, are E108."""
    with pytest.raises(SpecError) as caught:
        InputMessage("user", ())
    assert caught.value.message == "`content` is empty"
    with pytest.raises(SpecError) as caught:
        ChoiceRankingSolver(ChatInput((InputMessage("user", (ImagePart("x"),)),)), "{{ ['A'] }}")
    message = "`choice_ranking_solver` sends only text, but a message has an image"
    assert caught.value.message == message


# What is kept.


def test_a_file_that_changed_is_not_sent(folder: Path) -> None:
    """What was checked is what is sent, also from another process."""
    [prompt] = build(folder, [{"image": "circle.png"}])
    [image] = images.list_images(pickle.loads(pickle.dumps(prompt)))  # noqa: S301 - our own
    assert image.encode() == CODED
    assert json.loads(json.dumps(image)) == STORED
    for change in (lambda file: file.write_bytes(PNG[:-1]), Path.unlink):
        change(folder / "circle.png")
        with pytest.raises(SolverError) as caught:
            image.encode()
        assert caught.value.message == "the image `circle.png` has changed since it was checked"


def test_tokens_of_images_are_estimated() -> None:
    """An image is taken for a thousand tokens, however many bytes it has."""
    [short, long] = [
        json.dumps({"image_url": {"url": f"data:image/png;base64,{'A' * size}"}}).encode()
        for size in (2_000, 2_000_000)
    ]
    assert images.count_characters(short) == images.count_characters(long) == 4_048
    assert images.count_characters(b"A" * 5_000) == 5_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the example."""
    return Path(shutil.copytree(ROOT / "examples/images", tmp_path / "project"))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "img", "image": "x"}, "error[E109]: unknown type 'img'"),
        ({"type": "image"}, "error[E108]: `image` is missing in `input_builder"),
        ({"type": "image", "imge": "x"}, "error[E107]: unknown key `imge`"),
        ({"type": "image", "image": "{{ sample.pictur }}"}, "E206]: `pictur` is not a column"),
        ({"type": "image", "image": "$HOME"}, "`$HOME` cannot be read: there is no such file"),
    ],
)
def test_slips_in_parts_are_told(
    project: Path, call: Callable[..., Called], part: object, message: str
) -> None:
    """Each is told where it stands, and a list is not told to be text.

    Nothing is expanded in a prompt.
    """
    yaml = YAML()
    task = yaml.load(project / "task.yaml")
    task["definition"]["solver"]["input_builder"]["input_messages"][0]["content"] = [part]
    yaml.dump(task, project / "task.yaml")
    done = call("check", project)
    assert done.code == 2
    assert message in done.out
    assert "must be text" not in done.out


def test_an_api_without_images_fails_check(project: Path, call: Callable[..., Called]) -> None:
    """The error names the API, and those that take what the prompts have."""
    model = "http://127.0.0.1:1/v1?api=completions#m"
    done = call("check", project, "--model", model)
    assert done.code == 2
    message = f"error[E301]: model `{model}`: the API `completions` does not take images"
    assert message in done.out + done.err
    assert "APIs that do: `chat`, `anthropic`, `gemini`" in done.out + done.err
    rows = [json.loads(line) for line in (project / "questions.jsonl").read_text().splitlines()]
    rows[0]["picture"] = ADDRESS
    (project / "pictures/square.png").write_bytes(OTHERS["image/gif"])
    (project / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call("check", project, "--model", "http://127.0.0.1:1/v1?api=gemini#m")
    assert done.code == 2
    assert "the API `gemini` does not take images as `image/gif`, `url`, and" in done.out + done.err
    assert call("check", project, "--model", "http://127.0.0.1:1/v1#m").code == 0


def test_a_run_keeps_references_and_every_command_works_on_it(
    project: Path, tmp_path: Path, call: Callable[..., Called]
) -> None:
    """No bytes of an image are in the run folder.

    A call has the same key when its file has moved.
    """
    run = tmp_path / "run"
    with TestServer("A") as server:
        words = ("run", project, "--model", f"{server.url}#m", "--cache-policy", "reuse", "--out")
        assert call(*words, run).code == 0
        shutil.move(project / "pictures", project / "moved")
        text = (project / "questions.jsonl").read_text().replace("pictures/", "moved/")
        (project / "questions.jsonl").write_text(text)
        assert call(*words, tmp_path / "again").code == 0
        assert len(server.asked.requests) == 2
    for file in run.rglob("*"):
        assert file.is_dir() or PNG[:64] not in file.read_bytes()
        assert file.is_dir() or CODED[:64].encode() not in file.read_bytes()
    again = tmp_path / "again"
    shown = call("explain", again, "shape")
    image = "  | [image: image/png, 351 bytes, sha256 2189284913ea]\n"
    assert f"{image}  | Which shape is this?" in shown.out
    assert call("rescore", again, "--out", tmp_path / "rescored").code == 0
    rows = [json.loads(line) for line in call("export", again, "--to", "jsonl").out.splitlines()]
    assert [row["sample"]["picture"] for row in rows] == ["moved/circle.png", "moved/square.png"]
    plan = json.loads(
        call("run", project, "--model", "http://127.0.0.1:1/v1#m", "--dry-run", "--json").out
    )
    assert plan["dry_run"]["tasks"][0]["prompt_tokens"] > 2 * images.IMAGE_TOKENS


def test_resume_sees_new_images(project: Path, tmp_path: Path, call: Callable[..., Called]) -> None:
    """Half of the answers about another picture are no result, whether the sample was asked or
    not.
    """
    picture = project / "pictures/circle.png"
    with TestServer("A") as server:
        words = ("run", project, "--model", f"{server.url}#m", "--max-calls", 1)
        assert call(*words, "--out", tmp_path / "run").code == 3
        picture.write_bytes(PNG + b"more")
        refused = call("resume", tmp_path / "run")
        assert refused.code == 2
        changed = "error[E505]: the run's image cannot be opened again: its content has changed"
        assert changed in refused.err
        assert f"--> {picture}" in refused.err
        picture.write_bytes(PNG)
        assert call("resume", tmp_path / "run").code == 0


def test_images_go_through_batches(folder: Path) -> None:
    """A line of a batch has the body that a call of its own has."""
    [prompt] = build(folder, [{"image": "circle.png"}])
    line = write_line(connect("http://127.0.0.1:1/v1#m"), Call("key", "1", 0, prompt))
    assert isinstance(line, bytes)
    assert json.loads(line)["body"] == SENT["chat"][1]
