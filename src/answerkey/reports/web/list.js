// A table of any length of which only the rows in sight are in the page.
//
// Rows have one height. Above and below those that are drawn, a spacer is as high as the rows it stands for.
// Browsers bound the height of an element: a longer table is scrolled through on a smaller scale.
(function () {
  "use strict";
  const ak = window.ak;
  const { el } = ak.core;
  const PAGE = 100;
  const MOST_PAGES = 40;
  const BEYOND = 8;
  const HIGHEST = 12e6;

  // options: label, caption, headings [th], load(offset, limit) → Promise of {total, rows}, draw(row, index) → [cells]
  // with one link in it, told(total). Returns {element, renew(index), go(step), show(index), row(index) → Promise, index(), leave()}.
  function makeList({ label, caption, headings, load, draw, told }) {
    const [above, below] = [makeSpacer(), makeSpacer()];
    const body = el("tbody", null, above, below);
    const probe = el("div", { class: "row-probe", "aria-hidden": "true" });
    const table = el("table", { class: "rows", "aria-rowcount": -1 }, el("caption", { class: "unseen" }, caption),
      el("thead", null, el("tr", { "aria-rowindex": 1 }, headings)), body);
    const on = { scroll: redrawSoon, focusin: onFocus, keydown: onKey };
    const frame = el("div", { class: "list", tabindex: "0", role: "group", "aria-label": label, on }, probe, table);
    const state = { total: 0, active: 0, version: 0, pages: new Map(), drawn: new Map(), isDue: false, isFocusDue: false };
    const watcher = new ResizeObserver(redrawSoon);
    watcher.observe(frame);
    return { element: frame, renew, go, show, row, index: () => state.active, leave: () => watcher.disconnect() };

    // ── loading ─────────────────────────────────────────────────────────────────────────────────────────

    async function renew(index = 0) {
      const version = (state.version += 1);
      const page = Math.floor(index / PAGE);
      const found = await load(page * PAGE, PAGE);
      if (version !== state.version) return;
      state.pages = new Map([[page, found.rows]]);
      setTotal(found.total);
      state.active = Math.min(index, Math.max(0, state.total - 1));
      clear();
      show(state.active);
    }

    function setTotal(total) {
      state.total = total;
      table.setAttribute("aria-rowcount", String(total + 1));
      told(total);
    }

    async function fetchPage(page) {
      const { version, pages } = state;
      pages.set(page, null);
      try {
        const { rows } = await load(page * PAGE, PAGE);
        if (version !== state.version) return;
        pages.set(page, rows);
        forgetFar(page);
        fillWaiting(page);
      } catch {
        pages.delete(page);
      }
    }

    function forgetFar(page) {
      if (state.pages.size <= MOST_PAGES) return;
      const far = [...state.pages.keys()].sort((one, other) => Math.abs(other - page) - Math.abs(one - page));
      state.pages.delete(far[0]);
    }

    function fillWaiting(page) {
      for (const [index, row] of state.drawn) {
        if (Math.floor(index / PAGE) !== page || !row.classList.contains("is-waiting")) continue;
        state.drawn.set(index, drawRow(index));
        row.replaceWith(state.drawn.get(index));
      }
      settleFocus();
    }

    function find(index) {
      const rows = state.pages.get(Math.floor(index / PAGE));
      if (rows === undefined) fetchPage(Math.floor(index / PAGE));
      return rows ? rows[index % PAGE] : null;
    }

    async function row(index) {
      const known = state.pages.get(Math.floor(index / PAGE));
      return known ? known[index % PAGE] : (await load(index, 1)).rows[0];
    }

    // ── measuring ───────────────────────────────────────────────────────────────────────────────────────

    function measure() {
      const height = probe.offsetHeight || 40;
      const view = Math.max(height, frame.clientHeight - (table.tHead.offsetHeight || 0));
      const whole = state.total * height;
      const shown = Math.min(whole, HIGHEST);
      const most = Math.max(0, shown - view);
      return { height, shown, most, top: Math.max(0, frame.scrollTop), isScaled: whole > HIGHEST, fit: view / height };
    }

    // The first row in sight, with the part of it that is above.
    function findFirst({ height, most, top, isScaled, fit }) {
      return isScaled ? Math.min(1, top / most) * (state.total - fit) : top / height;
    }

    // Brings a row into sight, to the middle if it is far.
    function reveal(index) {
      const size = measure();
      const first = findFirst(size);
      if (index >= first && index + 1 <= first + size.fit) return;
      const isFar = index < first - 2 || index > first + size.fit + 1;
      const wanted = Math.max(0, isFar ? index - size.fit / 2 : index < first ? index : index + 1 - size.fit);
      frame.scrollTop = size.isScaled ? (wanted / (state.total - size.fit)) * size.most : wanted * size.height;
    }

    // ── drawing ─────────────────────────────────────────────────────────────────────────────────────────

    function redrawSoon() {
      if (state.isDue) return;
      state.isDue = true;
      requestAnimationFrame(redraw);
    }

    function redraw() {
      state.isDue = false;
      const size = measure();
      const first = findFirst(size);
      const start = Math.max(0, Math.floor(first) - BEYOND);
      const end = Math.min(state.total, Math.ceil(first + size.fit) + BEYOND);
      for (const index of [...state.drawn.keys()]) if (index < start || index >= end) drop(index);
      let last = above;
      for (let index = start; index < end; index += 1) last = place(index, last);
      const over = size.isScaled ? Math.max(0, size.top - (first - start) * size.height) : start * size.height;
      setHeight(above, over);
      setHeight(below, Math.max(0, size.shown - over - (end - start) * size.height));
      // While rows came and went the table may have been shorter, and the browser have scrolled it back.
      if (frame.scrollTop !== size.top) frame.scrollTop = size.top;
      settleFocus();
    }

    // Rows that are there already stay where they are, and with them the focus.
    function place(index, before) {
      if (!state.drawn.has(index)) state.drawn.set(index, drawRow(index));
      const row = state.drawn.get(index);
      if (before.nextSibling !== row) before.after(row);
      return row;
    }

    function drawRow(index) {
      const found = find(index);
      const cells = found ? draw(found, index) : [el("td", null, "…")];
      const row = el("tr", { "aria-rowindex": index + 2, class: found ? null : "is-waiting", on: { click: onClick } }, cells);
      row.dataset.index = String(index);
      markActive(row, index === state.active);
      return row;
    }

    function clear() {
      for (const index of [...state.drawn.keys()]) drop(index);
    }

    // The focus stays in the list when the row that has it goes out of sight.
    function drop(index) {
      const row = state.drawn.get(index);
      if (row.contains(document.activeElement)) frame.focus({ preventScroll: true });
      row.remove();
      state.drawn.delete(index);
    }

    function setHeight(spacer, height) {
      spacer.firstChild.style.height = `${height}px`;
      spacer.hidden = height <= 0;
    }

    // ── moving ──────────────────────────────────────────────────────────────────────────────────────────

    function markActive(row, isActive) {
      row.classList.toggle("is-active", isActive);
      const target = row.querySelector("a");
      if (target) target.setAttribute("tabindex", isActive ? "0" : "-1");
    }

    function activate(index) {
      const before = state.drawn.get(state.active);
      if (before) markActive(before, false);
      state.active = index;
      const row = state.drawn.get(index);
      if (row) markActive(row, true);
    }

    function settleFocus() {
      if (state.isFocusDue && document.activeElement === frame) focusRow(state.active);
    }

    // A row that is still to come gets the focus when it is there, unless it has moved on by then.
    function focusRow(index) {
      const row = state.drawn.get(index);
      const target = row && row.querySelector("a");
      (target || frame).focus({ preventScroll: true });
      state.isFocusDue = !target;
    }

    function go(step) {
      if (!state.total) return;
      show(Math.min(state.total - 1, Math.max(0, state.active + step)));
      focusRow(state.active);
    }

    // Only what is as high as its rows can be scrolled to one of them.
    function show(index) {
      activate(index);
      redraw();
      reveal(index);
      redraw();
    }

    function onFocus(event) {
      const row = event.target.closest("tr[data-index]");
      if (row) activate(Number(row.dataset.index));
    }

    // A click anywhere in a row is a click on its link, unless text is being marked.
    function onClick(event) {
      const target = event.currentTarget.querySelector("a");
      if (!target || event.target.closest("a") || String(getSelection())) return;
      activate(Number(event.currentTarget.dataset.index));
      target.click();
    }

    function onKey(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const page = Math.max(1, Math.floor(measure().fit) - 1);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -state.total, End: state.total };
      if (!(event.key in steps)) return;
      event.preventDefault();
      go(steps[event.key]);
    }
  }

  function makeSpacer() {
    return el("tr", { class: "spacer", role: "presentation", "aria-hidden": "true" }, el("td"));
  }

  ak.list = { makeList };
})();
