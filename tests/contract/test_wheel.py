"""The built wheel works by itself, where nothing else is installed.

The sdist has all that it needs.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from hatchling.build import build_wheel
from ruamel.yaml import YAML

from .fresh import INSTALLS, Fresh
from .scripts import ROOT, load_script, read

SUPPLY = load_script("scripts/supply.py")
#: The keys of the Citation File Format, version 1.2.0.
CITATION_KEYS = {
    *("abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi"),
    *("identifiers", "keywords", "license", "license-url", "message", "preferred-citation"),
    *("references", "repository", "repository-artifact", "repository-code", "title", "type"),
    *("url", "version"),
}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder into which `make build` writes: wheel and sdist lack no file of the package
    and hold no other.
    """
    folder = tmp_path_factory.mktemp("built") / "dist"
    assert SUPPLY.build(folder) == []
    return folder


@pytest.fixture(scope="module")
def metadata(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the wheel's metadata."""
    unpacked = tmp_path_factory.mktemp("wheel")
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)  # noqa: S202  # our own archive
    (folder,) = unpacked.glob("answerkey-*.dist-info")
    return folder


def test_it_declares_its_commands_and_extras(metadata: Path) -> None:
    """The command, the pytest plugin, Inspect's scorer, and what is optional."""
    points = (metadata / "entry_points.txt").read_text()
    assert "answerkey = answerkey.cli:main" in points
    assert "answerkey = answerkey.testing.pytest_plugin" in points
    assert "[inspect_ai]\nanswerkey = answerkey.adapters:inspect_scorer\n" in points
    fields = (metadata / "METADATA").read_text()
    extras = re.findall(r"^Provides-Extra: (.+)$", fields, re.MULTILINE)
    assert {"hub", "prices", "testing"} <= set(extras)


def test_an_installed_wheel_runs_the_demo(dist: Path, tmp_path: Path) -> None:
    """In a fresh environment, with the command that pip makes.

    The long series installs all packages.
    """
    fresh = Fresh.make(tmp_path)
    (wheel,) = dist.glob("*.whl")
    install = f"pip install --no-index --no-deps {wheel}"
    if INSTALLS:
        lock = ROOT / "requirements" / "run.lock"
        install = f"pip install --require-hashes -r {lock} && {install}"
    where = "python -c 'import answerkey; print(answerkey.__file__)'"
    done = fresh.run(f"{install} && answerkey demo && {where}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "MCQA Accuracy" in done.stdout
    assert "SIMULATED" in done.stdout
    assert Path(done.stdout.splitlines()[-1]).is_relative_to(tmp_path)


def test_a_wheel_from_the_sdist_is_the_same(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel built from the sdist has the files and metadata of ours, byte for byte."""
    (sdist,) = dist.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", sdist], cwd=tmp_path, check=True)  # noqa: S607 - the system's own
    monkeypatch.chdir(tmp_path / sdist.name.removesuffix(".tar.gz"))
    name = build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as again, zipfile.ZipFile(dist / name) as first:
        assert sorted(again.namelist()) == sorted(first.namelist())
        assert [name for name in first.namelist() if again.read(name) != first.read(name)] == []


def test_files_missing_from_an_sdist_are_reported(tmp_path: Path) -> None:
    """Each missing file, and each that does not belong there, is named."""
    sdist = tmp_path / "answerkey-1.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in ("PKG-INFO", "build/x.txt"):
            (tmp_path / "x").write_text("")
            archive.add(tmp_path / "x", f"answerkey-1/{name}")
    prefix = "answerkey-1.tar.gz: "
    errors = [error.removeprefix(prefix) for error in SUPPLY.list_sdist_errors(sdist)]
    assert errors[-1] == "`build/x.txt` does not belong there"
    assert {
        "`LICENSE` is missing",
        "`src/answerkey/reports/web/page.css` is missing",
        "`src/answerkey/spec/quickstart/task.yaml` is missing",
    } <= set(errors)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("License-Expression: Apache-2.0", "License-Expression: Apache 2", "Apache 2"),
        ("Metadata-Version: ", "Metadata-Version: 9", "METADATA: "),
        ("Summary: ", "Homepage: ", "'homepage'"),
        ("Type: text/markdown", "Type: text/plain", "text/plain"),
    ],
)
def test_unfit_metadata_is_reported(metadata: Path, old: str, new: str, error: str) -> None:
    """A licence that is none, fields that do not exist, a description that would be shown as plain
    text.
    """
    text = (metadata / "METADATA").read_text(encoding="utf-8")
    assert SUPPLY.list_metadata_errors(text.encode()) == []
    assert old in text
    assert error in "\n".join(SUPPLY.list_metadata_errors(text.replace(old, new, 1).encode()))


def test_version_and_licence_are_the_same_everywhere(metadata: Path) -> None:
    """Package, citation, changelog and licence file name one version and one licence."""
    fields = BytesParser().parsebytes((metadata / "METADATA").read_bytes())
    citation = YAML(typ="safe").load(read("CITATION.cff"))
    assert fields["Version"] == citation["version"] == SUPPLY.read_version()
    assert fields["License-Expression"] == citation["license"]
    newest = re.search(r"^## (\S+)(?: \((.+)\))?$", read("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == fields["Version"]
    released = citation.get("date-released")
    assert newest[2] == ("unreleased" if released is None else str(released))


def test_the_citation_is_valid() -> None:
    """It has what the Citation File Format 1.2.0 requires, and no key or type that it does not
    know.
    """
    citation = YAML(typ="safe").load(read("CITATION.cff"))
    assert {"authors", "cff-version", "message", "title"} <= citation.keys()
    assert citation.keys() <= CITATION_KEYS
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] in {"software", "dataset"}
    for author in citation["authors"]:
        assert author["name"]
        assert author.keys() <= {"name", "website", "orcid", "email"}
    texts = [*citation["keywords"], citation["title"], citation["message"]]
    assert all(isinstance(text, str) for text in texts)
