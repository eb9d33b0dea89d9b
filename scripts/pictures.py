"""Pictures of report, viewer and terminal for README and docs, made from the demo in Chromium.

    python scripts/pictures.py            writes docs/img/*.png and docs/img/pictures.json
    python scripts/pictures.py --check    says whether they still show what answerkey shows today

`pictures.json` keeps a hash of what the pictures were made from: the report files of the demo
(their scripts, styles and data, without times and versions), the other files of the page, the
coloured text of the terminal. Pixels are not compared: they differ between versions of Chromium and
between fonts.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "img"
RECORD = IMAGES / "pictures.json"
WEB = ROOT / "src" / "answerkey" / "reports" / "web"
MAX_BYTES = 200_000
MILLISECONDS = 120_000
COLUMNS = 100
#: The demo, then other models on the same questions, for the comparison and the viewer.
OTHER_MODELS = {
    "weaker": "builtin/simulated?accuracy=0.7&style=mixed&seed=1",
    "longest": "builtin/longest",
}
VOLATILE: dict[str, str | Callable[[re.Match[str]], str]] = {
    r'"(made|started_at|finished_at|version)":"[^"]*"': r'"\1":""',
    r'"(seconds|duration)":[0-9.]+': r'"\1":0',
    r"\d\.\d{7,}": lambda number: f"{float(number[0]):.6f}",
}


@dataclass(frozen=True)
class Picture:
    """What is photographed: a page of the demo (`kind`), at a route, in a window, in a colour
    scheme.
    """

    kind: str
    route: str = "#/"
    width: int = 1440
    height: int = 900
    scheme: str = "light"


PICTURES = {
    "report-light": Picture("report"),
    "report-dark": Picture("report", scheme="dark"),
    "samples": Picture("report", "#/run/r0/0/samples"),
    "comparison": Picture("comparison"),
    "viewer": Picture("viewer", height=600),
    "terminal": Picture("terminal", width=960, height=200),
}


@dataclass(frozen=True)
class Material:
    """The demo in a folder: its runs, its reports and what it printed."""

    folder: Path
    text: str

    @property
    def runs(self) -> Path:
        """The folder of the runs."""
        return self.folder / "answerkey-demo" / "runs"


def make_material(folder: Path) -> Material:
    """Run the demo and related commands in an empty folder."""
    text = run_command(folder, "demo")
    runs = Path("answerkey-demo", "runs")
    for name, model in OTHER_MODELS.items():
        run_command(folder, "run", "answerkey-demo", "--model", model, "--out", str(runs / name))
    run_command(folder, "report", str(runs / "demo-1"), "-o", "report.html")
    run_command(
        folder, "report", str(runs / "demo-1"), str(runs / "weaker"), "-o", "comparison.html"
    )
    return Material(folder, f"$ answerkey demo\n{text}")


def run_command(folder: Path, *words: str) -> str:
    """Return what a command prints on a terminal with colours, messages included."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "answerkey", *words],
        cwd=folder,
        env=make_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(
            f"answerkey {' '.join(words)} exits with {done.returncode}:\n{done.stdout}"
        )
    return done.stdout


def make_environment(folder: Path) -> dict[str, str]:
    """Return an environment without keys and settings of the user."""
    settings = {
        "HOME": str(folder),
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "PYTHONUNBUFFERED": "1",
    }
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, **settings}


def compute_sources(material: Material) -> dict[str, str]:
    """Return the hashes of what pictures are made from, by kind of page."""
    pages = {
        name: settle((material.folder / f"{name}.html").read_text("utf-8"))
        for name in ("report", "comparison")
    }
    web = "\n".join(file.read_text("utf-8") for file in sorted(WEB.iterdir()) if file.is_file())
    texts = {**pages, "viewer": pages["comparison"] + web, "terminal": material.text}
    return {kind: hashlib.sha256(text.encode()).hexdigest() for kind, text in texts.items()}


def settle(page: str) -> str:
    """Return a report file with its data unpacked, and without what differs from one time to the
    next.
    """
    unpack = re.compile(r'data-packed="gzip">([A-Za-z0-9+/=]+)<')
    page = unpack.sub(lambda packed: gzip.decompress(base64.b64decode(packed[1])).decode(), page)
    for pattern, settled in VOLATILE.items():
        page = re.sub(pattern, settled, page)
    return page


def describe(sources: dict[str, str]) -> dict[str, str]:
    """Return for each picture a hash of what it shows and how it is taken."""
    shown = {name: f"{sources[picture.kind]} {picture}" for name, picture in PICTURES.items()}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in shown.items()}


