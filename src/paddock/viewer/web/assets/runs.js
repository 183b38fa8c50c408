// The list of runs.

import { html, useEffect, useState } from "./vendor/preact-htm-3.1.1.js";
import { api, href } from "./api.js";
import { ago, number, short } from "./format.js";
import { usePolled } from "./live.js";
import { Table } from "./table.js";

const COUNTED = 200; // runs whose rollouts are counted without being asked

export function Runs({ state }) {
  const { value, error } = usePolled(() => api("runs"), 3000, "runs");
  const [counts, setCounts] = useState({});
  const [words, setWords] = useState(state.find ?? "");
  const runs = value?.runs ?? [];
  const stamp = runs.map((run) => `${run.id}${run.changed_at}`).join();
  useEffect(() => {
    let ended = false;
    (async () => {
      for (const run of runs.slice(0, COUNTED)) {
        if (ended) return;
        if (counts[run.id]?.at === run.changed_at) continue;
        try {
          const count = await api("counts", { run: run.id });
          setCounts((all) => ({ ...all, [run.id]: { ...count, at: run.changed_at } }));
        } catch { /* a run that went away meanwhile */ }
      }
    })();
    return () => { ended = true; };
  }, [stamp]);
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!value) return html`<p>Loading…</p>`;
  const shown = runs.filter((run) => run.id.toLowerCase().includes(words.toLowerCase()));
  const columns = [
    { name: "id", title: "run", cell: (run) => run.id },
    { name: "kind", title: "kind", cell: (run) => run.kind },
    { name: "rollouts", title: "rollouts", align: "right", cell: (run) => number(counts[run.id]?.rollouts) },
    { name: "reward", title: "mean reward", align: "right", cell: (run) => short(counts[run.id]?.mean_reward) },
    { name: "outcomes", title: "outcomes, or verdict", tone: (run) => counts[run.id]?.tone, cell: (run) => counts[run.id]?.verdict ?? Object.entries(counts[run.id]?.outcomes ?? {}).map(([name, n]) => `${name} ${number(n)}`).join(", ") },
    { name: "changed", title: "last written", cell: (run) => ago(run.changed_at) },
  ];
  return html`<h1>Runs</h1>
    <div class="bar"><input type="search" id="filter" aria-label="filter runs" placeholder="filter (/)" value=${words} onInput=${(event) => setWords(event.currentTarget.value)} />
      <span class="hint">${number(shown.length)} of ${number(runs.length)}</span></div>
    ${runs.length === 0 ? html`<p>No run yet. <code>paddock eval</code> and <code>paddock train</code> write their folders here.</p>`
      : html`<${Table} label="runs" rows=${shown} columns=${columns} keyOf=${(run) => run.id} link=${(run) => href(run.page, { run: run.id })} />`}`;
}
