"""The source `huggingface` against a hub of our own on this machine, which speaks as the library wants it."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from answerkey.cli import main
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.sources import Choice, HuggingFaceSource, choose_files, has_all_shards, pin_source
from answerkey.errors import DataError, SpecError

pytest.importorskip("huggingface_hub")
TOKEN = "hf_secretsecretsecret"  # noqa: S105 - made up
CARD = {
    "configs": [
        {"config_name": "all", "data_files": [{"split": "test", "path": "all/test-*"}]},
        {"config_name": "law", "data_files": [{"split": "dev", "path": "law/dev-*"}]},
    ]
}


def make_parquet(**columns: Sequence[object]) -> bytes:
    """Return a table as Parquet."""
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


@dataclass
class Repository:
    """A dataset repository: its files at each commit, its card, and what its names lead to."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    card: Mapping[str, Any] | None = None
    refs: dict[str, str] = field(default_factory=dict)
    is_gated: bool = False

    def put(self, files: dict[str, bytes], *, ref: str = "main") -> str:
        """Add a commit with these files, and let a name lead to it."""
        sha = hashlib.sha1(repr((ref, len(self.files), sorted(files))).encode()).hexdigest()  # noqa: S324 - a git hash
        self.files[sha] = files
        self.refs[ref] = sha
        return sha

    def find(self, revision: str) -> str | None:
        """Return the commit that a name or a hash means."""
        return revision if revision in self.files else self.refs.get(revision)


