// One rollout as a conversation, or two side by side.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm-3.1.1.js";
import { api, change, href } from "./api.js";
import { number, outcomeTone, seconds, short, visible } from "./format.js";
import { Notes } from "./notes.js";
import { readRows } from "./rows.js";
import { linkTo, useShown } from "./run.js";
import { Item, Text } from "./text.js";
import { Calls } from "./tokens.js";

const STEPS = { n: 1, p: -1 };

export function Rollout({ state }) {
  const { rows, shown, error } = useShown(state);
  const at = shown.findIndex((row) => row.key === state.at);
  const group = Number(state.at.split("-")[0]);
  const members = rows.filter((row) => row.group === group).sort((a, b) => a.member - b.member);
  const others = rows.filter((row) => row.key !== state.at && row.name && row.name === rows.find((one) => one.key === state.at)?.name && row.group !== group)
    .sort((a, b) => a.group - b.group || a.member - b.member);
  const back = href("run", { ...state, page: undefined, at: undefined, with: undefined, turn: undefined });
  // Keys come faster than pages.
  const position = useRef(at);
  position.current = at;
  useLayoutEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
      const next = position.current + (STEPS[event.key] ?? 0);
      if (event.key in STEPS && shown[next]) {
        position.current = next;
        location.hash = linkTo(state, shown[next]);
      }
      else if (event.key === "Escape") location.hash = back;
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  const compare = (key) => href("rollout", { ...state, page: undefined, with: state.with === key ? undefined : key });
  const line = (title, list) => list.length > 0 && html`<div class="bar"><span class="hint">${title}</span>${list.map((row) => html`
    <span key=${row.key}><a class=${outcomeTone(row.outcome, row.reward)} href=${linkTo(state, row)} aria-current=${row.key === state.at ? "page" : undefined}>${row.key} ${row.variant ?? ""} ${short(row.reward) || row.outcome}</a>
      ${row.key !== state.at && html` <a class="hint" href=${compare(row.key)}>${state.with === row.key ? "close" : "beside"}</a>`}</span>`)}</div>`;
  const name = rows.find((row) => row.key === state.at)?.name;
  const beside = state.with && { run: state.run, at: state.with, row: rows.find((row) => row.key === state.with) };
  const elsewhere = state.otherRun && state.otherAt && { run: state.otherRun, at: state.otherAt };
  const shownHere = [{ run: state.run, at: state.at, row: rows.find((row) => row.key === state.at) }, beside, elsewhere].filter(Boolean);
  return html`<nav><a href=${href("runs")}>all runs</a><a href=${back}>${state.run}</a>
      ${at >= 0 && html`<span class="end">${number(at + 1)} of ${number(shown.length)}</span>`}
      ${shown[at - 1] && html`<a href=${linkTo(state, shown[at - 1])}>← previous (p)</a>`}${shown[at + 1] && html`<a href=${linkTo(state, shown[at + 1])}>next (n) →</a>`}</nav>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${members.length > 1 && line("group", members)}${line("the same row", others.slice(0, 12))}
    ${name && html`<${OtherRun} state=${state} name=${name} />`}
    <div class=${shownHere.length > 1 ? "columns two" : "columns"}>${shownHere.map((one) => html`<${One} key=${`${one.run} ${one.at}`} ...${one} turn=${state.turn} titled=${one.run !== state.run} />`)}</div>`;
}

// The same row in another run, beside this one.
function OtherRun({ state, name }) {
  const [runs, setRuns] = useState([]);
  const [error, setError] = useState(null);
  const chosen = useRef("");
  useEffect(() => () => { chosen.current = null; }, []);
  useEffect(() => { api("runs").then((reply) => setRuns(reply.runs.filter((run) => run.page === "run" && run.id !== state.run).map((run) => run.id))).catch(() => setRuns([])); }, [state.run]);
  const choose = async (event) => {
    const run = event.currentTarget.value;
    chosen.current = run;
    if (!run) return change({ otherRun: undefined, otherAt: undefined });
    try {
      const { rows } = await readRows(run)();
      if (chosen.current !== run) return;
      const found = rows.find((row) => row.name === name);
      setError(found ? null : `${run} has no row ${name}`);
      if (found) change({ otherRun: run, otherAt: found.key });
    } catch (failure) {
      if (chosen.current === run) setError(failure.message);
    }
  };
  if (runs.length === 0) return null;
  return html`<div class="bar"><label class="hint">the same row in <select aria-label="the same row in another run" value=${state.otherRun ?? ""} onChange=${choose}>
    <option value="">no other run</option>${runs.map((id) => html`<option key=${id} value=${id}>${id}</option>`)}</select></label>${error && html`<span class="bad">${error}</span>`}</div>`;
}

function One({ run, at, row, turn, titled }) {
  const [answer, setAnswer] = useState({});
  const [group, member] = at.split("-");
  const source = { run, group, member };
  const verdictKey = `${row?.outcome}${row?.start}`;
  useEffect(() => {
    let ended = false;
    api("rollout", source).then((value) => !ended && setAnswer({ value })).catch((error) => !ended && setAnswer({ error: error.message }));
    return () => { ended = true; };
  }, [run, at, verdictKey]);
  const title = html`<h1>${titled && html`<span class="hint">${run}</span> `}${at} ${row?.name ?? ""} ${row && html`<span class=${outcomeTone(row.outcome, row.reward)}>${row.reward === null ? row.outcome : `reward ${short(row.reward)}`}${row.reason ? `, ${row.reason}` : ""}</span>`} <span class="hint">${row?.variant ?? ""}</span></h1>`;
  if (answer.error) return html`<article>${title}<p class="error" role="alert">${answer.error}</p></article>`;
  if (!answer.value) return html`<article>${title}<p>Loading…</p></article>`;
  const value = answer.value;
  return html`<article aria-label=${`rollout ${at}`}>${title}
    <${Notes} ...${source} />
    ${value.failure ? html`<${Facts} facts=${Object.entries(value.failure)} />` : html`<${Whole} value=${value} source=${source} turn=${turn} />`}
    <${Times} timing=${value.timing} /></article>`;
}

