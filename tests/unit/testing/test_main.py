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

from answerkey.testing.__main__ import main


def test_server_runs_in_a_process_of_its_own() -> None:
    """The command prints the URL, serves, and ends on SIGTERM with 0."""
    config = json.dumps({"answers": "C"})
    with subprocess.Popen(
        [sys.executable, "-m", "answerkey.testing", "--config", config],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = urlsplit(process.stdout.readline().strip())
        with closing(
            http.client.HTTPConnection("127.0.0.1", url.port or 0, timeout=3000)
        ) as connection:
            connection.request("POST", f"{url.path}/chat/completions", b'{"messages": []}')
            said = json.loads(connection.getresponse().read())
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0
    assert said["choices"][0]["message"]["content"] == "C"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "must be a JSON object"),
        ("@nowhere.json", "No such file"),
        ('{"odd": 1}', "unknown setting 'odd'"),
        ("@odd.json", "unknown setting 'odd'"),
    ],
)
def test_wrong_settings_are_refused(
    config: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Settings that cannot be read, in the option or in a file, end with 2 and say why."""
    monkeypatch.chdir(tmp_path)
    Path("odd.json").write_text('{"odd": 1}', encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(["--config", config])
    assert (caught.value.code, reason in capsys.readouterr().err) == (2, True)
