// The model's calls as they were recorded, a tree where a prompt branched; what each was answered, and its tokens, when asked for.

import { html, useState } from "./vendor/preact-htm-3.1.1.js";
import { api } from "./api.js";
import { number, short } from "./format.js";
import { Item } from "./text.js";

const STEPS = [-0.1, -1, -3, -6]; // natural log-probs between the colours

const colour = (logProb) => (logProb === undefined ? "p0" : `p${1 + STEPS.filter((step) => logProb < step).length}`.replace("p5", "p4"));

export function Calls({ calls, source }) {
  if (calls.length === 0) return null;
  const branches = calls.filter((call, i) => call.depth > 0 && (call.parent === null || call.depth > calls[call.parent].depth)).length;
  return html`<details><summary>calls and tokens: ${number(calls.length)} recorded calls${branches ? `, ${number(branches)} branches` : ""}</summary>
    <table class="small"><thead><tr><th>call</th><th>continues</th><th class="right">new prompt ids</th><th class="right">sampled ids</th><th class="right">tokens in, out</th><th>weights</th><th>end</th><th></th></tr></thead>
    <tbody>${calls.map((call, i) => html`<${Call} key=${i} call=${call} index=${i} source=${source} />`)}</tbody></table></details>`;
}

function Call({ call, index, source }) {
  const [opened, setOpened] = useState(null);
  const toggle = async () => {
    if (opened) return setOpened(null);
    try {
      setOpened(await api("tokens", { ...source, call: index }));
    } catch (error) {
      setOpened({ error: error.message });
    }
  };
  const known = call.prompt_tokens !== null; // else the engine gave no ids, and what continues what is not known
  const parent = !known ? "" : call.parent === null ? (index === 0 ? "begins" : "begins a branch") : call.parent === index - 1 ? `${call.parent + 1}` : `${call.parent + 1}, a branch`;
  return html`<tr><td class=${`depth-${Math.min(call.depth, 5)}`}>${index + 1}</td><td class=${call.splice_broken ? "bad" : ""}>${parent}${call.splice_broken ? ", not exact" : ""}</td>
      <td class="right">${number(call.prompt_tokens)}</td><td class="right">${number(call.sampled_tokens)}</td>
      <td class="right">${call.usage ? `${number(call.usage.input_tokens)}, ${number(call.usage.output_tokens)}` : ""}</td>
      <td>${call.weight_version ?? ""}</td><td>${call.finish_reason ?? ""}</td>
      <td><button aria-expanded=${Boolean(opened)} aria-label=${`open call ${index + 1}`} onClick=${toggle}>open</button></td></tr>
    ${opened && html`<tr><td colspan="8">${opened.error ? html`<p class="error">${opened.error}</p>` : html`
      ${opened.items.map((item) => html`<${Item} key=${item.part} item=${item} source=${source} />`)}
      ${call.sampled_tokens !== null && html`<${Tokens} tokens=${opened} />`}`}</td></tr>`}`;
}

function Tokens({ tokens }) {
  const from = new Map(tokens.weight_spans.map((span) => [span.start, span.version]));
  return html`<div class="hint">prompt since the call before (masked)</div><div class="tokens">${tokens.prompt_ids.join(" ")}</div>
    <div class="hint">sampled (in the loss${tokens.exact ? "" : ": no, not exact"}), coloured by log-prob</div>
    <div class="tokens">${tokens.sampled_ids.map((id, i) => html`${from.has(i) && html`<span class="call">weights ${from.get(i)}</span>`}<span class=${colour(tokens.log_probs[i])} title=${short(tokens.log_probs[i], 4)}>${id}</span>`)}</div>`;
}
