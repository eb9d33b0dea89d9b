"""The built wheel works by itself: where it is installed there is nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_wheel

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "answerkey"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built wheel, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = build_wheel(str(folder))
    with zipfile.ZipFile(folder / name) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def run_command(wheel: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Return what a command of the unpacked wheel does."""
    environment = {**os.environ, "PYTHONPATH": str(wheel), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", "answerkey", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def test_every_file_of_the_package_is_in_it(wheel: Path) -> None:
    """Projects, ready-made tasks, words, the page of reports: whatever is no cache."""
    files = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file())
    wanted = {
        str(path)
        for path in files
        if not any(part[0] in "._" and part != "__init__.py" for part in path.parts)
    }
    present = {str(path.relative_to(wheel / "answerkey")) for path in (wheel / "answerkey").rglob("*")}
    assert {name for name in wanted if not name.endswith((".pyc", "~"))} <= present


def test_the_demo_runs_from_it(wheel: Path, tmp_path: Path) -> None:
    """Offline, from an empty folder."""
    done = run_command(wheel, tmp_path, "demo")
    assert done.returncode == 0, done.stderr
    assert "SIMULATED" in done.stdout
    where = run_command(wheel, tmp_path, "init", "mine", "--task", "mmlu")
    assert where.returncode == 0, where.stderr


def test_it_declares_its_commands_and_extras(wheel: Path) -> None:
    """The command, the pytest plugin, Inspect's scorer, and what is optional."""
    (told,) = wheel.glob("answerkey-*.dist-info")
    points = (told / "entry_points.txt").read_text()
    assert "answerkey = answerkey.cli:main" in points
    assert "answerkey = answerkey.testing.pytest_plugin" in points
    assert "[inspect_ai]\nanswerkey = answerkey.adapters:inspect_scorer\n" in points
    extras = {
        line.split(": ")[1]
        for line in (told / "METADATA").read_text().splitlines()
        if line.startswith("Provides-Extra")
    }
    assert {"hub", "prices", "testing"} <= extras