function Whole({ value, source, turn }) {
  const sections = useRef([]);
  useEffect(() => { sections.current[turn - 1]?.scrollIntoView(); }, [turn]);
  const toTurn = (number) => { change({ turn: number }); sections.current[number - 1].scrollIntoView(); };
  return html`
    <${Facts} facts=${value.facts} />
    ${value.task.length > 0 && html`<details><summary>task</summary>${value.task.map((item) => html`<${Item} key=${item.part} item=${item} source=${source} />`)}</details>`}
    <h2>Turns</h2>
    ${value.turns.length === 0 && html`<p class="hint">no turns: the model was not called</p>`}
    ${value.turns.map((items, i) => html`<section class="turn" key=${i} ref=${(element) => { sections.current[i] = element; }}><h3><button class="link" title="link to this turn" onClick=${() => toTurn(i + 1)}>turn ${i + 1}</button></h3>
      ${items.map((item) => html`<${Item} key=${item.part} item=${item} source=${source} />`)}</section>`)}
    <${Files} files=${value.files} commands=${value.commands} onTurn=${toTurn} />
    ${value.patch && html`<h2>Patch</h2>${value.patch.length ? html`<${Text} ...${value.patch} kind="diff" source=${{ ...source, part: "patch" }} />` : html`<p class="hint">nothing was changed</p>`}`}
    ${Object.keys(value.tests).length > 0 && html`<h2>Tests</h2>${Object.entries(value.tests).map(([name, tests]) => html`<${Tests} key=${name} name=${name} tests=${tests} />`)}`}
    ${value.extras.map((extra) => html`<details key=${extra.name}><summary>${extra.name}</summary><${Text} ...${extra} source=${{ ...source, part: extra.part }} /></details>`)}
    <${Calls} calls=${value.calls} source=${source} />
    <details><summary>the row, the stored line</summary><${Lazy} title="row" source=${{ ...source, part: "row" }} /><${Lazy} title="stored line" source=${{ ...source, part: "raw" }} /></details>`;
}

function Files({ files, commands, onTurn }) {
  if (files.length === 0) return null;
  const link = (turn) => html` <button class="link" onClick=${() => onTurn(turn)}>turn ${turn}</button>`;
  return html`<h2>Files</h2><table class="small"><thead><tr><th>file</th><th>edited by calls in</th><th>in the patch</th></tr></thead>
    <tbody>${files.map((file) => html`<tr><td class="mono">${visible(file.path)}</td><td>${file.turns.length ? file.turns.slice(0, 20).map(link) : html`<span class="hint">no edit call: a command changed it, or a tool that is not known</span>`}${file.turns.length > 20 ? ` and ${file.turns.length - 20} more` : ""}</td>
      <td class=${file.in_patch ? "" : "faint"}>${file.in_patch ? "yes" : "no"}</td></tr>`)}</tbody></table>
    ${commands > 0 && html`<p class="hint">${number(commands)} calls of a shell: what each of them changed is not recorded; the patch has the sum.</p>`}`;
}

function Facts({ facts }) {
  return html`<dl class="facts">${facts.map(([label, value, tone]) => html`<div><dt>${label}</dt><dd class=${tone ?? ""}>${visible(String(value ?? ""))}</dd></div>`)}</dl>`;
}

function Tests({ name, tests }) {
  const wrong = tests.shown.filter(([, status]) => status !== "PASSED" && status !== "XFAIL").length;
  return html`<details open=${wrong > 0}><summary class=${wrong ? "bad" : "good"}>${name}: ${number(tests.count - wrong)} of ${number(tests.count)} passed</summary>
    <table class="small"><tbody>${tests.shown.map(([test, status]) => html`<tr><td class=${status === "PASSED" || status === "XFAIL" ? "good" : "bad"}>${visible(status)}</td><td class="mono">${visible(test)}</td></tr>`)}</tbody></table>
    ${tests.count > tests.shown.length && html`<p class="hint">and ${number(tests.count - tests.shown.length)} more</p>`}</details>`;
}

function Times({ timing }) {
  const stages = Object.entries(timing).filter(([name, value]) => value && name !== "total_s");
  return html`<p class="hint">${seconds(timing.total_s)}${stages.length ? `: ${stages.map(([name, value]) => `${name.replace(/_s$/, "").replace("_", " ")} ${seconds(value)}`).join(", ")}` : ""}</p>`;
}

function Lazy({ title, source }) {
  const [answer, setAnswer] = useState(null);
  const open = async () => {
    try {
      setAnswer(await api("text", source));
    } catch (error) {
      setAnswer({ error: error.message });
    }
  };
  if (!answer) return html`<button onClick=${open}>${title}</button>`;
  return answer.error ? html`<p class="error">${answer.error}</p>` : html`<${Text} text=${answer.text} length=${answer.length} source=${source} />`;
}
