// One run: what it comes to, and its rollouts in a table.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-htm-3.1.1.js";
import { api, change, go, href } from "./api.js";
import { Curve } from "./chart.js";
import { dollars, number, outcomeTone, seconds, short, visible } from "./format.js";
import { usePolled } from "./live.js";
import { countBy, failureKinds, mean, progress, readRows, reasonOf, shownRows, stageMeans, summary, toolUse, totals, usedColumns } from "./rows.js";
import { Table } from "./table.js";
import { Training } from "./training.js";

const CELLS = {
  key: (row) => row.key, name: (row) => row.name ?? "", agent: (row) => row.agent, variant: (row) => row.variant ?? "",
  outcome: (row) => row.outcome, reward: (row) => short(row.reward), reason: reasonOf, turns: (row) => number(row.turns),
  output_tokens: (row) => number(row.output_tokens), cached_tokens: (row) => number(row.cached_tokens),
  reasoning_tokens: (row) => number(row.reasoning_tokens), cost_usd: (row) => dollars(row.cost_usd), total_s: (row) => seconds(row.total_s),
};
const TONES = {
  outcome: (row) => outcomeTone(row.outcome, row.reward), reward: (row) => outcomeTone(row.outcome, row.reward),
  reason: (row) => (row.failure ? "bad" : ""), key: () => "mono",
};

// Rows found by a text in them; null: nothing is searched for.
function useFound(run, text) {
  const [answer, setAnswer] = useState({ text: "", found: null, error: null });
  useEffect(() => {
    let ended = false;
    if (text) {
      api("search", { run, text })
        .then((reply) => !ended && setAnswer({ text, found: new Set(reply.found.map((key) => key.join("-"))), more: reply.more }))
        .catch((error) => !ended && setAnswer({ text, found: new Set(), error: error.message }));
    }
    return () => { ended = true; };
  }, [run, text]);
  return text && answer.text === text ? answer : { found: text ? new Set() : null, pending: Boolean(text) };
}

export function useShown(state) {
  const polled = usePolled(readRows(state.run), 1000, state.run);
  const search = useFound(state.run, state.text);
  const rows = polled.value?.rows ?? [];
  const groups = useMemo(() => (state.groups ? new Set(state.groups.split(",").map(Number)) : null), [state.groups]);
  const shown = useMemo(() => shownRows(rows, state, { found: search.found, groups }), [rows, search.found, JSON.stringify(state)]);
  return { ...polled, search, rows, shown };
}

export function Run({ state }) {
  const { value, error, search, rows, shown } = useShown(state);
  const [selected, setSelected] = useState(-1);
  useKeys({ shown, selected, setSelected, state });
  if (error && !value) return html`<p class="error" role="alert">${error}</p>`;
  if (!value) return html`<p>Loading…</p>`;
  const rewards = shown.map((row) => row.reward).filter((reward) => reward !== null);
  const [sorted, direction] = (state.sort ?? "").split(".");
  const columns = usedColumns(rows).map((column) => ({ ...column, align: column.numeric ? "right" : "", cell: CELLS[column.name], tone: TONES[column.name] }));
  const sortBy = (name) => change({ sort: sorted !== name ? name : direction === "down" ? undefined : `${name}.down` });
  return html`<nav><a href=${href("runs")}>all runs</a></nav><h1>${state.run}</h1>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${value.damaged > 0 && html`<p class="error" role="alert">${number(value.damaged)} damaged lines were left out; the first: ${value.firstDamaged}. <code>paddock runs check</code> says more.</p>`}
    <${Training} run=${state.run} />
    <${Overview} rows=${shown} stages=${value.stages} />
    <${Filters} state=${state} rows=${rows} />
    <div class="bar"><span>${number(shown.length)} of ${number(rows.length)} rollouts${rewards.length ? html`, mean reward <strong>${short(mean(rewards))}</strong> of ${number(rewards.length)}` : ""}</span>
      ${search.pending && html`<span class="hint">searching…</span>`}${search.more && html`<span class="hint">and more with that text</span>`}
      ${search.error && html`<span class="bad">${search.error}</span>`}
      ${state.groups && html`<button onClick=${() => change({ groups: undefined, step: undefined })}>step ${state.step}: show all</button>`}
      <span class="hint">keys: j k Enter / Esc</span></div>
    <${Table} label="rollouts" rows=${shown} columns=${columns} keyOf=${(row) => row.key} selected=${selected} onSelect=${setSelected}
      sort=${sorted ? { column: sorted, descending: direction === "down" } : null} onSort=${sortBy} link=${(row) => linkTo(state, row)} />`;
}

