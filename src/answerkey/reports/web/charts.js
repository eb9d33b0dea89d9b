// Figures: pure functions from numbers to tables with drawings, and to drawings with a table beside them.
//
// A figure that has one row per thing is a table whose middle column is drawn: the same numbers stand in the
// cells beside it, so that it needs no second form for those who cannot see it. Positions are percentages of
// the cell, so that a figure takes whatever width there is without stretching its letters.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, svg, link, said, unseen, isNumber, count, percent, number, precision } = ak.core;
  // A longer table shows so many rows at both ends.
  const FEW_ROWS = 24;
  const SHOWN_ENDS = 10;

  // ── scales ────────────────────────────────────────────────────────────────────────────────────────────

  function makeScale(low, high) {
    const width = high - low || 1;
    const share = (value) => Math.min(1, Math.max(0, (value - low) / width));
    return { low, high, share, place: (value) => `${round(100 * share(value))}%` };
  }

  function round(value) {
    return Math.round(value * 1000) / 1000;
  }

  // About `wanted` round numbers from low to high, the ends among them.
  function listTicks(low, high, wanted = 5) {
    const step = pickStep((high - low) / wanted);
    const ticks = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) ticks.push(round6(at * step));
    return ticks;
  }

  function round6(value) {
    return Number(value.toPrecision(6));
  }

  function pickStep(rough) {
    const power = 10 ** Math.floor(Math.log10(rough || 1));
    return power * ([1, 2, 2.5, 5, 10].find((one) => one * power >= rough) || 10);
  }

  // Round ends of an axis that fits the data; differences have zero in the middle.
  function span(rows, { isShare, isDifference }) {
    const values = rows.flatMap((row) => [row.value, ...(row.interval || [])]).filter(isNumber);
    if (isDifference) {
      const most = Math.max(...values.map(Math.abs), isShare ? 0.005 : 1e-6) * 1.08;
      return [-most, most];
    }
    if (!values.length) return [0, 1];
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const step = pickStep(Math.max((most - least) / 4, isShare ? 0.005 : Math.abs(most) / 100 || 1e-6));
    const [low, high] = [Math.floor(least / step - 0.1) * step, Math.ceil(most / step + 0.1) * step].map(round6);
    return isShare ? [Math.max(0, low), Math.min(1, high)] : [low, high];
  }

  // ── rows of values with intervals ─────────────────────────────────────────────────────────────────────

  // options: caption, rows [{label, note, about, value, interval, n, href, is_own, after: [cells]}], first (heading of the
  // labels), what (heading of the values), isShare, isDifference, reference {value}, after [headings], digits (of all
  // values; each row has its own otherwise), sides [left, right] (what the halves of a difference mean);
  // isBare leaves out all columns after the value. A row that is_level is a mark, not a measurement.
  function forest(options) {
    const settings = { isShare: true, first: "", what: "value", after: [], ...options };
    const scale = makeScale(...span(settings.rows, settings));
    const ticks = listTicks(scale.low, scale.high, settings.isDifference ? 6 : 4);
    const body = el("tbody");
    const table = el("table", { class: "figure forest" }, drawCaption(settings.caption), el("thead", null, drawHead()), body);
    let isFolded = settings.rows.length > FEW_ROWS;
    arrange(settings.rows);
    return table;

    function drawHead() {
      const has = (row) => ({ n: isNumber(row.n), interval: Boolean(row.interval) });
      const told = settings.isBare ? [] : settings.rows.map(has);
      settings.has = { n: told.some((one) => one.n), interval: told.some((one) => one.interval) };
      return el("tr", null,
        heading(settings.first, (row) => row.label),
        head("drawn", unseen("drawn on a scale"), drawAxis(scale, ticks, settings)),
        heading(settings.what, (row) => row.value, "number"),
        settings.has.interval && head("number", "95 % interval"),
        settings.has.n && heading("n", (row) => row.n, "number n-cell"),
        settings.after.map((name) => head("number", name)));
    }

    function heading(name, key, kind) {
      if (settings.rows.length < 3 || settings.isBare) return head(kind, name);
      return makeSorter(name, kind, (isDescending) => arrange(order(settings.rows, key, isDescending)));
    }

    function arrange(rows) {
      const drawn = rows.map((row) => drawRow(row, scale, ticks, settings));
      body.replaceChildren(...drawn);
      if (isFolded) foldMiddle(drawn, () => { isFolded = false; });
    }
  }

  function drawCaption(text) {
    return text ? el("caption", null, text) : null;
  }

  function head(kind, ...children) {
    return el("th", { scope: "col", class: kind }, children);
  }

  function drawRow(row, scale, ticks, settings) {
    const name = said(row.label);
    const digits = settings.digits ?? precision(row.interval, row.n, settings.isShare);
    return el("tr", { class: row.is_own ? "is-own" : null },
      el("th", { scope: "row" }, row.href ? link(row.href, null, name) : name,
        row.note && el("small", null, row.note), row.about && el("small", { class: "about" }, said(row.about))),
      el("td", { class: "drawn" }, drawTrack(row, scale, ticks, settings)),
      el("td", { class: "number" }, sayValue(row.value, settings, digits)),
      settings.has.interval && el("td", { class: "number dim reach-cell" }, ak.core.interval(row.interval, settings.isShare, digits)),
      settings.has.n && el("td", { class: "number dim n-cell" }, count(row.n)),
      (row.after || []).map((cell, i) => el("td", { class: `number dim after-${i}`, "data-name": `${settings.after[i]} ` }, cell)));
  }

  function sayValue(value, { isShare, isDifference }, digits) {
    return isDifference ? ak.core.difference(value, isShare, digits) : ak.core.figure(value, isShare, digits);
  }

  // Whether a line for a reference is drawn: only where the axis, which fits its rows, reaches it.
  function isOnAxis(reference, rows) {
    return reaches(makeScale(...span(rows, { isShare: true })), reference);
  }

  function reaches({ low, high }, reference) {
    return Boolean(reference) && isNumber(reference.value) && reference.value >= low && reference.value <= high;
  }

  function drawTrack(row, scale, ticks, { reference, isDifference }) {
    const zero = isDifference ? [drawLine(scale.place(0), "zero")] : [];
    const told = reaches(scale, reference) ? [drawLine(scale.place(reference.value), "reference")] : [];
    return svg("svg", { class: "track", "aria-hidden": "true", focusable: "false" },
      ticks.map((tick) => drawLine(scale.place(tick), "grid")), zero, told,
      row.interval && drawReach(row.interval, scale),
      isNumber(row.value) && drawPoint(scale.place(row.value), row));
  }

  function drawLine(x, kind) {
    return svg("line", { class: kind, x1: x, x2: x, y1: "0", y2: "100%" });
  }

  function drawReach([low, high], scale) {
    const [start, end] = [scale.place(low), scale.place(high)];
    const caps = [start, end].map((x) => svg("svg", { x, y: "50%", overflow: "visible" }, svg("line", { class: "reach", y1: -5, y2: 5 })));
    return [svg("line", { class: "reach", x1: start, x2: end, y1: "50%", y2: "50%" }), caps];
  }

  // What is meant is a diamond, what it is held against a ring, a level a bar: shapes differ, not only colours.
  function drawPoint(x, { is_own, is_level }) {
    const shape = is_own
      ? svg("path", { class: "point own", d: "M0-7.5 7.5 0 0 7.5-7.5 0Z" })
      : is_level ? svg("line", { class: "level", y1: -8, y2: 8 }) : svg("circle", { class: "point", r: 4.5 });
    return svg("svg", { x, y: "50%", overflow: "visible" }, shape);
  }

  function drawAxis(scale, ticks, { isShare, isDifference, reference, sides }) {
    const say = (value) => (isShare ? Number((100 * value).toPrecision(3)) : number(value)).toString().replace("-", "\u2212");
    const texts = ticks.map((tick) => drawTick(scale.share(tick), say(tick) + (isShare && !isDifference ? " %" : "")));
    const mark = reaches(scale, reference) && svg("svg", { x: scale.place(reference.value), y: "100%", overflow: "visible" },
      svg("path", { class: "reference-mark", d: "M-5-7H5L0 0Z" }));
    const named = sides && [["0%", "start", `← ${sides[0]}`], ["100%", "end", `${sides[1]} →`]].map(([x, anchor, words]) =>
      svg("text", { class: "side", x, y: "-0.9em", "text-anchor": anchor }, words));
    return svg("svg", { class: `axis${sides ? " has-sides" : ""}`, "aria-hidden": "true", focusable: "false" }, named, texts, mark);
  }

  function drawTick(share, text) {
    const anchor = share < 0.04 ? "start" : share > 0.96 ? "end" : "middle";
    return svg("text", { x: `${round(100 * share)}%`, y: "0.8em", "text-anchor": anchor }, text);
  }

  // One difference on an axis of its own around zero; the numbers stand beside it.
  function drawAlone(row, { isShare, sides }) {
    const settings = { isShare, isDifference: true, sides };
    const scale = makeScale(...span([row], settings));
    const ticks = listTicks(scale.low, scale.high, 6);
    return el("div", { class: "alone", "aria-hidden": "true" }, drawAxis(scale, ticks, settings),
      el("div", { class: "drawn" }, drawTrack({ ...row, is_own: true }, scale, ticks, settings)));
  }

  // ── sorting and folding ───────────────────────────────────────────────────────────────────────────────

  function order(rows, key, isDescending) {
    const sign = isDescending ? -1 : 1;
    return [...rows].sort((one, other) => compareKeys(key(one), key(other), sign));
  }

  // What has no value comes last, whichever way the others go.
  function compareKeys(one, other, sign) {
    if (one === null || one === undefined) return other === null || other === undefined ? 0 : 1;
    if (other === null || other === undefined) return -1;
    return one < other ? -sign : one > other ? sign : 0;
  }

  function makeSorter(name, kind, sort) {
    const head = el("th", { scope: "col", class: kind, "aria-sort": "none" });
    head.append(el("button", { type: "button", class: "sorter", on: { click: turn } }, name));
    return head;

    function turn() {
      const isDescending = head.getAttribute("aria-sort") !== "descending";
      for (const other of head.parentNode.children) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      sort(isDescending);
    }
  }

  // Of a long table the rows between both ends wait behind a button; print shows all of them.
  function foldMiddle(rows, opened) {
    const between = rows.slice(SHOWN_ENDS, -SHOWN_ENDS);
    const open = () => {
      for (const row of between) row.classList.remove("is-between");
      divider.remove();
      opened();
    };
    const button = el("button", { type: "button", class: "quiet", on: { click: open } }, `Show the ${count(between.length)} rows between`);
    const divider = el("tr", { class: "divider" }, el("td", { colspan: rows[0].children.length }, button));
    for (const row of between) row.classList.add("is-between");
    between[0].before(divider);
  }

  // A table that may be wider than its place: it scrolls by itself, and its edge fades where there is more.
  function sideways(label, table) {
    const box = el("div", { class: "sideways", tabindex: "0", role: "group", "aria-label": label, on: { scroll: look } }, table);
    const hint = el("p", { class: "scroll-hint", "aria-hidden": "true" }, "Scrolls sideways →");
    new ResizeObserver(look).observe(box);
    return el("div", { class: "cut" }, box, hint);

    function look() {
      const rest = box.scrollWidth - box.clientWidth;
      box.classList.toggle("has-left", box.scrollLeft > 2);
      box.classList.toggle("has-right", rest - box.scrollLeft > 2);
      hint.hidden = rest <= 2;
    }
  }

  // ── counts ────────────────────────────────────────────────────────────────────────────────────────────

  // options: caption, first, headings, rows [{label, href, counts: [most, … least]}]: nested bars, widest first.
  function bars({ caption, first, headings, rows }) {
    const most = Math.max(1, ...rows.map((row) => row.counts[0] || 0));
    const scale = makeScale(0, most);
    return sideways(first, el("table", { class: "figure bars" }, drawCaption(caption),
      el("thead", null, el("tr", null, head(null, first), head("drawn", unseen("drawn on a scale")),
        headings.map((name, level) => head("number", drawSwatch(level), name)))),
      el("tbody", null, rows.map((row) => el("tr", null,
        el("th", { scope: "row" }, row.href ? link(row.href, null, said(row.label)) : said(row.label)),
        el("td", { class: "drawn" }, svg("svg", { class: "track", "aria-hidden": "true", focusable: "false" },
          row.counts.map((value, level) => drawBar(scale.place(value || 0), level)))),
        row.counts.map((value) => el("td", { class: "number" }, count(value))))))));
  }

  function drawBar(width, level) {
    return svg("rect", { class: `bar level-${level}`, x: "0", width, y: `${28 + 6 * level}%`, height: `${44 - 12 * level}%` });
  }

  function drawSwatch(level) {
    return svg("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" },
      svg("rect", { class: `bar level-${level}`, width: 10, height: 10 }));
  }

  // One bar cut into parts; the parts' names and numbers are told by whoever draws it.
  function segments(parts) {
    const total = parts.reduce((sum, part) => sum + part.count, 0) || 1;
    let done = 0;
    const rects = parts.filter((part) => part.count).map((part) => {
      const x = `${round((100 * done) / total)}%`;
      done += part.count;
      return svg("rect", { class: `segment is-${part.kind}`, x, y: 0, height: "100%", width: `${round((100 * part.count) / total)}%` });
    });
    return svg("svg", { class: "segments", "aria-hidden": "true", focusable: "false" }, rects);
  }

  // ── letters, true against predicted ───────────────────────────────────────────────────────────────────

  // letters {true, predicted, counts}; `address(truth, predicted)` is where a cell leads, or null.
  function heat(letters, { caption, address }) {
    const sums = letters.counts.map((row) => row.reduce((sum, one) => sum + one, 0));
    const size = letters.predicted.length > 8 ? " is-large" : "";
    return sideways("Confusion matrix", el("table", { class: `figure heat${size}` }, drawCaption(caption),
      el("thead", null,
        el("tr", null, el("td"), el("th", { scope: "colgroup", colspan: letters.predicted.length }, "predicted, % of the truth"), el("td")),
        el("tr", null, head(null, "truth"), letters.predicted.map((name) => head(name === "INVALID" ? "cell is-apart" : "cell", said(name))), head("number", "all"))),
      el("tbody", null, letters.true.map((truth, i) => el("tr", null,
        el("th", { scope: "row" }, said(truth)),
        letters.predicted.map((name, j) => drawCell(letters.counts[i][j], sums[i], truth, name, address)),
        el("td", { class: "number dim" }, count(sums[i])))))));
  }

  function drawCell(value, sum, truth, name, address) {
    const share = sum ? value / sum : 0;
    const path = value && address ? address(truth, name) : null;
    const about = `truth ${ak.core.makeVisible(truth)}, predicted ${ak.core.makeVisible(name)}: ${count(value)}, ${percent(share, precision(null, sum))}`;
    const inner = [el("span", { class: "share" }, value ? Math.round(100 * share) : "·"), value > 0 && el("small", null, count(value))];
    const kinds = [`cell heat-${Math.min(9, Math.floor(share * 10))}`, truth === name && "is-diagonal", name === "INVALID" && "is-apart"];
    return el("td", { class: kinds.filter(Boolean).join(" ") }, path ? link(path, { "aria-label": about }, inner) : inner);
  }

  // ── reliability ───────────────────────────────────────────────────────────────────────────────────────

  const SIDE = 320;
  const EDGE = 40;

  function curve({ bins, caption, title }) {
    const at = (share) => round(EDGE + share * SIDE);
    const up = (share) => round(10 + SIDE - share * SIDE);
    const seen = bins.filter((bin) => bin.n);
    const most = Math.max(1, ...seen.map((bin) => bin.n));
    const drawing = svg("svg", { class: "curve", viewBox: `0 0 ${EDGE + SIDE + 14} ${SIDE + 56}`, role: "img", "aria-label": title },
      [0, 0.25, 0.5, 0.75, 1].map((tick) => drawCross(tick, at, up)),
      svg("line", { class: "diagonal", x1: at(0), y1: up(0), x2: at(1), y2: up(1) }),
      seen.map((bin) => drawWeight(bin, (0.18 * bin.n) / most, at, up)),
      svg("polyline", { class: "path", points: seen.map((bin) => `${at(bin.confidence)},${up(bin.accuracy)}`).join(" ") }),
      seen.map((bin) => svg("circle", { class: "point", cx: at(bin.confidence), cy: up(bin.accuracy), r: 5 })),
      svg("text", { class: "axis-name", x: at(0.5), y: SIDE + 48, "text-anchor": "middle" }, "confidence"));
    const told = (value, bin) => (isNumber(value) ? percent(value, precision(null, bin.n)) : "–");
    const rows = bins.map((bin) => [
      `${percent(bin.from, 0)} to ${percent(bin.to, 0)}`, told(bin.confidence, bin), told(bin.accuracy, bin), count(bin.n),
    ]);
    return withTable(drawing, caption, ["confidence bin", "mean confidence", "accuracy", "n"], rows);
  }

  // How many samples a bin has, as a bar at the foot of it.
  function drawWeight(bin, share, at, up) {
    const width = round((bin.to - bin.from) * SIDE - 1);
    return svg("rect", { class: "weight", x: at(bin.from), width, y: up(share), height: round(share * SIDE) });
  }

  function drawCross(tick, at, up) {
    return [
      svg("line", { class: "grid", x1: at(tick), x2: at(tick), y1: up(0), y2: up(1) }),
      svg("line", { class: "grid", x1: at(0), x2: at(1), y1: up(tick), y2: up(tick) }),
      svg("text", { x: at(tick), y: up(0) + 18, "text-anchor": "middle" }, `${100 * tick}`),
      svg("text", { x: at(0) - 8, y: up(tick) + 4, "text-anchor": "end" }, `${100 * tick}`),
    ];
  }

  function withTable(drawing, caption, headings, rows) {
    return el("figure", null, drawing, caption && el("figcaption", null, caption),
      el("details", { class: "numbers" }, el("summary", null, "Table"), plainTable(headings, rows)));
  }

  function plainTable(headings, rows, caption) {
    return el("table", { class: "plain" }, drawCaption(caption),
      el("thead", null, el("tr", null, headings.map((name, i) => head(i ? "number" : null, name)))),
      el("tbody", null, rows.map(([first, ...others]) =>
        el("tr", null, el("th", { scope: "row" }, first), others.map((cell) => el("td", { class: "number" }, cell))))));
  }

  // ── a line the size of a word ─────────────────────────────────────────────────────────────────────────

  // values in the order of time, null where there is none; `title` says in words what it shows.
  function sparkline(values, { title = "", low, high } = {}) {
    const known = values.filter(isNumber);
    const scale = makeScale(low ?? Math.min(...known), high ?? Math.max(...known));
    const step = values.length > 1 ? 112 / (values.length - 1) : 0;
    const at = (value, i) => [round(4 + i * step), round(24 - 20 * scale.share(value))];
    const points = values.map((value, i) => (isNumber(value) ? at(value, i) : null)).filter(Boolean);
    const last = points[points.length - 1];
    return svg("svg", { class: "sparkline", viewBox: "0 0 120 28", role: "img", "aria-label": title },
      svg("polyline", { class: "path", points: points.map((point) => point.join(",")).join(" ") }),
      last && svg("circle", { class: "point", cx: last[0], cy: last[1], r: 3.5 }));
  }

  ak.charts = {
    forest, bars, segments, heat, curve, sparkline, plainTable, sideways,
    drawAlone, isOnAxis, listTicks, makeScale, span, drawTrack, drawAxis, compareKeys,
  };
})();
