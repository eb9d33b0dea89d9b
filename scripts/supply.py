"""What the project is made of: locked with hashes, looked up among known weaknesses, listed, and
packed.

check the lock files are whole, and a wheel holds the package and nothing that runs by itself build
wheel and sdist in `dist`; both are complete, and their metadata is what package indexes accept
audit every locked version is looked up in the OSV database; without a network it says so and passes
sbom the list of all parts (CycloneDX 1.6, JSON) of `requirements/run.lock`, to stdout
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The lock of what users install, then those of the groups of `pyproject.toml`.
GROUPS = ("dev", "docs", "fuzz")
LOCKS = tuple(ROOT / "requirements" / f"{name}.lock" for name in ("run", *GROUPS))
#: Beside the package: what a package must carry, and what its tests need.
NEEDED_IN_SDIST = {
    *(
        "PKG-INFO",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "SECURITY.md",
        "CITATION.cff",
    ),
    *(
        "Makefile",
        "mkdocs.yml",
        "action.yml",
        "Dockerfile",
        "requirements/run.lock",
        "requirements/dev.lock",
    ),
    *("docs/index.md", "examples/README.md", "examples/quickstart/task.yaml", "tests/conftest.py"),
    *("scripts/supply.py", "bench/run.py", ".ci/run"),
}
OSV = "https://api.osv.dev/v1/querybatch"
SECONDS = 20
_PIN = re.compile(r"([a-z0-9][a-z0-9-]*)==([^\s;\\]+)(?: ; (.+?))? \\")
_HASH = re.compile(r" {4}--hash=sha256:([0-9a-f]{64})(?: \\)?")
_VIA = re.compile(r" {4}# (?:via|  ) ?(.*)")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_OWN = "answerkey (pyproject.toml)"


@dataclass
class Part:
    """One locked package; `users` are the packages that need it."""

    name: str
    version: str
    marker: str | None = None
    hashes: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        """The package URL (purl), which vulnerability databases use."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(path: Path) -> list[Part]:
    """Return the parts of a lock file.

    ValueError for a line that is neither a pin, a hash nor a reason. So an index address, a link, a
    local path or a loose version is refused.
    """
    parts: list[Part] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if pin := _PIN.fullmatch(line):
            parts.append(Part(*pin.groups()))
        elif parts and (digest := _HASH.fullmatch(line)):
            parts[-1].hashes.append(digest[1])
        elif parts and (reason := _VIA.fullmatch(line)):
            parts[-1].users.extend([reason[1].strip()] if reason[1].strip() else [])
        else:
            raise ValueError(
                f"{path.name}:{number}: not a pinned version with hashes: {line.strip()!r}"
            )
    return parts


def list_lock_errors(path: Path, required: Sequence[str]) -> list[str]:
    """Return what is wrong with a lock file; `wanted` are packages that must be in it."""
    try:
        parts = read_lock(path)
    except ValueError as error:
        return [str(error)]
    errors = [f"{path.name}: `{part.name}` has no hash" for part in parts if not part.hashes]
    pins = Counter((part.name, part.marker) for part in parts)
    errors += [
        f"{path.name}: `{name}` is locked twice" for (name, _), count in pins.items() if count > 1
    ]
    names = {part.name for part in parts}
    return errors + [
        f"{path.name}: `{name}` is not locked" for name in required if name not in names
    ]


def list_direct(project: dict[str, object], group: str | None = None) -> list[str]:
    """Return the names of the dependencies in `pyproject.toml`, of a group or of every user."""
    groups: dict[str, list[str]] = project["dependency-groups"]  # type: ignore[assignment]  # of TOML
    table: dict[str, list[str]] = project["project"]  # type: ignore[assignment]  # of TOML
    requirements = table["dependencies"] if group is None else groups[group]
    return [
        re.sub(r"[._]", "-", _NAME.match(requirement)[0]).lower() for requirement in requirements
    ]  # type: ignore[index]  # names


