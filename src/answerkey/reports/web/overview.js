// A task of a run at a glance: the number and what it is held against, counts that add up, the findings of
// the audit, then the figures. `showHome` is the first page of a report.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, put, link, said, sentence, capitalize, banner, sign, unseen, makeRoute } = ak.core;
  const { count, counted, percent, figure, interval, precision, isNumber } = ak.core;
  const { forest, bars, segments, heat, curve, plainTable, sideways } = ak.charts;
  const { panel } = ak.copy;

  async function show(place, route) {
    const run = await ak.source.overview(route.run);
    const task = run.tasks[route.task];
    if (!task) throw new Error("This run has no such task.");
    const at = (query) => makeRoute(["run", run.id, route.task, "samples"], query);
    put(place,
      drawTitle(task),
      drawBanners(run),
      el("div", { class: "top" }, drawHeadline(task), drawCounts(task, at)),
      drawFacts(run, task),
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

  function drawTitle(task) {
    return el("header", { class: "title" },
      el("h1", { tabindex: "-1" }, said(nameTask(task))),
      el("p", { class: "subtitle" }, said(task.model), el("span", { class: "dim" }, " on "), said(task.dataset)));
  }

  function drawFacts(run, task) {
    const facts = [
      ["Task", task.display_name && task.display_name !== task.key ? task.key : null], ["Scorer", task.scorer], ["Extraction rule", task.rule],
      ["Trials", task.rows.trials > 1 ? `${task.rows.trials} of each sample` : null],
      ["Run", run.label], ["Started", ak.core.moment(run.started_at)],
      ["Took", run.seconds > 0 ? ak.core.seconds(run.seconds) : null],
      ...task.calls.map((calls) => [calls.purpose === "solve" ? "Calls" : `Calls, ${calls.purpose}`, sayCalls(calls)]),
    ];
    return el("dl", { class: "facts inline" }, facts.filter(([, value]) => value).map(([name, value]) =>
      el("div", null, el("dt", null, name), el("dd", null, said(value)))));
  }

  function sayCalls({ asked, cached, failed, prompt_tokens: prompts, completion_tokens: completions, latency, cost }) {
    const { seconds } = ak.core;
    return [
      `${count(asked)} sent`, cached ? `${count(cached)} from the cache` : null, failed ? `${count(failed)} failed` : null,
      `${count(prompts)} + ${count(completions)} tokens`, latency && `half within ${seconds(latency.p50)}, 95 % within ${seconds(latency.p95)}`,
      isNumber(cost) ? `about ${cost.toFixed(cost >= 0.01 ? 2 : 4)} USD` : null,
    ].filter(Boolean).join("; ");
  }

  const STATES = {
    incomplete: "This run is incomplete: it has counts, and no shares yet.",
    running: "This run is still running: its numbers are not final.",
  };
  const SIMULATED = "SIMULATED: the answers are made from the key, by no language model.";

  function drawBanners(run) {
    return drawNotices([run.simulated && SIMULATED, STATES[run.status], ...run.notices].filter(Boolean));
  }

  // Many notices wait behind the first one.
  function drawNotices(lines) {
    if (!lines.length) return null;
    const rest = lines.length > 3 ? lines.splice(1) : [];
    return el("section", { class: "banners", "aria-label": "Notices" }, lines.map(banner),
      rest.length > 0 && el("details", null, el("summary", { class: "small" }, counted(rest.length, "more notice")), rest.map(banner)));
  }

  // ── the number ────────────────────────────────────────────────────────────────────────────────────────

  function drawHeadline(task) {
    const { headline } = task;
    const { value, is_share: isShare, right, n } = headline;
    const digits = precision(headline.interval, n, isShare);
    const unit = isRepeated(task) && n !== task.samples ? "completion" : "sample";
    return panel(said(headline.name), [
      el("p", { class: "big" },
        el("span", { class: "value" }, isNumber(value) ? figure(value, isShare, digits) : "no value"),
        headline.interval && el("span", { class: "reach-text" },
          interval(headline.interval, isShare, digits), el("small", null, "95 % interval"))),
      isNumber(value) && el("p", { class: "lead" }, isNumber(right) ? `${count(right)} of ${count(n)} right` : `on ${counted(n, unit)}`, sayChance(headline, digits)),
      isNumber(value) && drawHeld(headline, digits),
      headline.note && el("p", { class: isNumber(value) ? "dim small" : "lead" }, sentence(headline.note)),
    ], { kind: "headline", id: "headline" });
  }

  // How the number stands to what guessing would get.
  function sayChance({ value, chance, above_chance, interval: reach, is_share }, digits) {
    if (!isNumber(chance)) return null;
    const corrected = isNumber(above_chance) ? el("span", { class: "dim" }, `; ${figure(above_chance, is_share, digits)} corrected for chance`) : null;
    if (!reach || (reach[0] <= chance && reach[1] >= chance)) return [reach ? ", not told apart from chance" : "", corrected];
    const points = ak.core.difference(Math.abs(value - chance), true, digits).slice(1);
    return [`, ${points} ${value > chance ? "above" : "below"} chance`, corrected];
  }

  // The number and chance on one scale.
  function drawHeld(headline, digits) {
    if (!isNumber(headline.chance)) return null;
    const rows = [
      { label: "this run", value: headline.value, interval: headline.interval, is_own: true },
      { label: "chance", value: headline.chance, is_level: true },
    ];
    return el("div", { class: "held" }, forest({
      rows, first: unseen("run"), what: unseen(said(headline.name)), isShare: headline.is_share, isBare: true, digits,
      reference: findChance(headline), caption: unseen("The number on a scale, against chance"),
    }));
  }

  function findChance({ chance }) {
    return isNumber(chance) ? { value: chance } : null;
  }

  // What the dashed line of a figure is.
  function drawChanceKey({ chance, is_share, interval: reach, n }) {
    if (!isNumber(chance)) return null;
    return el("p", { class: "key" }, el("span", { class: "key-chance", "aria-hidden": "true" }), `chance ${figure(chance, is_share, precision(reach, n, is_share))}`);
  }

  // ── counts that add up ────────────────────────────────────────────────────────────────────────────────

  function drawCounts(task, at) {
    const { counts, headline: { right } } = task;
    const refusals = [counts.refused && `${count(counts.refused)} refused by the provider`, counts.declined && `${count(counts.declined)} declined`].filter(Boolean).join(", ") || null;
    const reasons = [counts.failed && `${count(counts.failed)} FAILED`, counts.errors && `${count(counts.errors)} ERROR`].filter(Boolean).join(", ");
    const valid = isNumber(right)
      ? [{ kind: "right", label: "right", count: right, show: "right" }, { kind: "wrong", label: "wrong", count: counts.valid - right, show: "wrong" }]
      : [{ kind: "valid", label: "VALID", count: counts.valid }];
    const parts = [
      ...valid,
      { kind: "invalid", label: "INVALID", count: counts.invalid, show: "invalid", note: refusals },
      { kind: "failed", label: "not scored", count: counts.failed + counts.errors, show: "failed", note: reasons },
    ];
    const total = counts.samples;
    const noun = task.rows.trials > 1 && total !== task.samples ? "completions" : "samples";
    return panel(capitalize(noun), [
      segments(parts),
      el("table", { class: "plain sums" },
        el("caption", null, unseen(`How the ${noun} add up`)),
        el("thead", { class: "unseen" }, el("tr", null, ["status", "count", "share"].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", null, parts.map((part) => drawCount(part, total, at))),
        el("tfoot", null, drawCount({ kind: "all", name: "all", count: total, show: "all" }, total, at))),
      isRepeated(task) && total === task.samples && el("p", { class: "dim small" }, "A sample counts as the worst of its completions."),
      task.rows.has_flips && el("p", { class: "small" }, link(at({ show: "flipped" }), null, "Samples that extraction rules read differently")),
    ], { kind: "counts", id: "counts" });
  }

  // Trials, and orders of the options: several completions of one sample.
  function isRepeated(task) {
    return task.rows.count > task.samples;
  }

  function nounOf(task) {
    return isRepeated(task) ? "completions" : "samples";
  }

  function separate(children) {
    return children.map((child, i) => [i ? ", " : "", child]);
  }

  function drawCount(part, total, at) {
    const name = part.name || [el("span", { class: `chip is-${part.kind}`, "aria-hidden": "true" }), part.label];
    const told = part.show && part.count ? link(at(part.show === "all" ? {} : { show: part.show }), null, name) : name;
    return el("tr", null,
      el("th", { scope: "row" }, told, part.note ? el("small", null, part.note) : null),
      el("td", { class: "number" }, count(part.count)),
      el("td", { class: "number dim" }, total ? percent(part.count / total, precision(null, total)) : "–"));
  }

  // ── what the audit says ───────────────────────────────────────────────────────────────────────────────

  function drawFindings(run, task, number) {
    const found = task.findings;
    return el("section", { class: "findings", "aria-labelledby": "findings" },
      el("h2", { id: "findings" }, "Findings"),
      found.length
        ? el("ol", null, found.map((finding) => drawFinding(finding, (id) => linkSample(run, number, id))))
        : el("p", null, task.audited ? "Nothing stands out." : "There was nothing to audit."),
      task.audit_note && el("p", { class: "dim small" }, sentence(capitalize(task.audit_note))));
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
    const { plots } = task;
    const isLarge = plots.letters && plots.letters.predicted.length > 8;
    const drawn = [
      plots.categories && panel("By category", drawCategories(task, at), { kind: "wide" }),
      plots.rules && panel("By extraction rule", drawRules(task), { kind: "wide" }),
      plots.letters && panel("Confusion matrix", drawLetters(task, at), { kind: isLarge ? "wide" : "" }),
      plots.invalid && plots.invalid.length > 0 && panel("INVALID by reason", drawInvalid(plots.invalid, at)),
      plots.reliability && panel("Reliability", drawReliability(plots.reliability)),
    ].filter(Boolean);
    const halves = drawn.filter((one) => !one.classList.contains("wide"));
    if (halves.length % 2) halves[halves.length - 1].classList.add("wide");
    return drawn.length ? el("section", { class: "plots", "aria-label": "Figures" }, drawn) : null;
  }

  function drawCategories(task, at) {
    const { column, rows } = task.plots.categories;
    const { headline } = task;
    const reference = isNumber(headline.value) ? { value: headline.value } : null;
    return [reference && explain("The dashed line is the whole dataset."),
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
    const rank = (row) => (row.kind === "own" ? 0 : 1);
    const rows = [...task.plots.rules].sort((one, other) => rank(one) - rank(other) || ak.charts.compareKeys(one.value, other.value, -1));
    const isFolded = (row) => row.kind === "lens" && row.read < row.n / 2;
    const [shown, folded] = [rows.filter((row) => !isFolded(row)), rows.filter(isFolded)];
    const draw = (some) => forest({
      rows: joinAlike(some).map((alike) => listRule(alike, task)), first: "read by", what: "accuracy", after: ["INVALID", "read"], reference: findChance(task.headline),
    });
    return [
      explain("The same completions, read by other rules and as other harnesses would read them."),
      draw(shown),
      ak.charts.isOnAxis(findChance(task.headline), shown) && drawChanceKey(task.headline),
      folded.length > 0 && el("details", null, el("summary", { class: "small" }, `${folded.length} other ${folded.length > 1 ? "harnesses" : "harness"} that read less than half of the completions`), draw(folded)),
    ];
  }

  // Rules other than this run's own that come to the same numbers are one row.
  function joinAlike(rows) {
    const found = new Map();
    for (const row of rows) {
      const key = JSON.stringify([row.kind === "own", row.value, row.read, row.n, row.drawn]);
      found.set(key, [...(found.get(key) || []), row]);
    }
    return [...found.values()];
  }

  function listRule(alike, task) {
    const [row] = alike;
    const names = alike.map(({ kind, name }) => (kind === "own" && name === "own" && task.rule ? task.rule : name));
    return {
      label: names.join(", "), note: [...new Set(alike.map(nameKind))].join(", "), value: row.value, interval: row.interval, n: row.n, is_own: row.kind === "own",
      after: [percent(row.invalid_share, precision(null, row.n)), count(row.read)],
    };
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
    return [explain(`Which letter was read, of the ${nounOf(task)} with each truth. The framed diagonal is right.`),
      heat(task.plots.letters, { address })];
  }

  function drawReliability({ bins, ece }) {
    const digits = precision(null, bins.reduce((sum, bin) => sum + bin.n, 0));
    const title = `Reliability curve: accuracy by confidence in ${bins.length} bins; expected calibration error ${percent(ece, digits)}`;
    return [explain("Accuracy (up) where the model is so confident (across), in per cent. On the dashed line both agree;",
      " bars below show how many samples."),
      curve({ bins, title, caption: `Expected calibration error ${percent(ece, digits)} over ${bins.length} bins.` })];
  }

  // ── all metrics ───────────────────────────────────────────────────────────────────────────────────────

  function drawMetrics(task) {
    if (!task.metrics.length) return null;
    const headings = ["metric", "value", "95 % interval", "n", "left out", "scorer", "kind"];
    const table = plainTable(headings, task.metrics.map(listMetric));
    return panel("All metrics", sideways("All metrics", table), { kind: "metrics", id: "metrics" });
  }

  function listMetric(metric) {
    const digits = precision(metric.interval, metric.n, metric.is_share);
    return [
      [said(metric.name), metric.note && el("small", null, sentence(metric.note))],
      figure(metric.value, metric.is_share, digits), interval(metric.interval, metric.is_share, digits), count(metric.n),
      sayLeftOut(metric.left_out), said(metric.scorer || ""), said(metric.kind || ""),
    ];
  }

  function sayLeftOut(reasons) {
    const told = Object.entries(reasons).filter(([, value]) => value);
    return told.length ? separate(told.map(([reason, value]) => [said(reason), ` ${count(value)}`])) : "–";
  }

  // ── several runs or tasks ─────────────────────────────────────────────────────────────────────────────

  async function showHome(place, route) {
    const { runs } = await ak.source.runs();
    if (runs.length > 1) return ak.compare.show(place, { ...route, ids: runs.map((run) => run.id) });
    const run = await ak.source.overview(runs[0].id);
    if (run.tasks.length === 1) return show(place, { run: run.id, task: 0 });
    const title = ak.source.title || run.label;
    put(place,
      el("header", { class: "title" }, el("h1", { tabindex: "-1" }, said(title)), el("p", { class: "subtitle" }, counted(run.tasks.length, "task"))),
      drawBanners(run),
      drawTasks(run.tasks.map((task, number) => ({ run, task, number }))));
    return { title };
  }

  // The tasks of one run: a table for each metric that they are measured by.
  function drawTasks(rows) {
    const names = [...new Set(rows.map(({ task }) => task.headline.name))];
    return names.map((name) => {
      const alike = rows.filter(({ task }) => task.headline.name === name);
      return panel(said(name), forest({
        rows: alike.map((row) => listHeadline(row, nameTask(row.task))),
        first: "task", what: name, isShare: alike[0].task.headline.is_share,
      }), { kind: "wide" });
    });
  }

  function listHeadline({ run, task, number }, label) {
    const { value, interval: reach, n } = task.headline;
    return { label, about: task.model, value, interval: reach, n, href: makeRoute(["run", run.id, number]), is_own: true };
  }

  ak.overview = { show, showHome, nameTask, drawNotices };
})();
