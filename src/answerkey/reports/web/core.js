// The ground the pages stand on: elements, words and numbers, routes, announcements, the colour scheme.
//
// Text reaches the page as text nodes and as values of attributes that are named here in the code; nothing
// that comes from data is ever parsed as HTML, as an address or as style.
//
// A page is a module with `show(place, route)`: it fills the empty element `place` and may return
// `{title, keys(event) → whether it took the key, leave()}`. `ak.source` is where runs come from.
(function () {
  "use strict";
  const ak = (window.ak = window.ak || {});
  const SVG = "http://www.w3.org/2000/svg";
  const REFUSED = /^(on|style$|src|srcdoc$|action$|formaction$)/;

  // ── elements ──────────────────────────────────────────────────────────────────────────────────────────

  function el(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }

  function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
  }

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "on") listen(element, value);
      else if (value !== null && value !== undefined && value !== false) set(element, name, value);
    }
    return put(element, children);
  }

  function put(element, ...children) {
    element.append(...children.flat(Infinity).filter(isShown));
    return element;
  }

  function isShown(child) {
    return child !== null && child !== undefined && child !== false && child !== "";
  }

  function set(element, name, value) {
    if (REFUSED.test(name) && !(name === "src" && isImage(value))) throw new Error(`the attribute ${name} is not set here`);
    if (name === "href" && !String(value).startsWith("#")) throw new Error("links stay on this page");
    element.setAttribute(name, value === true ? "" : String(value));
  }

  // Only bytes of these types may be shown; whatever else `src` names would be fetched.
  function isImage(value) {
    return /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/.test(value || "");
  }

  function listen(element, handlers) {
    for (const [name, handler] of Object.entries(handlers)) element.addEventListener(name, handler);
  }

  function link(path, attributes, ...children) {
    return el("a", { ...attributes, href: `#${path}` }, ...children);
  }

  // Words that a screen reader says and nobody sees.
  function unseen(...children) {
    return el("span", { class: "unseen" }, ...children);
  }

  // ── text from data ────────────────────────────────────────────────────────────────────────────────────

  // Control characters, bidi and invisible marks, lone surrogates and tag characters. The joiners U+200C and
  // U+200D stay: scripts and emoji need them.
  const HIDDEN =
    /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/u;
  const HIDDEN_OR_SPACE = new RegExp(`[\\t\\n]|${HIDDEN.source}`, "gu");
  const NAMED = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

  function writeOut(character) {
    const code = character.codePointAt(0);
    if (NAMED[character]) return NAMED[character];
    if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  }

  function makeVisible(text) {
    return String(text).replace(HIDDEN_OR_SPACE, writeOut);
  }

  // A value from data within a line: hidden characters written out, its direction kept to itself.
  function said(text, attributes) {
    return el("bdi", attributes, makeVisible(text));
  }

  // A sentence of ours, in which names and commands stand between backticks.
  function sentence(text) {
    const pieces = String(text).split(/`([^`]+)`/);
    return pieces.map((piece, i) => (i % 2 ? el("code", null, said(piece)) : piece && said(piece)));
  }

  function capitalize(text) {
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  function banner(text) {
    return el("p", { class: "banner" }, sign("!"), el("span", null, sentence(capitalize(text))));
  }

  // A sign for the eyes; the word beside it says the same.
  function sign(character) {
    return el("span", { class: "sign", "aria-hidden": "true" }, character);
  }

  // ── numbers ───────────────────────────────────────────────────────────────────────────────────────────

  const MINUS = "\u2212";
  const SPACE = "\u00a0";
  const GROUPED = new Intl.NumberFormat("en-US");

  function isNumber(value) {
    return typeof value === "number" && Number.isFinite(value);
  }

  function count(value) {
    return isNumber(value) ? GROUPED.format(value) : "–";
  }

  function counted(value, noun) {
    return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
  }

  // How many decimals a measured value has, the same rule everywhere: the last one is the first digit of the
  // half-width of its interval, so that 125 samples give 70 % [62, 78] and 14,014 give 85.0 % [84.4, 85.6].
  // Without an interval the half-width is the largest that `n` samples can have. Shares count in per cent.
  function precision(reach, n, isShare = true) {
    const unit = isShare ? 100 : 1;
    const half = reach ? (unit * (reach[1] - reach[0])) / 2 : isShare && n > 0 ? 98 / Math.sqrt(n) : 0;
    if (!(half > 0)) return isShare ? 1 : null;
    let digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(half))));
    // An end that is not zero does not read as zero: whether an interval excludes it is what people look for.
    const hides = (end) => end !== 0 && Number((unit * end).toFixed(digits)) === 0;
    if (reach && reach[0] * reach[1] > 0) while (digits < 6 && reach.some(hides)) digits += 1;
    return digits;
  }

  function percent(share, digits = 1) {
    return isNumber(share) ? `${sayRounded(100 * share, digits)}${SPACE}%` : "no value";
  }

  // Rounded, and never as a negative zero.
  function sayRounded(value, digits) {
    const text = value.toFixed(digits);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", MINUS);
  }

  function number(value, digits = null) {
    if (!isNumber(value)) return "no value";
    if (digits !== null && Math.abs(value) < 1e6) return sayRounded(value, digits);
    const text = Number.isInteger(value) ? GROUPED.format(value) : String(Number(value.toPrecision(6)));
    return text.replace("-", MINUS);
  }

  function figure(value, isShare, digits) {
    return isShare ? percent(value, digits ?? 1) : number(value, digits);
  }

  function interval(pair, isShare = true, digits = precision(pair, 0, isShare)) {
    if (!pair) return "";
    const [low, high] = pair.map((one) => (isShare ? sayRounded(100 * one, digits) : number(one, digits)));
    return `[${low}, ${high}]`;
  }

  function difference(value, isShare = true, digits = null) {
    if (!isNumber(value)) return "no value";
    const size = isShare ? sayRounded(Math.abs(100 * value), digits ?? 1) : number(Math.abs(value), digits);
    const sign = Number(size) === 0 ? "" : value < 0 ? MINUS : "+";
    return `${sign}${size}${isShare ? " points" : ""}`;
  }

  function probability(p) {
    if (!isNumber(p)) return "–";
    return p < 0.001 ? "< 0.001" : p.toFixed(p < 0.1 ? 3 : 2);
  }

  function sayIs(p) {
    const words = probability(p);
    return words.startsWith("<") ? words : `= ${words}`;
  }

  function seconds(value) {
    if (!isNumber(value)) return "–";
    if (value < 1) return `${Math.round(1000 * value)}${SPACE}ms`;
    if (value < 60) return `${Number(value.toPrecision(3))}${SPACE}s`;
    const whole = Math.round(value);
    const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
    return hours ? `${hours}${SPACE}h ${minutes}${SPACE}min` : `${minutes}${SPACE}min ${whole % 60}${SPACE}s`;
  }

  // `2024-05-01T12:00:00Z` as `2024-05-01 12:00 UTC`; anything else as it is.
  function moment(text) {
    const found = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})[\d:.]*(Z|\+00:00)?/.exec(text || "");
    return found ? `${found[1]} ${found[2]}${found[3] ? " UTC" : ""}` : text || "";
  }

  // ── verdicts ──────────────────────────────────────────────────────────────────────────────────────────

  // Each verdict has a word, a sign and a class; none is told by colour alone.
  const VERDICTS = {
    right: { word: "right", sign: "✓" },
    wrong: { word: "wrong", sign: "✗" },
    invalid: { word: "INVALID", sign: "∅" },
    failed: { word: "FAILED", sign: "!" },
    error: { word: "ERROR", sign: "!" },
    partial: { word: "scored", sign: "~" },
  };

  function judge(row) {
    if (row.status === "FAILED") return "failed";
    if (row.status !== "SCORED") return "error";
    if (row.validity === "INVALID") return "invalid";
    if (row.value === 1) return "right";
    return row.value === 0 ? "wrong" : "partial";
  }

  function verdict(row) {
    const kind = judge(row);
    const found = VERDICTS[kind];
    return el("span", { class: `verdict is-${kind}` }, sign(found.sign), el("span", { class: "word" }, kind === "partial" ? number(row.value) : found.word));
  }

  // ── routes ────────────────────────────────────────────────────────────────────────────────────────────

  // `#/run/r0/1/samples?show=wrong` as {page, run, task, id, ids, query}; null for what is no route.
  function parseRoute(hash) {
    const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
    const parts = path.split("/").slice(1).map(decode);
    if (parts.includes(null)) return null;
    const about = { query: new URLSearchParams(query), path: hash.replace(/^#/, "") };
    if (path === "" || path === "/") return { page: "home", ...about };
    if (parts[0] === "compare" && parts.length === 2) return { page: "compare", ids: parts[1].split(","), ...about };
    return parts[0] === "run" ? parseRunRoute(parts, about) : null;
  }

  function parseRunRoute([, run, task, page = "overview", id], about) {
    const isTask = /^\d+$/.test(task || "");
    const isPage = id === undefined ? ["overview", "samples"].includes(page) : page === "sample";
    return run && isTask && isPage ? { page, run, task: Number(task), id, ...about } : null;
  }

  function decode(part) {
    try {
      return decodeURIComponent(part);
    } catch {
      return null;
    }
  }

  function makeRoute(parts, query) {
    const path = parts.map((part) => encodeURIComponent(part)).join("/");
    const kept = Object.entries(query || {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
    const tail = new URLSearchParams(kept).toString();
    return `/${path}${tail ? `?${tail}` : ""}`;
  }

  function go(path) {
    location.hash = path;
  }

  // The same without a step in the history.
  function swap(path) {
    location.replace(`#${path}`);
  }

  // Keeps the address true to what is shown, without a step in the history.
  function note(path) {
    history.replaceState(history.state, "", `#${path}`);
  }

  // ── announcements and colours ─────────────────────────────────────────────────────────────────────────

  function announce(text) {
    const region = document.getElementById("ak-live");
    if (region) region.textContent = text;
  }

  const THEMES = ["auto", "light", "dark"];
  const THEME_KEY = "answerkey-theme";

  function readTheme() {
    const kept = recall(THEME_KEY);
    return THEMES.includes(kept) ? kept : "auto";
  }

  function setTheme(theme) {
    document.documentElement.setAttribute("data-theme", theme);
    remember(THEME_KEY, theme);
  }

  // Storage may be closed to pages that are opened from disk; what is chosen then lasts as long as the page.
  function recall(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  }

  function remember(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      return;
    }
  }

  ak.core = {
    el, svg, put, link, unseen, said, sentence, capitalize, banner, sign, isImage, makeVisible, writeOut, HIDDEN,
    isNumber, count, counted, precision, percent, number, figure, interval, difference, probability, sayIs, seconds, moment,
    judge, verdict, VERDICTS,
    parseRoute, makeRoute, go, swap, note,
    announce, THEMES, readTheme, setTheme, recall, remember,
  };
})();
