"""A page under observation: what it does that it must not do, and pictures of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    WebError,
    expect,
)

#: What stands on a page: texts by the name of their selector.
Seen = dict[str, list[str]]
# Elements that the front end never makes: where one is, text from a file has become markup.
FOREIGN = (
    "img:not(.picture[src^='data:image']), picture, iframe, frame, object, embed, "
    "video, audio, source, "
    "base, marquee, math, template, x, "
    "foreignObject, animate, svg a, svg script, body link, body style, body meta, form[action], "
    "script:not([type]) ~ script:not([type]), a[href]:not([href^='#'])"
)
LIST_FOREIGN = """() => {
    const found = [...document.querySelectorAll(FOREIGN)].map(one => one.outerHTML.slice(0, 120));
    for (const one of document.querySelectorAll("*")) {
        const handlers = one.getAttributeNames().filter(name => name.startsWith("on"));
        found.push(...handlers.map(name => `${one.tagName} ${name}`));
    }
    return found;
}""".replace("FOREIGN", json.dumps(FOREIGN))
# The page hears of a new address a moment later, and is busy from then until it shows what is
# there.
TURN = """async route => {
    const before = location.href;
    const heard = new Promise(resume => addEventListener("hashchange", resume, {once: true}));
    location.hash = route;
    if (location.href !== before) await heard;
}"""
# A list knows its height when it has been laid out once, and draws as many rows with the next
# frame.
DRAW = "() => new Promise(resume => requestAnimationFrame(() => requestAnimationFrame(resume)))"
WALK = """async routes => {
    const main = document.querySelector("main");
    const read = selector => [...main.querySelectorAll(selector)].map(one => one.textContent);
    const isReady = () => main.ariaBusy !== "true" && main.querySelector("h1");
    const seen = [];
    for (const [route, selectors] of routes) {
        await (TURN)(route);
        while (!isReady()) await new Promise(resume => setTimeout(resume, 5));
        const texts = Object.entries(selectors).map(([name, selector]) => [name, read(selector)]);
        seen.push({...Object.fromEntries(texts), foreign: (LIST_FOREIGN)()});
    }
    return seen;
}""".replace("TURN", TURN).replace("LIST_FOREIGN", LIST_FOREIGN)


@dataclass
class Watch:
    """What was seen of pages that should not be there: errors, dialogs, requests to others."""

    allowed: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Forget what was seen so far."""
        self.problems, self.requests = [], []

    def follow(self, context: BrowserContext) -> None:
        """Look at every page that the context opens from now on."""
        context.on("console", self._hear)
        context.on("weberror", self._catch)
        context.on("dialog", self._refuse)
        context.on("request", self._note)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.problems.append(f"console {message.type}: {message.text}")

    def _catch(self, error: WebError) -> None:
        self.problems.append(f"uncaught: {error.error}")

    def _refuse(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog {dialog.type}: {dialog.message}")
        dialog.dismiss()

    def _note(self, request: Request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith(self.allowed):
            self.problems.append(f"request: {request.url}")


@dataclass(frozen=True)
class Stage:
    """One page, where it lies, what was seen of it, and where its pictures go."""

    page: Page
    watch: Watch
    address: str
    folder: Path | None

    def go(self, route: str = "#/") -> None:
        """Open a route of the page, as a link from elsewhere does."""
        if self.page.url != "about:blank":
            self.page.goto("about:blank")
        self.page.goto(self.address + route)
        self.settle()

    def reload(self) -> None:
        """Load the page again."""
        self.page.reload()
        self.settle()

    def turn(self, route: str) -> None:
        """Change the route within the page that is open."""
        self.page.evaluate(TURN, route)
        self.settle()

    def settle(self) -> None:
        """Wait until the page shows what its route asks for."""
        self.page.locator("main:not([aria-busy='true']):has(h1)").wait_for()
        self.page.evaluate(DRAW)
        self.photograph()

    def find(self, selector: str, *, has_text: str | None = None) -> Locator:
        """Return what matches in the main part of the page."""
        return self.page.locator("main").locator(selector, has_text=has_text)

    def choose(self, word: str) -> None:
        """Press one of the buttons that say which samples to show."""
        self.find("fieldset.shows").get_by_role("radio", name=word, exact=True).check()

    def list_ids(self) -> list[str]:
        """Return the ids of the rows that are drawn, in their order."""
        return self.find("tr[data-index] a").all_inner_texts()

    def photograph(self) -> None:
        """Keep a picture of the whole page, if pictures are wanted."""
        if self.folder:
            number = len(list(self.folder.glob("*.png")))
            self.page.screenshot(path=self.folder / f"{number:02}.png", full_page=True)

    def list_foreign_markup(self) -> list[str]:
        """Return elements and attributes that only text taken for markup can have made."""
        result: list[str] = self.page.evaluate(LIST_FOREIGN)
        return result

    def walk(self, routes: Iterable[str], selectors: Mapping[str, str]) -> list[Seen]:
        """Return what stands on the page of each route: the texts of what matches, and `foreign`
        markup.
        """
        steps = [[route, dict(selectors)] for route in routes]
        seen: list[Seen] = self.page.evaluate(WALK, steps)
        return seen

    def measure_overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.scrollingElement.scrollWidth - innerWidth"))

    def expect_rows(self, count: str, *ids: str) -> None:
        """Expect this count of samples, and these rows if any are named."""
        expect(self.find(".tally")).to_have_text(count)
        if ids:
            assert self.list_ids() == list(ids)

    def expect_sample(self, name: str) -> None:
        """Expect that this sample is open."""
        expect(self.find(".pane h2")).to_have_text(name)
