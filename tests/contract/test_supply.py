"""What is installed with the project is locked, listed and quiet."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from tests.processes import run_python

from answerkey.testing import Reply, TestServer

from .scripts import load_script

HASH = "a" * 64
#: Refuses every connection and every process from now on, then does what it is told.
QUIET = r"""
import sys

def refuse(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto",
                 "socket.bind", "urllib.Request", "subprocess.Popen", "os.system", "os.posix_spawn"}:
        raise SystemExit(f"{event} {arguments!r}")

sys.addaudithook(refuse)
"""  # noqa: E501 - the text as it is written
IMPORT_ALL = r"""
import importlib, pkgutil
import answerkey

for module in pkgutil.walk_packages(answerkey.__path__, "answerkey."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
SCORE = "from answerkey.cli import main\nsys.exit(main(['demo', '--quiet']))\n"
SUPPLY = load_script("scripts/supply.py")


def test_the_locks_and_the_wheel_are_in_order() -> None:
    """Every package is pinned with hashes, none by an address.

    The wheel is the package and nothing else.
    """
    assert SUPPLY.check() == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org/simple",
        "--extra-index-url https://example.org/simple",
        "--find-links here",
        "-e .",
        "x @ https://example.org/x.whl \\",
        "git+https://example.org/x.git",
        "x>=1.0 \\",
        "x==1.0",
    ],
)
def test_a_line_that_is_no_pin_is_refused(tmp_path: Path, line: str) -> None:
    """An index, a link, a path, a range, or a version without hashes: each is named with its
    line.
    """
    lock = tmp_path / "run.lock"
    lock.write_text(f"a==1.0 \\\n    --hash=sha256:{HASH}\n    # via b\n{line}\n")
    (error,) = SUPPLY.list_lock_errors(lock, ["a"])
    assert error.startswith("run.lock:4: not a pinned version with hashes")


def test_missing_and_repeated_packages_are_reported(tmp_path: Path) -> None:
    """A package without a hash, one that is locked twice, and one that is not locked at all."""
    lock = tmp_path / "run.lock"
    hashed = f"\\\n    --hash=sha256:{HASH}\n"
    lock.write_text(f"a==1.0 \\\n    # via b\nb==1.0 {hashed}b==2.0 {hashed}")
    assert SUPPLY.list_lock_errors(lock, ["a", "b", "c"]) == [
        "run.lock: `a` has no hash",
        "run.lock: `b` is locked twice",
        "run.lock: `c` is not locked",
    ]


def test_a_wheel_with_a_file_that_runs_by_itself_is_refused(tmp_path: Path) -> None:
    """A `.pth` file, a module beside the package, something compiled."""
    wheel = tmp_path / "x.whl"
    good = ["answerkey/a.py", "answerkey-1.dist-info/RECORD"]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (*good, "answerkey/x.pth", "other.py", "answerkey/y.so"):
            archive.writestr(name, "")
    assert SUPPLY.list_wheel_errors(wheel) == [
        "x.whl: `other.py` does not belong there",
        "x.whl: `answerkey/x.pth` does not belong there",
        "x.whl: `answerkey/y.so` does not belong there",
    ]


def test_the_list_of_parts_names_every_locked_package_and_what_needs_it() -> None:
    """CycloneDX 1.6: all parts with version and hashes, references that lead somewhere,
    repeatable.
    """
    parts = SUPPLY.read_lock(SUPPLY.LOCKS[0])
    sbom = SUPPLY.make_sbom(parts, "1.2.3")
    assert (sbom["bomFormat"], sbom["specVersion"], sbom["version"]) == ("CycloneDX", "1.6", 1)
    assert sbom == SUPPLY.make_sbom(parts, "1.2.3")
    refs = {component["bom-ref"] for component in sbom["components"]}
    refs.add(sbom["metadata"]["component"]["bom-ref"])
    assert len(sbom["components"]) == len(parts) > 10
    assert all(component["externalReferences"][0]["hashes"] for component in sbom["components"])
    needs = {entry["ref"]: entry["dependsOn"] for entry in sbom["dependencies"]}
    assert needs.keys() == refs
    assert {ref for need in needs.values() for ref in need} <= refs
    direct = [ref.split("/")[1].split("@")[0] for ref in needs["pkg:pypi/answerkey@1.2.3"]]
    assert {"click", "jinja2", "polars", "pydantic"} <= set(direct)


def test_known_weaknesses_are_named_and_a_missing_network_is_no_failure() -> None:
    """The audit asks for each locked version; who cannot ask has found nothing, and says so."""
    parts = [SUPPLY.Part("a", "1.0"), SUPPLY.Part("b", "2.0")]
    weaknesses = {"results": [{}, {"vulns": [{"id": "GHSA-1"}]}]}
    with TestServer(Reply(body=json.dumps(weaknesses).encode())) as server:
        url = f"{server.url}/chat/completions"  # a path that it answers
        assert SUPPLY.audit(parts, url) == ["b 2.0: GHSA-1"]
    (request,) = server.asked.requests
    purls = ["pkg:pypi/a@1.0", "pkg:pypi/b@2.0"]
    assert request.body == {"queries": [{"package": {"purl": purl}} for purl in purls]}
    assert SUPPLY.audit(parts, url) is None


@pytest.mark.parametrize("work", [IMPORT_ALL, SCORE])
def test_nothing_is_sent_anywhere(tmp_path: Path, work: str) -> None:
    """Neither importing every module nor running the demo opens a connection or starts a
    process.
    """
    done = run_python("-c", QUIET + work, cwd=tmp_path, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
