// One sample's whole way: the verdict and why, the completion with every answer that it states, the question, how
// other rules read it, the prompt and the row.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, put, said, sentence, capitalize, banner, unseen, count, counted, isNumber } = ak.core;

  // The pane beside the table: {element, show(sample, where, {hasBefore, hasAfter}), focus(), clear()}. Its heading and
  // buttons stay the same elements from sample to sample, and with them the focus.
  function makePane(task, { step, close }) {
    const heading = el("h2", { id: "ak-sample", tabindex: "-1" });
    const where = el("span", { class: "place", role: "status" });
    const [before, after] = [["← Previous", -1, "k"], ["Next →", 1, "j"]].map(([words, by, key]) =>
      el("button", { type: "button", title: `key ${key}`, "aria-keyshortcuts": key, on: { click: () => step(by) } }, words));
    const shut = el("button", { type: "button", title: "key Escape", "aria-keyshortcuts": "Escape", on: { click: close } }, "Close");
    const [decision, body] = [el("div", { class: "decisions" }), el("div", { class: "way" })];
    const element = el("section", { class: "pane", "aria-labelledby": "ak-sample", hidden: true },
      el("header", null, el("div", { class: "steps" }, heading, where, el("span", { class: "pair" }, before, after, shut)), decision), body);
    return { element, show, focus: () => heading.focus({ preventScroll: true }), clear };

    function show(sample, place, { hasBefore, hasAfter }) {
      const hasTrial = sample.trial !== null && task.rows.trials > 1;
      const completion = drawCompletion(sample);
      element.hidden = false;
      heading.replaceChildren(said(sample.id), hasTrial ? el("small", null, ` trial ${sample.trial}`) : "");
      where.textContent = place;
      [before.disabled, after.disabled] = [!hasBefore, !hasAfter];
      decision.replaceChildren(...drawDecision(sample).filter(Boolean));
      body.replaceChildren();
      put(body, completion.element,
        el("div", { class: "about" }, drawRow(sample), drawVerdicts(sample), drawReadings(sample, completion.mark), drawPrompt(sample), drawFields(sample)));
      completion.reveal();
      if (getComputedStyle(element).display === "block") window.scrollTo(0, 0); // it covers a narrow screen
    }

    function clear() {
      element.hidden = true;
      body.replaceChildren();
    }
  }

  // ── the verdict first ─────────────────────────────────────────────────────────────────────────────────

  function drawDecision(sample) {
    const main = sample.verdicts[0] || null;
    const list = (name) => sample.choices.filter((choice) => choice[name]).map((choice) => said(choice.label));
    const [truth, predicted] = [list("is_truth"), list("is_predicted")];
    return [
      el("p", { class: "decision" }, main && ak.core.verdict(main), main && main.reason && said(main.reason, { class: "reason" }),
        truth.length > 0 && el("span", null, "truth ", el("b", null, truth), " → read ", predicted.length ? el("b", null, predicted) : "nothing"),
        sample.where && el("span", { class: "dim" }, said(sample.where))),
      main && main.why && el("p", { class: "lead" }, sentence(capitalize(main.why))),
      sample.missing && banner(sample.missing),
    ];
  }

  // ── stations ──────────────────────────────────────────────────────────────────────────────────────────

  function station(name, ...children) {
    return el("section", { class: "station" }, el("h3", null, name), children);
  }

  function fold(name, ...children) {
    return el("section", { class: "station" }, el("details", null, el("summary", null, el("h3", null, name)), children));
  }

  function drawRow(sample) {
    const images = sample.images || [];
    if (sample.question === null && !sample.choices.length && !images.length) return null;
    return station("Question",
      images.map(drawImage),
      sample.question !== null && drawText(sample.question),
      sample.choices.length > 0 && el("ul", { class: "choices", "aria-label": "Choices" }, sample.choices.map(drawChoice)));
  }

  // An address stays text, for nothing is fetched.
  function drawImage({ name, data }) {
    return ak.core.isImage(data) ? el("img", { class: "picture", src: data, alt: ak.core.makeVisible(name) })
      : el("p", { class: "small dim" }, said(name));
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
    return fold("Prompt", sample.prompt.map(({ role, text }) => el("div", { class: "message" }, el("h3", null, said(role)),
      drawText(text))));
  }

  function drawCompletion(sample) {
    const { completion } = sample;
    const text = drawMarked(completion.text, sample.span, { ...sample, isBrief: true });
    const element = station("Completion",
      completion.text !== null && text.told, completion.error && banner(completion.error),
      completion.reasoning && foldThought(completion.reasoning, writeHidden(completion.reasoning)),
      completion.text === null ? el("p", { class: "dim" }, "There is no text.") : text.element,
      drawCall(completion));
    element.classList.add("wide");
    return { element, mark: text.mark, reveal: text.reveal };
  }

  function foldThought(text, content, isOpen = false) {
    const size = `Thinking, ${counted(Array.from(text).length, "character")}`;
    return el("details", { class: "thought", open: isOpen }, el("summary", null, size), el("div", { class: "text", dir: "auto" }, content));
  }

  function drawCall({ status, finish_reason, latency, tokens }) {
    const { prompt, completion, reasoning, cached } = tokens;
    const facts = Object.entries({
      status: status === "OK" ? null : status, "finish reason": finish_reason,
      latency: isNumber(latency) ? ak.core.seconds(latency) : null,
      "prompt tokens": isNumber(prompt) ? count(prompt) : null, "completion tokens": isNumber(completion) ? count(completion) : null,
      "reasoning tokens": isNumber(reasoning) ? count(reasoning) : null, "cached tokens": isNumber(cached) ? count(cached) : null,
    }).filter(([, value]) => value);
    if (!facts.length) return null;
    return el("dl", { class: "facts inline" }, facts.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, said(value)))));
  }

  function drawVerdicts({ verdicts }) {
    return verdicts.length > 1 ? station("Verdicts", verdicts.map(drawVerdict)) : null;
  }

  function drawVerdict(verdict) {
    const { scorer, rule, value, reason, why } = verdict;
    return el("div", { class: "judged" },
      el("p", null, ak.core.verdict(verdict), said(scorer), rule && el("span", { class: "dim" }, " by ", said(rule)),
        isNumber(value) && el("span", { class: "dim" }, ` value ${ak.core.number(value)}`), reason && said(reason, { class: "reason" })),
      why && el("p", null, sentence(capitalize(why))));
  }

  // ── other readings ────────────────────────────────────────────────────────────────────────────────────

  // The rule of the run comes first; other harnesses say a choice, and not where it stands.
  function drawReadings({ readings, extractors, truth }, mark) {
    if (!readings.length) return null;
    const judge = (choice) => choice === null ? "INVALID" : choice === truth ? "right" : "wrong";
    const rules = readings.map((reading, place) => ({ ...reading, isOwn: place === 0, word: judge(reading.choice) }));
    const harnesses = Object.entries(extractors).map(([name, choice]) => ({ name, choice, word: judge(choice) }));
    return station("How each rule reads it",
      drawReadingTable("Readings by rules", rules, mark),
      harnesses.length > 0 && el("details", null,
        el("summary", null, `As other harnesses read it: ${countWords(harnesses)}`),
        drawReadingTable("Readings by other harnesses", harnesses, mark)));
  }

  function drawReadingTable(caption, readings, mark) {
    const heads = ["rule", "reads", unseen("in the text")].map((name) => el("th", { scope: "col" }, name));
    return el("div", { class: "sideways", tabindex: "0", role: "group", "aria-label": caption }, el("table", { class: "plain readings" },
      el("caption", { class: "unseen" }, caption), el("thead", null, el("tr", null, heads)),
      el("tbody", null, readings.map((reading) => drawReading(reading, mark)))));
  }

  function drawWord(word) {
    const sign = { right: "✓", wrong: "✗" }[word];
    return sign ? [ak.core.sign(sign), unseen(word)] : word;
  }

  // `5 right, 2 wrong`, in the order in which they come.
  function countWords(readings) {
    const counts = new Map();
    for (const { word } of readings) counts.set(word, (counts.get(word) || 0) + 1);
    return [...counts].map(([word, number]) => `${number} ${word}`).join(", ");
  }

  function drawReading(reading, mark) {
    const show = { type: "button", class: "quiet", on: { click: () => mark(reading.span, reading.name) } };
    const place = reading.span
      ? el("button", show, "mark", unseen(` what ${ak.core.makeVisible(reading.name)} read`))
      : el("span", { class: "dim" }, reading.part ? said(reading.part) : "–");
    return el("tr", { class: reading.isOwn ? "is-own" : null },
      el("th", { scope: "row" }, said(reading.name), reading.isOwn && el("span", { class: "dim" }, " (this run)")),
      el("td", null, reading.choice !== null && [el("b", null, said(reading.choice)), " "], drawWord(reading.word)), el("td", null, place));
  }

  // ── text ──────────────────────────────────────────────────────────────────────────────────────────────

  // Text as it is, line by line; hidden characters written out.
  function drawText(text) {
    return el("div", { class: "text", dir: "auto" }, writeHidden(text));
  }

  // A text in pieces: what decided, answers that are stated elsewhere in it, and thoughts, which are folded. Spans count
  // characters, not UTF-16 units.
  function cutText(text, decided, { stated = [], folded = [] }) {
    const characters = Array.from(text);
    const marks = decided ? [{ span: decided, isDeciding: true }] : [];
    for (const one of stated) if (!marks.some(({ span }) => span[0] < one.span[1] && one.span[0] < span[1])) marks.push(one);
    marks.sort((one, other) => one.span[0] - other.span[0]);
    return listPieces(0, characters.length, folded.map((span) => ({ span, isFolded: true })), (from, to) =>
      listPieces(from, to, marks, (start, end) => writeHidden(characters.slice(start, end).join(""))));

    function listPieces(from, to, parts, write) {
      const pieces = [];
      let at = from;
      for (const part of parts.filter(({ span }) => span[0] >= from && span[1] <= to)) {
        pieces.push(write(at, part.span[0]), drawPiece(part, write));
        at = part.span[1];
      }
      return [...pieces, write(at, to)];
    }

    function drawPiece({ span: [start, end], isFolded, isDeciding, choices }, write) {
      const content = write(start, end);
      if (isFolded) return foldThought(characters.slice(start, end).join(""), content, end - start === characters.length || (decided && decided[0] < end && decided[0] >= start));
      const title = isDeciding ? "what decided" : `also stated: ${choices.length ? ak.core.makeVisible(choices.join(", ")) : "none of the choices"}`;
      return el("mark", { class: isDeciding ? null : "is-other", title }, content);
    }
  }

  function writeHidden(text) {
    const pieces = text.split(new RegExp(`(${ak.core.HIDDEN.source})`, "u"));
    return pieces.map((piece, i) => (i % 2 ? el("span", { class: "hidden-character" }, ak.core.writeOut(piece)) : piece));
  }

  // A completion in which a span can be marked: {element, told, mark(span, by), reveal()}. `about` has what else is
  // marked or folded; `isBrief` where the page says elsewhere what decided.
  function drawMarked(text, span, about = {}) {
    const element = el("div", { class: "text completion is-long", dir: "auto", tabindex: "0", role: "group", "aria-label": "Completion" });
    const told = el("p", { class: "small dim", role: "status" });
    if (text !== null) mark(span, null);
    return { element, told, mark, reveal };

    function mark(wanted, by) {
      element.replaceChildren(...cutText(text, wanted, about).flat(Infinity));
      const others = element.querySelectorAll("mark.is-other").length;
      const words = about.isBrief && !by ? [] : sayMarked(wanted ? Array.from(text).slice(...wanted).join("") : null, by);
      told.replaceChildren(...words, others ? ` Dotted: ${counted(others, "more stated answer")}.` : "");
      if (by) reveal();
    }

    // Scrolls the text, and nothing around it, to what decided.
    function reveal() {
      const found = element.querySelector("mark:not(.is-other)");
      if (!found) return;
      const [inner, outer] = [found.getBoundingClientRect(), element.getBoundingClientRect()];
      if (inner.bottom > outer.bottom) element.scrollTop += inner.top - outer.top - element.clientHeight / 2;
    }
  }

  function sayMarked(part, by) {
    if (part === null) return ["Nothing in it decided: the rule reads no choice."];
    return [by ? `Read by ${ak.core.makeVisible(by)}: “` : "Decided by “", said(part), "”."];
  }

  // ── the row ───────────────────────────────────────────────────────────────────────────────────────────

  function drawFields({ fields }) {
    if (!fields.length) return null;
    return fold(`The dataset row, ${counted(fields.length, "column")}`, el("dl", { class: "fields" }, fields.map(({ name, text }) =>
      el("div", null, el("dt", null, said(name)), el("dd", null, drawText(text))))));
  }

  ak.sample = { makePane, drawText, drawMarked };
})();