export const linkTo = (state, row) => href("rollout", { ...state, page: undefined, at: row.key, with: undefined, otherRun: undefined, otherAt: undefined, turn: undefined });

function useKeys({ shown, selected, setSelected, state }) {
  // Keys come faster than renders: nothing that is seen may have the keys of what was there before.
  const at = useRef(selected);
  at.current = selected;
  const move = (to) => { at.current = Math.max(0, Math.min(shown.length - 1, to)); setSelected(at.current); };
  useLayoutEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.matches("input, select, textarea")) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      if (event.key === "j" || event.key === "ArrowDown") move(at.current + 1);
      else if (event.key === "k" || event.key === "ArrowUp") move(at.current - 1);
      else if (event.key === "Enter" && shown[at.current] && !event.target.matches("a, button")) location.hash = linkTo(state, shown[at.current]);
      else if (event.key === "Escape") go("runs", {});
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
}

function Filters({ state, rows }) {
  const chips = (name, of) => countBy(rows, of).map(([value, count]) => html`<button key=${value} aria-pressed=${state[name] === value}
    onClick=${() => change({ [name]: state[name] === value ? undefined : value })}>${value} ${number(count)}</button>`);
  const several = (title, name, of) => (countBy(rows, of).length > 1 ? html`<div class="bar"><span class="hint">${title}</span>${chips(name, of)}</div>` : null);
  return html`<div class="bar">
      <input type="search" id="filter" aria-label="filter rollouts" placeholder="filter rows, reasons, failures (/)" value=${state.filter ?? ""} onInput=${(event) => change({ filter: event.currentTarget.value }, { replace: true })} />
      <${Search} text=${state.text ?? ""} onSearch=${(text) => change({ text })} />
      <button aria-pressed=${state.reward === "above"} onClick=${() => change({ reward: state.reward === "above" ? undefined : "above" })}>reward above 0</button>
      <button aria-pressed=${state.reward === "none"} onClick=${() => change({ reward: state.reward === "none" ? undefined : "none" })}>reward 0 or less</button>
      ${chips("outcome", (row) => row.outcome)}</div>
    ${several("agent", "agent", (row) => row.agent)}${rows.some((row) => row.variant && row.variant !== row.agent) && several("harness", "variant", (row) => row.variant)}
    ${rows.some((row) => row.failure) && html`<div class="bar"><span class="hint">failures</span>${chips("kind", (row) => row.failure?.[1])}</div>`}`;
}

// What is typed stays while rows come.
function Search({ text, onSearch }) {
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  const submit = (event) => { event.preventDefault(); onSearch(typed); };
  return html`<form onSubmit=${submit}><input type="search" aria-label="search in texts and patches" placeholder="in texts and patches (Enter)" value=${typed} onInput=${(event) => setTyped(event.currentTarget.value)} /></form>`;
}

const PARTS = [["agent", (row) => row.agent], ["harness", (row) => row.variant], ["repository", (row) => row.labels?.repo]];

