// Panels with a menu to take a figure along: as a Markdown table, as a PNG picture, as an SVG drawing.
//
// The drawing is made from what is on the screen: texts where they stand, drawings with their colours written
// out, backgrounds and lines of tables. So every figure can be copied without a second way to draw it.
(function () {
  "use strict";
  const ak = window.ak;
  const { el, svg, announce } = ak.core;
  const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "text-anchor"];
  const CLEAR = "rgba(0, 0, 0, 0)";
  const NOT_COPIED = ".copy, .unseen, .scroll-hint, .filters, details.numbers, .divider";

  function panel(title, content, { kind = "", level = "h2", id = null } = {}) {
    const section = el("section", { class: `panel ${kind}`, "aria-labelledby": id });
    section.append(el("header", { class: "panel-head" }, el(level, { id }, title), drawMenu(section)));
    return ak.core.put(section, content);
  }

  function drawMenu(section) {
    const summary = el("summary", null, "Copy", ak.core.unseen(" this figure"));
    const ways = { Markdown: copyMarkdown, PNG: copyPng, SVG: copySvg };
    const menu = el("details", { class: "copy" }, summary, el("div", null, Object.entries(ways).map(([name, copy]) =>
      el("button", { type: "button", class: "quiet", on: { click: () => take(name, copy) } }, `as ${name}`))));
    menu.addEventListener("focusout", (event) => { if (!menu.contains(event.relatedTarget)) menu.open = false; });
    return menu;

    async function take(name, copy) {
      menu.open = false;
      const how = await copy(section);
      announce(`${how} as ${name}`);
      summary.dataset.told = how;
      setTimeout(() => delete summary.dataset.told, 2000);
    }
  }

  // ── Markdown ──────────────────────────────────────────────────────────────────────────────────────────

  function toMarkdown(section) {
    const title = section.querySelector("h1, h2, h3, h4");
    const told = [...section.querySelectorAll(".big, .lead")].map(read);
    const tables = [...section.querySelectorAll("table")].map(writeTable);
    return [title && `**${read(title)}**`, ...told, ...tables].filter(Boolean).join("\n\n") + "\n";
  }

  function writeTable(table) {
    const lines = (rows) => [...rows].filter((row) => !row.matches(".divider")).map(readRow);
    const [head] = lines(table.tHead ? table.tHead.rows : []).slice(-1);
    const body = lines([...table.tBodies, table.tFoot].filter(Boolean).flatMap((part) => [...part.rows]));
    const names = head || body[0].map(() => "");
    const write = (cells) => `| ${cells.join(" | ")} |`;
    const isNumber = [...table.tBodies[0].rows[0].cells].filter((cell) => !cell.matches(".drawn")).map((cell) => cell.matches(".number"));
    return [write(names), write(names.map((_, i) => (isNumber[i] ? "---:" : "---"))), ...body.map(write)].join("\n");
  }

  function readRow(row) {
    return [...row.cells].filter((cell) => !cell.matches(".drawn")).map((cell) => read(cell).replace(/[\\|]/g, "\\$&"));
  }

  function read(element) {
    return readParts(element).replace(/\s+/g, " ").trim();
  }

  function readParts(element) {
    if (element.nodeType === Node.TEXT_NODE) return element.data;
    if (element.nodeType !== Node.ELEMENT_NODE || element.matches(`${NOT_COPIED}, svg, [aria-hidden]`)) return "";
    const isLine = getComputedStyle(element).display !== "inline";
    const text = [...element.childNodes].map(readParts).join("");
    return isLine || element.matches("small") ? ` ${text} ` : text;
  }

  // ── drawings ──────────────────────────────────────────────────────────────────────────────────────────

  function toSvg(section) {
    const box = section.getBoundingClientRect();
    const [width, height] = [Math.ceil(box.width), Math.ceil(box.height)];
    const drawing = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
    const style = getComputedStyle(section);
    drawing.append(svg("rect", { width, height, fill: style.backgroundColor === CLEAR ? getComputedStyle(document.body).backgroundColor : style.backgroundColor }));
    for (const child of section.childNodes) draw(child, drawing, box);
    return new XMLSerializer().serializeToString(drawing);
  }

  function draw(node, drawing, box) {
    if (node.nodeType === Node.TEXT_NODE) return drawText(node, drawing, box);
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(NOT_COPIED)) return null;
    const style = getComputedStyle(node);
    if (style.display === "none" || style.visibility === "hidden") return null;
    const rect = node.getBoundingClientRect();
    const place = { x: rect.left - box.left, y: rect.top - box.top, width: rect.width, height: rect.height };
    if (node.tagName === "svg") return drawing.append(keepLooks(node, place));
    if (style.backgroundColor !== CLEAR) drawing.append(svg("rect", { ...place, fill: style.backgroundColor }));
    if (style.outlineStyle === "solid") drawing.append(svg("rect", { ...place, fill: "none", stroke: style.outlineColor, "stroke-width": style.outlineWidth }));
    if (parseFloat(style.borderTopWidth) && style.borderTopStyle === "solid" && node.tagName === "TR") {
      drawing.append(svg("line", { x1: place.x, x2: place.x + place.width, y1: place.y, y2: place.y, stroke: style.borderTopColor }));
    }
    for (const child of node.childNodes) draw(child, drawing, box);
    return null;
  }

  // Each line of a text, where it stands: words, or letters of a word that is broken, are gathered as long as
  // they are on one height.
  function drawText(node, drawing, box) {
    if (!node.data.trim()) return;
    const style = getComputedStyle(node.parentElement);
    const range = document.createRange();
    const lines = [];
    const gather = (start, text) => {
      range.setStart(node, start);
      range.setEnd(node, start + text.length);
      const rects = range.getClientRects();
      if (!rects.length) return;
      if (rects[rects.length - 1].top - rects[0].top > 3 && text.length > 1) {
        for (const { 0: letter, index } of text.matchAll(/./gsu)) gather(start + index, letter);
        return;
      }
      const last = lines[lines.length - 1];
      if (last && Math.abs(last.rect.top - rects[0].top) < 3) last.text += text;
      else lines.push({ text, rect: rects[0] });
    };
    for (const { 0: word, index } of node.data.matchAll(/\S+\s*/g)) gather(index, word);
    const size = parseFloat(style.fontSize);
    for (const { text, rect } of lines) {
      drawing.append(svg("text", {
        x: rect.left - box.left, y: (rect.top + rect.bottom) / 2 - box.top + 0.35 * size, fill: style.color,
        "font-family": style.fontFamily, "font-size": size, "font-weight": style.fontWeight,
        "letter-spacing": style.letterSpacing === "normal" ? null : style.letterSpacing,
      }, text.replace(/\s+/g, " ").trimEnd()));
    }
  }

  function keepLooks(node, place) {
    const copy = node.cloneNode(true);
    const originals = [node, ...node.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((one, i) => {
      const style = getComputedStyle(originals[i]);
      for (const name of KEPT) one.setAttribute(name, style.getPropertyValue(name));
      one.removeAttribute("class");
    });
    for (const [name, value] of Object.entries({ ...place, overflow: "visible" })) copy.setAttribute(name, value);
    return copy;
  }

  async function toPng(section) {
    const text = toSvg(section);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = el("canvas", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  // ── clipboard, or a file where the browser gives no access to it ──────────────────────────────────────

  function copyMarkdown(section) {
    return copyText(toMarkdown(section), "text/markdown", "figure.md");
  }

  function copySvg(section) {
    return copyText(toSvg(section), "image/svg+xml", "figure.svg");
  }

  async function copyText(text, type, name) {
    try {
      await navigator.clipboard.writeText(text);
      return "Copied";
    } catch {
      return save(new Blob([text], { type }), name);
    }
  }

  async function copyPng(section) {
    const picture = toPng(section);
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
      return "Copied";
    } catch {
      return save(await picture, "figure.png");
    }
  }

  function save(blob, name) {
    const target = el("a", { download: name });
    target.href = URL.createObjectURL(blob);
    target.click();
    setTimeout(() => URL.revokeObjectURL(target.href), 1000);
    return "Saved";
  }

  ak.copy = { panel, toMarkdown, toSvg, toPng };
})();
