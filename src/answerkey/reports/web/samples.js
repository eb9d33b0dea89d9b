// The samples of a task: search, filters, order; a list that stays fluid at any length, and beside it the
// sample that is open.
//
// What is asked for stands in the address, and so does the open sample, so that a link shows the same:
// `#/run/r0/0/samples?show=wrong` and `#/run/r0/0/sample/000003?show=wrong`.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, link, said, banner, unseen, count, counted, makeRoute } = ak.core;
  const SHOWS = { all: "All", right: "Right", wrong: "Wrong", invalid: "INVALID", failed: "FAILED", flipped: "Flipped" };
  const BLANK = {
    show: "all", reason: null, category: null, truth: null, predicted: null, text: null, sort: "position", descending: false,
  };
  const PAUSE = 200;
  const COLUMNS_KEY = "answerkey-columns";
  const WIDE = "(min-width: 44rem)";
  const MOST_ID = 18;
  const MOST_PAIR = 24;
  // The list that was left last, and the row in it.
  const last = { key: null, index: 0 };

  // ── what is asked for ─────────────────────────────────────────────────────────────────────────────────

  function readQuery(params) {
    const query = { ...BLANK };
    for (const name of Object.keys(BLANK)) if (params.get(name)) query[name] = params.get(name);
    query.descending = params.get("descending") === "true";
    if (!(query.show in SHOWS)) query.show = "all";
    return query;
  }

  // Only what differs from the blank one, as the address has it.
  function listAsked(query) {
    return Object.fromEntries(Object.entries(query).filter(([name, value]) => value !== BLANK[name]));
  }

  // ── the page ──────────────────────────────────────────────────────────────────────────────────────────

  async function show(place, route) {
    const run = await ak.source.overview(route.run, { isBrief: true });
    const task = run.tasks[route.task];
    if (!task) throw new Error("This run has no such task.");
    const page = makePage(run, task, route);
    place.append(page.element);
    const title = await page.start();
    return { title, keys: page.takeKey, leave: page.leave, follow: page.follow };
  }

  function makePage(run, task, route) {
    const query = readQuery(route.query);
    const columns = listColumns(task);
    const hidden = readHidden(columns);
    const tally = el("p", { class: "tally", role: "status" });
    const name = ak.overview.nameTask(task);
    const search = el("input", {
      type: "search", id: "search", value: query.text || "", autocomplete: "off", spellcheck: "false",
      placeholder: "id, question or completion", on: { input: searchSoon },
    });
    const heads = columns.map((column) => drawHeading(column));
    const list = ak.list.makeList({ label: "Samples", caption: `Samples of ${name}`, headings: heads, load, draw: drawRow, told });
    const controls = drawControls();
    const pane = ak.sample.makePane(task, { step, close });
    // `open` is the sample in the pane: {id, trial, p, index}; `known` one that is about to be opened, and `aim` its
    // place, so that keys that are pressed fast count each.
    const state = { timer: 0, abort: null, total: 0, open: null, known: null, aim: null, turn: 0 };
    const element = el("div", { class: "samples-page" },
      el("header", { class: "title compact line" }, el("h1", { tabindex: "-1" }, "Samples"),
        el("p", { class: "dim" }, said(name), " · ", said(task.model))),
      task.rows.sentence && banner(task.rows.sentence),
      el("form", { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } },
        el("div", { class: "search" }, el("label", { for: "search" }, "Search"), search), controls.element),
      list.element, pane.element);
    return { element, start, takeKey, leave, follow };

    // Who comes back to a list finds the row again.
    async function start() {
      tell();
      if (route.page === "sample") return open(route, true);
      await renew(last.key === makeKey() ? last.index : 0);
      return makeTitle();
    }

    function leave() {
      Object.assign(last, { key: makeKey(), index: list.index() });
      clearTimeout(state.timer);
      if (state.abort) state.abort.abort();
      list.leave();
    }

    function makeKey() {
      return JSON.stringify([run.id, route.task, listAsked(query)]);
    }

    function makeTitle() {
      return state.open ? `Sample ${ak.core.makeVisible(state.open.id)}` : `Samples, ${name}`;
    }

    // ── addresses ───────────────────────────────────────────────────────────────────────────────────────

    function addressList() {
      return makeRoute(["run", run.id, route.task, "samples"], listAsked(query));
    }

    function addressRow({ id, trial }) {
      return makeRoute(["run", run.id, route.task, "sample", id], { trial, ...listAsked(query) });
    }

    // Another address of the same samples: the promise of its title; null for any other.
    function follow(next) {
      const isHere = next.run === run.id && next.task === route.task && ["samples", "sample"].includes(next.page);
      return isHere ? arrive(next) : null;
    }

    async function arrive(next) {
      const before = makeKey();
      Object.assign(query, readQuery(next.query));
      const isOther = makeKey() !== before;
      if (isOther) tell();
      if (next.page === "sample") return open(next, isOther);
      const wasOpen = state.open !== null;
      shut();
      if (isOther) await renew();
      if (wasOpen) list.go(0);
      return makeTitle();
    }

    // ── the open sample ─────────────────────────────────────────────────────────────────────────────────

    async function open({ id, query: params }, isOther) {
      const turn = (state.turn += 1);
      const [trial, isFirst] = [params.get("trial"), state.open === null];
      const isKnown = state.known && state.known.id === id && String(state.known.trial) === String(trial);
      const found = isKnown ? state.known : await ak.source.find(run.id, route.task, { id, trial }, query);
      if (found.p === null) throw new Error(ak.source.absence);
      const sample = await ak.source.sample(run.id, route.task, found.p);
      if (turn !== state.turn) return makeTitle();
      Object.assign(state, { open: { id, trial, p: found.p, index: found.index }, aim: null });
      element.classList.add("has-pane");
      if (isOther) await renew(found.index ?? 0);
      else if (found.index !== null) list.show(found.index);
      pane.show(sample, sayPlace(), { hasBefore: found.index > 0, hasAfter: (found.index ?? -1) + 1 < state.total });
      if (isFirst && document.activeElement !== document.body) pane.focus();
      return makeTitle();
    }

    function sayPlace() {
      const isFiltered = Object.keys(listAsked(query)).some((one) => one !== "sort" && one !== "descending");
      if (state.open.index === null) return "not in this selection";
      return `${count(state.open.index + 1)} of ${counted(state.total, "sample")}${isFiltered ? " in this selection" : ""}`;
    }

    async function step(by) {
      const index = (state.aim ?? state.open.index ?? -1) + by;
      if (index < 0 || index >= state.total) return;
      const turn = (state.turn += 1);
      state.aim = index;
      const row = await list.row(index);
      if (turn !== state.turn || !row) return;
      state.known = { ...row, index };
      ak.core.swap(addressRow(row));
    }

    function shut() {
      state.turn += 1;
      Object.assign(state, { open: null, aim: null });
      element.classList.remove("has-pane");
      pane.clear();
    }

    function close() {
      ak.core.go(addressList());
    }

    // ── loading ─────────────────────────────────────────────────────────────────────────────────────────

    async function renew(index = 0) {
      if (state.abort) state.abort.abort();
      state.abort = new AbortController();
      const { signal } = state.abort;
      element.setAttribute("aria-busy", "true");
      try {
        await list.renew(index);
      } catch (error) {
        if (!signal.aborted) tally.textContent = error.message;
      }
      if (!signal.aborted) element.removeAttribute("aria-busy");
    }

    async function load(offset, limit) {
      const { signal } = state.abort;
      const found = await ak.source.rows(run.id, route.task, query, offset, limit, { signal, progress: tellProgress });
      fitColumns(found.rows);
      return found;
    }

    // Ids and letters get as much room as they need, within bounds.
    function fitColumns(rows) {
      const longest = (measure, most) => Math.min(most, Math.max(4, ...rows.map((row) => Array.from(measure(row)).length)));
      const size = (text) => (text ? text.length : 1);
      list.element.style.setProperty("--id", `${longest((row) => row.id, MOST_ID)}ch`);
      list.element.style.setProperty("--pair", `${longest((row) => " ".repeat(size(row.truth) + size(row.predicted) + 2), MOST_PAIR)}ch`);
    }

    function tellProgress(done, of, found) {
      tally.textContent = `Searching: ${count(done)} of ${count(of)} read, ${count(found)} found …`;
    }

    function told(total) {
      const all = task.rows.embedded ?? task.rows.count;
      state.total = total;
      tally.textContent = total === all ? counted(total, "sample") : `${count(total)} of ${counted(all, "sample")}`;
      element.classList.toggle("is-empty", total === 0);
      if (!total) tally.textContent = `No sample matches; there are ${count(all)}.`;
    }

    // An open sample gives way to the first of what is asked for now.
    async function change(changes) {
      const isOpen = state.open !== null;
      Object.assign(query, changes);
      shut();
      ak.core.note(addressList());
      tell();
      await renew();
      const row = isOpen && state.total > 0 ? await list.row(0) : null;
      if (!row || state.open) return;
      state.known = { ...row, index: 0 };
      ak.core.swap(addressRow(row));
    }

    function searchSoon() {
      clearTimeout(state.timer);
      state.timer = setTimeout(() => change({ text: search.value.trim() || null }), PAUSE);
    }

    // ── controls ────────────────────────────────────────────────────────────────────────────────────────

    function tell() {
      if (search.value.trim() !== (query.text || "")) search.value = query.text || "";
      tellSort();
      controls.tell();
      showColumns();
    }

    function drawControls() {
      const isThere = { failed: task.counts.failed + task.counts.errors > 0, flipped: task.rows.has_flips };
      const shows = Object.entries(SHOWS).filter(([one]) => one === query.show || (isThere[one] ?? true));
      const choose = (event) => change({ show: event.target.value });
      const radios = shows.map(([value, word]) => el("label", null,
        el("input", { type: "radio", name: "show", value, checked: query.show === value, on: { change: choose } }), el("span", null, word)));
      const selects = [
        makeSelect("category", "Category", task.rows.categories), makeSelect("reason", "Reason", task.rows.reasons),
        makeSelect("truth", "Truth", task.rows.letters), makeSelect("predicted", "Predicted", task.rows.letters),
      ].filter(Boolean);
      const reset = el("button", { type: "button", class: "quiet", on: { click: clearAll } }, "Clear");
      const fieldset = el("fieldset", { class: "shows" }, el("legend", { class: "unseen" }, "Show"), radios);
      const folded = el("details", { class: "selects", open: matchMedia(WIDE).matches }, el("summary", null, "Filters"),
        el("div", null, selects, drawColumns(), reset));
      return { element: [fieldset, folded, tally], tell: tellControls };

      function tellControls() {
        for (const label of radios) label.firstChild.checked = label.firstChild.value === query.show;
        for (const select of selects) select.lastChild.value = query[select.lastChild.name] ?? "";
        reset.hidden = Object.keys(listAsked(query)).length === 0;
      }

      function clearAll() {
        search.value = "";
        change({ ...BLANK });
        search.focus();
      }
    }

    function makeSelect(field, label, values) {
      const chosen = query[field];
      const known = chosen && !values.includes(chosen) ? [...values, chosen] : values;
      if (!known.length) return null;
      const choose = (event) => change({ [field]: event.target.value || null });
      return el("label", { class: "select" }, el("span", null, label), el("select", { name: field, on: { change: choose } },
        el("option", { value: "" }, "any"),
        known.map((value) => el("option", { value, selected: value === chosen }, ak.core.makeVisible(value)))));
    }

    // ── columns ─────────────────────────────────────────────────────────────────────────────────────────

    function drawColumns() {
      const choose = (event) => {
        if (event.target.checked) hidden.delete(event.target.name);
        else hidden.add(event.target.name);
        ak.core.remember(COLUMNS_KEY, [...hidden].join(","));
        showColumns();
      };
      const drawBox = ({ name: one, title, head }) => el("label", null,
        el("input", { type: "checkbox", name: one, checked: !hidden.has(one), on: { change: choose } }), title || head);
      const boxes = el("div", { role: "group", "aria-label": "Columns" });
      const fill = () => boxes.replaceChildren(...columns.filter((column) => column.name !== "id").map(drawBox));
      const menu = el("details", { class: "menu", on: { toggle: fill, focusout: onLeave, keydown: onEscape } }, el("summary", null, "Columns"), boxes);
      return menu;

      function onLeave({ relatedTarget }) {
        if (relatedTarget && !menu.contains(relatedTarget)) menu.open = false;
      }

      function onEscape(event) {
        if (event.key !== "Escape" || !menu.open) return;
        event.preventDefault();
        menu.open = false;
      }
    }

    // Of what has no choice, the reason is of interest.
    function showColumns() {
      const hasReasons = query.reason !== null || ["invalid", "failed"].includes(query.show);
      for (const { name: one } of columns) element.classList.toggle(`no-${one}`, hidden.has(one) && !(one === "reason" && hasReasons));
    }

    // ── order ───────────────────────────────────────────────────────────────────────────────────────────

    function drawHeading(column) {
      const head = el("th", { scope: "col", class: `col-${column.name}`, title: column.title });
      const sort = { type: "button", class: "sorter", on: { click: () => sortBy(column.sort) } };
      head.append(column.sort ? el("button", sort, column.head) : column.head);
      return head;
    }

    function sortBy(field) {
      change({ sort: field, descending: query.sort === field ? !query.descending : false });
    }

    function tellSort() {
      columns.forEach((column, i) => {
        if (!column.sort) return;
        const direction = query.descending ? "descending" : "ascending";
        heads[i].setAttribute("aria-sort", query.sort === column.sort ? direction : "none");
      });
    }

    // ── rows ────────────────────────────────────────────────────────────────────────────────────────────

    function drawRow(row, index) {
      const follow = () => Object.assign(state, { known: { ...row, index } });
      return columns.map((column) => (column.name === "id"
        ? el("th", { scope: "row", class: "col-id" },
          link(addressRow(row), { title: ak.core.makeVisible(row.id), on: { click: follow } }, said(row.id)))
        : el("td", { class: `col-${column.name}` }, column.draw(row))));
    }

    // ── keys ────────────────────────────────────────────────────────────────────────────────────────────

    // Beside an open sample, keys go to the next one; else the first step goes to the row where one was.
    function takeKey(event) {
      if (event.key === "/") return search.focus(), true;
      if (state.open) {
        const by = { j: 1, k: -1, ...(!event.target.closest("form") && { ArrowRight: 1, ArrowLeft: -1 }) }[event.key];
        if (event.key === "Escape") close();
        else if (by) step(by);
        return Boolean(by) || event.key === "Escape";
      }
      const by = { j: 1, k: -1, ...(event.target === document.body && { ArrowDown: 1, ArrowUp: -1 }) }[event.key];
      if (!by) return false;
      list.go(list.element.contains(document.activeElement) ? by : 0);
      return true;
    }
  }

  // ── columns and cells ─────────────────────────────────────────────────────────────────────────────────

  // A column that `isExtra` is hidden until somebody chooses it.
  function listColumns(task) {
    return [
      { name: "position", head: "#", sort: "position", title: "place in the dataset", isExtra: true, draw: (row) => count(row.p + 1) },
      { name: "id", head: "sample", sort: "id" },
      task.rows.trials > 1 && { name: "trial", head: "trial", draw: (row) => (row.trial === null ? "" : String(row.trial)) },
      { name: "verdict", head: "verdict", sort: "value", draw: ak.core.verdict },
      task.rows.reasons.length > 0 && { name: "reason", head: "reason", sort: "reason", isExtra: true, draw: (row) => drawShort(row.reason) },
      { name: "pair", head: "truth → read", draw: (row) => [drawLetter(row.truth), " → ", drawLetter(row.predicted)] },
      { name: "said", head: "completion", draw: drawSaid },
      { name: "question", head: "question", draw: (row) => said(row.question || "") },
      task.rows.categories.length > 0 && { name: "category", head: "category", sort: "category", isExtra: true, draw: (row) => drawShort(row.category) },
      task.rows.has_flips && { name: "flipped", head: "flips", title: "flips: not all rules read it alike", isExtra: true, draw: drawFlip },
    ].filter(Boolean);
  }

  function readHidden(columns) {
    const kept = ak.core.recall(COLUMNS_KEY);
    if (kept === null) return new Set(columns.filter((column) => column.isExtra).map((column) => column.name));
    return new Set(kept.split(",").filter(Boolean));
  }

  // The completion in one line, with what decided marked.
  function drawSaid(row) {
    if (!row.said) return el("span", { class: "dim" }, "–");
    const [before, decided, after] = row.said;
    return el("bdi", { dir: "auto" }, el("span", { class: decided ? "before" : null }, ak.core.makeVisible(before)), decided && el("mark", null, ak.core.makeVisible(decided)), ak.core.makeVisible(after));
  }

  // What may be cut off in its column, and is told whole when pointed at.
  function drawShort(text) {
    return text === null ? "" : said(text, { title: ak.core.makeVisible(text) });
  }

  function drawLetter(letter) {
    return letter === null || letter === undefined ? el("span", { class: "dim" }, "–") : said(letter);
  }

  function drawFlip(row) {
    return row.flipped ? [el("span", { "aria-hidden": "true" }, "⇄"), unseen("flipped")] : "";
  }

  ak.samples = { show };
})();
