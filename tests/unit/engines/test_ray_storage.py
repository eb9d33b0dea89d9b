"""A dataset and a run on shared storage, worked on by two nodes of a Ray cluster on this machine.

Also the RayJob of the examples, whose entrypoint is run, stopped, and run again as KubeRay would.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from ruamel.yaml import YAML
from tests.projects import SCORER, describe_task

import answerkey as ak

if TYPE_CHECKING:
    from tests.unit.conftest import Bucket

if importlib.util.find_spec("ray") is None:
    pytest.skip("a cluster needs `answerkey[ray]`", allow_module_level=True)
pytestmark = pytest.mark.skipif(
    not os.environ.get("ANSWERKEY_LONG"), reason="two nodes are started in the long series"
)
NODES = Path(__file__).parents[3] / "scripts" / "ray_nodes.py"
EXAMPLES = Path(__file__).parents[3] / "examples"
TASK = describe_task(scorers=[{**SCORER, "choices": ["A", "B", "C", "D"]}])


@pytest.fixture
def cluster(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a cluster of two nodes, which have the environment of this process."""
    del bucket
    folder = Path("/tmp") / f"ak-s-{os.getpid()}"  # noqa: S108 - sockets need a short path
    folder.mkdir(mode=0o700)
    command = [sys.executable, str(NODES), "2", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "RAY_TMPDIR": str(folder)}
    with subprocess.Popen(command, env=environment, **pipes) as process:  # type: ignore[call-overload]  # Popen's overloads
        try:
            about = json.loads(process.stdout.readline())
            monkeypatch.setenv("RAY_AUTH_MODE", "token")
            monkeypatch.setenv("RAY_AUTH_TOKEN", about["token"])
            yield about["address"]
        finally:
            process.stdin.close()
            process.wait(300)
    subprocess.run(["rm", "-rf", str(folder)], check=False)  # noqa: S607 - what nodes leave, sockets included


def write_rows(folder: Path) -> None:
    """Write a task file and its rows."""
    letters = pl.Series(["A", "B", "C", "D"])
    number = pl.int_range(600_000, eager=True)
    frame = pl.DataFrame(
        {
            "answer": letters.gather(number * 7 % 4),
            "completion": letters.gather(number // 3 % 4) + pl.Series([". so it is"]),
            "unread": number.cast(pl.String),
        }
    )
    frame.write_parquet(folder / "rows.parquet", row_group_size=50_000)
    (folder / "task.yaml").write_text(json.dumps(TASK))


def read_parts(folder: Path) -> dict[str, bytes]:
    """Return the files of a run."""
    files = {path for path in folder.rglob("*") if path.is_file()}
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def require_same_run(bucket: Bucket, name: str, folder: Path) -> None:
    """Hold that only the objects that name the address differ from a run on this machine."""
    rows = str(folder / "rows.parquet")
    here = ak.run(folder / "task.yaml", dataset=rows, out=folder / "here")
    assert ak.load_run(f"{bucket.url}/{name}").metrics == here.metrics
    result, parts = bucket.read_all(name), read_parts(folder / "here")
    differing = {part for part in parts if result[part] != parts[part]}
    assert differing == {"run.json", "tasks/quiz/task.json"}


def test_nodes_read_ranges_and_write_parts(cluster: str, bucket: Bucket, tmp_path: Path) -> None:
    """Every object but the two that name the address is the file of the same run on this
    machine.
    """
    write_rows(tmp_path)
    rows = bucket.put("rows.parquet", (tmp_path / "rows.parquet").read_bytes())
    words = ["--dataset", rows, "--out", f"{bucket.url}/runs/far", "-q"]
    words += ["--engine", "ray", "--ray-address", cluster]
    task = str(tmp_path / "task.yaml")
    command = [sys.executable, "-m", "answerkey", "score", task, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    require_same_run(bucket, "runs/far", tmp_path)
    result = bucket.read_all("runs/far")
    assert result.keys() == read_parts(tmp_path / "here").keys()
    assert {key.split("/")[0] for key in bucket.list()} == {"rows.parquet", "runs"}
    assert len([name for name in result if "/scores/" in name]) == 37


def test_the_ray_job_of_the_examples_continues_its_run(
    bucket: Bucket, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entrypoint is stopped when a part is in the bucket.

    The second attempt finds the run there.
    """
    write_rows(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "answerkey").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m answerkey "$@"\n')
    (tmp_path / "answerkey").chmod(0o755)
    manifest = YAML(typ="safe").load((EXAMPLES / "kubernetes" / "rayjob.yaml").read_text())
    entrypoint = manifest["spec"]["entrypoint"].replace("/project/", f"{tmp_path}/")
    entrypoint = entrypoint.replace("s3://evals", bucket.url)
    # The submitter of KubeRay takes it apart, Ray puts it together again, and a shell runs it.
    command = ["bash", "-c", subprocess.list2cmdline(shlex.split(entrypoint))]
    bucket.put("rows.parquet", (tmp_path / "rows.parquet").read_bytes())
    with subprocess.Popen(command) as process:
        while not any("/scores/" in key for key in bucket.list("runs/ray-1/")):
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 128 + signal.SIGTERM
    assert json.loads(bucket.get("runs/ray-1/run.json"))["status"] == "incomplete"
    subprocess.run(command, check=True, timeout=1200)
    require_same_run(bucket, "runs/ray-1", tmp_path)