@dataclass
class Hub:
    """The hub's repositories and what was asked of it; files are handed out by storage elsewhere, or here."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    storage: str | None = None
    url: str = ""

    def answer(self, request: Handler) -> None:
        """Answer one request."""
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/revision/(.+))?", request.bare_path):
            self._tell(request, found[1], (found[2] or "main").replace("%2F", "/"))
        elif found := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", request.bare_path):
            self._hand_out(request, found[1], found[2], found[3])
        elif found := re.fullmatch(r"/stored/([^/]+/[^/]+)/([^/]+)/(.+)", request.bare_path):
            request.send(200, self.repositories[found[1]].files[found[2]][found[3]])
        else:
            request.send(404, b"")

    def _tell(self, request: Handler, name: str, revision: str) -> None:
        repository = self.repositories.get(name)
        if repository is None:
            request.send(401, b"", {"X-Error-Code": "RepoNotFound"})
            return
        sha = repository.find(revision)
        if sha is None:
            request.send(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return
        told = {
            "id": name,
            "sha": sha,
            "cardData": repository.card,
            "siblings": [{"rfilename": file} for file in repository.files[sha]],
        }
        request.send(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def _hand_out(self, request: Handler, name: str, revision: str, file: str) -> None:
        repository = self.repositories[name]
        if repository.is_gated:
            request.send(403, b"", {"X-Error-Code": "GatedRepo"})
            return
        sha = repository.find(revision) or ""
        raw = repository.files.get(sha, {}).get(file)
        if raw is None:
            request.send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": sha})
            return
        digest = hashlib.sha256(raw).hexdigest()
        headers = {"X-Repo-Commit": sha, "ETag": f'"{digest}"'}
        if self.storage is None:
            request.send(200, raw, headers)
            return
        headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(raw))}
        request.send(302, b"", {**headers, "Location": f"{self.storage}/stored/{name}/{sha}/{file}"})


class Handler(BaseHTTPRequestHandler):
    """Hands requests to the hub of its server, and notes them."""

    server: Server

    def do_GET(self) -> None:
        """Answer."""
        self._take()

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self._take()

    @property
    def bare_path(self) -> str:
        """The path without its query."""
        return self.path.split("?")[0]

    def _take(self) -> None:
        self.server.noted.append((self.command, self.bare_path, self.headers.get("authorization")))
        self.server.hub.answer(self)

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a reply."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server of a hub, or of its storage."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub = hub
        self.noted: list[tuple[str, str, str | None]] = []

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.server_address[1]}"


def close_connections() -> None:
    """Have the library forget its connections, in any of its versions."""
    library = importlib.import_module("huggingface_hub")
    (getattr(library, "close_session", None) or library.utils.reset_sessions)()


@pytest.fixture
def serve() -> Iterator[Callable[[Hub], Server]]:
    """Return a function that starts a server; all are stopped afterwards."""
    servers: list[Server] = []

    def start(hub: Hub) -> Server:
        server = Server(hub)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    close_connections()  # it keeps them otherwise, until some other test is blamed
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hub(serve: Callable[[Hub], Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """Return a hub that the environment names, with caches of its own."""
    monkeypatch.chdir(tmp_path)
    hub = Hub()
    server = serve(hub)
    hub.url, hub.asked = server.url, server.noted
    for name, value in {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HF_TOKEN": TOKEN,
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("HF_HUB_OFFLINE", "ANSWERKEY_OFFLINE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return hub


@pytest.fixture
def quiz(hub: Hub) -> Repository:
    """Return a dataset with two configs, one of them in two shards."""
    found = Repository(card=CARD)
    found.put(
        {
            "README.md": b"text",
            "all/test-00000-of-00002.parquet": make_parquet(q=["one", "two"], answer=[0, 1]),
            "all/test-00001-of-00002.parquet": make_parquet(q=["three"], answer=[1]),
            "law/dev-00000-of-00001.parquet": make_parquet(q=["four"], answer=[0]),
        }
    )
    hub.repositories["made/quiz"] = found
    return found


def test_a_split_is_read_as_the_card_says(quiz: Repository) -> None:
    """All shards in order; places name the dataset, its commit and the file."""
    table = HuggingFaceSource("made/quiz", "test", name="all").read(name="x")
    samples = table.samples
    assert samples.frame.rows() == [("one", 0), ("two", 1), ("three", 1)]
    sha = quiz.refs["main"][:7]
    assert str(samples.place(2)) == f"hf://datasets/made/quiz@{sha}/all/test-00001-of-00002.parquet:1"


def test_the_words_of_the_original_platform_say_the_same(quiz: Repository) -> None:
    """`load_dataset_kwargs` names config, revision and files; what it cannot say here is refused by name."""
    sha = quiz.refs["main"]
    base = open_dataset(HuggingFaceSource("made/quiz", "test", name="all"), name="x").fingerprint
    said = HuggingFaceSource("made/quiz", "test", load_dataset_kwargs={"name": "all", "revision": sha})
    assert open_dataset(said, name="y").fingerprint == base
    with pytest.raises(SpecError, match=r"`load_dataset_kwargs\.trust_remote_code` is not done") as caught:
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
    assert (pinned.revision, pinned.data_files) == (
        quiz.refs["main"],
        ["all/test-00000-of-00002.parquet", "all/test-00001-of-00002.parquet"],
    )
    pinned.read(name="x")
    asked = len(hub.asked)
    pinned.read(name="x")
    assert len(hub.asked) == asked


def test_without_a_card_names_tell_the_split(hub: Hub) -> None:
    """Folders and names of files say it, under the usual other words too."""
    found = Repository()
    found.put(
        {
            "data/train-00000-of-00001.parquet": make_parquet(q=["t"]),
            "data/dev.jsonl": b'{"q": "v"}\n',
            "eval/questions_test.csv": b"q\nx\n",
        }
    )
    hub.repositories["made/plain"] = found
    for split, row in {"train": "t", "validation": "v", "test": "x"}.items():
        table = HuggingFaceSource("made/plain", split).read(name="x")
        assert table.samples.frame["q"].to_list() == [row]


def test_a_dataset_with_a_script_is_read_from_what_the_hub_made_of_it(hub: Hub) -> None:
    """No code is run: the branch with Parquet files is read instead."""
    found = Repository()
    found.put({"quiz.py": b"raise SystemExit", "README.md": b"x"})
    found.put({"law/test/0000.parquet": make_parquet(q=["made"])}, ref="refs/convert/parquet")
    hub.repositories["made/script"] = found
    table = HuggingFaceSource("made/script", "test", name="law").read(name="x")
    assert table.samples.frame["q"].to_list() == ["made"]
    with pytest.raises(DataError, match="has no config `lwa`") as caught:
        HuggingFaceSource("made/script", "test", name="lwa").read(name="x")
    assert "did you mean `law`?" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (HuggingFaceSource("made/none", "test"), "does not exist, or is not for you", "check `path`"),
        (HuggingFaceSource("made/quiz", "tset", name="all"), "has no split `tset`", "did you mean `test`?"),
        (HuggingFaceSource("made/quiz", "test"), "has several configs", "`all`, `law`"),
        (HuggingFaceSource("made/quiz", "test", name="al"), "has no config `al`", "did you mean `all`?"),
        (HuggingFaceSource("made/quiz", "test", revision="v9"), "has no revision `v9`", ""),
        (HuggingFaceSource("made/quiz", data_files="x/*.csv"), "has no file `x/*.csv`", "data files there"),
        (HuggingFaceSource("not a name/at all/x"), "cannot exist", "`path` is `owner/name`"),
    ],
)
@pytest.mark.usefixtures("quiz")
def test_what_is_not_there_is_told(source: HuggingFaceSource, message: str, hint: str) -> None:
    """E214 says what is missing, and what there is."""
    with pytest.raises(DataError) as caught:
        source.read(name="x")
    assert caught.value.code == "E214"
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_dataset_with_terms_is_told(quiz: Repository) -> None:
    """The hint says where to accept them."""
    quiz.is_gated = True
    with pytest.raises(DataError, match="asks you to accept its terms first"):
        HuggingFaceSource("made/quiz", "test", name="all").read(name="x")


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "ANSWERKEY_OFFLINE"])
def test_offline_only_this_machine_is_read(
    hub: Hub, quiz: Repository, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """What was read once is read again, with the same fingerprint; nobody is asked."""
    source = HuggingFaceSource("made/quiz", "test", name="all")
    fingerprint = open_dataset(source, name="x").fingerprint
    quiz.put({"README.md": b"moved on"})
    asked = len(hub.asked)
    monkeypatch.setenv(variable, "1")
    assert open_dataset(source, name="x").fingerprint == fingerprint
    with pytest.raises(DataError, match="not on this machine") as caught:
        HuggingFaceSource("made/quiz", "dev", name="law").read(name="x")
    assert caught.value.code == "E214"
    assert len(hub.asked) == asked


def test_offline_what_other_programs_fetched_is_read_if_it_is_complete(
    quiz: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Numbered files tell whether all are there; a part of a split is refused rather than read."""
    sha = quiz.refs["main"]
    folder = tmp_path / "hf" / "hub" / "datasets--made--quiz"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(sha)
    names = ["all/test-00000-of-00002.parquet", "all/test-00001-of-00002.parquet"]
    snapshot = folder / "snapshots" / sha
    (snapshot / "all").mkdir(parents=True)
    (snapshot / "README.md").write_text(
        "---\nconfigs:\n- config_name: all\n  data_files:\n  - split: test\n    path: all/test-*\n---\n"
    )
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    source = HuggingFaceSource("made/quiz", "test")
    (snapshot / names[0]).write_bytes(quiz.files[sha][names[0]])
    with pytest.raises(DataError, match="not all of it"):
        source.read(name="x")
    (snapshot / names[1]).write_bytes(quiz.files[sha][names[1]])
    assert source.read(name="x").samples.frame["q"].to_list() == ["one", "two", "three"]


