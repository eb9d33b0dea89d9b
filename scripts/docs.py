"""Pages that are made from the code and its tests, and links that must lead somewhere.

`--check` fails when a page is out of date or a link is dead; without it the pages are written anew.
"""

from __future__ import annotations

import argparse
import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

import answerkey
from answerkey.cli import app
from answerkey.models.names import PROVIDERS

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
CASES = ROOT / "tests" / "cases" / "string_equals_mcqa.md"
DEMO = re.compile(r"(<!-- output:demo -->\n```text\n).*?(```\n)", re.DOTALL)
MADE = re.compile(r"(<!-- made: ([\w-]+) -->\n).*?(<!-- /made -->)", re.DOTALL)
VALUE = re.compile(r"(<!-- value: ([\w-]+) -->)(.*?)(<!-- /value -->)")
SHOWN = re.compile(r"(<!-- cases -->\n).*?(<!-- /cases -->)", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HTML_LINK = re.compile(r"<[a-z][^<>]*?\b(?:href|src|srcset)=\"([^\"\s]+)\"")
COMMON = {"json_output", "as_json", "json", "verbose", "quiet", "help"}
#: The cases that the page of the scorer shows, of those that the tests run.
SELECTED = r"""
"B"
"A"
" B"
"B) Paris"
"B - Lyon"
"B (Lyon)"
"B\n\nBecause A is wrong"
"B because it is the capital"
"B, but I'm not certain."
"A is not correct. B is."
"A. Paris\nB. is wrong"
"E"
"b"
"(B)"
"**B**"
"A or B"
"A/B"
"B und C"
"A, A"
"Answer: B"
"D'accord"
"A-level"
"A good choice is C"
"A. Paris\nB. Lyon\nC. Nice"
""".strip().splitlines()


def make_cases() -> str:
    """Return a selection of the cases that the tests run, as one table."""
    rows = [
        re.split(r" *(?<!\\)\| *", row)[1:-1]
        for row in CASES.read_text(encoding="utf-8").splitlines()
    ]
    results = {row[0]: row for row in reversed(rows) if row[1:2] == ["`A B C D`"]}
    shown = [results[f"`{completion}`"] for completion in SELECTED]
    lines = [f"| {row[0]} | {row[5] or row[4]} | {row[6]} |" for row in shown]
    return "\n".join(["| completion | verdict | why |", "|---|---|---|", *lines, ""])


def make_command(name: str) -> str:
    """Return the part of a command's section that comes from its help: examples, text, options."""
    command, run = load_command(name), load_command("run")
    examples = re.findall(r"answerkey [^\n]+", command.epilog or "")
    text = re.sub(
        r"[ \n]*\n[ \n]*\n[ \n]*", "\n\n", (command.help or "").strip().replace("\b\n", "")
    )
    shared = {} if name == "run" else {describe(option): option for option in list_options(run)}
    own_options = [option for option in list_options(command) if describe(option) not in shared]
    lines = [
        f"- {spell(option)}: {(option.help or '').strip().rstrip('.')}" for option in own_options
    ]
    shared_forms = [
        form
        for option in list_options(command)
        if option not in own_options
        for form in list_forms(option)
    ]
    names = ", ".join(f"`{form}`" for form in shared_forms)
    return "\n\n".join(
        [
            "```sh\n" + "\n".join(example.split(" && ")[0] for example in examples) + "\n```",
            re.sub(r"(?<!\n)\n *(?!\n)", " ", text),
            *(["\n".join(lines)] if lines else []),
            *([f"As for `run`: {names}."] if names else []),
        ]
    )


def make_names() -> str:
    """Return the public names of the package, functions with the first line of their docstrings."""
    names = [name for name in answerkey.__all__ if name[0] != "_"]
    commands = app.list_commands(click.Context(app))
    alike = [name for name in names if name.replace("_", "-") in commands]
    functions = [name for name in names if name.islower() and name not in alike]
    types = [name for name in names if not name.islower()]
    listed = {"As the commands": alike, "Types": types}
    lines = [
        f"- {title}: {', '.join(f'`ak.{name}`' for name in members)}"
        for title, members in listed.items()
    ]
    return "\n".join(
        [*lines, *(f"- `ak.{name}`: {summarise(getattr(answerkey, name))}" for name in functions)]
    )


def make_providers() -> str:
    """Return the table of providers: where each is, what its API is, which variables hold its
    key.
    """
    lines = ["| provider | base URL | API | key |", "|---|---|---|---|"]
    for name, provider in PROVIDERS.items():
        url = f"`{provider.base_url}`"
        if provider.base_url is None:
            url = f"yours, in `{name.upper()}_BASE_URL`"
        key = f"`{name.upper()}_API_KEY`"
        if provider.key:
            key += f", else `{provider.key}`"
        if provider.is_local:
            key = "not needed"
        lines.append(f"| `{name}` | {url} | `{provider.api}` | {key} |")
    return "\n".join([*lines, ""])


def summarise(documented: object) -> str:
    """Return the first sentence of a docstring."""
    summary = (inspect.getdoc(documented) or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.;:]) ", summary)[0].rstrip(".;:")


