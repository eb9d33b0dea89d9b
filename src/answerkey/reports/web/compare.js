// Two or more runs compared: differences with intervals, where they come from, flips side by side.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, put, link, said, sentence, banner, unseen, makeRoute } = ak.core;
  const { count, counted, difference, interval, probability, isNumber } = ak.core;
  const { forest, segments } = ak.charts;

  async function show(place, route) {
    const comparison = await ak.source.comparison(route.ids);
    const head = el("header", { class: "title compact" }, el("p", { class: "kicker" }, "Comparison"),
      el("h1", { tabindex: "-1" }, sayWho(comparison)));
    const notices = [comparison.refused, ...comparison.notices].filter(Boolean);
    put(place, head, notices.map(banner));
    const opened = comparison.tasks.map((task) => drawTask(task, route));
    put(place, opened.map((one) => one.element));
    await Promise.all(opened.map((one) => one.start()));
    const taking = opened.find((one) => one.takeKey);
    return { title: "Comparison", keys: taking && taking.takeKey, leave: () => opened.forEach((one) => one.leave()) };
  }

  function sayWho(comparison) {
    const [task] = comparison.tasks;
    if (!task) return "Runs that cannot be compared";
    return task.runs.length === 2 ? [said(task.runs[0].label), " against ", said(task.runs[1].label)] : counted(task.runs.length, "run");
  }

  // ── one task ──────────────────────────────────────────────────────────────────────────────────────────

  function drawTask(task, route) {
    const names = new Map(task.runs.map((run) => [run.id, run]));
    const isAsked = route.query.get("task") === task.key;
    const number = isAsked ? Number(route.query.get("pair")) || 0 : 0;
    const pair = task.pairs[number] || task.pairs[0];
    const address = (query) => makeRoute(["compare", route.ids.join(",")], { task: task.key, ...query });
    const addressFlip = (flip) => address({ pair: task.pairs.indexOf(pair), flip });
    const opened = pair ? drawPair(task, pair, names, addressFlip, isAsked ? route.query.get("flip") : null) : null;
    return {
      element: el("section", { class: "compared" }, el("h2", null, said(task.key)),
        el("p", { class: "explain" }, `On the ${counted(task.samples, "sample")} that all of them have.`),
        drawMeans(task), drawDifferences(task, names, address, pair), opened && opened.element),
      start: () => opened && opened.start(),
      takeKey: opened && opened.takeKey,
      leave: () => opened && opened.leave(),
    };
  }

  function drawMeans(task) {
    return el("section", { class: "panel wide" }, el("h3", null, "Means"), forest({
      rows: task.runs.map(({ id, task: number, label, model, mean, n }) =>
        ({ label, about: model, value: mean, n, is_own: true, href: makeRoute(["run", id, number]) })),
      first: "run", what: "mean", isShare: task.is_share,
    }));
  }

  function drawDifferences(task, names, address, chosen) {
    const rows = task.pairs.map((pair, number) => ({
      label: `${names.get(pair.first).label} − ${names.get(pair.second).label}`, value: pair.difference, interval: pair.interval,
      is_own: pair === chosen, href: task.pairs.length > 1 ? address({ pair: number }) : null,
      after: [probability(pair.p_adjusted ?? pair.p), pair.is_significant ? "significant" : "may be chance"],
    }));
    if (!rows.length) return null;
    const heading = task.pairs.some((pair) => isNumber(pair.p_adjusted)) && task.pairs.length > 1 ? "p (Holm)" : "p";
    return el("section", { class: "panel wide" }, el("h3", null, "Differences"),
      el("p", { class: "explain" }, `First minus second${task.is_share ? ", in points" : ""}, sample by sample.`,
        " An interval that holds zero leaves open which is better."),
      forest({ rows, first: "first − second", what: "difference", isShare: task.is_share, isDifference: true, after: [heading, "verdict"] }));
  }

  // ── one pair ──────────────────────────────────────────────────────────────────────────────────────────

  function drawPair(task, pair, names, addressFlip, flip) {
    const [first, second] = [names.get(pair.first), names.get(pair.second)];
    const flips = makeFlips(task, pair, [first, second], addressFlip, flip);
    const element = el("section", { class: "pair-page" },
      el("h3", null, said(first.label), " − ", said(second.label)),
      pair.sentence && el("p", { class: "lead" }, sentence(pair.sentence)),
      drawEvidence(pair, task.is_share), drawCategories(pair, task.is_share), flips.element);
    return { element, start: flips.start, takeKey: flips.takeKey, leave: flips.leave };
  }

  function drawEvidence(pair, isShare) {
    const left = Object.entries(pair.left_out || {}).filter(([, value]) => value);
    return el("p", { class: "dim small" }, `${difference(pair.difference, isShare)} ${interval(pair.interval, isShare)}`,
      isNumber(pair.p) && `; p ${sayIs(pair.p)}`, pair.test && [" by ", said(pair.test)],
      left.length > 0 && ["; left out: ", left.map(([reason, value], i) => [i ? ", " : "", said(reason), ` ${count(value)}`])]);
  }

  function drawCategories({ categories }, isShare) {
    if (!categories.length) return null;
    const rows = categories.map((row) => ({ ...row, value: row.difference }));
    return el("section", { class: "panel wide" }, el("h4", null, "By category"),
      forest({ rows, first: "category", what: "difference", isShare, isDifference: true }));
  }

  function sayIs(p) {
    const words = probability(p);
    return words.startsWith("<") ? words : `= ${words}`;
  }

  // ── flips ─────────────────────────────────────────────────────────────────────────────────────────────

  function makeFlips(task, pair, runs, addressFlip, wanted) {
    const total = pair.flips_total;
    const state = { shown: pair.flips };
    const sayOnly = (side, run) => [drawChip(side), task.is_share ? "right only in " : "higher in ", said(run.label)];
    const sides = { all: "all flips", first: sayOnly("first", runs[0]), second: sayOnly("second", runs[1]) };
    const counts = { all: pair.first_only + pair.second_only, first: pair.first_only, second: pair.second_only };
    const tally = el("p", { class: "tally", role: "status" });
    const beside = el("div", { class: "beside", "aria-live": "polite" });
    const headings = [el("th", { scope: "col", class: "col-id" }, "sample"), el("th", { scope: "col", class: "col-side" }, unseen("right in"))];
    const list = ak.list.makeList({ label: "Flips", caption: "Samples on which the two runs differ", headings, load, draw, told });
    const element = total === 0
      ? el("p", null, "There are no flips: on every sample both have the same value.")
      : el("section", { class: "panel wide flips", "aria-label": "Flips" }, el("h4", null, "Flips side by side"),
        segments([{ kind: "first", count: pair.first_only }, { kind: "second", count: pair.second_only }]),
        el("fieldset", { class: "shows" }, el("legend", { class: "unseen" }, "Show"), Object.keys(sides).map(drawSide)), tally,
        pair.flips.length < total && el("p", { class: "dim small" }, `${count(pair.flips.length)} of ${counted(total, "flip")} are listed.`),
        el("div", { class: "flip-columns" }, list.element, beside));
    return { element, start, takeKey: total ? takeKey : null, leave: list.leave };

    async function start() {
      if (!total) return;
      await list.renew(Math.max(0, state.shown.findIndex((one) => one.id === wanted)));
      const found = state.shown.find((one) => one.id === wanted) || state.shown[0];
      if (found) await open(found, false);
    }

    function drawSide(name) {
      const group = `side-${task.key}`;
      return el("label", null, el("input", { type: "radio", name: group, checked: name === "all", on: { change: () => choose(name) } }),
        el("span", null, sides[name], ` ${count(counts[name])}`));
    }

    function choose(side) {
      state.shown = side === "all" ? pair.flips : pair.flips.filter((flip) => flip.side === side);
      list.renew();
    }

    async function load(offset, limit) {
      return { total: state.shown.length, rows: state.shown.slice(offset, offset + limit) };
    }

    function told(number) {
      tally.textContent = counted(number, "sample");
    }

    function draw(flip) {
      const follow = (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        open(flip, true);
      };
      return [
        el("th", { scope: "row", class: "col-id" }, link(addressFlip(flip.id), { on: { click: follow } }, said(flip.id))),
        el("td", { class: "col-side" }, drawChip(flip.side), unseen(said(runs[flip.side === "first" ? 0 : 1].label))),
      ];
    }

    async function open(flip, isAsked) {
      if (isAsked) ak.core.note(addressFlip(flip.id));
      beside.replaceChildren(...(await drawBeside(flip, runs)));
    }

    function takeKey(event) {
      const by = { j: 1, k: -1 }[event.key];
      if (!by) return false;
      list.go(by);
      const flip = state.shown[list.index()];
      if (flip) open(flip, true);
      return true;
    }
  }

  // The first run is a square, the second a circle.
  function drawChip(side) {
    return el("span", { class: `chip is-${side}`, "aria-hidden": "true" });
  }

  // ── both completions ──────────────────────────────────────────────────────────────────────────────────

  async function drawBeside(flip, runs) {
    const ways = await Promise.all(runs.map((run) => findWay(flip, run)));
    const known = ways.find((way) => way.sample);
    return [
      el("h5", null, said(flip.id)),
      known && known.sample.question !== null && ak.sample.drawText(known.sample.question, { label: "Question" }),
      known && el("ul", { class: "choices" }, known.sample.choices.map((choice) => drawChoice(choice, ways, runs))),
      el("div", { class: "two" }, ways.map((way, i) => drawWay(way, runs[i], flip))),
    ].filter(Boolean);
  }

  async function findWay(flip, run) {
    try {
      return { sample: await ak.source.sample(run.id, run.task, flip.p[run.id]) };
    } catch (error) {
      return { sample: null, trouble: error.message };
    }
  }

  function drawChoice(choice, ways, runs) {
    const isRead = ({ sample }) => sample && sample.choices.some((one) => one.label === choice.label && one.is_predicted);
    const readers = runs.filter((run, i) => isRead(ways[i]));
    return el("li", { class: choice.is_truth ? "is-truth" : null }, said(choice.label, { class: "label" }),
      el("span", { class: "option" }, choice.text === null ? "" : said(choice.text)),
      choice.is_truth && el("span", { class: "tag" }, "truth"), readers.map((run) => el("span", { class: "tag" }, "read in ", said(run.label))));
  }

  function drawWay({ sample, trouble }, run, flip) {
    if (!sample) return el("section", { class: "station" }, el("h6", null, said(run.label)), el("p", { class: "dim" }, trouble));
    const [main] = sample.verdicts;
    const text = ak.sample.drawMarked(sample.completion.text, sample.span, sample);
    return el("section", { class: "station" },
      el("h6", null, said(run.label), " ", main && ak.core.verdict(main)),
      sample.completion.text === null ? el("p", { class: "dim" }, "There is no text.") : [text.element, text.told],
      main && main.why && el("p", { class: "small" }, sentence(main.why)),
      link(makeRoute(["run", run.id, run.task, "sample", flip.id], { trial: sample.trial }), { class: "small" },
        "Its whole way", unseen(" in ", said(run.label))));
  }

  ak.compare = { show };
})();
