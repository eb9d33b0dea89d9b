// One sample's whole way: the row, the prompt, the completion with the span that decided, the verdict and why.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, put, link, said, sentence, capitalize, banner, unseen, count, counted, makeRoute, isNumber } = ak.core;
  const { trail } = ak.samples;

  async function show(place, route) {
    const run = await ak.source.overview(route.run);
    const task = run.tasks[route.task];
    if (!task) throw new Error("This run has no such task.");
    const sample = await findSample(route);
    const around = await findNeighbours(route, task, sample);
    const completion = drawCompletion(sample);
    put(place,
      drawBar(route, around),
      drawTitle(sample, task),
      el("div", { class: "way" },
        el("div", null, drawRow(sample), drawPrompt(sample)),
        el("div", null, completion.element, drawVerdicts(sample), drawReadings(sample.readings, completion.mark))),
      drawFields(sample));
    return { title: `Sample ${ak.core.makeVisible(sample.id)}`, keys: (event) => takeKey(event, route, around) };
  }

  // The one that the address names; trials of a sample stand one after the other.
  async function findSample(route) {
    const first = await ak.source.find(route.run, route.task, route.id);
    if (!isNumber(first)) throw new Error(ak.source.absence || "There is no such sample in this task.");
    const sample = await ak.source.sample(route.run, route.task, first);
    const trial = route.query.get("trial");
    const step = trial === null || sample.trial === null ? 0 : Number(trial) - sample.trial;
    return step > 0 ? ak.source.sample(route.run, route.task, first + step) : sample;
  }

  // ── before and after ──────────────────────────────────────────────────────────────────────────────────

  async function findNeighbours(route, task, sample) {
    if (!(await isOnTrail(route, sample))) await startTrail(route, task, sample);
    const start = Math.max(0, trail.index - 1);
    const { rows, total } = await ak.source.rows(route.run, route.task, trail.query, start, 3);
    const at = trail.index - start;
    return { before: rows[at - 1] || null, after: rows[at + 1] || null, index: trail.index, total };
  }

  async function isOnTrail(route, sample) {
    if (trail.run !== route.run || trail.task !== route.task || !trail.query) return false;
    const { rows } = await ak.source.rows(route.run, route.task, trail.query, trail.index, 1);
    return rows.length > 0 && rows[0].p === sample.p;
  }

  async function startTrail(route, task, sample) {
    const index = ak.source.place ? await ak.source.place(route.run, route.task, sample.p) : sample.p;
    const { run, task: number } = route;
    Object.assign(trail, { run, task: number, query: { ...ak.samples.BLANK }, index, total: task.rows.embedded, isLeft: true });
  }

  function addressList(route) {
    return makeRoute(["run", route.run, route.task, "samples"], ak.samples.listAsked(trail.query));
  }

  function step(route, row, by) {
    if (!row) return false;
    trail.index += by;
    ak.core.go(ak.samples.addressOf(route.run, route.task, row));
    return true;
  }

  function takeKey(event, route, { before, after }) {
    if (event.key === "Escape") return ak.core.go(addressList(route)), true;
    if (event.key === "j" || event.key === "ArrowRight") return step(route, after, 1);
    if (event.key === "k" || event.key === "ArrowLeft") return step(route, before, -1);
    return false;
  }

  function drawBar(route, { before, after, index, total }) {
    const isFiltered = Object.keys(ak.samples.listAsked(trail.query)).length > 0;
    const jump = (row, by, ...words) => (row
      ? link(ak.samples.addressOf(route.run, route.task, row), { class: "button", on: { click: () => { trail.index += by; } } }, words)
      : el("span", { class: "button is-off", "aria-hidden": "true" }, words));
    return el("nav", { class: "steps", "aria-label": "Samples" },
      link(addressList(route), { class: "button" }, "↑ ", isFiltered ? "Back to these samples" : "All samples"),
      el("span", { class: "dim" }, `${count(index + 1)} of ${counted(total, "sample")}${isFiltered ? " in this selection" : ""}`),
      el("span", { class: "pair" }, jump(before, -1, "← Previous"), jump(after, 1, "Next →")));
  }

  // ── the verdict first ─────────────────────────────────────────────────────────────────────────────────

  function drawTitle(sample, task) {
    const main = sample.verdicts[0] || null;
    const hasTrial = sample.trial !== null && task.num_trials > 1;
    const truth = sample.choices.filter((choice) => choice.is_truth).map((choice) => choice.label);
    const predicted = sample.choices.filter((choice) => choice.is_predicted).map((choice) => choice.label);
    return el("header", { class: "title compact" },
      el("p", { class: "kicker" }, said(ak.overview.nameTask(task)), " · ", said(task.model)),
      el("h1", { tabindex: "-1" }, said(sample.id), hasTrial && el("small", null, ` trial ${sample.trial}`)),
      el("p", { class: "decision" }, main && ak.core.verdict(main), main && main.reason && said(main.reason, { class: "reason" }),
        truth.length > 0 && el("span", null, "truth ", el("b", null, truth.map((label) => said(label)))),
        truth.length > 0 && el("span", null, "read ", predicted.length ? el("b", null, predicted.map((label) => said(label))) : "nothing"),
        sample.where && el("span", { class: "dim" }, said(sample.where))),
      main && main.why && el("p", { class: "lead" }, sentence(capitalize(main.why))),
      sample.missing && banner(sample.missing));
  }

  // ── stations ──────────────────────────────────────────────────────────────────────────────────────────

  function station(name, ...children) {
    return el("section", { class: "station" }, el("h2", null, name), children);
  }

  function drawRow(sample) {
    if (sample.question === null && !sample.choices.length) return null;
    return station("Question",
      sample.question !== null && drawText(sample.question, { label: "Question" }),
      sample.choices.length > 0 && el("ul", { class: "choices", "aria-label": "Choices" }, sample.choices.map(drawChoice)));
  }

  function drawChoice(choice) {
    const kinds = [choice.is_truth && "is-truth", choice.is_predicted && "is-predicted"].filter(Boolean);
    return el("li", { class: kinds.join(" ") },
      said(choice.label, { class: "label" }), el("span", { class: "option" }, choice.text === null ? "" : said(choice.text)),
      choice.is_truth && el("span", { class: "tag" }, "truth"),
      choice.is_predicted && el("span", { class: "tag" }, choice.is_truth ? "read ✓" : "read ✗"));
  }

  function drawPrompt(sample) {
    if (!sample.prompt) return null;
    return station("Prompt", sample.prompt.map(({ role, text }) => el("div", { class: "message" }, el("h3", null, said(role)),
      drawText(text, { label: `Prompt, ${ak.core.makeVisible(role)}`, isLong: true }))));
  }

  function drawCompletion(sample) {
    const { completion } = sample;
    const text = drawMarked(completion.text, sample.span);
    const element = station("Completion",
      completion.text === null ? el("p", { class: "dim" }, "There is no text.") : [text.element, text.told],
      completion.error && banner(completion.error),
      completion.reasoning && el("details", null, el("summary", null, "Reasoning"),
        drawText(completion.reasoning, { label: "Reasoning", isLong: true })),
      drawCall(completion));
    return { element, mark: text.mark };
  }

  function drawCall({ status, finish_reason, latency, tokens }) {
    const { prompt, completion } = tokens || {};
    const facts = Object.entries({
      status: status === "OK" ? null : status, "finish reason": finish_reason,
      latency: isNumber(latency) ? ak.core.seconds(latency) : null,
      "prompt tokens": isNumber(prompt) ? count(prompt) : null, "completion tokens": isNumber(completion) ? count(completion) : null,
    }).filter(([, value]) => value);
    if (!facts.length) return null;
    return el("dl", { class: "facts inline" }, facts.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, said(value)))));
  }

  function drawVerdicts({ verdicts }) {
    if (!verdicts.length) return null;
    return station("Verdict", verdicts.map(drawVerdict));
  }

  function drawVerdict(verdict) {
    const { scorer, rule, value, reason, why } = verdict;
    return el("div", { class: "judged" },
      el("p", null, ak.core.verdict(verdict), said(scorer), rule && el("span", { class: "dim" }, " by ", said(rule)),
        isNumber(value) && el("span", { class: "dim" }, ` value ${ak.core.number(value)}`), reason && said(reason, { class: "reason" })),
      why && el("p", null, sentence(capitalize(why))));
  }

  // ── other readings ────────────────────────────────────────────────────────────────────────────────────

  const KINDS = { own: "this run", rule: "rule", lens: "other harness" };

  function drawReadings(readings, mark) {
    if (!readings.length) return null;
    const lenses = readings.filter((reading) => reading.kind === "lens");
    return station("How other rules read it",
      drawReadingTable("Readings by rules", readings.filter((reading) => reading.kind !== "lens"), mark),
      lenses.length > 0 && el("details", null,
        el("summary", null, `As other harnesses read it: ${countWords(lenses)}`),
        drawReadingTable("Readings by other harnesses", lenses, mark)));
  }

  function drawReadingTable(caption, readings, mark) {
    const heads = ["read by", "kind", "choice", unseen("right or wrong"), "in the text"].map((name) => el("th", { scope: "col" }, name));
    return el("div", { class: "sideways", tabindex: "0", role: "group", "aria-label": caption }, el("table", { class: "plain readings" },
      el("caption", { class: "unseen" }, caption), el("thead", null, el("tr", null, heads)),
      el("tbody", null, readings.map((reading) => drawReading(reading, mark)))));
  }

  function sayReading({ choice, is_right }) {
    if (choice === null) return "INVALID";
    return is_right ? "✓ right" : is_right === false ? "✗ wrong" : "read";
  }

  // `5 right, 2 wrong`, in the order in which they come.
  function countWords(readings) {
    const counts = new Map();
    for (const word of readings.map((reading) => sayReading(reading).replace(/^\W /, ""))) counts.set(word, (counts.get(word) || 0) + 1);
    return [...counts].map(([word, number]) => `${number} ${word}`).join(", ");
  }

  function drawReading(reading, mark) {
    const show = { type: "button", class: "quiet", on: { click: () => mark(reading.span, reading.name) } };
    const place = reading.span
      ? el("button", show, "mark", unseen(` what ${ak.core.makeVisible(reading.name)} read`))
      : el("span", { class: "dim" }, reading.part ? said(reading.part) : "–");
    return el("tr", { class: reading.kind === "own" ? "is-own" : null },
      el("th", { scope: "row" }, said(reading.name)), el("td", { class: "dim" }, KINDS[reading.kind] || reading.kind),
      el("td", null, reading.choice === null ? "–" : said(reading.choice)), el("td", null, sayReading(reading)),
      el("td", null, place));
  }

  // ── text ──────────────────────────────────────────────────────────────────────────────────────────────

  // Text as it is, line by line; hidden characters written out. Spans count characters, not UTF-16 units.
  function drawText(text, { label, span = null, isLong = false }) {
    const about = isLong ? { tabindex: "0", role: "group", "aria-label": label } : {};
    return el("div", { class: `text${isLong ? " is-long" : ""}`, dir: "auto", ...about }, span ? cutText(text, span) : writeHidden(text));
  }

  function cutText(text, [start, end]) {
    const characters = Array.from(text);
    const part = (from, to) => writeHidden(characters.slice(from, to).join(""));
    return [part(0, start), el("mark", null, part(start, end)), part(end)];
  }

  function writeHidden(text) {
    const pieces = text.split(new RegExp(`(${ak.core.HIDDEN.source})`, "u"));
    return pieces.map((piece, i) => (i % 2 ? el("span", { class: "hidden-character" }, ak.core.writeOut(piece)) : piece));
  }

  // A completion in which a span can be marked: {element, told, mark(span, by)}.
  function drawMarked(text, span) {
    const element = el("div", { class: "text completion is-long", dir: "auto", tabindex: "0", role: "group", "aria-label": "Completion" });
    const told = el("p", { class: "small dim", role: "status" });
    if (text !== null) mark(span, null);
    return { element, told, mark };

    function mark(wanted, by) {
      element.replaceChildren(...(wanted ? cutText(text, wanted) : writeHidden(text)).flat(Infinity));
      told.replaceChildren(...sayMarked(wanted ? Array.from(text).slice(...wanted).join("") : null, wanted, by));
      const found = by && element.querySelector("mark");
      if (found) found.scrollIntoView({ block: "nearest" });
    }
  }

  function sayMarked(part, span, by) {
    if (part === null) return ["Nothing in it decided: the rule reads no choice."];
    const where = span[1] - span[0] === 1 ? `character ${span[0] + 1}` : `characters ${span[0] + 1} to ${span[1]}`;
    return ["Marked: “", said(part), `”, ${where}: ${by ? `what ${ak.core.makeVisible(by)} read` : "what decided"}.`];
  }

  // ── the row ───────────────────────────────────────────────────────────────────────────────────────────

  function drawFields({ fields }) {
    if (!fields.length) return null;
    const title = el("summary", null, el("h2", null, `The dataset row, ${counted(fields.length, "column")}`));
    return el("section", { class: "station" }, el("details", null, title, el("dl", { class: "fields" }, fields.map(({ name, text }) =>
      el("div", null, el("dt", null, said(name)), el("dd", null, drawText(text, {})))))));
  }

  ak.sample = { show, drawText, drawMarked };
})();
