"""What the documentation tells its readers to run, and a desk at which it is run.

`collect_blocks` finds the fenced blocks of shell and Python in every page, the steps of the CI
examples, the hooks for pre-commit and the commands in the table of the examples. A `Desk` is a
folder with all the files and runs that the pages speak of; servers on this machine stand in for
models, the hub and object stores. `Desk.carry_out` restores it, runs one block in it, and returns
what is not as the page says.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from tests.forked import Forked

from answerkey.cli import main

from .scripts import ROOT

#: They are read from top to bottom by `test_pages_as_printed.py`.
AS_PRINTED = ("docs/tutorial.md", "docs/guide/compare-models.md")
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
    if "quickstart" not in path.relative_to(ROOT).parts[1:-1]
)
CI_FILES = (*sorted((ROOT / "examples" / "ci").iterdir()), ROOT / ".pre-commit-hooks.yaml")
SHELL = frozenset({"sh", "bash", "shell", "console"})
#: A command that takes longer than this hangs; the slowest takes some five seconds on an idle
#: machine.
PATIENCE = 300
FENCE = re.compile(r"^ *```(\w*) *\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(?:^|\s)#\s(.*)$")
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
#: What a shell has to read.
SHELL_SIGNS = re.compile(r"[$*|&;`]|^\w+=")
#: What no shell changes, whatever signs are in it.
QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
#: A variable in quotation marks, which needs no shell.
VARIABLE = re.compile(r'"\$(\w+)"')


@dataclass(frozen=True)
class Command:
    """One command line, the exit code that the page states (else 0) and the lines of output that it
    shows.
    """

    text: str
    code: int = 0
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """Commands, or Python source with the Python blocks above it on the page."""

    page: str
    line: int
    commands: tuple[Command, ...] = ()
    source: str = ""
    above: str = ""

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"


def collect_blocks() -> list[Block]:
    """Return all there is to run, page by page, but for pages that are read as printed."""
    pages = [page for page in PAGES if _name(page) not in AS_PRINTED]
    results = [block for page in pages for block in _read_page(page)]
    for file in CI_FILES:
        results += _read_ci(_name(file), file.read_text("utf-8"))
    return results


def list_unlabelled() -> list[str]:
    """Return the places of blocks that hold commands and do not say so."""
    command = re.compile(r"^(\w*\$ |answerkey |python -m |pip )", re.MULTILINE)
    fences = [(page, *fence) for page in PAGES for fence in _list_fences(page)]
    shown = [fence for fence in fences if fence[2] not in SHELL and command.search(fence[3])]
    return [f"{_name(page)}:{line}" for page, line, *_ in shown]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _list_fences(page: Path) -> Iterator[tuple[int, str, str]]:
    text = page.read_text(encoding="utf-8")
    for result in FENCE.finditer(text):
        yield text.count("\n", 0, result.start()) + 1, result[1], result[2]


def _read_page(page: Path) -> Iterator[Block]:
    name = _name(page)
    above = ""
    for line, kind, text in _list_fences(page):
        if kind in SHELL:
            yield Block(name, line, _read_console(text) if kind == "console" else _read_shell(text))
        elif kind == "python":
            yield Block(name, line, source=text, above=above)
            above += text
        elif kind == "yaml":
            yield from _read_ci(name, text, line)
    if name == "examples/README.md":
        yield from _read_table(name, page.read_text(encoding="utf-8"))


def _read_table(name: str, text: str) -> Iterator[Block]:
    """Yield a block for each run of rows: what continues the row above has an empty first cell."""
    blocks: list[tuple[int, list[Command]]] = []
    for number, row in enumerate(text.splitlines(), 1):
        match = re.search(r"^\|([^|]*)(.*)\| *`(answerkey [^`]+)` *\|$", row)
        if match:
            if match[1].strip() or not blocks:
                blocks.append((number, []))
            blocks[-1][1].append(Command(match[3], _read_code(match[2])))
    for start, commands in blocks:
        yield Block(name, start, tuple(commands))


def _read_code(text: str) -> int:
    match = re.compile(r"exit code (\d+)").search(text)
    return int(match[1]) if match else 0


def _read_shell(text: str) -> tuple[Command, ...]:
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return tuple(_read_command(line) for line in lines if COMMENT.sub("", line).strip())


def _read_command(line: str, shown: tuple[str, ...] = ()) -> Command:
    comment = COMMENT.search(line)
    code = _read_code(comment[1]) if comment else 0
    return Command(COMMENT.sub("", line).strip(), code, shown)


def _read_console(text: str) -> tuple[Command, ...]:
    _, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    pieces = [part.splitlines() for part in parts]
    return tuple(_read_command(line, tuple(shown)) for line, *shown in pieces)


def _read_ci(name: str, text: str, line: int = 1) -> Iterator[Block]:
    """Yield a block for each job of a workflow, and for each hook."""
    if not re.search(r"\b(steps|script|entry):", text):
        return
    try:
        content = YAML(typ="safe").load(text)
    except Exception:  # noqa: BLE001  # a part of a file with `…` in it is no workflow
        return
    for steps in _list_scripts(content):
        yield Block(name, line, tuple(command for step in steps for command in _read_shell(step)))


def _list_scripts(content: Any) -> Iterator[list[str]]:  # noqa: ANN401  # whatever a YAML file holds
    jobs = content.get("jobs", content) if isinstance(content, dict) else {}
    for job in jobs.values():
        if isinstance(job, dict) and "steps" in job:
            yield [step["run"] for step in job["steps"] if "run" in step]
        elif isinstance(job, dict) and "script" in job:
            yield job["script"]
    repositories = content if isinstance(content, list) else jobs.get("repos", [])
    for repository in repositories:
        for hook in repository.get("hooks", [repository]):
            if "entry" in hook and re.search(hook["files"], "evals/capitals/run.yaml"):
                yield [f"{hook['entry']} evals/capitals/run.yaml"]


@dataclass(frozen=True)
class Desk:
    """A folder with what the pages speak of.

    `stand_ins` says what is used in place of a text of theirs.
    """

    folder: Path
    stand_ins: dict[str, str]

    @property
    def _kept(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-kept")

    @cached_property
    def _kept_files(self) -> dict[str, tuple[int, int] | None]:
        return _list_files(self._kept)

    def keep(self) -> None:
        """Keep the folder as it is now, to be restored before each block."""
        shutil.copytree(self.folder, self._kept, symlinks=True)

    def restore(self) -> None:
        """Make the folder what it was: remove what is new, copy back what changed or is gone."""
        kept, here = self._kept_files, _list_files(self.folder)
        for name in sorted(here.keys() - kept.keys(), reverse=True):
            path = self.folder / name
            path.rmdir() if here[name] is None else path.unlink()
        for name, stamp in sorted(kept.items()):
            if stamp is None:
                (self.folder / name).mkdir(exist_ok=True)
            elif here.get(name) != stamp:
                (self.folder / name).unlink(missing_ok=True)
                shutil.copy2(self._kept / name, self.folder / name, follow_symlinks=False)

    def carry_out(self, block: Block, skipped: Callable[[str], bool]) -> list[str]:
        """Return what went otherwise than the page says; the working directory is the folder."""
        self.restore()
        if block.page == "docs/reference/policies.md":  # its project and its baseline are these
            shutil.rmtree("my-project")
            shutil.copytree("examples/gates", "my-project")
            self._expect(Command("answerkey run my-project --out runs/released"))
        if block.source:
            problems = [] if skipped(block.source) else self._carry_out_python(block)
        else:
            commands = [command for command in block.commands if not skipped(command.text)]
            problems = [problem for command in commands for problem in self._expect(command)]
        return [f"{block.place}: {problem}" for problem in problems]

    def _expect(self, command: Command) -> list[str]:
        code, out, err = self._run(command.text)
        problems = []
        if code != command.code:
            problems.append(f"`{command.text}` exits {code}, not {command.code}:\n{out}{err}")
        lines = {ADDRESS.sub("ADDRESS", line.split("  ")[0].strip()) for line in out.splitlines()}
        for line in command.shown:
            if ADDRESS.sub("ADDRESS", line.strip()) not in lines:
                problems.append(f"`{command.text}` does not print {line!r}:\n{out}{err}")
        return problems

    def _run(self, text: str) -> tuple[int, str, str]:
        for written, meant in self.stand_ins.items():
            text = text.replace(written, meant)
        for created in re.findall(r"(?:^answerkey init|--out) (\S+)", text):
            shutil.rmtree(created, ignore_errors=True)  # what is written is not there before
        if re.compile(r"^answerkey view\b|^python -m answerkey\.testing\b").match(text):
            return self._serve(text)
        plain = VARIABLE.sub(lambda variable: os.environ[variable[1]], text)
        if text.startswith("answerkey ") and not SHELL_SIGNS.search(QUOTED.sub("", plain)):
            return self._call(plain)
        shared = Forked.share()
        folders = (str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
        done = subprocess.run(
            ["bash", "-c", text],  # noqa: S607  # whichever the reader has
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            pass_fds=shared["pass_fds"],
            env={**shared["env"], "PATH": os.pathsep.join(folders)},
        )
        return done.returncode, done.stdout, done.stderr

    def _call(self, text: str) -> tuple[int, str, str]:
        """Return what a plain command line does, without a process of its own."""
        text, _, file = text.partition(" > ")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(text)[1:])
        if file:
            Path(file).write_text(out.getvalue(), encoding="utf-8")
        return code, out.getvalue(), err.getvalue()

    def _serve(self, text: str) -> tuple[int, str, str]:
        """Start a command that serves, wait for its address, and press Ctrl-C."""
        program, *words = shlex.split(text)
        pipe = subprocess.PIPE
        if program == "answerkey":
            process: subprocess.Popen[str] = Forked(words, stdout=pipe, stderr=pipe, text=True)
        else:
            command = [sys.executable, *words]
            process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        with process:
            assert process.stdout is not None
            address = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
            return process.returncode, address + out, err

    def _carry_out_python(self, block: Block) -> list[str]:
        if re.search(r"^def test_", block.source, re.MULTILINE):
            Path("test_of_the_page.py").write_text(block.source, encoding="utf-8")
            return self._expect(Command("python -m pytest -q test_of_the_page.py"))
        names: dict[str, object] = {"__name__": "page"}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block.above, block.page, "exec", dont_inherit=True), names)  # noqa: S102  # our own pages
        try:
            return list(follow_python(block.source, names))
        except Exception:  # noqa: BLE001  # whatever it is, the page is wrong
            return [traceback.format_exc()]


def _list_files(folder: Path) -> dict[str, tuple[int, int] | None]:
    """Return the size and the time of every file below a folder, None for a folder."""
    results: dict[str, tuple[int, int] | None] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        status = path.lstat()
        results[name] = None
        if not stat.S_ISDIR(status.st_mode):
            results[name] = (status.st_size, status.st_mtime_ns)
    return results


def follow_python(source: str, names: dict[str, object]) -> Iterator[str]:
    """Carry out statements.

    Yield where a value, or what is printed, is not what the comment says.
    """
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        out = io.StringIO()
        comment = COMMENT.search(lines[(statement.end_lineno or 1) - 1])
        with contextlib.redirect_stdout(out):
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), "page", "exec", dont_inherit=True), names)  # noqa: S102  # ours
                continue
            value = eval(compile(ast.Expression(statement.value), "page", "eval"), names)  # noqa: S307  # same
        if comment is None:
            continue
        expected = comment[1].strip()
        if out.getvalue() and " " not in expected and out.getvalue().strip() != expected:
            yield f"`{ast.unparse(statement)}` prints {out.getvalue().strip()!r}, not {expected!r}"
        with contextlib.suppress(ValueError, SyntaxError):
            if not out.getvalue() and ast.literal_eval(expected) != value:
                yield f"`{ast.unparse(statement)}` is {value!r}, not {expected}"