def list_problems(material: Material, images: Path = IMAGES) -> list[str]:
    """Return which pictures are missing, too large, changed by hand, or show what is no longer
    so.
    """
    record = json.loads((images / RECORD.name).read_text("utf-8"))
    problems = []
    for name, shown in describe(compute_sources(material)).items():
        file = images / f"{name}.png"
        kept = record.get(name, {})
        if not file.exists():
            problems.append(f"{file.name} is missing")
            continue
        content = file.read_bytes()
        if len(content) > MAX_BYTES:
            problems.append(f"{file.name} has {len(content):,} bytes, more than {MAX_BYTES:,}")
        if hashlib.sha256(content).hexdigest() != kept.get("picture"):
            problems.append(f"{file.name} is not the picture that {RECORD.name} tells of")
        if shown != kept.get("shows"):
            problems.append(f"{file.name} shows what answerkey no longer shows: `make pictures`")
    return problems + [
        f"{name}.png is not made any more" for name in record.keys() - PICTURES.keys()
    ]


def take_pictures(material: Material, images: Path = IMAGES) -> None:
    """Take every picture, and record what each one shows."""
    from playwright.sync_api import sync_playwright

    images.mkdir(parents=True, exist_ok=True)
    options = [
        "--disable-gpu",
        "--disable-lcd-text",
        "--hide-scrollbars",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    with sync_playwright() as driver, serve(material) as viewer:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=options)
        addresses = {
            "report": (material.folder / "report.html").as_uri(),
            "comparison": (material.folder / "comparison.html").as_uri(),
            "viewer": viewer,
            "terminal": write_terminal(material).as_uri(),
        }
        for name, picture in PICTURES.items():
            take_picture(browser, picture, addresses[picture.kind], images / f"{name}.png")
        browser.close()
    record = {
        name: {
            "shows": shown,
            "picture": hashlib.sha256((images / f"{name}.png").read_bytes()).hexdigest(),
        }
        for name, shown in describe(compute_sources(material)).items()
    }
    (images / RECORD.name).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def take_picture(browser: Browser, picture: Picture, address: str, file: Path) -> None:
    """Take a picture of one page, once it shows what its route asks for."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(MILLISECONDS)
    page = context.new_page()
    if picture.kind == "terminal":
        page.goto(address)
        page.locator("main").screenshot(path=file)
    else:
        page.goto(address + picture.route)
        page.locator("main:not([aria-busy='true']):has(h1)").wait_for()
        page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        page.screenshot(path=file)
    context.close()


def write_terminal(material: Material) -> Path:
    """Return an HTML file that shows the text of the demo as a terminal does."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - ends with the script
    console.print(Text.from_ansi(material.text), soft_wrap=True)
    body = console.export_html(theme=MONOKAI, inline_styles=True, code_format="{code}")
    page = f"""<!doctype html><meta charset="utf-8"><style>
    body {{ margin: 0 }}
    main {{ display: inline-block; background: #14161c; color: #d8dbe2; padding: 14px 20px }}
    pre {{ margin: 0; font: 13px/1.4 "DejaVu Sans Mono", Menlo, Consolas, monospace }}
    header {{ height: 22px }}
    i {{ display: inline-block; width: 11px; height: 11px; border-radius: 50%; margin-right: 7px }}
    </style><main><header><i style="background:#ff5f57"></i><i style="background:#febc2e"></i><i
    style="background:#28c840"></i></header><pre>{body}</pre></main>"""
    file = material.folder / "terminal.html"
    file.write_text(page, encoding="utf-8")
    return file


@contextmanager
def serve(material: Material) -> Iterator[str]:
    """Start the viewer on the runs, and yield its address."""
    words = [sys.executable, "-m", "answerkey", "view", str(material.runs), "--quiet"]
    with subprocess.Popen(  # noqa: S603 - our own command
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=make_environment(material.folder),
    ) as process:
        try:
            if process.stdout is None:
                raise SystemExit("the viewer says nothing")
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def find_chromium() -> str:
    """Return the path of Chromium, or of the program that `ANSWERKEY_CHROMIUM` names."""
    program = os.environ.get("ANSWERKEY_CHROMIUM")
    names = (
        [program]
        if program
        else ["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"]
    )
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise SystemExit("no Chromium: install one, or name it in ANSWERKEY_CHROMIUM")
    return path


def main() -> int:
    """Make the pictures, or with `--check` say which are out of date; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="make nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        material = make_material(Path(folder))
        if not options.check:
            take_pictures(material)
        problems = list_problems(material)
    sizes = ", ".join(
        f"{name} {(IMAGES / f'{name}.png').stat().st_size // 1000} kB" for name in PICTURES
    )
    print("\n".join(problems) or f"pictures: {sizes}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
