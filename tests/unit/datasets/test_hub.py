"""The source `huggingface` against a hub of our own on this machine, which speaks as the library
wants it.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.projects import SCORER, describe_solver, write_task
from tests.samples import read_cases, refuse

from answerkey.cli import main
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.hub import HuggingFaceSource, choose_files
from answerkey.datasets.sources import pin_source
from answerkey.errors import DataError, SpecError
from answerkey.spec.ready_made import load_ready_made

CASES = read_cases(__file__)

if TYPE_CHECKING:
    from tests.unit.datasets.conftest import Handler, Server

pytest.importorskip("huggingface_hub")
pytestmark = pytest.mark.usefixtures("no_network")
TOKEN = "hf_secretsecretsecret"  # noqa: S105 - made up
CARD = {
    "configs": [
        {"config_name": "all", "data_files": [{"split": "test", "path": "all/test-*"}]},
        {"config_name": "law", "data_files": [{"split": "dev", "path": "law/dev-*"}]},
    ],
}
Columns = Mapping[str, Sequence[object]]
SHARDS = ["all/test-00000-of-00002.parquet", "all/test-00001-of-00002.parquet"]


def make_parquet(**columns: Sequence[object]) -> bytes:
    """Return a table as Parquet."""
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


@dataclass
class Repository:
    """A dataset repository: its files at each commit, its card, and what its names lead to."""

    card: Mapping[str, Any] | None = None
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    is_gated: bool = False

    def put(self, files: dict[str, bytes], *, ref: str = "main") -> str:
        """Add a commit with these files, and let a name lead to it."""
        sha = hashlib.sha1(repr((ref, len(self.files), sorted(files))).encode()).hexdigest()  # noqa: S324 - a git hash
        self.files[sha] = files
        self.refs[ref] = sha
        return sha


class Hub:
    """The hub's repositories; files are handed out by storage elsewhere, or here."""

    def __init__(self, serve: Callable[[Callable[[Handler], None]], Server]) -> None:
        self.repositories: dict[str, Repository] = {}
        self.storage: str | None = None
        self.server = serve(self.answer)
        self.asked = self.server.asked

    def add(
        self, name: str, files: dict[str, bytes], card: Mapping[str, Any] | None = None
    ) -> Repository:
        """Add a repository with one commit."""
        result = self.repositories[name] = Repository(card)
        result.put(files)
        return result

    def answer(self, request: Handler) -> None:
        """Answer one request."""
        kinds = r"/(api/datasets|datasets|stored)/([^/]+/[^/]+)(?:/(?:revision/|resolve/)?([^/]+)(?:/(.+))?)?"  # noqa: E501 - one case a line
        match = re.fullmatch(kinds, request.bare_path)
        repository = self.repositories.get(match[2]) if match else None
        if match is None or repository is None:
            request.send(401, headers={"X-Error-Code": "RepoNotFound"})
            return
        kind, name, file = match[1], match[2], match[4]
        revision = (match[3] or "main").replace("%2F", "/")
        sha = revision if revision in repository.files else repository.refs.get(revision)
        raw = repository.files.get(sha or "", {}).get(file or "")
        if sha is None:
            request.send(404, headers={"X-Error-Code": "RevisionNotFound"})
        elif kind == "api/datasets":
            siblings = [{"rfilename": path} for path in repository.files[sha]]
            about = {"id": name, "sha": sha, "cardData": repository.card, "siblings": siblings}
            request.send(200, json.dumps(about).encode(), {"Content-Type": "application/json"})
        elif repository.is_gated:
            request.send(403, headers={"X-Error-Code": "GatedRepo"})
        elif raw is None:
            request.send(404, headers={"X-Error-Code": "EntryNotFound", "X-Repo-Commit": sha})
        elif self.storage is None or kind == "stored":
            etag = f'"{hashlib.sha256(raw).hexdigest()}"'
            request.send(200, raw, {"X-Repo-Commit": sha, "ETag": etag})
        else:
            etag = f'"{hashlib.sha256(raw).hexdigest()}"'
            linked = {"ETag": etag, "X-Linked-Etag": etag, "X-Linked-Size": str(len(raw))}
            place = f"{self.storage}/stored/{name}/{sha}/{file}"
            request.send(302, headers={"X-Repo-Commit": sha, "Location": place, **linked})