def test_the_token_goes_to_the_hub_and_nowhere_else(
    hub: Hub, quiz: Repository, serve: Callable[[Hub], Server]
) -> None:
    """Storage that the hub sends on to sees none; no error, fingerprint or stored source holds it."""
    storage = serve(Hub(repositories={"made/quiz": quiz}))
    hub.storage = storage.url.replace("127.0.0.1", "localhost")  # another host, as it is at the real hub
    source = pin_source(HuggingFaceSource("made/quiz", "test", name="all"))
    source.read(name="x")
    assert {token for _, _, token in hub.asked} == {f"Bearer {TOKEN}"}
    assert storage.noted
    assert {token for _, _, token in storage.noted} == {None}
    assert TOKEN not in repr(source)


def test_an_endpoint_that_others_can_listen_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`HF_ENDPOINT` is https, or on this machine."""
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    with pytest.raises(SpecError, match=r"`HF_ENDPOINT` is 'http://hub\.example'") as caught:
        HuggingFaceSource("made/quiz").read(name="x")
    assert caught.value.code == "E119"


def test_a_hub_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """E214 with what to do: nothing older is read instead."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(DataError, match=r"no answer from `127\.0\.0\.1:9`") as caught:
        HuggingFaceSource("made/quiz", "test").read(name="x")
    assert "HF_HUB_OFFLINE=1" in str(caught.value.hint)


