"""The lines of the Dockerfile do what they should, in a fresh folder with a fresh environment.

There is no Docker daemon in these tests: `FROM` is the Python that runs them, paths of the image
lie below a temporary folder, and `USER` is not changed. In the long series the locked packages are
installed from the package index; otherwise those of this environment are lent.
"""

from __future__ import annotations

import json
import re
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest

from .fresh import INSTALLS, Fresh
from .scripts import ROOT, read

LINE = re.compile(r"^([A-Z]+) (.+)$", re.MULTILINE)
LOCKED = "--require-hashes -r requirements/run.lock"


def read_lines() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = read("Dockerfile").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(map(LINE.fullmatch, lines))
    return LINE.findall("\n".join(lines))


def is_sent(name: str) -> bool:
    """Return whether `.dockerignore` lets a path into the build: the last line that fits
    decides.
    """
    sent = True
    paths = [name, *map(str, Path(name).parents)][:-1]
    for line in read(".dockerignore").splitlines():
        pattern = line.removeprefix("!")
        if line and line[0] != "#" and any(fnmatch(path, pattern) for path in paths):
            sent = line.startswith("!")
    return sent


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Return an environment into which nothing is installed yet."""
    return Fresh.make(tmp_path_factory.mktemp("docker"))


def carry_out(fresh: Fresh, image: Path) -> str:
    """Carry out the lines in a folder in place of the image; return what its command prints."""
    here = image
    entry: list[str] = []
    variables: dict[str, str] = {}
    for instruction, argument in read_lines():
        inside = re.sub(r"(?<![\w/.])/(?=\w)", f"{image}/", argument)
        if instruction == "FROM":
            assert re.fullmatch(r"python:3\.1[1-9]-slim", argument)
        elif instruction == "WORKDIR":
            here = Path(inside)
            here.mkdir(parents=True, exist_ok=True)
        elif instruction == "COPY":
            *names, target = argument.split()
            for name in names:
                assert is_sent(name)
                place = here / target / (Path(name).name if target == "./" else "")
                place.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
                copy(ROOT / name, place)
        elif instruction == "ENV":
            name, _, value = inside.partition("=")
            variables[name] = value
        elif instruction == "RUN":
            if INSTALLS or LOCKED not in argument:
                done = fresh.run(inside, here, variables)
                assert done.returncode == 0, done.stderr
        elif instruction in {"ENTRYPOINT", "CMD"}:
            entry += json.loads(argument)
        else:
            assert instruction == "USER"
    done = fresh.run(" ".join(entry), here, variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_image_runs_the_demo(fresh: Fresh) -> None:
    """Its lines install answerkey from the sources, and its command prints the summary of the
    demo.
    """
    printed = carry_out(fresh, fresh.folder / "image")
    assert (fresh.folder / "image" / "work" / "answerkey-demo").is_dir()
    assert "MCQA Accuracy" in printed
    assert "SIMULATED" in printed
    where = fresh.run("python -c 'import answerkey; print(answerkey.__file__)'", fresh.folder)
    assert Path(where.stdout.strip()).is_relative_to(fresh.folder)


def test_only_what_is_copied_is_sent_to_the_build() -> None:
    """Keys in `.env`, runs, and the repository's history stay outside of the image."""
    lines = [argument.split() for kind, argument in read_lines() if kind == "COPY"]
    copied = [name for names in lines for name in names[:-1]]
    assert copied
    assert all((ROOT / name).exists() and is_sent(name) for name in copied)
    outside = [".env", ".git/config", "runs/x/run.json", ".venv/bin/python", "tests/conftest.py"]
    assert [name for name in [*outside, "requirements"] if is_sent(name)] == []


def test_the_image_does_not_run_as_root() -> None:
    """The last user is not root, and the lock is installed with hashes."""
    lines = read_lines()
    (user,) = [argument for kind, argument in lines if kind == "USER"]
    assert user.split(":")[0] not in {"root", "0"}
    assert any(kind == "RUN" and LOCKED in argument for kind, argument in lines)