def load_command(name: str) -> click.Command:
    """Return a command from the code."""
    command = app.get_command(click.Context(app, **app.context_settings), name)
    if command is None:
        raise SystemExit(f"there is no command {name}")
    return command


def list_options(command: click.Command) -> list[click.Option]:
    """Return the options of a command, without those that every command has."""
    return [
        parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name not in COMMON
    ]


def list_forms(option: click.Option) -> list[str]:
    """Return every spelling of an option."""
    return [*option.opts, *option.secondary_opts]


def spell(option: click.Option) -> str:
    """Return an option as it is written, with its value."""
    taken = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    *forms, last = list_forms(option)
    return ", ".join([*(f"`{form}`" for form in forms), f"`{last}{taken}`"])


def describe(option: click.Option) -> tuple[str, str | None]:
    """Return what a reader sees of an option; equal options are documented once."""
    return spell(option), option.help


def make_readme() -> str:
    """Return the README with the real output of `answerkey demo` in its place."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    if not DEMO.search(text):
        raise SystemExit("README.md has no block for the output of the demo")
    output = run_demo()
    return DEMO.sub(lambda match: match[1] + output + match[2], text)


def fill_values(text: str, values: dict[str, str]) -> str:
    """Return a page with the values that it marks.

    A value that cannot be made here stays as it is.
    """
    return VALUE.sub(lambda match: match[1] + values.get(match[2], match[3]) + match[4], text)


def run_demo() -> str:
    """Return what the demo prints on a terminal of 100 columns, made stable where it tells the
    time.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "answerkey", "demo"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            env={"COLUMNS": "100", "PATH": "", "HOME": folder, "NO_COLOR": "1"},
        )
    text = re.sub(r"\d{8}-\d{6}", "20260101-120000", done.stdout)
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def make_pages() -> Iterator[tuple[Path, str]]:
    """Yield each page that is made, or of which a part is made, with its text."""
    from measured import MATERIAL, make_values  # beside this file

    pages = {
        page: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))
    }
    commands = REFERENCE / "commands.md"
    pages[commands] = MADE.sub(
        lambda match: f"{match[1]}{make_command(match[2])}\n{match[3]}", pages[commands]
    )
    python = REFERENCE / "python.md"
    pages[python] = MADE.sub(lambda match: f"{match[1]}{make_names()}\n{match[3]}", pages[python])
    models = REFERENCE / "models.md"
    pages[models] = MADE.sub(lambda match: f"{match[1]}{make_providers()}{match[3]}", pages[models])
    scorer = REFERENCE / "scorer-string_equals_mcqa.md"
    pages[scorer] = SHOWN.sub(lambda match: match[1] + make_cases() + match[2], pages[scorer])
    pages[ROOT / "README.md"] = make_readme()
    values = make_values()
    marked = {match[2] for text in pages.values() for match in VALUE.finditer(text)}
    if MATERIAL.exists() and marked - values.keys():
        raise SystemExit(
            f"pages mark values that nothing makes: {', '.join(sorted(marked - values.keys()))}"
        )
    for page, text in pages.items():
        yield page, fill_values(text, values)


def find_dead_links() -> Iterator[str]:
    """Yield each relative link of a Markdown file that leads to no file, or to no heading of its
    page.
    """
    names = subprocess.run(
        [  # noqa: S607 - found on the path
            "git",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "*.md",
            ":!tests/hostile",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in names:
        page = ROOT / name
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        for link in [*LINK.findall(text), *HTML_LINK.findall(text)]:
            target, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            file = page.parent / target if target else page
            if not file.exists():
                yield f"{name}: dead link {link}"
            elif anchor and file.suffix == ".md" and anchor not in list_anchors(file):
                yield f"{name}: {target or name} has no heading for #{anchor}"


def list_anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return {*plain, *re.findall(r'<a id="([^"]+)"', text)}


def main() -> int:
    """Write the pages, or with `--check` compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    problems = []
    for page, text in make_pages():
        if page.read_text(encoding="utf-8") == text:
            continue
        name = page.relative_to(ROOT)
        if check:
            problems.append(f"{name} is out of date: run `python scripts/docs.py`")
        else:
            page.write_text(text, encoding="utf-8")
            print(f"docs: {name} is written anew")
    problems = [*find_dead_links(), *problems]
    print("\n".join(problems) or "docs: every page is up to date, every link leads somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