// The mean reward as rollouts ended, and a line for each agent, harness, repository.
function Overview(props) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>overview: rewards as they came, by agent, harness, repository and tool; time by stage, tokens, cost, failures, components</summary>
    ${open && html`<${Figures} ...${props} />`}</details>`;
}

function Figures({ rows, stages }) {
  const times = stageMeans(rows, stages);
  const failures = failureKinds(rows);
  const harnesses = rows.some((row) => row.variant && row.variant !== row.agent);
  const parts = PARTS.filter(([name]) => name !== "harness" || harnesses).map(([name, of]) => [name, summary(rows.filter((row) => of(row)), of)]).filter(([, lines]) => lines.length > 1);
  const { timed, rewards, failures: unjudged, ended } = useMemo(() => progress(rows), [rows]);
  const used = totals(rows);
  const tools = useMemo(() => toolUse(rows), [rows]);
  const priced = rows.some((row) => row.cost_usd !== null);
  const metrics = useMemo(() => {
    const values = new Map();
    for (const row of rows) for (const [name, value] of Object.entries(row.metrics ?? {})) values.set(name, [...(values.get(name) ?? [0, 0])].map((total, i) => total + (i ? 1 : value)));
    return [...values].map(([name, [sum, count]]) => [name, sum / count, count]).sort();
  }, [rows]);
  return html`<div class="charts">
      ${rewards.xs.length > 1 && html`<${Curve} title="mean reward as rollouts ended" ...${rewards} timed=${timed} />`}
      ${timed && ended.xs.length > 1 && html`<${Curve} title="rollouts ended" ...${ended} timed />`}
      ${unjudged.ys.at(-1) > 0 && html`<${Curve} title="rollouts without a verdict" ...${unjudged} timed=${timed} />`}</div>
    <div class="parts">
    ${used.length > 0 && html`<table class="small"><tbody>${used.map(([name, text]) => html`<tr><th scope="row">${name}</th><td class="right">${text}</td></tr>`)}</tbody></table>`}
    ${parts.map(([name, lines]) => html`<table class="small"><thead><tr><th>${name}</th>${["rollouts", "mean reward", "without verdict", "turns", "tokens out", ...(priced ? ["cost"] : []), "time"].map((title) => html`<th class="right">${title}</th>`)}</tr></thead>
      <tbody>${lines.map((line) => html`<tr><td>${line.name}</td><td class="right">${number(line.count)}</td><td class="right">${short(line.reward)}</td><td class="right">${number(line.failed)}</td>
        <td class="right">${short(line.turns, 1)}</td><td class="right">${short(line.tokens, 0)}</td>${priced && html`<td class="right">${dollars(line.cost)}</td>`}<td class="right">${seconds(line.time)}</td></tr>`)}</tbody></table>`)}
    ${tools.length > 0 && html`<table class="small"><thead><tr><th>tool</th><th class="right">rollouts</th><th class="right">mean reward</th><th class="right">calls in each</th></tr></thead>
      <tbody>${tools.slice(0, 30).map((tool) => html`<tr><td>${visible(tool.name || "without a name")}</td><td class="right">${number(tool.count)}</td><td class="right">${short(tool.reward)}</td><td class="right">${short(tool.calls, 1)}</td></tr>`)}</tbody></table>`}
    ${times.length > 0 && html`<table class="small"><thead><tr><th>stage</th><th class="right">mean time</th></tr></thead>
      <tbody>${times.map(([name, value]) => html`<tr><td>${name}</td><td class="right">${seconds(value)}</td></tr>`)}</tbody></table>`}
    ${failures.length > 0 && html`<table class="small"><thead><tr><th>whose</th><th>failure</th><th>stage</th><th class="right">rollouts</th><th>such as</th></tr></thead>
      <tbody>${failures.map((one) => html`<tr><td>${one.owner}</td><td class="bad">${one.kind}</td><td>${one.stage ?? ""}</td><td class="right">${number(one.count)}</td><td>${visible(one.message)}</td></tr>`)}</tbody></table>`}
    ${metrics.length > 0 && html`<table class="small"><thead><tr><th>metric of the verdict</th><th class="right">mean</th><th class="right">of</th></tr></thead>
      <tbody>${metrics.map(([name, value, count]) => html`<tr><td>${name}</td><td class="right">${short(value)}</td><td class="right">${number(count)}</td></tr>`)}</tbody></table>`}</div>`;
}
