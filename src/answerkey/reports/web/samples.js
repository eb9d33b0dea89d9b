// The samples of a task: search, filters, order; a list that stays fluid at any length.
//
// What is asked for stands in the address, so that a link shows the same rows. `trail` remembers where in
// which list the reader was, for going on to the next sample and for coming back.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, link, said, banner, unseen, count, counted, makeRoute } = ak.core;
  const SHOWS = { all: "All", right: "Right", wrong: "Wrong", invalid: "INVALID", failed: "FAILED", flipped: "Flipped" };
  const BLANK = {
    show: "all", reason: null, category: null, truth: null, predicted: null, text: null, sort: "position", descending: false,
  };
  const PAUSE = 200;
  const trail = { run: null, task: null, query: null, index: 0, total: 0, isLeft: false };

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

  function isSameList(route, query) {
    const isHere = trail.run === route.run && trail.task === route.task && trail.query !== null;
    return isHere && JSON.stringify(listAsked(trail.query)) === JSON.stringify(listAsked(query));
  }

  // ── the page ──────────────────────────────────────────────────────────────────────────────────────────

  async function show(place, route) {
    const run = await ak.source.overview(route.run);
    const task = run.tasks[route.task];
    if (!task) throw new Error("This run has no such task.");
    const page = makePage(run, task, route);
    place.append(page.element);
    await page.start();
    return { title: `Samples, ${ak.overview.nameTask(task)}`, keys: page.takeKey, leave: page.leave };
  }

  function makePage(run, task, route) {
    const query = readQuery(route.query);
    const columns = listColumns(task);
    const tally = el("p", { class: "tally", role: "status" });
    const name = ak.overview.nameTask(task);
    const search = el("input", {
      type: "search", id: "search", value: query.text || "", autocomplete: "off", spellcheck: "false",
      placeholder: "id, question or completion", on: { input: searchSoon },
    });
    const heads = columns.map((column) => drawHeading(column));
    const list = ak.list.makeList({ label: "Samples", caption: `Samples of ${name}`, headings: heads, load, draw: drawRow, told });
    const controls = drawControls();
    let [timer, abort] = [0, null];
    const element = el("div", { class: "samples-page" },
      el("header", { class: "title compact line" }, el("h1", { tabindex: "-1" }, "Samples"),
        el("p", { class: "dim" }, said(name), " · ", said(task.model))),
      task.rows.sentence && banner(task.rows.sentence),
      el("form", { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } },
        el("div", { class: "search" }, el("label", { for: "search" }, "Search"), search), controls.element),
      list.element);
    return { element, start, takeKey, leave };

    // Who comes back finds the row again, and the focus on it.
    async function start() {
      const isBack = isSameList(route, query);
      tellSort();
      controls.tell();
      await renew(isBack ? trail.index : 0);
      if (isBack && trail.isLeft) list.focus();
      trail.isLeft = false;
    }

    function leave() {
      clearTimeout(timer);
      if (abort) abort.abort();
      list.leave();
    }

    // ── loading ─────────────────────────────────────────────────────────────────────────────────────────

    async function renew(index = 0) {
      if (abort) abort.abort();
      abort = new AbortController();
      const { signal } = abort;
      element.setAttribute("aria-busy", "true");
      try {
        await list.renew(index);
      } catch (error) {
        if (!signal.aborted) tally.textContent = error.message;
      }
      if (!signal.aborted) element.removeAttribute("aria-busy");
    }

    function load(offset, limit) {
      return ak.source.rows(run.id, route.task, query, offset, limit, { signal: abort.signal, progress: tellProgress });
    }

    function tellProgress(done, of, found) {
      tally.textContent = `Searching: ${count(done)} of ${count(of)} read, ${count(found)} found …`;
    }

    function told(total) {
      const all = task.rows.embedded ?? task.rows.count;
      Object.assign(trail, { run: route.run, task: route.task, query: { ...query }, total });
      tally.textContent = total === all ? counted(total, "sample") : `${count(total)} of ${counted(all, "sample")}`;
      element.classList.toggle("is-empty", total === 0);
      if (!total) tally.textContent = `No sample matches; there are ${count(all)}.`;
    }

    function change(changes) {
      Object.assign(query, changes);
      ak.core.note(makeRoute(["run", run.id, route.task, "samples"], listAsked(query)));
      tellSort();
      controls.tell();
      renew();
    }

    function searchSoon() {
      clearTimeout(timer);
      timer = setTimeout(() => change({ text: search.value.trim() || null }), PAUSE);
    }

    // ── controls ────────────────────────────────────────────────────────────────────────────────────────

    function drawControls() {
      const shows = Object.entries(SHOWS).filter(([name]) => name !== "flipped" || task.rows.has_flips);
      const choose = (event) => change({ show: event.target.value });
      const radios = shows.map(([value, word]) => el("label", null,
        el("input", { type: "radio", name: "show", value, checked: query.show === value, on: { change: choose } }), el("span", null, word)));
      const selects = [
        makeSelect("category", "Category", task.rows.categories), makeSelect("reason", "Reason", task.rows.reasons),
        makeSelect("truth", "Truth", task.rows.letters), makeSelect("predicted", "Predicted", task.rows.letters),
      ].filter(Boolean);
      const reset = el("button", { type: "button", class: "quiet", on: { click: clearAll } }, "Clear");
      const fieldset = el("fieldset", { class: "shows" }, el("legend", { class: "unseen" }, "Show"), radios);
      return { element: [fieldset, el("div", { class: "selects" }, selects, reset, tally)], tell };

      function tell() {
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

    function makeSelect(name, label, values) {
      const chosen = query[name];
      const known = chosen && !values.includes(chosen) ? [...values, chosen] : values;
      if (!known.length) return null;
      const choose = (event) => change({ [name]: event.target.value || null });
      return el("label", { class: "select" }, el("span", null, label), el("select", { name, on: { change: choose } },
        el("option", { value: "" }, "any"),
        known.map((value) => el("option", { value, selected: value === chosen }, ak.core.makeVisible(value)))));
    }

    // ── order ───────────────────────────────────────────────────────────────────────────────────────────

    function drawHeading(column) {
      const head = el("th", { scope: "col", class: `col-${column.name}`, title: column.title });
      const sort = { type: "button", class: "sorter", on: { click: () => sortBy(column.sort) } };
      head.append(column.sort ? el("button", sort, column.head) : column.head);
      return head;
    }

    function sortBy(name) {
      change({ sort: name, descending: query.sort === name ? !query.descending : false });
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
      const follow = () => Object.assign(trail, { index, isLeft: true });
      const place = { run, number: route.task, follow };
      return columns.map((column) => (column.name === "id"
        ? el("th", { scope: "row", class: "col-id" }, column.draw(row, place))
        : el("td", { class: `col-${column.name}` }, column.draw(row, place))));
    }

    // ── keys ────────────────────────────────────────────────────────────────────────────────────────────

    // The first step into the list goes to the row where one was.
    function takeKey(event) {
      if (event.key === "/") return search.focus(), true;
      const step = { j: 1, k: -1, ...(event.target === document.body && { ArrowDown: 1, ArrowUp: -1 }) }[event.key];
      if (!step) return false;
      list.go(list.element.contains(document.activeElement) ? step : 0);
      return true;
    }
  }

  function listColumns(task) {
    const hasCategory = task.rows.categories.length > 0;
    return [
      { name: "position", head: "#", sort: "position", title: "place in the dataset", draw: (row) => count(row.p + 1) },
      { name: "id", head: "sample", sort: "id", draw: drawId },
      task.rows.trials > 1 && { name: "trial", head: "trial", draw: (row) => (row.trial === null ? "" : String(row.trial)) },
      { name: "verdict", head: "verdict", sort: "value", draw: ak.core.verdict },
      task.rows.reasons.length > 0 && { name: "reason", head: "reason", sort: "reason", draw: (row) => drawShort(row.reason) },
      { name: "truth", head: "truth", draw: (row) => drawLetter(row.truth) },
      { name: "predicted", head: "read", title: "the choice that was read", draw: (row) => drawLetter(row.predicted) },
      task.rows.has_flips && { name: "flipped", head: "flips", title: "not all rules read it alike", draw: drawFlip },
      hasCategory && { name: "category", head: "category", sort: "category", draw: (row) => drawShort(row.category) },
      { name: "head", head: "question", draw: (row) => said(row.head || "") },
    ].filter(Boolean);
  }

  function drawId(row, { run, number, follow }) {
    return link(addressOf(run.id, number, row), { title: ak.core.makeVisible(row.id), on: { click: follow } }, said(row.id));
  }

  function addressOf(run, number, row) {
    return makeRoute(["run", run, number, "sample", row.id], { trial: row.trial });
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

  ak.samples = { show, trail, readQuery, listAsked, addressOf, BLANK };
})();
