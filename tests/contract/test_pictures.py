"""The pictures of README and docs show what answerkey shows today."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked

from .scripts import ROOT, load_script, read

SCRIPT = load_script("scripts/pictures.py")
OLD = "{}.png shows what answerkey no longer shows: `make pictures`"
#: A class of the script, which mypy does not know.
Material = Any


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Return the demo, its reports and what it prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SCRIPT, "run_command", run_command)
        return SCRIPT.make_material(tmp_path_factory.mktemp("material"))


def run_command(folder: Path, *words: str) -> str:
    """Return what a command prints, as that of the script does."""
    environment = SCRIPT.make_environment(folder)
    streams: dict[str, Any]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
    with Forked(words, cwd=folder, env=environment, **streams) as process:
        printed, _ = process.communicate()
    assert process.returncode == 0, printed
    return str(printed)


@pytest.fixture
def images(tmp_path: Path, material: Material) -> Path:
    """Return a folder with pictures and a record that fits them."""
    shown = SCRIPT.describe(SCRIPT.compute_sources(material))
    record = {}
    for name in shown:
        (tmp_path / f"{name}.png").write_bytes(name.encode())
        digest = SCRIPT.hashlib.sha256(name.encode()).hexdigest()
        record[name] = {"shows": shown[name], "picture": digest}
    (tmp_path / "pictures.json").write_text(json.dumps(record))
    return tmp_path


def test_the_pictures_are_up_to_date(material: Material) -> None:
    """Report, viewer and terminal look as when the pictures were made; else run `make pictures`."""
    assert SCRIPT.list_problems(material) == []


def test_every_picture_is_shown_on_a_page() -> None:
    """A picture that nobody sees need not be kept."""
    texts = "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    texts += read("README.md")
    assert [name for name in SCRIPT.PICTURES if f"img/{name}.png" not in texts] == []


def test_changed_pages_have_old_pictures(material: Material, images: Path, tmp_path: Path) -> None:
    """A style, a number or a word of the report; the time at which it was made is none of them."""
    folder = tmp_path / "changed"
    shutil.copytree(material.folder, folder)
    changed = replace(material, folder=folder)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert '"made":"20' in page
    (folder / "report.html").write_text(page.replace('"made":"20', '"made":"19'), encoding="utf-8")
    assert SCRIPT.list_problems(changed, images) == []
    styled = page.replace("</style>", "h1 { color: red }</style>")
    (folder / "report.html").write_text(styled, encoding="utf-8")
    names = [name for name, picture in SCRIPT.PICTURES.items() if picture.kind == "report"]
    assert SCRIPT.list_problems(changed, images) == [OLD.format(name) for name in names]


def test_a_summary_that_changed_makes_the_terminal_old(material: Material, images: Path) -> None:
    """One colour is enough."""
    changed = replace(material, text=material.text.replace("\x1b[32m", "\x1b[31m"))
    assert changed != material
    assert SCRIPT.list_problems(changed, images) == [OLD.format("terminal")]


def test_missing_large_and_replaced_pictures_are_reported(material: Material, images: Path) -> None:
    """Nobody can renew the record alone, or the picture alone."""
    (images / "viewer.png").unlink()
    (images / "samples.png").write_bytes(b"another")
    (images / "terminal.png").write_bytes(b"x" * 200_001)
    assert sorted(SCRIPT.list_problems(material, images)) == [
        "samples.png is not the picture that pictures.json tells of",
        "terminal.png has 200,001 bytes, more than 200,000",
        "terminal.png is not the picture that pictures.json tells of",
        "viewer.png is missing",
    ]
