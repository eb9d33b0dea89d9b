// Runs that lie in the page itself, as blocks of JSON: what a report file has.
//
// The table of rows is read once, column by column. The samples' texts lie in blocks of 200, which are parsed
// when one of them is opened or searched. A search goes through them in idle moments, so that the page stays
// fluid, and what was read once is kept in lower case.
(function () {
  "use strict";
  const ak = window.ak;
  const BLOCK = 200;
  const KEPT_BLOCKS = 6;
  const SLICE = 12;

  // Large blocks are packed, as gzip in base64; the browser itself unpacks them.
  async function readBlock(name) {
    const block = document.getElementById(name);
    if (!block) return null;
    return JSON.parse(block.dataset.packed ? await unpack(block.textContent) : block.textContent);
  }

  async function unpack(text) {
    if (!window.DecompressionStream) throw new Error("This browser cannot unpack the samples: a newer one is needed.");
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  function open() {
    const page = JSON.parse(document.getElementById("ak-overview").textContent);
    const books = new Map();
    return {
      mode: "report", title: page.title, made: page.made, version: page.version,
      hasComparison: Boolean(page.comparison),
      absence: "This sample is not in the report: there is none with this id, or it is not among those that the file embeds.",
      runs: async () => ({ runs: page.runs.map((run) => ({ id: run.id, label: run.label })) }),
      overview: async (run) => page.runs[findRun(run)],
      rows: async (run, task, query, offset, limit, options) => (await openBook(run, task)).list(query, offset, limit, options || {}),
      sample: async (run, task, p) => (await openBook(run, task)).describe(p),
      find: async (run, task, wanted, query) => (await openBook(run, task)).find(wanted, query),
      comparison: async (ids) => pickPairs(page.comparison, ids),
    };

    function findRun(id) {
      const index = page.runs.findIndex((run) => run.id === id);
      if (index < 0) throw new Error("There is no such run in this report.");
      return index;
    }

    function openBook(run, task) {
      const name = `${findRun(run)}-${task}`;
      if (!books.has(name)) books.set(name, makeBook(name));
      return books.get(name);
    }
  }

  // ── the rows of one task ──────────────────────────────────────────────────────────────────────────────

  async function makeBook(name) {
    const table = (await readBlock(`ak-rows-${name}`)) || { p: [] };
    const columns = readColumns(table);
    const { length } = table.p;
    const search = makeSearch(name, columns);
    let last = { key: null, found: null };
    return { list, describe, find };

    async function list(query, offset, limit, options) {
      const found = await look(query, options);
      return { total: found.length, rows: Array.from(found.slice(offset, offset + limit), row) };
    }

    // What was found last is kept, unless the search was given up.
    async function look(query, options) {
      const key = JSON.stringify(query);
      if (last.key !== key) last = { key, found: select(query, options) };
      const kept = last;
      try {
        return await kept.found;
      } catch (error) {
        if (last === kept) last = { key: null, found: null };
        throw error;
      }
    }

    async function select(query, options) {
      const tests = listTests(query, columns);
      const found = [];
      for (let i = 0; i < length; i += 1) if (tests.every((test) => test(i))) found.push(i);
      const searched = query.text ? await search.filter(found, query.text, options) : found;
      return sortRows(searched, query, columns);
    }

    function row(i) {
      return Object.fromEntries(Object.entries(columns).map(([column, read]) => [column, read(i)]));
    }

    function place(p) {
      let [low, high] = [0, length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (columns.p(middle) < p) low = middle + 1;
        else high = middle;
      }
      return low < length && columns.p(low) === p ? low : null;
    }

    async function describe(p) {
      const index = place(p);
      const sample = index === null ? null : (await search.read(Math.floor(index / BLOCK)))[index % BLOCK];
      if (!sample) throw new Error("This sample is not among those that the file embeds.");
      return sample;
    }

    // The position of a sample and its place among the rows asked for; null for none.
    async function find({ id, trial }, query) {
      let i = 0;
      while (i < length && !(columns.id(i) === id && (trial === null || columns.trial(i) === Number(trial)))) i += 1;
      if (i === length) return { p: null, index: null };
      const index = (await look(query, {})).indexOf(i);
      return { p: columns.p(i), index: index < 0 ? null : index };
    }
  }

  // A column is a list, or one value for all rows.
  function readColumns(table) {
    return Object.fromEntries(Object.entries(table).map(([name, column]) => [name, readColumn(column)]));
  }

  function readColumn(column) {
    if (Array.isArray(column)) return (i) => column[i];
    return () => column ?? null;
  }

  // ── filters and order ─────────────────────────────────────────────────────────────────────────────────

  function listTests(query, columns) {
    const tests = [testShow(query.show, columns)];
    for (const name of ["reason", "category", "truth", "predicted"]) {
      if (query[name] !== null && query[name] !== undefined) tests.push((i) => columns[name](i) === query[name]);
    }
    return tests;
  }

  function testShow(show, columns) {
    const judge = (i) => ak.core.judge({ status: columns.status(i), validity: columns.validity(i), value: columns.value(i) });
    const shows = {
      right: (i) => judge(i) === "right",
      wrong: (i) => ["wrong", "partial"].includes(judge(i)),
      invalid: (i) => columns.validity(i) === "INVALID",
      failed: (i) => columns.status(i) !== "SCORED",
      flipped: (i) => columns.flipped(i) === true,
    };
    return shows[show] || (() => true);
  }

  function sortRows(found, { sort, descending }, columns) {
    if (sort === "position") return descending ? found.reverse() : found;
    const key = columns[sort];
    const sign = descending ? -1 : 1;
    return found.sort((one, other) => compareKeys(key(one), key(other), sign) || one - other);
  }

  // What has no value comes last, whichever way the others go.
  function compareKeys(one, other, sign) {
    if (one === null) return other === null ? 0 : 1;
    if (other === null) return -1;
    return one < other ? -sign : one > other ? sign : 0;
  }

  // ── texts ─────────────────────────────────────────────────────────────────────────────────────────────

  function makeSearch(name, columns) {
    const blocks = new Map();
    const texts = new Map();
    return { read, filter };

    async function read(number) {
      const block = blocks.get(number) || (await readBlock(`ak-samples-${name}-${number}`)) || [];
      blocks.delete(number);
      blocks.set(number, block);
      if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value);
      return block;
    }

    async function fold(number) {
      const block = (await readBlock(`ak-samples-${name}-${number}`)) || [];
      texts.set(number, block.map((sample) => [sample.question || "", sample.completion.text || ""].join("\n").toLowerCase()));
    }

    async function matches(i, words) {
      if (String(columns.id(i)).toLowerCase().includes(words)) return true;
      const number = Math.floor(i / BLOCK);
      if (!texts.has(number)) await fold(number);
      return (texts.get(number)[i % BLOCK] || "").includes(words);
    }

    async function filter(rows, text, { signal, progress }) {
      const words = text.toLowerCase();
      const found = [];
      let done = 0;
      while (done < rows.length) {
        const until = performance.now() + SLICE;
        while (done < rows.length && performance.now() < until) {
          if (await matches(rows[done], words)) found.push(rows[done]);
          done += 1;
        }
        if (progress) progress(done, rows.length, found.length);
        await pause();
        if (signal && signal.aborted) throw new DOMException("another search began", "AbortError");
      }
      return found;
    }
  }

  function pause() {
    return new Promise((resume) => (window.requestIdleCallback ? requestIdleCallback(resume, { timeout: 100 }) : setTimeout(resume)));
  }

  // ── comparison ────────────────────────────────────────────────────────────────────────────────────────

  function pickPairs(comparison, ids) {
    if (!comparison) throw new Error("This report holds no comparison.");
    const isAsked = (id) => ids.includes(id);
    const tasks = comparison.tasks.map((task) => ({
      ...task, runs: task.runs.filter((run) => isAsked(run.id)),
      pairs: task.pairs.filter((pair) => isAsked(pair.first) && isAsked(pair.second)),
    }));
    return { ...comparison, tasks: tasks.filter((task) => task.runs.length > 1) };
  }

  ak.embedded = { open };
})();