@pytest.mark.parametrize("version", ["0.29.3", "0.9.0.rc1"])
def test_a_library_that_is_too_old_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    """With the version that is needed, and the one that is there; it is no bug of ours."""
    monkeypatch.setattr(importlib.import_module("huggingface_hub"), "__version__", version)
    assert main(["run", "mmlu", "--model", "builtin/random", "-q"]) == 2
    told = capsys.readouterr().err
    assert (
        f"error[E214]: datasets of the hub need `huggingface-hub` 0.30 or newer; {version} is installed"
        in told
    )
    assert "= help: pip install --upgrade huggingface-hub" in told


@pytest.mark.usefixtures("quiz")
def test_what_every_version_has_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is fetched with what `hf_hub_download` takes since 0.30, and sessions are forgotten as there."""
    library = importlib.import_module("huggingface_hub")
    download = library.hf_hub_download
    forgotten: list[int] = []

    def download_as_before(
        repo_id: str,
        filename: str,
        *,
        repo_type: str,
        revision: str,
        cache_dir: Path,
        endpoint: str,
        local_files_only: bool,
    ) -> object:
        options = {"repo_type": repo_type, "revision": revision, "cache_dir": cache_dir}
        assert library.utils.are_progress_bars_disabled()
        return download(repo_id, filename, **options, endpoint=endpoint, local_files_only=local_files_only)

    monkeypatch.setattr(library, "hf_hub_download", download_as_before)
    monkeypatch.setattr(library, "close_session", None, raising=False)
    monkeypatch.setattr(library.utils, "reset_sessions", lambda: forgotten.append(1), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    rows = HuggingFaceSource("made/quiz", "test", name="all").read(name="x").samples.frame.rows()
    assert rows == [("one", 0), ("two", 1), ("three", 1)]
    assert forgotten
    assert not library.utils.are_progress_bars_disabled()


def test_without_the_library_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install huggingface-hub`."""

    def refuse(name: str) -> object:
        raise ImportError(name)

    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(DataError, match="which is not installed") as caught:
        HuggingFaceSource("made/quiz").read(name="x")
    assert caught.value.hint == "pip install huggingface-hub"


