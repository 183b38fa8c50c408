// A report of a command: its verdict, what could not be read, then its tables.

import { html, useLayoutEffect, useState } from "./vendor/preact-htm-3.1.1.js";
import { api, change, go, href } from "./api.js";
import { number, visible } from "./format.js";
import { usePolled } from "./live.js";
import { Table } from "./table.js";

const WINDOWED = 60; // rows from which only those in sight are in the page
const BRIEF = 40; // characters of a cell that stay in one line

const readReport = (run) => async (last) => {
  const reply = await api("report", { run, seen: last?.changed_at ?? -1 });
  return reply.verdict ? reply : last;
};

export function Report({ state }) {
  const { value, error } = usePolled(readReport(state.run), 2000, state.run);
  useLayoutEffect(() => {
    const press = (event) => {
      if (event.key !== "Escape" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.matches("input, select, textarea")) event.target.blur();
      else go("runs", {});
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  if (error && !value) return html`<p class="error" role="alert">${error}</p>`;
  if (!value) return html`<p>Loading…</p>`;
  const filter = (state.filter ?? "").toLowerCase();
  return html`<nav><a href=${href("runs")}>all runs</a></nav>
    <h1>${state.run} <span class="hint">${value.kind}</span></h1>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <p class=${`verdict ${value.verdict.tone}`} role="status">${visible(value.verdict.text)}</p>
    ${value.warnings.map((text) => html`<p class="error" role="alert">${visible(text)}</p>`)}
    ${value.blocks.some(isLong) && html`<div class="bar"><input type="search" id="filter" aria-label="filter tables" placeholder="filter tables (/)" value=${state.filter ?? ""}
      onInput=${(event) => change({ filter: event.currentTarget.value }, { replace: true })} /></div>`}
    ${value.blocks.map((block, i) => html`<${Block} key=${i} block=${block} filter=${filter} label=${titleOf(value.blocks.slice(0, i))} />`)}`;
}

const titleOf = (before) => before.findLast((block) => block.type === "Heading")?.text ?? "figures";

const isLong = (block) => block.type === "Grid" && block.rows.length > 10;

function Block({ block, filter, label }) {
  if (block.type === "Heading") return html`<h2>${visible(block.text)}</h2>`;
  if (block.type === "TextBlock") return html`<pre class=${block.tone}>${visible(block.text)}</pre>`;
  if (block.type === "LabelledValues") return html`<table class="small"><tbody>${block.facts.map(([label, text, tone]) => html`<tr><th scope="row">${visible(label)}</th><td class=${tone}>${visible(text)}</td></tr>`)}</tbody></table>`;
  if (block.type === "Fold") return html`<details open=${block.open}><summary class=${block.tone}>${visible(block.title)}</summary>${block.blocks.map((part, i) => html`<${Block} key=${i} block=${part} filter="" label=${block.title} />`)}</details>`;
  return html`<${Grid} label=${label} header=${block.header} rows=${block.rows} filter=${isLong(block) ? filter : ""} />`;
}

function Grid({ label, header, rows, filter }) {
  const shown = filter ? rows.filter((row) => row.some(([text]) => text.toLowerCase().includes(filter))) : rows;
  const count = filter ? html`<p class="hint">${number(shown.length)} of ${number(rows.length)}</p>` : null;
  if (rows.length > WINDOWED) {
    const columns = header.map((title, i) => ({ name: `${i}`, title, cell: (row) => visible(row[i][0]), tone: (row) => row[i][1] }));
    return html`${count}<${Table} label=${label} rows=${shown} columns=${columns} keyOf=${(row) => rows.indexOf(row)} />`;
  }
  return html`${count}<div class="wide" tabindex="0" role="region" aria-label=${label}><table class="small"><thead><tr>${header.map((title) => html`<th>${title}</th>`)}</tr></thead>
    <tbody>${shown.map((row) => html`<tr>${row.map(([text, tone]) => html`<td class=${`${tone} ${text.length < BRIEF ? "brief" : "long"}`}>${visible(text)}</td>`)}</tr>`)}</tbody></table></div>`;
}