@pytest.fixture
def hub(
    serve: Callable[[Callable[[Handler], None]], Server],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Hub]:
    """Return a hub that the environment names, with caches of its own."""
    monkeypatch.chdir(tmp_path)
    result = Hub(serve)
    monkeypatch.setenv("HF_ENDPOINT", result.server.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield result
    library = importlib.import_module("huggingface_hub")
    # It keeps its connections otherwise, in any of its versions, until some other test is blamed.
    (getattr(library, "close_session", None) or library.utils.reset_sessions)()


@pytest.fixture
def quiz(hub: Hub) -> Repository:
    """Return a dataset with two configs, one of them in two shards."""
    files = {
        "README.md": b"text",
        SHARDS[0]: make_parquet(q=["one", "two"], answer=[0, 1]),
        SHARDS[1]: make_parquet(q=["three"], answer=[1]),
        "law/dev-00000-of-00001.parquet": make_parquet(q=["four"], answer=[0]),
    }
    return hub.add("made/quiz", files, CARD)


def read(path: str, split: str | None = None, name: str | None = None) -> list[object]:
    """Return the questions of a dataset of the hub."""
    return HuggingFaceSource(path, split, name).read(name="x").samples.values("q")


def test_a_split_is_read_as_the_card_says(quiz: Repository) -> None:
    """All shards in order; places name the dataset, its commit and the file."""
    samples = HuggingFaceSource("made/quiz", "test", name="all").read(name="x").samples
    assert [tuple(row.values()) for row in samples.rows()] == [("one", 0), ("two", 1), ("three", 1)]
    sha = quiz.refs["main"][:7]
    assert (
        str(samples.place(2)) == f"hf://datasets/made/quiz@{sha}/all/test-00001-of-00002.parquet:1"
    )


def test_the_words_of_the_original_platform_say_the_same(quiz: Repository) -> None:
    """`load_dataset_kwargs` names config, revision and files.

    What it cannot say here is refused by name.
    """
    sha = quiz.refs["main"]
    base = open_dataset(HuggingFaceSource("made/quiz", "test", name="all"), name="x").fingerprint
    source = HuggingFaceSource(
        "made/quiz", "test", load_dataset_kwargs={"name": "all", "revision": sha}
    )
    assert open_dataset(source, name="y").fingerprint == base
    with pytest.raises(
        SpecError, match=r"`load_dataset_kwargs\.trust_remote_code` is not supported"
    ) as caught:
        HuggingFaceSource("made/quiz", load_dataset_kwargs={"trust_remote_code": True})
    assert caught.value.code == "E116"
    with pytest.raises(SpecError, match="`name` is given twice"):
        HuggingFaceSource("made/quiz", name="all", load_dataset_kwargs={"name": "law"})


def test_the_commit_is_part_of_the_fingerprint(quiz: Repository) -> None:
    """The same rows at another commit are another dataset; a pinned source stays with its own."""
    source = HuggingFaceSource("made/quiz", "test", name="all")
    first = open_dataset(source, name="x").fingerprint
    pinned = pin_source(source)
    quiz.put({**quiz.files[quiz.refs["main"]], "NEWS.md": b"changed"})
    assert open_dataset(source, name="x").fingerprint != first
    assert open_dataset(pinned, name="x").fingerprint == first


def test_a_pinned_source_names_its_files_and_asks_nobody(hub: Hub, quiz: Repository) -> None:
    """What was fetched once is read from this machine."""
    pinned = pin_source(HuggingFaceSource("made/quiz", "test", name="all"))
    assert isinstance(pinned, HuggingFaceSource)
    assert (pinned.revision, pinned.data_files) == (quiz.refs["main"], SHARDS)
    pinned.read(name="x")
    requests = len(hub.asked)
    pinned.read(name="x")
    assert len(hub.asked) == requests


def test_without_a_card_the_files_are_read_that_the_hub_made(hub: Hub) -> None:
    """No code is run, and no name is guessed; without those files `data_files` is needed."""
    plain = {"quiz.py": b"raise SystemExit", "test.csv": b"q\nx\n", "README.md": b"x"}
    result = hub.add("made/plain", plain)
    with pytest.raises(
        DataError, match=r"(?s)does not say which.*name its files with `data_files`"
    ):
        read("made/plain", "test")
    result.put({"law/test/0000.parquet": make_parquet(q=["made"])}, ref="refs/convert/parquet")
    assert read("made/plain", "test", name="law") == ["made"]
    assert read("made/plain") == ["made"]
    with pytest.raises(DataError, match=r"(?s)has no config `lwa`.*did you mean `law`"):
        read("made/plain", "test", name="lwa")
    for revision, folder in (("main", None), (None, "data")):
        source = HuggingFaceSource("made/plain", revision=revision, data_dir=folder)
        refuse(source, r"(?s)does not say which.*files there: .*`test.csv`")


@pytest.mark.parametrize(("fields", "words"), CASES["missing"])
@pytest.mark.usefixtures("quiz")
def test_what_is_not_there_is_told(fields: dict[str, str], words: str) -> None:
    """E214 says what is missing, and what there is."""
    source = HuggingFaceSource(**{"path": "made/quiz", **fields})  # type: ignore[arg-type]  # texts
    refuse(source, f"(?s)E214.*{words}")


def test_a_dataset_with_terms_is_told(quiz: Repository) -> None:
    """The hint says where to accept them, and how to do without."""
    quiz.is_gated = True
    with pytest.raises(
        DataError, match="wants a token, and that you accept its terms first"
    ) as caught:
        read("made/quiz", "test", name="all")
    expected = (
        "/datasets/made/quiz and set `HF_TOKEN`, or give a copy of its files: `--dataset FILE`"
    )
    assert str(caught.value.hint).endswith(expected)


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "ANSWERKEY_OFFLINE"])
def test_offline_only_this_machine_is_read(
    hub: Hub, quiz: Repository, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Files that were read before are read again, with the same fingerprint and no request."""
    source = HuggingFaceSource("made/quiz", "test", name="all")
    fingerprint = open_dataset(source, name="x").fingerprint
    quiz.put({"README.md": b"moved on"})
    requests = len(hub.asked)
    monkeypatch.setenv(variable, "1")
    assert open_dataset(source, name="x").fingerprint == fingerprint
    with pytest.raises(DataError, match=r"E214.*not on this machine"):
        read("made/quiz", "dev", name="law")
    assert len(hub.asked) == requests


def test_the_token_goes_to_the_hub_and_nowhere_else(
    hub: Hub, quiz: Repository, serve: Callable[[Callable[[Handler], None]], Server]
) -> None:
    """Storage that the hub sends on to sees none.

    No error, fingerprint or stored source holds it.
    """
    storage = Hub(serve)
    storage.repositories["made/quiz"] = quiz
    hub.storage = storage.server.url.replace(
        "127.0.0.1", "localhost"
    )  # another host, as at the real hub
    source = pin_source(HuggingFaceSource("made/quiz", "test", name="all"))
    source.read(name="x")
    for place, token in ((hub, f"Bearer {TOKEN}"), (storage, None)):
        assert {headers.get("authorization") for _, _, headers in place.asked} == {token}
    assert TOKEN not in repr(source)


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("http://hub.example", r"E119.*`HF_ENDPOINT` is 'http://hub\.example'"),
        ("http://127.0.0.1:9", r"E214.*no answer from `127\.0\.0\.1:9`.*HF_HUB_OFFLINE=1"),
    ],
)
def test_bad_endpoints_are_told(endpoint: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint is https or on this machine; if it does not answer, no older copy is read."""
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises((SpecError, DataError), match=f"(?s){words}"):
        read("made/quiz", "test")


@pytest.mark.usefixtures("quiz")
def test_what_every_version_has_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is fetched with what `hf_hub_download` takes since 0.30, when clients could not be
    replaced.
    """
    library = importlib.import_module("huggingface_hub")
    download = library.hf_hub_download

    def download_as_before(repo_id: str, filename: str, **options: object) -> object:
        supported = {"repo_type", "revision", "cache_dir", "endpoint", "local_files_only"}
        assert options.keys() == supported
        assert library.utils.are_progress_bars_disabled()
        return download(repo_id, filename, **options)

    monkeypatch.setattr(library, "hf_hub_download", download_as_before)
    monkeypatch.setattr(library, "set_client_factory", None, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert read("made/quiz", "test", name="all") == ["one", "two", "three"]


def test_without_the_library_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install huggingface-hub`."""

    def refuse(name: str) -> object:
        raise ImportError(name)

    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(
        DataError, match=r"(?s)which is not installed.*pip install huggingface-hub$"
    ):
        read("made/quiz")


def test_a_run_on_the_hub_is_explained_after_the_hub_moved_on(
    hub: Hub, quiz: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run names commit and files; it is read again as it was, and holds no token."""
    monkeypatch.chdir(tmp_path)
    scorer = {**SCORER, "ground_truth_choice": "{{ 'AB'[sample.answer] }}"}
    write_task(Path("task.yaml"), scorer, solver=describe_solver("{{ sample.q }}"))
    Path("dataset.yaml").write_text(
        "key: quiz\ndisplay_name: Quiz\n"
        "source: {type: huggingface, path: made/quiz, name: all, split: test}\n"
    )
    words = "run task.yaml --dataset dataset.yaml --model builtin/constant?choice=B --out out -q"
    assert main(words.split()) == 0
    stored = json.loads(Path("out/tasks/quiz/task.json").read_text())["dataset"]
    assert (stored["revision"], stored["data_files"]) == (quiz.refs["main"], SHARDS)
    manifest = json.loads(Path("out/run.json").read_text())
    assert manifest["tasks"][0]["dataset"]["file"] == "hf://datasets/made/quiz"
    assert manifest["tasks"][0]["counts"]["samples"] == 3
    for path in Path("out").rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes()
    quiz.put({"README.md": b"gone"})
    requests = len(hub.asked)
    assert main(["explain", "out", "3", "-q"]) == 0
    assert len(hub.asked) == requests


NAMES = ["README.md", "a/test-0.parquet", "a/train.csv", "b/test.jsonl"]
IN_ORDER = {"config_name": "default", "data_files": {"test": ["b/*", "a/test*"]}}
IN_FOLDER = {"data_files": [{"split": "one", "path": "**/*.csv"}], "data_dir": "a"}


@pytest.mark.parametrize(
    ("source", "config", "chosen"),
    [
        (HuggingFaceSource("x", "test", data_files=["b/*.jsonl"]), {}, ["b/test.jsonl"]),
        (HuggingFaceSource("x", data_files=["a/*.csv"], data_dir="a"), {}, ["a/train.csv"]),
        (HuggingFaceSource("x", "test", "b"), {}, []),
        (HuggingFaceSource("x", "train"), {"data_files": "a/*.csv"}, ["a/train.csv"]),
        (HuggingFaceSource("x", "test"), IN_ORDER, ["a/test-0.parquet", "b/test.jsonl"]),
        (HuggingFaceSource("x", "one"), IN_FOLDER, ["a/train.csv"]),
    ],
)
def test_files_are_chosen_by_what_is_asked_for(
    source: HuggingFaceSource, config: dict[str, Any], chosen: list[str]
) -> None:
    """The caller's patterns, then the card; no name is guessed."""
    assert choose_files(source, NAMES, {"configs": [config]} if config else {}) == chosen


def test_ready_made_tasks_read_the_hub(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    """`answerkey run mmlu` without more; its config chooses the split."""
    columns: dict[str, Sequence[object]] = {
        "question": ["1+1?", "2+2?"],
        "subject": ["sums", "sums"],
        "choices": [["1", "2", "3", "4"]] * 2,
    }
    splits = [{"split": split, "path": f"all/{split}-*"} for split in ("test", "dev")]
    files = {
        "all/test-00000-of-00001.parquet": make_parquet(**columns, answer=[1, 3]),
        "all/dev-00000-of-00001.parquet": make_parquet(**columns, answer=[0, 0]),
    }
    result = hub.add(
        "cais/mmlu", files, {"configs": [{"config_name": "all", "data_files": splits}]}
    )
    result.files[load_ready_made("mmlu").hub.at("revision").value] = files
    for words, value in (([], 0.5), (["--config", "split=dev"], 0.0)):
        model = ["--model", "builtin/constant?choice=D"]
        assert main(["run", "mmlu", *model, *words, "--out", f"out-{value}", "--json", "-q"]) == 0
        (task,) = json.loads(capsys.readouterr().out)["tasks"]
        assert [row["value"] for row in task["metrics"] if row["name"] == "Accuracy"] == [value]


MMLU_ROW: Columns = {"answer": [1], "choices": [["w", "x"]], "subject": ["law"]}
CEVAL_ROW: Columns = {"answer": ["B"], "A": ["w"], "B": ["x"], "C": ["y"], "D": ["z"]}


@pytest.mark.parametrize(
    ("name", "path", "shown"),
    [
        ("mmlu", "all/{}-00000-of-00001.parquet", MMLU_ROW),
        ("ceval", "law/{}/0000.parquet", CEVAL_ROW),
    ],
)
def test_examples_of_a_ready_made_task_are_read_from_the_hub(
    hub: Hub, capsys: pytest.CaptureFixture[str], name: str, path: str, shown: Columns
) -> None:
    """Of the split for them, in the first prompt; without shots that split is not fetched."""
    ready, test = load_ready_made(name), "val" if name == "ceval" else "test"
    files = {
        path.format(part): make_parquet(**shown, question=[f"of {part}?"]) for part in (test, "dev")
    }
    splits = [{"split": name, "path": f"all/{name}-*"} for name in (test, "dev")]
    result = hub.add(
        ready.hub.at("path").value, {}, {"configs": [{"config_name": "all", "data_files": splits}]}
    )
    revision = ready.hub.at("revision").value
    result.files[revision], result.refs[revision] = files, revision
    words = ["run", name, "--model", "builtin/random", "--dry-run", "--json"]
    for shots, questions in ((0, [test]), (1, ["dev", test])):
        assert main([*words, "--config", f"shots={shots}"]) == 0
        (task,) = json.loads(capsys.readouterr().out)["dry_run"]["tasks"]
        prompts = [turn["content"] for turn in task["first_prompt"] if turn["role"] == "user"]
        assert all(f"of {name}?" in text for name, text in zip(questions, prompts, strict=True))
        assert (path.format("dev") in str(hub.asked)) == bool(shots)


def test_gated_benchmarks_say_what_is_wanted(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    """At `run`, with the address of its terms and how to give a file."""
    configs = [{"config_name": "gpqa_diamond", "data_files": "gpqa_diamond.csv"}]
    hub.add("Idavidrein/gpqa", {"gpqa_diamond.csv": b"x"}, {"configs": configs}).is_gated = True
    assert main(["run", "gpqa", "--model", "builtin/random"]) == 2
    printed = capsys.readouterr().err
    message = (
        "dataset `Idavidrein/gpqa` of the hub wants a token, and that you accept its terms first"
    )
    assert message in printed
    way_out = "gpqa and set `HF_TOKEN`, or give a copy of its files: `--dataset FILE`"
    assert f"/datasets/Idavidrein/{way_out}" in printed


def test_ready_made_tasks_join_hub_subjects(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    """CMMLU is read from the branch with Parquet files, a folder for each subject."""
    columns: dict[str, Sequence[object]] = {
        "Question": ["?"],
        "A": ["w"],
        "B": ["x"],
        "C": ["y"],
        "D": ["z"],
    }
    result = hub.add("haonan-li/cmmlu", {"cmmlu.py": b""})
    answers = {"agronomy/test": "A", "agronomy/dev": "B", "virology/test": "D"}
    tables = {name: make_parquet(**columns, Answer=[answer]) for name, answer in answers.items()}
    made = {f"{name}/0000.parquet": table for name, table in tables.items()}
    result.put(made, ref="refs/convert/parquet")
    assert main(["check", "cmmlu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["check"]["tasks"][0]["rows"] == 2