def test_a_run_on_the_hub_is_explained_after_the_hub_moved_on(
    hub: Hub, quiz: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run names commit and files; it is read again as it was, and holds no token."""
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text(
        "key: t\ndisplay_name: T\ndescription: D\ndefinition:\n  solver:\n    type: single_turn_solver\n"
        "    input_builder:\n      type: chat_completion\n      input_messages:\n"
        "        - {role: user, content: '{{ sample.q }}'}\n  scorers:\n    - type: string_equals_mcqa\n"
        "      ground_truth_choice: \"{{ 'AB'[sample.answer] }}\"\n      choices: [A, B]\n"
    )
    Path("dataset.yaml").write_text(
        "key: quiz\ndisplay_name: Quiz\n"
        "source: {type: huggingface, path: made/quiz, name: all, split: test}\n"
    )
    words = ["run", "task.yaml", "--dataset", "dataset.yaml", "--model", "builtin/constant?choice=B"]
    assert main([*words, "--out", "out", "-q"]) == 0
    stored = json.loads(Path("out/tasks/t/task.json").read_text())["dataset"]
    assert stored["revision"] == quiz.refs["main"]
    assert stored["data_files"] == ["all/test-00000-of-00002.parquet", "all/test-00001-of-00002.parquet"]
    manifest = json.loads(Path("out/run.json").read_text())
    assert manifest["tasks"][0]["dataset"]["file"] == "hf://datasets/made/quiz"
    assert manifest["tasks"][0]["counts"]["samples"] == 3
    for path in Path("out").rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes()
    quiz.put({"README.md": b"gone"})
    asked = len(hub.asked)
    assert main(["explain", "out", "3", "-q"]) == 0
    assert len(hub.asked) == asked


NAMES = ["README.md", "a/test-00000-of-00001.parquet", "a/train.csv", "b/test.jsonl"]


@pytest.mark.parametrize(
    ("choice", "card", "found"),
    [
        (Choice("x", "test", files=("b/*.jsonl",)), {}, ["b/test.jsonl"]),
        (Choice("x", "test", folder="a"), {}, ["a/test-00000-of-00001.parquet"]),
        (Choice("x", "test", "b"), {}, ["b/test.jsonl"]),
        (
            Choice("x", "train"),
            {"configs": [{"config_name": "default", "data_files": "a/*.csv"}]},
            ["a/train.csv"],
        ),
        (
            Choice("x", "test"),
            {"configs": [{"config_name": "default", "data_files": {"test": ["b/*", "a/test*"]}}]},
            ["a/test-00000-of-00001.parquet", "b/test.jsonl"],
        ),
        (
            Choice("x", "one"),
            {"configs": [{"data_files": [{"split": "one", "path": "**/*.csv"}], "data_dir": "a"}]},
            ["a/train.csv"],
        ),
    ],
)
def test_files_are_chosen_by_what_is_asked_for(
    choice: Choice, card: dict[str, Any], found: list[str]
) -> None:
    """The caller's patterns, then the card, then names."""
    assert choose_files(choice, NAMES, card) == found


def test_missing_shards_are_seen() -> None:
    """By their numbers, with or without a hash behind them; None where names do not count."""
    assert has_all_shards(["t-00000-of-00002.parquet", "t-00001-of-00002-abc.parquet"])
    assert not has_all_shards(["t-00001-of-00002-abc.parquet"])
    assert not has_all_shards(["test.jsonl"])


def test_a_ready_made_task_reads_its_dataset_from_the_hub(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    """`answerkey run mmlu` without more; its config chooses the split."""
    columns: dict[str, Sequence[object]] = {
        "question": ["1+1?", "2+2?"],
        "subject": ["sums", "sums"],
        "choices": [["1", "2", "3", "4"]] * 2,
    }
    splits = [{"split": split, "path": f"all/{split}-*"} for split in ("test", "dev")]
    found = Repository(card={"configs": [{"config_name": "all", "data_files": splits}]})
    found.put(
        {
            "all/test-00000-of-00001.parquet": make_parquet(**columns, answer=[1, 3]),
            "all/dev-00000-of-00001.parquet": make_parquet(**columns, answer=[0, 0]),
        }
    )
    hub.repositories["cais/mmlu"] = found
    for words, value in (([], 0.5), (["--config", "split=dev"], 0.0)):
        model = ["--model", "builtin/constant?choice=D"]
        assert main(["run", "mmlu", *model, *words, "--out", f"out-{value}", "--json", "-q"]) == 0
        (task,) = json.loads(capsys.readouterr().out)["tasks"]
        assert [one["value"] for one in task["metrics"] if one["name"] == "Accuracy"] == [value]


def test_a_ready_made_task_joins_the_subjects_of_the_hub(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    """CMMLU is read from the branch with Parquet files, a folder for each subject."""
    columns: dict[str, Sequence[object]] = {"Question": ["?"], "A": ["w"], "B": ["x"], "C": ["y"], "D": ["z"]}
    found = Repository()
    found.put({"cmmlu.py": b""})
    found.put(
        {
            "agronomy/test/0000.parquet": make_parquet(**columns, Answer=["A"]),
            "agronomy/dev/0000.parquet": make_parquet(**columns, Answer=["B"]),
            "virology/test/0000.parquet": make_parquet(**columns, Answer=["D"]),
        },
        ref="refs/convert/parquet",
    )
    hub.repositories["haonan-li/cmmlu"] = found
    assert main(["check", "cmmlu", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["check"]["tasks"][0]["rows"] == 2
