"""Pages that are made from the code and its tests, and links that must lead somewhere.

`--check` fails when a page is out of date or a link is dead; without it the pages are written anew.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases" / "string_equals_mcqa.md"
CASES_PAGE = ROOT / "docs" / "reference" / "string_equals_mcqa-cases.md"
BLOCK = re.compile(r"(<!-- output:demo -->\n```text\n).*?(```\n)", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def make_cases_page() -> str:
    """Return the page of decided cases: the very tables that the tests run."""
    head = (
        "<!-- made by scripts/docs.py from tests/cases/string_equals_mcqa.md; edit that file -->\n\n"
        "These tables are run as tests: every row is checked against the scorer, alone and as a column.\n\n"
    )
    return head + CASES.read_text(encoding="utf-8")


def make_readme() -> str:
    """Return the README with the real output of `answerkey demo` in its place."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    if not BLOCK.search(text):
        raise SystemExit("README.md has no block for the output of the demo")
    output = run_demo()
    return BLOCK.sub(lambda match: match[1] + output + match[2], text)


def run_demo() -> str:
    """Return what the demo prints on a terminal of 100 columns, made stable where it tells the time."""
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


def find_dead_links() -> Iterator[str]:
    """Yield each relative link of a Markdown file of the project that leads nowhere."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", ":!tests/hostile"],  # noqa: S607 - found on the path
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in names:
        page = ROOT / name
        for link in LINK.findall(page.read_text(encoding="utf-8")) if page.exists() else []:
            if "://" not in link and not link.startswith("mailto:") and not (page.parent / link).exists():
                yield f"{name}: dead link {link}"


def main() -> int:
    """Write the pages, or with `--check` compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    problems = list(find_dead_links())
    for page, text in ((CASES_PAGE, make_cases_page()), (ROOT / "README.md", make_readme())):
        if check and (not page.exists() or page.read_text(encoding="utf-8") != text):
            problems.append(f"{page.relative_to(ROOT)} is out of date: run `python scripts/docs.py`")
        elif not check:
            page.write_text(text, encoding="utf-8")
    print("\n".join(problems) or "docs: every page is up to date, every link leads somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
