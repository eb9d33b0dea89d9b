// Many runs: models by tasks with intervals and ranks, tokens and cost; then every pair of models.
//
// Which column sorts, which models are shown and which task is shown alone stay in the address.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, put, link, said, unseen, makeRoute } = ak.core;
  const { count, counted, figure, interval, difference, precision, isNumber } = ak.core;
  const { makeScale, listTicks, span, drawTrack, drawAxis, compareKeys, sideways } = ak.charts;
  const { panel } = ak.copy;

  async function show(place, route, comparison, notices) {
    const board = comparison.leaderboard;
    const rows = board.rows.filter((row) => row.cells.some((cell) => cell && route.ids.includes(cell.run)));
    const table = makeTable({ ...board, rows }, route);
    put(place,
      el("header", { class: "title" }, el("h1", { tabindex: "-1" }, "Leaderboard"),
        el("p", { class: "subtitle" }, `${counted(rows.length, "model")}, ${counted(board.tasks.length, "task")}`)),
      ak.overview.drawNotices(notices), table, drawPairs(comparison.tasks.filter((task) => task.pairs.length > 1), board, route));
    return { title: "Leaderboard" };
  }

  // ── models by tasks ───────────────────────────────────────────────────────────────────────────────────

  function makeTable(board, route) {
    const state = { sort: route.query.get("sort"), order: route.query.get("order") || "down", text: route.query.get("text") || "", only: route.query.get("only") };
    const head = el("thead");
    const body = el("tbody");
    const table = el("table", { class: "figure leaderboard" }, head, body);
    const told = el("p", { class: "tally", role: "status" });
    const search = el("input", { type: "search", id: "models", autocomplete: "off", spellcheck: "false", on: { input: () => look({ text: search.value }) } });
    search.value = state.text;
    const chooser = board.tasks.length > 1 && el("label", { class: "select" }, el("span", null, "Task"),
      el("select", { on: { change: (event) => look({ only: event.target.value || null, sort: null }) } }, el("option", { value: "" }, "all"),
        board.tasks.map((task, i) => el("option", { value: i, selected: state.only === String(i) }, ak.core.makeVisible(nameTask(task))))));
    draw();
    return panel("Models", [
      el("div", { class: "filters" }, el("div", { class: "search" }, el("label", { for: "models" }, "Filter"), search), chooser, told),
      sideways("Models by tasks", table),
      sayRanks(board)], { kind: "wide", id: "leaderboard" });

    function look(changes) {
      Object.assign(state, changes);
      const { ids, path } = route;
      const base = path.startsWith("/compare") ? ["compare", ids.join(",")] : [];
      ak.core.note(makeRoute(base, { sort: state.sort, order: state.sort && state.order, text: state.text, only: state.only }));
      draw();
    }

    function draw() {
      const columns = listColumns(board, state.only);
      table.classList.toggle("forest", columns.some((column) => column.axis));
      const sorted = columns.find((column) => column.key === state.sort) || columns.find((column) => column.isFirst);
      const wanted = state.text.trim().toLowerCase();
      const shown = board.rows.filter((row) => `${row.name} ${row.runs || ""}`.toLowerCase().includes(wanted));
      shown.sort((one, other) => compareKeys(sorted.value(one), sorted.value(other), isAscending(sorted) ? 1 : -1));
      head.replaceChildren(el("tr", null, columns.map((column) => drawHead(column, column === sorted))));
      body.replaceChildren(...shown.map((row) => el("tr", null, columns.map((column) => column.draw(row)))));
      told.textContent = shown.length < board.rows.length ? `${count(shown.length)} of ${counted(board.rows.length, "model")}` : "";
    }

    // The first click brings the best to the top: the largest number, the first rank or name.
    function isAscending({ isUp }) {
      return (state.order === "up") !== Boolean(isUp);
    }

    function drawHead(column, isSorted) {
      const { key, name, kind, axis } = column;
      if (!key) return el("th", { scope: "col", class: kind }, name, axis);
      const turn = () => look({ sort: key, order: isSorted && state.order === "down" ? "up" : "down" });
      const order = isSorted ? (isAscending(column) ? "ascending" : "descending") : "none";
      return el("th", { scope: "col", class: kind, "aria-sort": order }, el("button", { type: "button", class: "sorter", on: { click: turn } }, name));
    }
  }

  function nameTask(task) {
    return task.name || task.key;
  }

  function listColumns(board, only) {
    const alone = board.tasks.length === 1 ? 0 : only === null ? null : Number(only);
    const tasks = board.tasks.map((task, i) => ({ ...task, i })).filter(({ i }) => alone === null || i === alone);
    const main = alone === null ? (row) => row.mean : (row) => row.cells[alone];
    const lead = board.rows.some(main) ? main : (row) => row.cells[tasks[0].i];
    const has = (name) => board.rows.some((row) => isNumber(row[name]));
    const rank = (row) => (lead(row) && lead(row).rank ? lead(row).rank[0] + lead(row).rank[1] / 1000 : null);
    const numbers = [["prompt_tokens", "prompt tokens", count], ["completion_tokens", "completion tokens", count], ["cost", "cost, USD", sayCost]];
    return [
      board.rows.some(rank) && { key: "rank", name: "rank", kind: "rank", isUp: true, value: rank, draw: (row) => el("td", { class: "rank" }, sayRank(lead(row))) },
      { key: "model", name: "model", isUp: true, value: (row) => row.name, draw: (row) => drawName(row, lead) },
      ...(alone === null ? listMean(board) : []),
      ...tasks.flatMap((task) => (alone === null ? [listCell(task, board)] : listAlone(task, board))),
      ...numbers.filter(([key]) => has(key)).map(([key, name, say]) =>
        ({ key, name, kind: "number cost-cell", value: (row) => row[key], draw: (row) => el("td", { class: "number dim", "data-name": `${name} ` }, isNumber(row[key]) ? say(row[key]) : "–") })),
    ].filter(Boolean).map((column, _, all) => ({ ...column, isFirst: column === all.find((one) => one.isMain) }));
  }

  // One task alone is drawn on a scale of its own.
  function listAlone(task, board) {
    const cells = board.rows.map((row) => row.cells[task.i]).filter(Boolean);
    const scale = makeScale(...span(cells, { isShare: task.is_share }));
    const ticks = listTicks(scale.low, scale.high, 4);
    const of = (row) => row.cells[task.i] || {};
    const digits = (row) => precision(of(row).interval, of(row).n, task.is_share);
    return [
      { name: unseen("drawn on a scale"), kind: "drawn", axis: drawAxis(scale, ticks, { isShare: task.is_share }),
        draw: (row) => el("td", { class: "drawn" }, drawTrack({ ...of(row), is_own: true }, scale, ticks, {})) },
      { key: `t${task.i}`, name: task.metric || nameTask(task), kind: "number", isMain: true, value: (row) => of(row).value,
        draw: (row) => el("td", { class: "number main" }, isNumber(of(row).value) ? figure(of(row).value, task.is_share, digits(row)) : "–") },
      { name: "95 % interval", kind: "number", draw: (row) => el("td", { class: "number dim reach-cell" }, interval(of(row).interval, task.is_share, digits(row))) },
      { key: "n", name: "n", kind: "number n-cell", value: (row) => of(row).n, draw: (row) => el("td", { class: "number dim n-cell" }, count(of(row).n)) },
    ];
  }

  function listMean(board) {
    if (!board.rows.some((row) => row.mean)) return [];
    return [{ key: "mean", name: "mean of tasks", kind: "number", isMain: true, value: (row) => row.mean && row.mean.value, draw: (row) => drawCell(row.mean, true, null) }];
  }

  function listCell(task, board) {
    const isMain = task.i === 0 && !board.rows.some((row) => row.mean);
    return { key: `t${task.i}`, name: nameTask(task), kind: "number", isMain, value: (row) => row.cells[task.i] && row.cells[task.i].value,
      draw: (row) => drawCell(row.cells[task.i], task.is_share, row.cells[task.i] && makeRoute(["run", row.cells[task.i].run, row.cells[task.i].task])) };
  }

  function drawCell(cell, isShare, address) {
    if (!cell || !isNumber(cell.value)) return el("td", { class: "number dim" }, "–");
    const digits = precision(cell.interval, cell.n, isShare);
    const value = figure(cell.value, isShare, digits);
    return el("td", { class: "number main" }, address ? link(address, null, value) : value,
      el("small", null, interval(cell.interval, isShare, digits)), cell.rank && address && el("small", { class: "rank-note" }, `rank ${sayRank(cell)}`));
  }

  function drawName(row, lead) {
    const cell = lead(row) && lead(row).run ? lead(row) : row.cells.find(Boolean);
    return el("th", { scope: "row" }, link(makeRoute(["run", cell.run, cell.task]), null, said(row.name)), row.runs && row.runs !== row.name && el("small", { class: "about" }, said(row.runs)));
  }

  function sayRank(cell) {
    if (!cell || !cell.rank) return "–";
    const [first, last] = cell.rank;
    return first === last ? String(first) : `${first}–${last}`;
  }

  function sayCost(value) {
    return value >= 0.01 || value === 0 ? value.toFixed(2) : value.toFixed(4);
  }

  function sayRanks({ tasks, comparisons }) {
    if (!tasks.some((task) => task.is_ranked)) return null;
    const corrected = comparisons > 1 ? `, corrected for ${count(comparisons)} comparisons` : "";
    return el("p", { class: "dim small" }, `Ranks respect ties: models share ranks unless a paired test on the same samples shows a difference (p < 0.05${corrected}).`);
  }

  // ── every pair ────────────────────────────────────────────────────────────────────────────────────────

  function drawPairs(tasks, board, route) {
    if (!tasks.length) return null;
    const draw = (task, i) => (tasks.length === 1 ? drawMatrix(task, board, route)
      : el("details", { open: i === 0 }, el("summary", null, said(nameTask(task))), drawMatrix(task, board, route)));
    return panel("Every pair", [
      el("p", { class: "explain" }, `Row minus column${tasks[0].is_share ? ", in points" : ""}. Shaded where a difference is shown: blue and + is better, orange and − worse. A cell leads to the comparison of the two.`),
      tasks.map(draw)], { kind: "wide" });
  }

  // Rows and columns are in the order of the leaderboard.
  function drawMatrix(task, board, route) {
    const order = new Map(board.rows.flatMap((row, i) => row.cells.filter(Boolean).map((cell) => [cell.run, i])));
    const runs = [...task.runs].sort((one, other) => order.get(one.id) - order.get(other.id));
    const found = new Map(task.pairs.flatMap((pair, number) => [[`${pair.first} ${pair.second}`, { pair, number, sign: 1 }], [`${pair.second} ${pair.first}`, { pair, number, sign: -1 }]]));
    const name = (run) => board.rows[order.get(run.id)].name;
    return sideways(`Every pair, ${ak.core.makeVisible(nameTask(task))}`, el("table", { class: "figure pairs" },
      el("thead", null, el("tr", null, el("th", { scope: "col" }, "model"), runs.map((run, i) =>
        el("th", { scope: "col", class: "cell", title: ak.core.makeVisible(name(run)) }, String(i + 1), unseen(" ", said(name(run))))))),
      el("tbody", null, runs.map((run, i) => el("tr", null, el("th", { scope: "row" }, el("span", { class: "dim" }, `${i + 1} `), said(name(run))),
        runs.map((other) => drawDifference(found.get(`${run.id} ${other.id}`), task, route)))))));
  }

  function drawDifference(known, task, route) {
    if (!known) return el("td", { class: "cell" }, "");
    const { pair, number, sign } = known;
    const value = sign * pair.difference;
    const kind = pair.is_significant ? (value > 0 ? " is-better" : " is-worse") : "";
    const half = pair.interval && (pair.interval[1] - pair.interval[0]) / 2;
    const text = difference(value, task.is_share, precision(half && [-half, half], task.samples, task.is_share)).replace(" points", "");
    return el("td", { class: `cell${kind}` }, link(makeRoute(["compare", route.ids.join(",")], { task: task.key, pair: number }), null, text, unseen(pair.is_significant ? ", shown" : ", not shown")));
  }

  ak.leaderboard = { show };
})();
