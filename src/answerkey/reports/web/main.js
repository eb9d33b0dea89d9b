// Where the page begins: it opens the source, draws the frame, and shows what the address asks for.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, link, said, makeRoute, parseRoute } = ak.core;
  const KEYS = [
    ["/", "search the samples"], ["j  k", "next or previous row or sample"], ["↓  ↑", "next or previous row in the table"],
    ["Enter", "open the sample"], ["→  ←", "next or previous sample"], ["Escape", "back to the table, or close"],
    ["?", "show the shortcuts"],
  ];
  const frame = {};
  const state = { view: null, scrolls: new Map(), path: null, isFresh: false, isSearching: false, turn: 0 };

  // ── start ─────────────────────────────────────────────────────────────────────────────────────────────

  function start() {
    ak.core.setTheme(ak.core.readTheme());
    drawFrame();
    try {
      ak.source = document.getElementById("ak-overview") ? ak.embedded.open() : ak.server.open(takeToken());
    } catch (error) {
      return showTrouble(makePlace(), error);
    }
    frame.footer.append(sayMade());
    ak.source.renewed = renew;
    history.scrollRestoration = "manual";
    window.addEventListener("hashchange", navigate);
    document.addEventListener("keydown", onKey);
    document.addEventListener("click", onClick);
    window.addEventListener("beforeprint", openAll);
    window.addEventListener("afterprint", closeAgain);
    return navigate();
  }

  // The token leaves the address bar, and with it the history and whatever is copied from there.
  function takeToken() {
    const address = new URL(location.href);
    const token = address.searchParams.get("token");
    address.searchParams.delete("token");
    if (token !== null) history.replaceState(null, "", address);
    return token;
  }

  function sayMade() {
    const { made, version } = ak.source;
    return el("p", null, "Made by answerkey", version && [" ", said(version)], made && [", ", said(ak.core.moment(made))], ".");
  }

  // ── frame ─────────────────────────────────────────────────────────────────────────────────────────────

  function drawFrame() {
    frame.main = el("main", { id: "ak-main", tabindex: "-1" });
    frame.nav = el("nav", { class: "pages", "aria-label": "Pages" });
    frame.footer = el("footer", { class: "site" });
    frame.keys = drawKeys();
    const showKeys = { type: "button", class: "quiet", "aria-haspopup": "dialog", on: { click: () => frame.keys.showModal() } };
    const skip = (event) => {
      event.preventDefault();
      frame.main.focus();
    };
    document.body.prepend(
      el("a", { class: "skip", href: "#ak-main", on: { click: skip } }, "Skip to the content"),
      el("header", { class: "site" }, link("/", { class: "brand" }, drawBrand(), "answerkey"), frame.nav,
        el("div", { class: "tools" }, drawThemes(), el("button", showKeys, "Shortcuts"))),
      frame.main, frame.footer, frame.keys,
      el("div", { id: "ak-live", class: "unseen", role: "status", "aria-live": "polite" }));
  }

  function drawBrand() {
    return ak.core.svg("svg", { class: "logo", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
      ak.core.svg("circle", { cx: 6, cy: 6, r: 3.4 }), ak.core.svg("circle", { cx: 18, cy: 6, r: 3.4 }),
      ak.core.svg("circle", { cx: 6, cy: 18, r: 3.4 }), ak.core.svg("circle", { class: "filled", cx: 18, cy: 18, r: 3.9 }));
  }

  function drawThemes() {
    const choose = (event) => ak.core.setTheme(event.target.value);
    const chosen = ak.core.readTheme();
    return el("label", { class: "select" }, el("span", null, "Theme"), el("select", { on: { change: choose } },
      ak.core.THEMES.map((theme) => el("option", { value: theme, selected: theme === chosen }, theme))));
  }

  function drawKeys() {
    const close = () => frame.keys.close();
    return el("dialog", { class: "keys", "aria-labelledby": "ak-keys-title" }, el("h2", { id: "ak-keys-title" }, "Shortcuts"),
      el("dl", null, KEYS.map(([keys, does]) => el("div", null,
        el("dt", null, keys.split("  ").map((key) => el("kbd", null, key))), el("dd", null, does)))),
      el("button", { type: "button", on: { click: close } }, "Close"));
  }

  // ── where one is ──────────────────────────────────────────────────────────────────────────────────────

  async function drawNav(route) {
    const { runs } = ak.source.mode === "report" ? await ak.source.runs() : { runs: [] };
    const id = route.run || (runs.length === 1 ? runs[0].id : null);
    const run = id === null ? null : await ak.source.overview(id, { isBrief: true });
    const isWhole = runs.length === 1 && run.tasks.length === 1;
    frame.nav.replaceChildren(...[
      !isWhole && mark(link("/"), ["home", ak.source.hasComparison && "compare"].includes(route.page), nameHome(runs)),
      ...(route.run || isWhole ? listRunLinks(run, runs, route, isWhole) : []),
    ].filter(Boolean));
  }

  function nameHome(runs) {
    if (ak.source.mode !== "report") return "Runs";
    return runs.length > 2 ? "Leaderboard" : runs.length > 1 ? "Comparison" : "Tasks";
  }

  function listRunLinks(run, runs, route, isWhole) {
    const number = route.task || 0;
    const tasks = run.tasks.map((task, i) => [String(i), tellApart(task, run.tasks)]);
    return [
      runs.length > 1 && choose("Run", runs.map((one) => [one.id, one.label]), run.id, (id) => makeRoute(["run", id, 0])),
      tasks.length > 1 && choose("Task", tasks, String(number), (i) => makeRoute(["run", run.id, i])),
      mark(link(makeRoute(["run", run.id, number])), route.page === "overview" || (isWhole && route.page === "home"), "Summary"),
      mark(link(makeRoute(["run", run.id, number, "samples"])), ["samples", "sample"].includes(route.page), "Samples"),
    ];
  }

  function mark(target, isHere, words) {
    if (isHere) target.setAttribute("aria-current", "page");
    target.textContent = words;
    return target;
  }

  function tellApart(task, tasks) {
    const name = ak.overview.nameTask(task);
    return tasks.filter((one) => ak.overview.nameTask(one) === name).length > 1 ? `${name} (${task.key})` : name;
  }

  function choose(name, options, chosen, address) {
    const follow = (event) => ak.core.go(address(event.target.value));
    return el("label", { class: "select" }, el("span", null, name), el("select", { on: { change: follow } },
      options.map(([value, label]) => el("option", { value, selected: value === chosen }, ak.core.makeVisible(label)))));
  }

  // ── showing ───────────────────────────────────────────────────────────────────────────────────────────

  const PAGES = {
    home: (place, route) => (ak.source.mode === "report" ? ak.overview.showHome(place, route) : ak.runs.show(place, route)),
    overview: (place, route) => ak.overview.show(place, route),
    samples: (place, route) => ak.samples.show(place, route),
    sample: (place, route) => ak.samples.show(place, route),
    compare: (place, route) => ak.compare.show(place, route),
  };

  async function navigate() {
    if (location.hash && !location.hash.startsWith("#/")) return;
    const turn = (state.turn += 1);
    const route = parseRoute(location.hash);
    frame.main.setAttribute("aria-busy", "true");
    // A page may go on to another address by itself, as the table of samples does when one is opened.
    const followed = route && state.view && state.view.follow ? state.view.follow(route) : null;
    if (!followed) leave();
    const place = followed ? frame.main.firstChild : makePlace();
    try {
      if (!route) throw new Error("This address leads nowhere.");
      if (!followed) await drawNav(route);
      const view = followed ? { title: await followed } : (await PAGES[route.page](place, route)) || {};
      if (turn !== state.turn) return view.leave && view.leave();
      if (followed) name(view.title, route);
      else arrive(view, route);
    } catch (error) {
      if (turn === state.turn) showTrouble(place, error);
    }
    frame.main.removeAttribute("aria-busy");
  }

  // Shows the overview of a run again, if it is still the one in sight.
  function renew(run) {
    const route = parseRoute(location.hash);
    if (route && route.page === "overview" && route.run === run) navigate();
  }

  function makePlace() {
    const place = el("div", { class: "page" });
    frame.main.replaceChildren(place);
    return place;
  }

  function leave() {
    if (state.path !== null) state.scrolls.set(state.path, window.scrollY);
    if (state.view && state.view.leave) state.view.leave();
    state.view = null;
  }

  function name(title, route) {
    state.path = route.path;
    document.title = ak.core.makeVisible([title, "answerkey"].filter(Boolean).join(" · "));
  }

  function arrive(view, route) {
    const isFirst = state.path === null;
    state.view = view;
    name(view.title, route);
    window.scrollTo(0, state.isFresh ? 0 : state.scrolls.get(route.path) || 0);
    state.isFresh = false;
    const heading = frame.main.querySelector(state.isSearching ? "#search" : "h1");
    state.isSearching = false;
    if (!isFirst && heading && !frame.main.contains(document.activeElement)) heading.focus({ preventScroll: true });
  }

  function showTrouble(place, error) {
    leave();
    const heading = el("h1", { tabindex: "-1" }, "This cannot be shown");
    place.replaceChildren(el("header", { class: "title" }, heading), el("p", { role: "alert" }, said(error.message)),
      el("p", null, link("/", { class: "button" }, "Go to the first page")));
    heading.focus({ preventScroll: true });
  }

  // ── keys and clicks ───────────────────────────────────────────────────────────────────────────────────

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || frame.keys.open) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "?") frame.keys.showModal();
    else if (state.view && state.view.keys && state.view.keys(event)) event.preventDefault();
    else if (event.key === "/" && goToSearch()) event.preventDefault();
    else if (event.key === "Escape") goUp();
  }

  function isTyping(target) {
    return target.matches("textarea, select, input:not([type=radio]):not([type=checkbox])");
  }

  // From wherever in a run, `/` leads to its samples, ready to search.
  function goToSearch() {
    const target = [...frame.nav.querySelectorAll("a")].find((one) => one.textContent === "Samples");
    if (!target) return false;
    state.isSearching = true;
    target.click();
    return true;
  }

  function goUp() {
    const route = parseRoute(location.hash);
    if (route && route.page === "samples") ak.core.go(makeRoute(["run", route.run, route.task]));
    else if (route && route.page !== "home") ak.core.go("/");
  }

  // A link that is followed begins at the top; going back begins where one was.
  function onClick(event) {
    if (event.target.closest && event.target.closest("a[href^='#/']")) state.isFresh = true;
  }

  // ── print ─────────────────────────────────────────────────────────────────────────────────────────────

  function openAll() {
    for (const details of frame.main.querySelectorAll("details:not([open], .copy)")) {
      details.open = true;
      details.dataset.forPrint = "";
    }
  }

  function closeAgain() {
    for (const details of frame.main.querySelectorAll("details[data-for-print]")) {
      details.open = false;
      delete details.dataset.forPrint;
    }
  }

  ak.main = { start, frame };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
