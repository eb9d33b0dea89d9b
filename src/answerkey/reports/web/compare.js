// Two runs compared: the verdict and the difference first, then where it comes from, then the samples that
// changed, side by side. Three or more runs are a leaderboard, from which each pair can be opened.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, put, link, said, sentence, unseen, makeRoute } = ak.core;
  const { count, counted, difference, interval, precision, sayIs, isNumber } = ak.core;
  const { forest, drawAlone, segments } = ak.charts;
  const { panel } = ak.copy;

  async function show(place, route) {
    const comparison = await ak.source.comparison(route.ids);
    const notices = [comparison.refused, ...comparison.notices].filter(Boolean);
    const asked = comparison.tasks.find((task) => task.key === route.query.get("task"));
    const pair = asked && asked.pairs[Number(route.query.get("pair") || "none")];
    const pairs = pair ? [[asked, pair]] : comparison.tasks.map((task) => [task, task.pairs[0]]);
    if (!pair && (comparison.refused || route.ids.length > 2)) return ak.leaderboard.show(place, route, comparison, notices);
    if (!pairs.length) throw new Error("These runs are not compared here.");
    const opened = pairs.map(([task, one]) => drawPair(task, one, route, pairs.length > 1));
    const [[task, one]] = pairs;
    const title = pairs.length > 1 ? [...sayNames(task, one, " against ")] : sayVerdict(task, one);
    const back = pair && link(makeRoute(["compare", route.ids.join(",")]), { class: "small" }, "Leaderboard");
    put(place,
      el("header", { class: "title" }, back && el("p", null, back), el("h1", { tabindex: "-1" }, title),
        pairs.length === 1 && el("p", { class: "subtitle" }, saySamples(task))),
      ak.overview.drawNotices(notices), opened.map((each) => each.element));
    await Promise.all(opened.map((each) => each.start()));
    const taking = opened.find((each) => each.takeKey);
    return { title: "Comparison", keys: taking && taking.takeKey, leave: () => opened.forEach((each) => each.leave()) };
  }

  function nameSides(task, pair) {
    return [pair.first, pair.second].map((id) => task.runs.find((run) => run.id === id));
  }

  function sayNames(task, pair, between) {
    const [first, second] = nameSides(task, pair).map((run) => said(run.label));
    return [first, between, second];
  }

  // What the paired test says, in words; the numbers stand below.
  function sayVerdict(task, pair) {
    const [first, second] = nameSides(task, pair).map((run) => said(run.label));
    if (pair.is_significant) return [first, pair.difference > 0 ? " is better than " : " is worse than ", second];
    return ["No difference is shown between ", first, " and ", second];
  }

  function saySamples(task) {
    return [said(task.name || task.key), el("span", { class: "dim" }, `, ${counted(task.samples, "sample")} that ${task.runs.length > 2 ? "all" : "both"} have`)];
  }

  // ── one pair ──────────────────────────────────────────────────────────────────────────────────────────

  function drawPair(task, pair, route, isOneOfSeveral) {
    const runs = nameSides(task, pair);
    const { is_share: isShare } = task;
    const digits = precision(pair.interval, task.samples, isShare);
    const number = task.pairs.indexOf(pair);
    const asked = route.query.get("task") === task.key ? route.query.get("flip") : null;
    const address = (flip) => makeRoute(["compare", route.ids.join(",")], { task: task.key, pair: number, flip });
    const changed = makeChanged(task, pair, runs, address, asked);
    const element = el("section", { class: "compared" },
      isOneOfSeveral && el("header", null, el("h2", null, sayVerdict(task, pair)), el("p", { class: "subtitle" }, saySamples(task))),
      panel("Difference", [
        el("div", { class: "sum-up" },
          el("div", null,
            el("p", { class: "big" }, el("span", { class: "value" }, difference(pair.difference, isShare, digits)),
              pair.interval && el("span", { class: "reach-text" }, interval(pair.interval, isShare, digits), el("small", null, "95 % interval"))),
            el("p", { class: "lead" }, sayTest(task, pair))),
          drawMeans(task, runs)),
        drawAlone({ value: pair.difference, interval: pair.interval }, { isShare, sides: [runs[1], runs[0]].map((run) => `${ak.core.makeVisible(run.label)} better`) }),
      ], { kind: "headline" }),
      drawCategories(pair, isShare), changed.element);
    return { element, start: changed.start, takeKey: changed.takeKey, leave: changed.leave };
  }

  function drawMeans(task, runs) {
    return el("table", { class: "plain means" }, el("caption", { class: "unseen" }, "Mean of each run"),
      el("tbody", null, runs.map(({ id, task: number, label, model, mean, n }) => el("tr", null,
        el("th", { scope: "row" }, link(makeRoute(["run", id, number]), null, said(label)), model !== label && el("small", null, said(model))),
        el("td", { class: "number" }, ak.core.figure(mean, task.is_share, precision(null, n, task.is_share)))))));
  }

  function sayTest(task, pair) {
    const left = Object.entries(pair.left_out || {}).filter(([, value]) => value);
    const p = pair.p_adjusted ?? pair.p;
    const corrected = task.comparisons > 1 ? `, corrected for ${count(task.comparisons)} comparisons` : "";
    return [
      isNumber(p) ? [`p ${sayIs(p)}`, el("span", { class: "dim" }, ` by ${pair.test}${corrected}`)] : "No test can be made",
      left.length > 0 && el("span", { class: "dim" }, "; left out: ", left.map(([reason, value], i) => [i ? ", " : "", said(reason), ` ${count(value)}`])),
    ];
  }

  function drawCategories({ categories }, isShare) {
    if (!categories.length) return null;
    const excludesZero = ({ interval: reach }) => Boolean(reach) && reach[0] * reach[1] > 0;
    const rows = categories.map((row) => ({ ...row, value: row.difference, is_own: excludesZero(row) }));
    rows.sort((one, other) => ak.charts.compareKeys(one.value, other.value, -1));
    const marked = rows.filter((row) => row.is_own).length;
    const expected = Math.round(rows.length / 20);
    const byChance = expected ? ` Chance alone would give about ${expected}: these intervals are not corrected for their number.` : "";
    const told = `Bold with ◆: the interval excludes zero, in ${marked} of ${count(rows.length)} categories.${byChance}`;
    return panel("By category", [
      el("p", { class: "explain" }, marked ? told : "No interval of a category excludes zero."),
      forest({ rows, first: "category", what: "difference", isShare, isDifference: true }),
    ], { kind: "wide" });
  }

  // ── flips ─────────────────────────────────────────────────────────────────────────────────────────────

  function makeChanged(task, pair, runs, addressFlip, wanted) {
    const total = pair.flips_total;
    const state = { shown: pair.flips };
    const sayOnly = (side, run) => [drawChip(side), task.is_share ? "right only in " : "higher in ", said(run.label)];
    const sides = { all: "all", first: sayOnly("first", runs[0]), second: sayOnly("second", runs[1]) };
    const counts = { all: pair.first_only + pair.second_only, first: pair.first_only, second: pair.second_only };
    const tally = el("p", { class: "tally", role: "status" });
    const beside = el("div", { class: "beside", "aria-live": "polite" });
    const headings = [el("th", { scope: "col", class: "col-id" }, "sample"), el("th", { scope: "col", class: "col-side" }, unseen("right in"))];
    const list = ak.list.makeList({ label: "Changed samples", caption: "Samples on which the two runs differ", headings, load, draw, told });
    const element = total === 0
      ? el("p", null, "No sample changed: on each of them both have the same value.")
      : el("section", { class: "panel wide flips", "aria-label": "Changed samples" }, el("h2", null, "Changed samples"),
        segments([{ kind: "first", count: pair.first_only }, { kind: "second", count: pair.second_only }]),
        el("fieldset", { class: "shows" }, el("legend", { class: "unseen" }, "Show"), Object.keys(sides).map(drawSide)), tally,
        pair.flips.length < total && el("p", { class: "dim small" }, `${count(pair.flips.length)} of ${counted(total, "changed sample")} are listed.`),
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
      el("h3", null, said(flip.id)),
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
    if (!sample) return el("section", { class: "station" }, el("h4", null, said(run.label)), el("p", { class: "dim" }, trouble));
    const [main] = sample.verdicts;
    const text = ak.sample.drawMarked(sample.completion.text, sample.span, sample);
    return el("section", { class: "station" },
      el("h4", null, said(run.label), " ", main && ak.core.verdict(main)),
      sample.completion.text === null ? el("p", { class: "dim" }, "There is no text.") : [text.element, text.told],
      main && main.why && el("p", { class: "small" }, sentence(main.why)),
      link(makeRoute(["run", run.id, run.task, "sample", flip.id], { trial: sample.trial }), { class: "small" },
        "Open the sample", unseen(" in ", said(run.label))));
  }

  ak.compare = { show };
})();