def build_package(folder: Path, *kinds: str) -> list[Path]:
    """Build the kinds, offline, with the build tool that is installed, and return the files."""
    words = [word for kind in kinds for word in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", *words, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own build
    endings = {"wheel": "*.whl", "sdist": "*.tar.gz"}
    return [next(folder.glob(endings[kind])) for kind in kinds]


def list_wheel_errors(wheel: Path) -> list[str]:
    """Return which files of a wheel lie outside of the package, or would run at every start of
    Python.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    strangers = [name for name in names if not re.match(r"answerkey(-[^/]+\.dist-info)?/", name)]
    runs_alone = [
        name for name in names if name.endswith((".pth", "sitecustomize.py", "usercustomize.py"))
    ]
    compiled = [name for name in names if name.endswith((".so", ".pyd", ".dll", ".pyc", ".dylib"))]
    return [
        f"{wheel.name}: `{name}` does not belong there"
        for name in [*strangers, *runs_alone, *compiled]
    ]


def check() -> list[str]:
    """Return all errors in the lock files and the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    errors: list[str] = []
    for path, group in zip(LOCKS, (None, *GROUPS), strict=True):
        errors += list_lock_errors(path, list_direct(project, group))
    with tempfile.TemporaryDirectory() as folder:
        return errors + list_wheel_errors(*build_package(Path(folder), "wheel"))


def list_package_files(package: Path = ROOT / "src" / "answerkey") -> set[str]:
    """Return the files of the package: modules, web pages, YAML, words.

    Not what Python or an editor left.
    """
    files = (path.relative_to(package.parent) for path in package.rglob("*") if path.is_file())
    return {
        path.as_posix()
        for path in files
        if "__pycache__" not in path.parts
        and not path.name.startswith(".")
        and not path.name.endswith("~")
    }


def list_metadata_errors(
    text: bytes, required: Sequence[str] = ("summary", "description", "license_expression")
) -> list[str]:
    """Return the metadata that a package index would refuse or show as empty."""
    from packaging.metadata import Metadata  # a part of the build tool

    try:
        metadata = Metadata.from_email(text)
    except ExceptionGroup as group:
        return [f"METADATA: {error}" for error in group.exceptions]
    errors = [f"METADATA: there is no {name}" for name in required if not getattr(metadata, name)]
    if metadata.description_content_type != "text/markdown":
        errors.append(
            f"METADATA: the description is {metadata.description_content_type}, not text/markdown"
        )
    return errors


def list_sdist_errors(sdist: Path) -> list[str]:
    """Return which files of the package, the docs or the tests an sdist lacks, and what it must not
    have.
    """
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    required = {f"src/{name}" for name in list_package_files()} | NEEDED_IN_SDIST
    missing = [f"{sdist.name}: `{name}` is missing" for name in sorted(required - names)]
    strange = [
        name for name in sorted(names) if re.search(r"\.pyc$|^(\.venv|build|dist|runs)/", name)
    ]
    return missing + [f"{sdist.name}: `{name}` does not belong there" for name in strange]


def build(folder: Path = ROOT / "dist") -> list[str]:
    """Build wheel and sdist into an empty folder, and return what is wrong with them."""
    shutil.rmtree(folder, ignore_errors=True)
    wheel, sdist = build_package(folder, "wheel", "sdist")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(
            next(name for name in names if name.endswith(".dist-info/METADATA"))
        )
    missing = sorted(list_package_files() - set(names))
    return [
        *list_wheel_errors(wheel),
        *(f"{wheel.name}: `{name}` is missing" for name in missing),
        *list_metadata_errors(metadata),
        *list_sdist_errors(sdist),
    ]


def make_sbom(parts: Sequence[Part], version: str) -> dict[str, object]:
    """Return the list of parts as CycloneDX; the same lock gives the same list."""
    reference = f"pkg:pypi/answerkey@{version}"
    refs = {part.name: part.purl for part in parts}
    needs: dict[str, list[str]] = {ref: [] for ref in (reference, *refs.values())}
    for part in parts:
        for user in part.users:
            ref = reference if user == _OWN or user.startswith("-r ") else refs.get(user)
            if ref is not None:
                needs[ref].append(part.purl)
    print_of = json.dumps([reference, *(f"{part.purl} {sorted(part.hashes)}" for part in parts)])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, print_of)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": reference,
                "name": "answerkey",
                "version": version,
                "purl": reference,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_describe_part(part) for part in parts],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(targets)} for ref, targets in needs.items()
        ],
    }


def _describe_part(part: Part) -> dict[str, object]:
    hashes = [{"alg": "SHA-256", "content": digest} for digest in part.hashes]
    page = f"https://pypi.org/project/{part.name}/{part.version}/"
    described: dict[str, object] = {
        "type": "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
        "externalReferences": [{"type": "distribution", "url": page, "hashes": hashes}],
    }
    if part.marker is not None:
        described["properties"] = [{"name": "python:environment-marker", "value": part.marker}]
    return described


def read_version() -> str:
    """Return the version of the project."""
    text = (ROOT / "src" / "answerkey" / "_version.py").read_text(encoding="utf-8")
    result = re.search(r"\"([^\"]+)\"", text.partition("__version__")[2])
    if result is None:
        raise ValueError("no version in `_version.py`")
    return result[1]


def audit(parts: Sequence[Part], url: str = OSV) -> list[str] | None:
    """Return the known weaknesses of locked versions, as `name version: id`; None without a
    network.
    """
    queries = [{"package": {"purl": part.purl}} for part in parts]
    request = urllib.request.Request(  # noqa: S310 - https, or a test's own address
        url, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:  # noqa: S310 - see above
            answers = json.load(reply)["results"]
    except (OSError, ValueError, KeyError):
        return None
    return list(_list_weaknesses(parts, answers))


def _list_weaknesses(
    parts: Sequence[Part], answers: Sequence[dict[str, list[dict[str, str]]]]
) -> Iterator[str]:
    for part, answer in zip(parts, answers, strict=True):
        for weakness in answer.get("vulns") or ():
            yield f"{part.name} {part.version}: {weakness['id']}"


def list_parts() -> list[Part]:
    """Return the parts of all lock files, each once."""
    return list({part.purl: part for path in LOCKS for part in read_lock(path)}.values())


def main() -> int:
    """Run the command; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=["check", "build", "audit", "sbom"])
    command = parser.parse_args().command
    if command == "sbom":
        print(json.dumps(make_sbom(read_lock(LOCKS[0]), read_version()), indent=2))
        return 0
    searches = {"audit": lambda: audit(list_parts()), "check": check, "build": build}
    results = searches[command]()
    if results is None:
        print(
            "audit: the database of known weaknesses cannot be reached; nothing was looked up",
            file=sys.stderr,
        )
        return 0
    for problem in results:
        print(problem, file=sys.stderr)
    if command == "build":
        sizes = [
            f"{file.name} {file.stat().st_size // 1000:,} kB"
            for file in sorted((ROOT / "dist").iterdir())
        ]
        print(f"build: {', '.join(sizes)}")
    elif not results:
        print(f"{command}: nothing found, {len(list_parts())} locked packages")
    return 1 if results else 0


if __name__ == "__main__":
    sys.exit(main())
