// A task of a run at a glance: the number and what it is held against, counts that add up, what the audit
// says, then the figures. `showHome` is the first page of a report with several runs or tasks.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, put, link, said, sentence, capitalize, banner, sign, unseen, makeRoute } = ak.core;
  const { count, counted, percent, figure, interval, isNumber } = ak.core;
  const { forest, bars, segments, heat, curve, histogram, plainTable } = ak.charts;

  async function show(place, route) {
    const run = await ak.source.overview(route.run);
    const task = run.tasks[route.task];
    if (!task) throw new Error("This run has no such task.");
    const at = (query) => makeRoute(["run", run.id, route.task, "samples"], query);
    put(place,
      drawTitle(run, task),
      drawBanners(run),
      el("div", { class: "top" }, drawHeadline(task), drawCounts(task, at)),
      drawFindings(run, task, route.task),
      drawGates(run.gates),
      drawPlots(task, at),
      drawMetrics(task));
    return { title: `${nameTask(task)}, ${task.model}` };
  }

  function nameTask(task) {
    return task.display_name || task.key;
  }

  // ── who and what ──────────────────────────────────────────────────────────────────────────────────────

  function drawTitle(run, task) {
    const facts = [
      ["Model", task.model], ["Dataset", task.dataset], ["Scorer", task.scorer], ["Rule", task.rule],
      ["Trials", task.num_trials > 1 ? `${task.num_trials} of each sample` : null],
      ["Run", run.label], ["Started", ak.core.moment(run.started_at)],
      ["Took", run.seconds > 0 ? ak.core.seconds(run.seconds) : null],
    ];
    return el("header", { class: "title" },
      el("p", { class: "kicker" }, task.display_name && task.display_name !== task.key ? said(task.key) : "Task"),
      el("h1", { tabindex: "-1" }, said(nameTask(task))),
      el("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) =>
        el("div", null, el("dt", null, name), el("dd", null, said(value))))));
  }

  const STATES = {
    incomplete: "This run is incomplete: it has counts, and no shares yet.",
    running: "This run is under way: its numbers are not final.",
  };
  const SIMULATED = "SIMULATED: the answers are made from the key, by no language model.";

  function drawBanners(run) {
    const lines = [run.simulated && SIMULATED, STATES[run.status], ...run.notices].filter(Boolean);
    return lines.length ? el("section", { class: "banners", "aria-label": "Notices" }, lines.map(banner)) : null;
  }

  // ── the number ────────────────────────────────────────────────────────────────────────────────────────

  function drawHeadline(task) {
    const { headline } = task;
    return el("section", { class: "headline", "aria-labelledby": "headline" },
      el("h2", { id: "headline" }, said(headline.name)),
      el("p", { class: "big" },
        el("span", { class: "value" }, figure(headline.value, headline.is_share)),
        headline.interval && el("span", { class: "reach-text" },
          interval(headline.interval, headline.is_share), el("small", null, "95 % interval"))),
      isNumber(headline.value) && drawHeld(headline),
      headline.sentence && el("p", { class: "lead" }, sentence(headline.sentence)),
      isNumber(headline.above_chance) && el("p", { class: "dim small" },
        `Corrected for chance: ${figure(headline.above_chance, headline.is_share)}.`));
  }

  // The number, the baseline's and chance on one scale.
  function drawHeld(headline) {
    const { baseline } = headline;
    const rows = [{ label: "this run", value: headline.value, interval: headline.interval, is_own: true }];
    if (baseline && isNumber(baseline.value)) rows.push({ label: "baseline", about: baseline.label, value: baseline.value });
    if (isNumber(headline.chance)) rows.push({ label: "chance", value: headline.chance, is_level: true });
    const figureOfAll = forest({
      rows, first: unseen("run"), what: unseen(said(headline.name)), isShare: headline.is_share, isBare: true,
      reference: findChance(headline), caption: unseen("The number on a scale, against chance and baseline"),
    });
    const isCompared = baseline && isNumber(baseline.difference);
    return el("div", { class: "held" }, figureOfAll, isCompared && drawDifference(baseline, headline.is_share));
  }

  function drawDifference(baseline, isShare) {
    const { difference: value, interval: reach } = baseline;
    return forest({
      rows: [{ label: "difference", about: "this run − baseline", value, interval: reach, is_own: true }],
      first: unseen("difference"), what: unseen("difference"), isShare, isDifference: true, isBare: true,
      caption: unseen("The difference to the baseline on a scale of its own"),
    });
  }

  function findChance({ chance }) {
    return isNumber(chance) ? { value: chance } : null;
  }

  // What the dashed line of a figure is.
  function drawChanceKey({ chance, is_share }) {
    if (!isNumber(chance)) return null;
    return el("p", { class: "key" }, el("span", { class: "key-chance", "aria-hidden": "true" }), `chance ${figure(chance, is_share)}`);
  }

  // ── counts that add up ────────────────────────────────────────────────────────────────────────────────

  function drawCounts(task, at) {
    const { counts } = task;
    const refused = counts.refused ? `${count(counts.refused)} refused` : null;
    const parts = [
      { kind: "valid", label: "VALID", count: counts.valid },
      { kind: "invalid", label: "INVALID", count: counts.invalid, show: "invalid", note: refused },
      { kind: "failed", label: "FAILED", count: counts.failed, show: "failed" },
      { kind: "error", label: "ERROR", count: counts.errors, show: "failed" },
    ];
    const total = counts.samples;
    const noun = task.num_trials > 1 && total !== task.samples ? "completions" : "samples";
    return el("section", { class: "counts", "aria-labelledby": "counts" },
      el("h2", { id: "counts" }, "What was counted"),
      segments(parts),
      el("table", { class: "plain sums" },
        el("caption", null, unseen(`How the ${noun} add up`)),
        el("thead", { class: "unseen" }, el("tr", null, ["status", "count", "share"].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", null, parts.map((part) => drawCount(part, total, at))),
        el("tfoot", null, drawCount({ name: noun, count: total }, total, at))),
      el("p", { class: "dim small" }, `${count(counts.scored)} scored = ${count(counts.valid)} VALID + ${count(counts.invalid)} INVALID`),
      isRepeated(task) && total === task.samples && el("p", { class: "dim small" }, "A sample counts as the worst of its completions."),
      drawWays(task, at));
  }

  // Trials, and orders of the options: several completions of one sample.
  function isRepeated(task) {
    return task.rows.count > task.samples;
  }

  function nounOf(task) {
    return isRepeated(task) ? "completions" : "samples";
  }

  function drawWays({ rows }, at) {
    const ways = { all: "all", right: "right", wrong: "wrong", ...(rows.has_flips && { flipped: "flipped between rules" }) };
    const links = Object.entries(ways).map(([show, words]) => link(at(show === "all" ? {} : { show }), null, words));
    return el("p", { class: "small" }, "See samples: ", separate(links), ".");
  }

  function separate(children) {
    return children.map((child, i) => [i ? ", " : "", child]);
  }

  function drawCount(part, total, at) {
    const name = part.name || [el("span", { class: `chip is-${part.kind}`, "aria-hidden": "true" }), part.label];
    const told = part.show && part.count ? link(at({ show: part.show }), null, name) : name;
    return el("tr", null,
      el("th", { scope: "row" }, told, part.note ? el("small", null, part.note) : null),
      el("td", { class: "number" }, count(part.count)),
      el("td", { class: "number dim" }, total ? percent(part.count / total, 1) : "–"));
  }

  // ── what the audit says ───────────────────────────────────────────────────────────────────────────────

  function drawFindings(run, task, number) {
    const found = task.findings;
    return el("section", { class: "findings", "aria-labelledby": "findings" },
      el("h2", { id: "findings" }, "What the audit says"),
      found.length
        ? el("ol", null, found.map((finding) => drawFinding(finding, (id) => linkSample(run, number, id))))
        : el("p", null, task.audited.n ? "Nothing stands out." : "There was nothing to audit."),
      task.audited.sentence && el("p", { class: "dim small" }, sentence(capitalize(task.audited.sentence))));
  }

  function drawFinding({ sentence: words, step, examples }, linkTo) {
    return el("li", null,
      el("p", { class: "sentence" }, sentence(words)),
      step && el("p", { class: "step" }, el("span", { class: "dim" }, "Next: "), sentence(step)),
      examples.length > 0 && el("p", { class: "step" }, el("span", { class: "dim" }, "See: "), separate(examples.map(linkTo))));
  }

  function linkSample(run, number, id) {
    return link(makeRoute(["run", run.id, number, "sample", id]), null, said(id));
  }

  const GATES = { true: ["✓", "passed", "right"], false: ["✗", "not passed", "wrong"], null: ["–", "not decided", "failed"] };

  function drawGates(gates) {
    if (!gates.length) return null;
    return el("section", { class: "gates", "aria-labelledby": "gates" },
      el("h2", { id: "gates" }, "Gates"), el("ul", null, gates.map(drawGate)));
  }

  function drawGate(gate) {
    const [mark, word, kind] = GATES[String(gate.is_pass)] || GATES.null;
    return el("li", null, el("span", { class: `verdict is-${kind}` }, sign(mark), word),
      el("strong", null, said(gate.name)), gate.sentence && el("span", { class: "dim" }, sentence(gate.sentence)));
  }

  // ── figures ───────────────────────────────────────────────────────────────────────────────────────────

  function drawPlots(task, at) {
    const drawn = [
      panel("By category", task.plots.categories && drawCategories(task, at), "wide"),
      panel("Under each reading rule", task.plots.rules && drawRules(task), "wide"),
      panel("Letters, true against predicted", task.plots.letters && drawLetters(task, at)),
      panel("INVALID by reason", task.plots.invalid && task.plots.invalid.length && drawInvalid(task.plots.invalid, at)),
      panel("Recall by letter", task.plots.recalls && drawRecalls(task, at)),
      panel("Reliability", task.plots.reliability && drawReliability(task.plots.reliability)),
      panel("Latency", task.plots.latency && drawLatency(task.plots.latency)),
      panel("Tokens", task.plots.tokens && drawTokens(task.plots.tokens)),
    ].filter(Boolean);
    const halves = drawn.filter((one) => !one.classList.contains("wide"));
    if (halves.length % 2) halves[halves.length - 1].classList.add("wide");
    return drawn.length ? el("section", { class: "plots", "aria-label": "Figures" }, drawn) : null;
  }

  function panel(name, drawing, width) {
    return drawing ? el("section", { class: `panel ${width || ""}` }, el("h2", null, name), drawing) : null;
  }

  function drawCategories(task, at) {
    const { column, rows } = task.plots.categories;
    const { headline } = task;
    const reference = isNumber(headline.value) ? { value: headline.value } : null;
    return [explain(`${capitalize(headline.name)} in each value of `, said(column), reference ? "; the dashed line is the whole." : "."),
      forest({
        rows: rows.map((row) => ({ ...row, label: row.label ?? "(none)", href: row.label === null ? null : at({ category: row.label }) })),
        first: column, what: headline.name, isShare: headline.is_share, reference,
      })];
  }

  function explain(...children) {
    return el("p", { class: "explain" }, children);
  }

  const KINDS = { own: "this run", rule: "rule", lens: "other harness" };

  function drawRules(task) {
    const rows = task.plots.rules.map((row) => ({
      label: row.kind === "own" && task.rule && row.name === "own" ? task.rule : row.name, note: nameKind(row),
      value: row.value, interval: row.interval, n: row.n, is_own: row.kind === "own", after: [percent(row.invalid_share), count(row.read)],
    }));
    return [
      explain("The same completions, read by other rules, and as other harnesses would read them.",
        " A wide spread says that the number depends on how it is read."),
      forest({ rows, first: "read by", what: "accuracy", after: ["INVALID", "read"], reference: findChance(task.headline) }),
      drawChanceKey(task.headline),
      task.audited.unfit && el("p", { class: "dim small" }, sentence(capitalize(task.audited.unfit))),
    ];
  }

  function nameKind({ kind, drawn }) {
    return [KINDS[kind] || kind, drawn && `from ${count(drawn)} samples`].filter(Boolean).join(", ");
  }

  function drawInvalid(rows, at) {
    const isRead = rows.some((row) => isNumber(row.stated));
    const headings = isRead ? ["INVALID", "state one", "the right one"] : ["INVALID"];
    const told = isRead ? "; how many of them state one somewhere, and how many the right one" : "";
    const lines = rows.map((row) => ({
      label: row.reason, href: at({ show: "invalid", reason: row.reason }),
      counts: [row.count, row.stated, row.right].slice(0, headings.length),
    }));
    return [explain(`Completions in which no choice was read${told}.`), bars({ first: "reason", headings, rows: lines })];
  }

  function drawLetters(task, at) {
    const address = (truth, name) => (name === "INVALID" ? at({ show: "invalid", truth }) : at({ truth, predicted: name }));
    return [explain(`Of the ${nounOf(task)} with this truth, which letter was read. The framed diagonal is right.`),
      heat(task.plots.letters, { address })];
  }

  function drawRecalls(task, at) {
    const { rows, rstd } = task.plots.recalls;
    const spread = isNumber(rstd) ? ` Their standard deviation (RStd) is ${Number(rstd.toPrecision(3))} points.` : "";
    const lines = rows.map((row) => ({ ...row, label: row.letter, href: at({ truth: row.letter }) }));
    return [explain(`Of the ${nounOf(task)} whose truth is this letter, the share that is right.${spread}`),
      forest({ rows: lines, first: "truth", what: "recall", isSmall: true })];
  }

  function drawReliability({ bins, ece, ece_bins }) {
    const title = `Reliability curve: accuracy by confidence in ${bins.length} bins; expected calibration error ${percent(ece)}`;
    return [explain("Accuracy (up) where the model is so confident (across), in per cent. On the dashed line both agree;",
      " bars below show how many samples."),
      curve({ bins, title, caption: `Expected calibration error ${percent(ece)} over ${ece_bins || bins.length} bins.` })];
  }

  function drawLatency({ p50, p95, bins }) {
    const { seconds } = ak.core;
    const title = `Latency: half of the calls within ${seconds(p50)}, 95 % within ${seconds(p95)}`;
    const caption = `Half within ${seconds(p50)}, 95 % within ${seconds(p95)}.`;
    const marks = [{ value: p50, label: `half: ${seconds(p50)}` }, { value: p95, label: `95 %: ${seconds(p95)}` }];
    return [explain("How long a call took."), histogram({ bins, title, say: seconds, what: "latency", caption, marks })];
  }

  function drawTokens({ prompt, completion, bins }) {
    const caption = `${count(prompt)} tokens in prompts, ${count(completion)} in completions.`;
    if (!bins || !bins.length) return el("p", null, caption);
    const [title, say] = [`Tokens of completions: ${caption}`, (value) => count(Math.round(value))];
    return [explain("How many tokens a completion took."), histogram({ bins, title, say, what: "tokens", caption })];
  }

  // ── all metrics ───────────────────────────────────────────────────────────────────────────────────────

  function drawMetrics(task) {
    if (!task.metrics.length) return null;
    const headings = ["metric", "value", "95 % interval", "n", "left out", "scorer", "kind"];
    const table = plainTable(headings, task.metrics.map(listMetric));
    return el("section", { class: "metrics", "aria-labelledby": "metrics" }, el("h2", { id: "metrics" }, "All metrics"),
      el("div", { class: "sideways", tabindex: "0", role: "group", "aria-label": "All metrics" }, table));
  }

  function listMetric(metric) {
    return [
      [said(metric.name), metric.note && el("small", null, sentence(metric.note))],
      figure(metric.value, metric.is_share), interval(metric.interval, metric.is_share), count(metric.n),
      sayLeftOut(metric.left_out), said(metric.scorer || ""), said(metric.kind || ""),
    ];
  }

  function sayLeftOut(reasons) {
    const told = Object.entries(reasons).filter(([, value]) => value);
    return told.length ? separate(told.map(([reason, value]) => [said(reason), ` ${count(value)}`])) : "–";
  }

  // ── several runs or tasks ─────────────────────────────────────────────────────────────────────────────

  async function showHome(place) {
    const { runs } = await ak.source.runs();
    const overviews = await Promise.all(runs.map((run) => ak.source.overview(run.id)));
    const rows = overviews.flatMap((run) => run.tasks.map((task, number) => ({ run, task, number })));
    if (rows.length === 1) return show(place, { run: rows[0].run.id, task: 0 });
    const keys = [...new Set(rows.map((row) => row.task.key))];
    const comparison = ak.source.hasComparison ? await ak.source.comparison(runs.map((run) => run.id)) : null;
    put(place,
      el("header", { class: "title" }, el("p", { class: "kicker" }, "Report"),
        el("h1", { tabindex: "-1" }, said(ak.source.title || "Report")),
        el("p", null, `${counted(overviews.length, "run")}, ${counted(keys.length, "task")}.`)),
      comparison && [comparison.refused, ...comparison.notices].filter(Boolean).map(banner),
      overviews.length === 1 ? [drawBanners(overviews[0]), drawTasks(rows)] : keys.map((key) => drawRuns(key, rows, comparison)));
    return { title: ak.source.title || "Report" };
  }

  // The tasks of one run: a table for each metric that they are measured by.
  function drawTasks(rows) {
    const names = [...new Set(rows.map(({ task }) => task.headline.name))];
    return names.map((name) => {
      const alike = rows.filter(({ task }) => task.headline.name === name);
      return el("section", { class: "panel wide" }, el("h2", null, said(name)), forest({
        rows: alike.map((row) => listHeadline(row, nameTask(row.task))),
        first: "task", what: name, isShare: alike[0].task.headline.is_share,
      }));
    });
  }

  function listHeadline({ run, task, number }, label) {
    const { value, interval: reach, n } = task.headline;
    return { label, about: task.model, value, interval: reach, n, href: makeRoute(["run", run.id, number]), is_own: true };
  }

  const MOST_SENTENCES = 8;

  // One task in several runs, and how they compare.
  function drawRuns(key, all, comparison) {
    const rows = all.filter(({ task }) => task.key === key);
    const compared = comparison ? comparison.tasks.find((task) => task.key === key) : null;
    const { headline } = rows[0].task;
    return el("section", { class: "panel wide" }, el("h2", null, said(nameTask(rows[0].task))),
      forest({
        rows: rows.map((row) => listHeadline(row, row.run.label)),
        first: "run", what: headline.name, isShare: headline.is_share, reference: findChance(headline),
      }),
      drawChanceKey(headline),
      compared && drawSentences(compared));
  }

  function drawSentences({ key, runs, pairs }) {
    const ids = runs.map((run) => run.id).join(",");
    const name = (id) => said(runs.find((run) => run.id === id).label);
    const lead = (pair, number) => link(makeRoute(["compare", ids], { task: key, pair: number }), null,
      "Compare", unseen(" ", name(pair.first), " and ", name(pair.second)));
    return el("ul", { class: "sentences" }, pairs.slice(0, MOST_SENTENCES).map((pair, number) =>
      el("li", null, sentence(pair.sentence), " ", lead(pair, number))));
  }

  ak.overview = { show, showHome, nameTask };
})();
