// Runs behind a server on this machine: what `answerkey view` serves.
//
// The token comes with the address, once. It is kept for this server alone, so that the page can be opened
// again without it, and is sent in a header, which no page of another site can do.
(function () {
  "use strict";
  const ak = window.ak;
  const KEY = "answerkey-token";
  const HEADER = "X-Answerkey-Token";
  const KEPT = 16;
  const LARGE = 10_000; // rows of a task
  const GONE = "The viewer does not answer any more. Start it again with `answerkey view`, and open the address that it prints.";

  // ── asking ────────────────────────────────────────────────────────────────────────────────────────────

  function makeAsk(token) {
    return async function ask(path, { signal } = {}) {
      const headers = { [HEADER]: token || "" };
      const settings = { method: "GET", headers, signal, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" };
      const answer = await send(`/api/${path}`, settings);
      const told = await answer.json().catch(() => null);
      if (!answer.ok) throw new Error(sayTrouble(told, answer.status));
      return told;
    };
  }

  async function send(path, settings) {
    try {
      return await fetch(path, settings);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error(GONE);
    }
  }

  function sayTrouble(told, status) {
    const error = told && told.error;
    if (!error || !error.message) return `The viewer answered with the status ${status}.`;
    const sentence = error.message.charAt(0).toUpperCase() + error.message.slice(1);
    return `${sentence}${error.hint ? ` (${error.hint})` : ""}.`;
  }

  function place(run, task) {
    return `runs/${encodeURIComponent(run)}/tasks/${Number(task)}`;
  }

  function address(path, values) {
    const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
    const query = new URLSearchParams(given).toString();
    return query ? `${path}?${query}` : path;
  }

  // ── the source ────────────────────────────────────────────────────────────────────────────────────────

  function open(given) {
    const token = given || ak.core.recall(KEY);
    if (given) ak.core.remember(KEY, given);
    const ask = makeAsk(token);
    const overviews = new Map();
    // `renewed(run)` is called when there is more to say of a run than was said.
    const source = {
      mode: "viewer", title: "Runs", renewed: () => null,
      absence: "There is no sample with this id in this task.",
      runs: (options) => ask("runs", options),
      overview,
      rows: (run, task, query, offset, limit, options) => ask(address(`${place(run, task)}/rows`, { ...query, offset, limit }), { signal: options && options.signal }),
      sample: (run, task, p) => ask(`${place(run, task)}/rows/${Number(p)}`),
      find: (run, task, { id, trial }, query) => ask(address(`${place(run, task)}/find`, { ...query, id, trial })),
      comparison: (ids) => ask(address("compare", { runs: ids.join(",") })),
    };
    return source;

    // A run that is complete stays as it is; of one that is under way, each look is a new one. The brief overview comes
    // at once, for no completion is read again for it. Of a large run it is shown until the whole one is there.
    async function overview(run, { isBrief = false } = {}) {
      if (overviews.has(run)) return overviews.get(run);
      const brief = await look(run, true);
      const isLarge = brief.status === "complete" && Math.max(...brief.tasks.map((task) => task.rows.count)) > LARGE;
      if (isBrief) return brief;
      if (!isLarge) return look(run, false);
      look(run, false).then(() => source.renewed(run), () => null);
      return brief;
    }

    async function look(run, isBrief) {
      const key = isBrief ? `brief ${run}` : run;
      if (overviews.has(key)) return overviews.get(key);
      const told = await ask(address(`runs/${encodeURIComponent(run)}`, { brief: isBrief || null }));
      if (told.status === "complete") overviews.set(key, told);
      if (overviews.size > KEPT) overviews.delete(overviews.keys().next().value);
      return told;
    }
  }

  ak.server = { open };
})();
