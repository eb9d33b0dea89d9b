"""Every command and every line of Python that the documentation shows does what the page says."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import BatchBehaviour, BatchServer

import answerkey
from answerkey.models.calls import Limits
from answerkey.models.names import PROVIDERS
from answerkey.spec.ready_made import list_ready_made
from answerkey.testing import answer_by_hash

from .documents import CI_FILES, PAGES, Block, Desk, collect_blocks, list_unlabelled
from .material import fill_store, lay_out, serve_hub
from .scripts import PACKAGE, ROOT, Call, load_script, read

#: Commands and Python that are not run here, by how they begin or what they contain.
NOT_RUN = (
    r"^make ",  # takes minutes; that the target exists is tested below
    r"^\.ci/run$",  # runs these tests
    r"--ray-address|^ray start|RAY_AUTH",  # tests/unit/engines/test_ray_storage.py starts a cluster
    r"--engine ray",  # tests/unit/engines/test_ray_engine.py gives this option
    r"^ssh ",  # needs another machine
    r"^docker ",  # tests/contract/test_docker.py runs the lines of the Dockerfile
    r"^sbatch |^kubectl ",  # test_cluster_examples.py runs what the examples call
    r"^from (inspect_ai|lighteval)",  # tests/unit/adapters/test_in_tools.py runs it there
    r"^import mlflow",  # tests/unit/exporters/test_other_tools.py runs it there
    r"^lm_eval ",  # tests/unit/importers/test_tools_that_run.py runs it
    r"generate\.py",  # tests/contract/test_offline_example.py runs it with a stand-in for vLLM
    r"=zsh_source",  # tests/unit/cli/test_completing.py reads what zsh is given
)
#: Plugins of pytest that this repository needs, and a page does not: they take a second to import.
FOREIGN_PLUGINS = ("playwright", "hypothesispytest", "xdist", "cacheprovider")
BLOCKS = collect_blocks()
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def is_not_run(text: str) -> bool:
    """Return whether a command, or a block of Python, is one of those that are not run here."""
    return any(re.search(pattern, text) for pattern in NOT_RUN)


def list_commands(page: str = "") -> list[str]:
    """Return the commands of a page, or of all pages."""
    blocks = [block for block in BLOCKS if page in {"", block.page}]
    return [command.text for block in blocks for command in block.commands]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Iterator[Desk]:
    """Return a folder with all that the pages speak of, and servers in place of models, hub and
    store.
    """
    folder = tmp_path_factory.mktemp("desk")
    plugins = " ".join(f"-p no:{name}" for name in FOREIGN_PLUGINS)
    with (
        pytest.MonkeyPatch.context() as patch,
        BatchServer(answer_by_hash(list("ABCD")), BatchBehaviour(batch_polls=0)) as server,
        serve_hub() as hub,
    ):
        settings = {
            "HOME": str(folder),
            "BROWSER": "true",
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "not-a-key",
            "VLLM_BASE_URL": server.url,
            "HF_ENDPOINT": hub,
            "HF_HOME": str(folder.with_name("hub")),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "PYTEST_ADDOPTS": f"--basetemp={folder.with_name('pages')} {plugins}",
        }
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        lay_out(call)
        stand_ins = {
            "127.0.0.1:8000": f"127.0.0.1:{server.port}",
            "--port 8000": "--port 0",
            "--port 8080": "--port 0",
            "--rows 1000000": "--rows 1000",
            "/tmp/answerkey-demo": "answerkey-demo",  # noqa: S108 - what the page says; written elsewhere
        }
        made = Desk(folder, stand_ins)
        made.keep()
        yield made


@pytest.fixture(scope="module")
def store(desk: Desk, call: Call, s3_server: str) -> Iterator[None]:
    """Let the environment name an object store with a table and a run in the bucket `evals`."""
    settings = {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "not-a-key",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        desk.restore()
        fill_store(s3_server, Path("rows.parquet"))
        words = ("--completion-column", "completion", "--out", "s3://evals/runs/released")
        done = call("score", "task.yaml", "--dataset", "s3://evals/rows.parquet", *words)
        assert done.code == 0, done.err
        desk.stand_ins["127.0.0.1:9000"] = s3_server.removeprefix("http://")
        yield


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_blocks_do_as_pages_say(desk: Desk, block: Block, request: pytest.FixtureRequest) -> None:
    """Each command ends with the exit code of the page, else with 0, and prints what the page
    shows.
    """
    if any("s3://" in command.text and not is_not_run(command.text) for command in block.commands):
        request.getfixturevalue("store")
    if problems := desk.carry_out(block, is_not_run):
        pytest.fail("\n".join(problems), pytrace=False)


def test_what_is_not_run_is_still_there() -> None:
    """A reason without a command is out of date."""
    texts = [block.source for block in BLOCKS] + list_commands()
    unused = [pattern for pattern in NOT_RUN if not any(re.search(pattern, text) for text in texts)]
    assert unused == []


#: Examples that are no project, and the tests that run them.
OTHER_EXAMPLES = {
    "ci": "tests/contract/documents.py",
    "kubernetes": "tests/contract/test_cluster_examples.py",
    "notebook": "tests/golden/test_notebook.py",
    "offline": "tests/contract/test_offline_example.py",
    "slurm": "tests/contract/test_cluster_examples.py",
}


def test_every_example_is_run() -> None:
    """Each folder has a command in the table of the examples, which is run here, or a test of its
    own.
    """
    texts = "\n".join(list_commands("examples/README.md"))
    names = set(re.findall(r"^answerkey \w+ examples/(\w+)", texts, re.MULTILINE))
    folders = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
    assert folders == names | OTHER_EXAMPLES.keys()
    assert not any(is_not_run(text) for text in texts.splitlines())
    lost = [
        one for one, file in OTHER_EXAMPLES.items() if not re.search(rf'["/]{one}["/]', read(file))
    ]
    assert lost == []


def test_commands_stand_in_blocks_that_say_so() -> None:
    """A block of commands is marked `sh` or `console`; otherwise it would not be run here."""
    assert list_unlabelled() == []


def test_every_target_of_make_is_there() -> None:
    """What the pages make, the Makefile knows."""
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    commands = [text.split()[1:] for text in list_commands() if text.startswith("make ")]
    inline = re.findall(r"`make ([a-z -]+)`", TEXT)
    mentioned = {target for words in commands for target in words} | set(" ".join(inline).split())
    assert mentioned
    assert mentioned - targets == set()


def test_nothing_is_promised_that_is_not_released() -> None:
    """No page, example or message installs answerkey from an index.

    Other packages are its extras.
    """
    sources = sorted((ROOT / "src").rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in (*PAGES, *CI_FILES, *sources)}
    promised = r"\buvx\b|\bpipx\b|pip install [^`\n]*?(?<![/.\w])'?answerkey|uv add|conda install"
    assert [path.name for path, text in texts.items() if re.search(promised, text)] == []
    mentioned = set(re.findall(r"pip install ([\w=.-]+)[`\"]", "\n".join(texts.values())))
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    requirements = {requirement for extra in extras.values() for requirement in extra}
    names = {re.split(r"[>=]=", requirement)[0] for requirement in requirements}
    assert {"s3fs", "ray==2.60.0"} <= mentioned
    assert mentioned <= requirements | names


def test_every_path_that_a_page_names_is_there() -> None:
    """A path in code form that begins with a folder of the repository leads to something in it; on
    the pages for developers, every path does, from the root or the package. `<…>` stands for any
    name.
    """
    folders = r"src|tests|docs|bench|scripts|examples|requirements|\.ci"
    paths = set(re.findall(rf"`((?:{folders})/[\w<>.*/-]+)", TEXT))
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/testing.md"):
        text = re.sub(r"```.*?```", "", read(page), flags=re.DOTALL)
        paths |= set(re.findall(r"`((?:\.?[\w<>.*-]+/)+[\w<>.*-]*)`", text))
    tree = re.findall(r"^[├└]── ([\w<>.*/-]+)", read("ARCHITECTURE.md"), re.MULTILINE)
    paths |= {f"tests/{path}" for path in tree}
    patterns = {path: re.sub(r"<[^>]+>", "*", path).rstrip("/") for path in paths - MADE}
    assert len(patterns) > 40
    globs = {path: (*ROOT.glob(text), *PACKAGE.glob(text)) for path, text in patterns.items()}
    assert [path for path, files in globs.items() if not files] == []


def test_every_module_that_a_page_names_is_there() -> None:
    """A dotted name of the package is a module, a name of one, or a group of entry points."""
    groups = {
        f"answerkey.{name}"
        for name in ("importers", "metrics", "models", "scorers", "solvers", "sources")
    }
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]  # it names what is gone
    texts = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    modules = set(re.findall(r"(?<![\w/])(answerkey(?:\.[A-Za-z_]+)+)", texts)) - groups
    assert "answerkey.testing" in modules
    assert [name for name in sorted(modules) if not is_there(name)] == []


def is_there(name: str) -> bool:
    """Return whether a dotted name can be imported, or is a name of what can."""
    above, _, last = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return hasattr(importlib.import_module(above), last)
    return True


def test_every_public_name_is_documented() -> None:
    """The page of the Python functions has each name that the package exports."""
    page = read("docs/reference/python.md")
    names = [name for name in answerkey.__all__ if name[0] != "_"]
    assert [name for name in names if f"`ak.{name}`" not in page] == []


def test_the_readme_lists_every_task_and_provider() -> None:
    """The table of what it works with has each ready-made task and each provider of the code."""
    page = read("README.md")
    tasks = list_ready_made()
    assert [name for name in (*tasks, *PROVIDERS) if f"`{name}`" not in page] == []
    assert f"<!-- value: task-count -->{len(tasks)}<!-- /value -->" in page


def test_marked_values_are_filled_in() -> None:
    """A marked value is replaced; one that cannot be made on this machine stays as it is."""
    script = load_script("scripts/docs.py")
    page = "| <!-- value: right -->1<!-- /value --> of <!-- value: rows -->2<!-- /value --> |"
    expected = page.replace("-->1<", "-->11,916<")
    assert script.fill_values(page, {"right": "11,916"}) == expected


def test_no_line_begins_with_a_marked_value() -> None:
    """Markdown takes a line that begins with a comment as HTML, and shows the rest of it as it is
    written.
    """
    assert [page.name for page in PAGES if "\n<!-- value" in page.read_text(encoding="utf-8")] == []


def test_the_limits_of_calls_are_those_of_the_code() -> None:
    """The page about calling models states the numbers that the client uses."""
    page = read("docs/reference/calling-models.md")
    limits = Limits()
    sentences = (
        f"at most {limits.attempts} attempts",
        f"up to {limits.unreadable_attempts} attempts",
        f"between 0 and {limits.first_wait} s",
        f"up to {limits.wait_seconds:.0f} s",
        f"One request may take {limits.attempt_seconds:.0f} s",
        f"a call with all attempts {limits.call_seconds:.0f} s",
        f"no connection for {limits.reach_seconds:.0f} s",
        f"or {limits.max_concurrent}, and fewer",
        f"more than {limits.max_bytes // 2**20} MB",
    )
    assert [sentence for sentence in sentences if sentence not in page] == []


def test_every_link_leads_somewhere() -> None:
    """Each relative link leads to a file of the repository, and to a heading of it where it names
    one.
    """
    assert list(load_script("scripts/docs.py").find_dead_links()) == []


#: Paths that a command of the page makes, and names that are no path.
MADE = {"build/browser/<test>/", "build/fuzz", "bench/.work", "mine/small"}
