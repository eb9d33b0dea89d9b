from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

COMMAND = [sys.executable, "-m", "answerkey.testing"]


def test_server_runs_in_a_process_of_its_own() -> None:
    """The command prints the URL, serves, and ends on SIGTERM with 0."""
    config = json.dumps({"answers": "C"})
    with subprocess.Popen([*COMMAND, "--config", config], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = urlsplit(process.stdout.readline().strip())
        with closing(http.client.HTTPConnection("127.0.0.1", url.port or 0, timeout=3000)) as connection:
            connection.request("POST", f"{url.path}/chat/completions", b'{"messages": []}')
            said = json.loads(connection.getresponse().read())
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0
    assert said["choices"][0]["message"]["content"] == "C"


@pytest.mark.parametrize("config", ["{", '{"odd": 1}', "[]", "@nowhere.json"])
def test_wrong_settings_are_refused(config: str) -> None:
    """Settings that cannot be read end with 2 and say why."""
    done = subprocess.run(
        [*COMMAND, "--config", config], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 2
    assert "error:" in done.stderr


def test_settings_may_be_in_a_file(tmp_path: Path) -> None:
    """`@FILE` reads the settings from a file."""
    file = tmp_path / "config.json"
    file.write_text('{"odd": 1}', encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "--config", f"@{file}"], capture_output=True, text=True, check=False, timeout=300
    )
    assert "unknown setting 'odd'" in done.stderr
