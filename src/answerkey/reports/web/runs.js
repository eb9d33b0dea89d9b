// The runs of a folder: how the numbers of each task went over time, every run with its number, and
// ticks to compare some. The list looks for news by itself.
(function () {
  "use strict";
  const ak = window.ak;
  const { sideways } = ak.charts;
  const { el, link, said, unseen, count, counted, figure, interval, makeRoute, isNumber, moment } = ak.core;
  const SOON = 2000;
  const LATER = 10000;
  const SHOWN = 200;
  const MOST_TRENDS = 8;
  const MOST_TASKS = 5;
  const MOST_COMPARED = 12;
  const STATUSES = {
    complete: { word: "complete", sign: "✓", kind: "right" },
    incomplete: { word: "incomplete", sign: "!", kind: "failed" },
    running: { word: "running", sign: "…", kind: "partial" },
    unreadable: { word: "unreadable", sign: "✗", kind: "error" },
  };
  // Ticks outlast the page: who comes back from a comparison finds them.
  const ticked = new Set();

  async function show(place, route) {
    const page = makePage(await ak.source.runs());
    place.append(page.element);
    page.start();
    return { title: "Runs", keys: page.takeKey, leave: page.leave };
  }

  function makePage(first) {
    const state = { told: first, text: "", shown: SHOWN, timer: 0, isLeft: false };
    const rows = new Map();
    const heading = el("p", { class: "runs-sum", role: "status" });
    const trends = el("section", { class: "panel wide trends", "aria-labelledby": "trends" });
    const search = el("input", { type: "search", id: "search", autocomplete: "off", spellcheck: "false", placeholder: "name, task, model or status", on: { input: () => look({ text: search.value.trim().toLowerCase() }) } });
    const compare = el("a", { class: "button" });
    const clear = el("button", { type: "button", class: "quiet", on: { click: clearTicks } }, "Clear the selection");
    const all = el("button", { type: "button", class: "quiet", on: { click: tickAll } });
    const body = el("tbody");
    const more = el("button", { type: "button", class: "quiet", on: { click: () => look({ shown: state.shown + SHOWN }) } });
    const trouble = el("p", { class: "banner", role: "alert" });
    const heads = [unseen("Compare"), "Run", "Status", "Model", "Task", "Number", "n", "Started"];
    const table = el("table", { class: "plain runs" },
      el("caption", { class: "unseen" }, "Runs, newest first"),
      el("thead", null, el("tr", null, heads.map((name) => el("th", { scope: "col" }, name)))), body);
    const element = el("div", { class: "runs-page" },
      el("header", { class: "title" }, el("p", { class: "kicker" }, "Runs"), el("h1", { tabindex: "-1" }, said(first.folder)), heading),
      trouble, trends,
      el("section", { "aria-labelledby": "all-runs" }, el("h2", { id: "all-runs" }, "All runs"),
        el("div", { class: "filters" }, el("div", { class: "search" }, el("label", { for: "search" }, "Search"), search), compare, all, clear,
          el("p", { class: "dim small" }, "j and k move, x selects, c compares")),
        sideways("Runs", table), more));
    return { element, start, leave, takeKey };

    // ── news ────────────────────────────────────────────────────────────────────────────────────────────

    function start() {
      document.addEventListener("visibilitychange", wake);
      trouble.hidden = true;
      draw();
      wait();
    }

    function leave() {
      state.isLeft = true;
      clearTimeout(state.timer);
      document.removeEventListener("visibilitychange", wake);
    }

    function wait() {
      const isUnderWay = state.told.runs.some((run) => run.status === "running");
      clearTimeout(state.timer);
      if (!state.isLeft) state.timer = setTimeout(renew, isUnderWay ? SOON : LATER);
    }

    function wake() {
      if (!document.hidden) renew();
    }

    async function renew() {
      if (document.hidden) return;
      try {
        const told = await ak.source.runs();
        if (state.isLeft) return;
        tellChanges(state.told.runs, told.runs);
        state.told = told;
        trouble.hidden = true;
        draw();
      } catch (error) {
        trouble.replaceChildren(el("span", { class: "sign", "aria-hidden": "true" }, "!"), error.message);
        trouble.hidden = false;
      }
      wait();
    }

    function tellChanges(before, now) {
      const known = new Map(before.map((run) => [run.id, run.status]));
      for (const run of now) {
        const was = known.get(run.id);
        if (was !== run.status) ak.core.announce(`${ak.core.makeVisible(run.label)}: ${was ? "" : "new, "}${nameStatus(run).word}`);
      }
    }

    // ── drawing ─────────────────────────────────────────────────────────────────────────────────────────

    function look(changes) {
      Object.assign(state, changes);
      draw();
    }

    function draw() {
      const { runs } = state.told;
      const found = runs.filter((run) => matches(run, state.text));
      const underWay = runs.filter((run) => run.status === "running").length;
      heading.textContent = runs.length ? `${counted(runs.length, "run")}${underWay ? `, ${count(underWay)} running` : ""}.` : "There are no runs here yet; they appear as soon as there are.";
      for (const id of ticked) if (!runs.some((run) => run.id === id && canCompare(run))) ticked.delete(id);
      drawTrends(trends, runs);
      drawRows(found.slice(0, state.shown));
      more.hidden = found.length <= state.shown;
      more.textContent = `Show more of the ${count(found.length)} runs`;
      tellTicks();
    }

    // A row that says the same as before stays, and with it the focus.
    function drawRows(runs) {
      const wanted = runs.map(keepRow);
      for (const [id, row] of rows) if (!runs.some((run) => run.id === id)) { row.element.remove(); rows.delete(id); }
      wanted.forEach((row, i) => { if (body.children[i] !== row) body.insertBefore(row, body.children[i] || null); });
    }

    function keepRow(run) {
      const text = JSON.stringify(run);
      const before = rows.get(run.id);
      if (before && before.text === text) return before.element;
      const part = before && before.element.contains(document.activeElement) ? document.activeElement.dataset.part : null;
      const element = drawRun(run, { tick });
      if (before) before.element.replaceWith(element);
      rows.set(run.id, { text, element });
      const again = part && element.querySelector(`[data-part="${part}"]`);
      if (again) again.focus({ preventScroll: true });
      return element;
    }

    // ── ticks ───────────────────────────────────────────────────────────────────────────────────────────

    function tick(id, isTicked) {
      if (isTicked) ticked.add(id);
      else ticked.delete(id);
      tellTicks();
    }

    function tellTicks() {
      const ids = state.told.runs.filter((run) => ticked.has(run.id)).map((run) => run.id);
      const isReady = ids.length >= 2 && ids.length <= MOST_COMPARED;
      compare.textContent = ids.length > MOST_COMPARED ? `At most ${MOST_COMPARED} runs can be compared` : ids.length > 2 ? `Leaderboard of ${counted(ids.length, "run")}` : ids.length ? `Compare ${counted(ids.length, "run")}` : "Select runs to compare them";
      compare.classList.toggle("is-off", !isReady);
      if (isReady) compare.setAttribute("href", `#${makeRoute(["compare", ids.join(",")])}`);
      else compare.removeAttribute("href");
      clear.hidden = ids.length === 0;
      const left = listAlike().filter((run) => !ticked.has(run.id)).length;
      all.hidden = left === 0 || ids.length + left > MOST_COMPARED;
      all.textContent = `Select ${counted(left, ids.length ? "more run" : "run")}`;
      for (const box of body.querySelectorAll("input")) box.checked = ticked.has(box.value);
    }

    // The newest complete runs that the search finds, as many as can be compared.
    function listAlike() {
      return state.told.runs.filter((run) => matches(run, state.text) && canCompare(run)).slice(0, MOST_COMPARED);
    }

    function tickAll() {
      for (const run of listAlike()) ticked.add(run.id);
      tellTicks();
    }

    function clearTicks() {
      ticked.clear();
      tellTicks();
      search.focus();
    }

    // ── keys ────────────────────────────────────────────────────────────────────────────────────────────

    function takeKey(event) {
      if (event.key === "/") return search.focus(), true;
      if (event.key === "j" || event.key === "ArrowDown") return step(1);
      if (event.key === "k" || event.key === "ArrowUp") return step(-1);
      if (event.key === "x") return tickFocused();
      if (event.key === "c" && compare.hasAttribute("href")) return compare.click(), true;
      return false;
    }

    function step(by) {
      const links = [...body.querySelectorAll("[data-part='run']")];
      const row = document.activeElement.closest("tr");
      const at = links.findIndex((one) => one.closest("tr") === row);
      const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))];
      if (next) next.focus();
      return Boolean(next);
    }

    function tickFocused() {
      const row = document.activeElement.closest("tr");
      const box = row && row.querySelector("input:not([disabled])");
      if (box) box.click();
      return Boolean(box);
    }
  }

  function matches(run, text) {
    const words = [run.label, run.key, run.model, nameStatus(run).word, ...run.tasks.flatMap((task) => [task.key, task.name])];
    return !text || words.some((word) => String(word || "").toLowerCase().includes(text));
  }

  function canCompare(run) {
    return run.status === "complete" && run.tasks.length > 0;
  }

  function nameStatus(run) {
    return STATUSES[run.status] || { word: run.status, sign: "?", kind: "error" };
  }

  // ── one run ───────────────────────────────────────────────────────────────────────────────────────────

  function drawRun(run, { tick }) {
    const box = el("input", {
      type: "checkbox", value: run.id, disabled: !canCompare(run), "data-part": "tick", "aria-label": `Compare ${ak.core.makeVisible(run.label)}`,
      on: { change: () => tick(run.id, box.checked) },
    });
    box.checked = ticked.has(run.id);
    const name = run.tasks.length
      ? link(makeRoute(["run", run.id, 0]), { "data-part": "run" }, said(run.label))
      : el("span", { "data-part": "run", tabindex: "-1" }, said(run.label));
    return el("tr", null,
      el("td", { class: "tick" }, box),
      el("th", { scope: "row" }, name),
      el("td", null, drawStatus(run), " ", run.error && el("p", { class: "small" }, said(run.error))),
      el("td", null, run.model ? said(run.model) : "–"),
      drawTasks(run),
      el("td", { class: "nowrap" }, moment(run.started_at) || "–"));
  }

  function drawStatus(run) {
    const { word, sign, kind } = nameStatus(run);
    return el("span", { class: `verdict is-${kind}` }, el("span", { class: "sign", "aria-hidden": "true" }, sign), word);
  }

  // The cells of task, number and n: a line for each of the first tasks.
  function drawTasks(run) {
    const tasks = run.tasks.length ? run.tasks : [{ key: run.key, name: null, value: null, interval: null, n: null, is_share: true }];
    const shown = tasks.slice(0, tasks.length > MOST_TASKS + 1 ? MOST_TASKS : tasks.length);
    const stack = (kind, draw) => el("td", { class: `stack ${kind}` }, shown.map((task, number) => el("div", null, draw(task, number))));
    const names = stack("", (task, number) => nameOne(task, tasks.length > 1 ? makeRoute(["run", run.id, number]) : null));
    const left = tasks.length - shown.length;
    if (left) names.append(el("div", null, link(makeRoute(["run", run.id, shown.length]), { class: "small" }, `and ${counted(left, "more task")}`)));
    return [
      names,
      stack("nowrap", (task) => (isNumber(task.value) ? [el("strong", null, figure(task.value, task.is_share, digits(task))), " ", el("span", { class: "dim" }, interval(task.interval, task.is_share, digits(task)))] : "–")),
      stack("number", (task) => (isNumber(task.n) ? count(task.n) : "–")),
    ];
  }

  function digits({ interval: reach, n, is_share: isShare }) {
    return ak.core.precision(reach, n, isShare);
  }

  // Of several names each stays on one line, beside its number.
  function nameOne(task, address) {
    const name = task.name || task.key || "–";
    return address ? link(address, { class: "one-line", title: ak.core.makeVisible(name) }, said(name)) : said(name);
  }

  // ── over time ─────────────────────────────────────────────────────────────────────────────────────────

  function drawTrends(section, runs) {
    const trends = listTrends(runs);
    const text = JSON.stringify(trends);
    section.hidden = trends.length === 0;
    if (section.dataset.text === text) return;
    section.dataset.text = text;
    const isOpen = Boolean(section.querySelector("details[open]"));
    const [first, others] = [trends.slice(0, MOST_TRENDS), trends.slice(MOST_TRENDS)];
    section.replaceChildren(
      el("h2", { id: "trends" }, "Over time"),
      el("p", { class: "explain" }, "A task’s number in every complete run of the same model on the same dataset, in the order in which they were started."),
      drawTrendTable("Over time", first),
      ...(others.length ? [el("details", { open: isOpen }, el("summary", null, counted(others.length, "more line")), drawTrendTable("Over time, more lines", others))] : []));
  }

  function drawTrendTable(label, trends) {
    const heads = ["Task", "Model", "Dataset", "Metric", "Over time", "First", "Latest", "Runs"];
    return sideways(label, el("table", { class: "plain" },
      el("caption", { class: "unseen" }, label),
      el("thead", null, el("tr", null, heads.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", null, trends.map(drawTrend))));
  }

  // By task, model, dataset and metric, oldest run first: other numbers are not one line. One run alone is none.
  function listTrends(runs) {
    const found = new Map();
    for (const run of [...runs].reverse()) {
      for (const task of run.tasks.filter((one) => isNumber(one.value))) {
        const name = JSON.stringify([task.key, task.metric, task.model, task.dataset, task.fingerprint]);
        if (!found.has(name)) found.set(name, { ...task, values: [] });
        found.get(name).values.push(task.value);
      }
    }
    const trends = [...found.values()].filter((one) => one.values.length > 1);
    for (const one of trends) one.isAlone = trends.every((other) => other === one || nameTrend(other) !== nameTrend(one));
    return trends.sort((one, other) => other.values.length - one.values.length);
  }

  function nameTrend({ key, metric, model, dataset }) {
    return JSON.stringify([key, metric, model, dataset]);
  }

  function drawTrend({ key, name, model, dataset, fingerprint, metric, is_share, interval: reach, n, values, isAlone }) {
    const say = (value) => figure(value, is_share, ak.core.precision(reach, n, is_share));
    const title = `${counted(values.length, "run")}: from ${say(values[0])} to ${say(values[values.length - 1])}, lowest ${say(Math.min(...values))}, highest ${say(Math.max(...values))}`;
    return el("tr", null,
      el("th", { scope: "row" }, said(name || key)), el("td", null, said(model)),
      el("td", null, said(isAlone ? dataset : `${dataset} (${String(fingerprint).slice(0, 8)})`)), el("td", null, said(metric)),
      el("td", null, ak.charts.sparkline(values, { title })),
      el("td", { class: "number" }, say(values[0])), el("td", { class: "number" }, say(values[values.length - 1])), el("td", { class: "number" }, count(values.length)));
  }

  ak.runs = { show };
})();
