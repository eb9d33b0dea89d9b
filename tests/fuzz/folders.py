"""Laws of run folders from strangers: whatever one of its files holds, the run is shown or
refused.
"""

from __future__ import annotations

import json
import shutil
from functools import cache, partial
from pathlib import Path

import answerkey
from answerkey.reports.explain import explain
from answerkey.reports.listing import list_folder
from answerkey.reports.terminal import draw_summary

from .files import ROWS, open_project, write_lines
from .law import HERE, Law, list_words, open_folder, refusing

FILES = {
    "manifest": "run.json",
    "metrics": "tasks/small/metrics.json",
    "task": "tasks/small/task.json",
    "scores": "tasks/small/scores/*.parquet",
    "completions": "tasks/small/completions/*.parquet",
}


@cache
def finish_run() -> Path:
    """Return the folder of a finished run."""
    project = open_project()
    (project / "rows.jsonl").write_bytes(write_lines())
    shutil.copytree(HERE / "project", project, dirs_exist_ok=True)
    answerkey.run(project / "small_run.yaml", out=open_folder() / "finished")
    return open_folder() / "finished"


def find_file(folder: Path, name: str) -> Path:
    """Return one file of a run."""
    return next(folder.glob(FILES[name]))


def check_run(name: str, raw: bytes) -> None:
    """Require that a run with these bytes as one of its files is refused, or can be shown."""
    below = open_folder() / ("runs" if name == "manifest" else "killed")
    folder = below / "run"
    if not folder.exists():
        shutil.copytree(finish_run(), folder)
        if name != "manifest":
            _forget_list(folder / "run.json")
    path = find_file(folder, name)
    kept = path.read_bytes()
    path.write_bytes(raw)
    try:
        _show(below, folder)
    finally:
        path.write_bytes(kept)


def _forget_list(file: Path) -> None:
    """Make a run one that was killed: its files are not hashed, and every other law is put to the
    test.
    """
    manifest = json.loads(file.read_text(encoding="utf-8"))
    del manifest["files"]
    file.write_text(json.dumps(manifest | {"status": "running"}), encoding="utf-8")


def _show(below: Path, folder: Path) -> None:
    with refusing():
        list_folder(below)
    with refusing():
        run = answerkey.load_run(folder)
        draw_summary(run, 100)
        for task in run.tasks.values():
            assert task.scores.height >= 0
            assert task.completions.height >= 0
        explain(run, str(ROWS[0]["id"]))


def _list_seeds(name: str) -> list[bytes]:
    return [find_file(finish_run(), name).read_bytes()]


def make_laws() -> dict[str, Law]:
    """Return the laws of this module by name."""
    words = list_words("run")
    return {
        f"run_{name}": Law(partial(check_run, name), partial(_list_seeds, name), words, 30)
        for name in FILES
    }
