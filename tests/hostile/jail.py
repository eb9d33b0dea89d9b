"""Runs hostile files one after the other in a process of its own, and tells what each of them did.

    python jail.py FOLDER < cases.json

A case names files of a project; `run.yaml` in it is checked, where a good task stands beside the
evil one. For each case one line of JSON comes out. The process counts what it starts and which
files it opens to write.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import answerkey
from answerkey.errors import AnswerkeyError
from answerkey.templates import rendering

#: Computing time of a template in its worker; the long series has the whole second of every run.
CPU_SECONDS = 1.0 if os.environ.get("ANSWERKEY_LONG") else 0.1
#: What our own worker for templates is started with.
OWN_WORKER = "answerkey.templates.rendering"
#: How the events begin that start a process or open a connection.
STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn")
CONNECTING = ("socket.connect", "socket.getaddrinfo", "urllib.Request")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

started: list[str] = []
opened: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note processes, connections, and files that are opened to be written."""
    if event.startswith(STARTING + CONNECTING) and OWN_WORKER not in str(arguments):
        started.append(f"{event} {str(arguments)[:200]}")
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING:
        opened.append(str(arguments[0]))


def list_files(folder: Path) -> set[str]:
    """Return the names of all files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def read_peak(process: int | str = "self") -> int:
    """Return the most memory that a process has had so far, in MB."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


def list_children() -> Iterator[tuple[int, float]]:
    """Yield the processes that this one has started and that still run, with their computing
    time.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[1]) == os.getpid():
            yield int(folder.name), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_cpu() -> float:
    """Return the computing time of this process and of those it has started."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ended = sum(use.ru_utime + use.ru_stime for use in used)
    return ended + sum(cpu for _, cpu in list_children())


def check_project(run: Path) -> list[dict[str, object]]:
    """Return the errors that checking a project finds."""
    try:
        return [error.describe() for error in answerkey.check(run).errors]
    except AnswerkeyError as error:
        return [cause.describe() for cause in getattr(error, "errors", (error,))]


def run_case(folder: Path, case: Mapping[str, Any]) -> dict[str, object]:
    """Return what one case did."""
    for name, text in case["files"].items():
        (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    for name, target in case.get("links", {}).items():
        (folder / name).symlink_to(target)
    for name in case.get("pipes", ()):
        os.mkfifo(folder / name)
    files = list_files(folder)
    started.clear()
    opened.clear()
    cpu = measure_cpu()
    errors = check_project(folder / "run.yaml")
    cpu = measure_cpu() - cpu
    written = [name for name in opened if not name.startswith("/dev/")]
    harm = [*started, *written, *sorted(list_files(folder) - files)]
    workers = max((read_peak(process) for process, _ in list_children()), default=0)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    harm += [str(error) for error in answerkey.check(folder / "good_run.yaml").errors]
    return {
        "name": case["name"],
        "errors": errors,
        "cpu": cpu,
        "memory": read_peak() + max(workers, ended),
        "harm": harm,
    }


def main() -> None:
    """Run the cases."""
    folder = Path(sys.argv[1])
    os.chdir(folder)
    cases = json.load(sys.stdin)
    limit = f"import {OWN_WORKER} as rendering; rendering.CPU_SECONDS = {CPU_SECONDS}\n"
    rendering._BOOT = rendering._BOOT.replace("from answerkey", f"{limit}from answerkey", 1)
    # Everything is loaded, and the folder for temporary files is found, before anything is watched.
    answerkey.check(folder / "good_run.yaml")
    tempfile.gettempdir()
    sys.addaudithook(watch)
    for case in cases:
        sys.stdout.write(json.dumps(run_case(folder, case)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
