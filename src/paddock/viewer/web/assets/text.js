// Texts of a rollout: cut, read on in pieces, with terminal colours, as a patch.

import { html, useState } from "./vendor/preact-htm-3.1.1.js";
import { AnsiUp } from "./vendor/ansi_up-6.0.6.js";
import { api } from "./api.js";
import { number, visible } from "./format.js";

const ANSI = /\x1b\[/; // eslint-disable-line no-control-regex
const IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/;

// `source`: {run, group, member, part} of the whole text.
export function Text({ text, length, source, kind }) {
  const [shown, setShown] = useState({ text, next: text.length < length ? text.length : null, error: null });
  const more = async () => {
    try {
      const piece = await api("text", { ...source, offset: shown.next });
      setShown({ text: shown.text + piece.text, next: piece.next, error: null });
    } catch (error) {
      setShown({ ...shown, error: error.message });
    }
  };
  const body = kind === "diff" ? html`<${Diff} text=${shown.text} />` : html`<${Plain} text=${shown.text} />`;
  return html`${body}${shown.next !== null && html`<button class="more" onClick=${more}>
    ${number(shown.text.length)} of ${number(length)} characters: read on</button>`}
    ${shown.error && html`<p class="error">${shown.error}</p>`}`;
}

// A message, a call or a result. `source`: {run, group, member}.
export function Item({ item, source }) {
  const text = html`<${Text} text=${item.text} length=${item.length} source=${{ ...source, part: item.part }} />`;
  if (item.kind === "reasoning") return html`<details class="item faint"><summary>reasoning, ${number(item.length)} characters</summary>${text}</details>`;
  if (item.kind === "call") return html`<div class="item"><span class="call strong">${visible(item.title || "a call without a name")}</span>${item.change
    ? html`<${Text} ...${item.change} kind="diff" source=${{ ...source, part: item.change.part }} /><details class="faint"><summary>arguments as given</summary>${text}</details>` : item.length > 0 && text}</div>`;
  if (item.kind === "result") return html`<div class="item result">${item.length > 0 ? text : html`<span class="hint">no output</span>`}</div>`;
  return html`<div class="item">${item.title && html`<span class="hint">${visible(item.title)}</span>`}${text}</div>`;
}

function Plain({ text }) {
  const image = text.trim();
  if (IMAGE.test(image)) return html`<img class="picture" src=${image} alt="a picture in the rollout" />`;
  return html`<pre>${ANSI.test(text) ? coloured(text) : visible(text)}</pre>`;
}

// The library's own HTML is not used: its classes are read from it, and the text is set as text.
function coloured(text) {
  const ansi = new AnsiUp();
  ansi.use_classes = true;
  ansi.escape_html = false;
  const parts = [];
  let rest = "";
  ansi.transform_to_html = (fragment) => {
    const classes = [];
    if (fragment.fg) classes.push(`${fragment.fg.class_name === "truecolor" ? "ansi-other" : fragment.fg.class_name}-fg`);
    if (fragment.bg) classes.push(`${fragment.bg.class_name === "truecolor" ? "ansi-other" : fragment.bg.class_name}-bg`);
    if (fragment.bold) classes.push("strong");
    parts.push(html`<span class=${classes.join(" ")}>${visible(fragment.text)}</span>`);
    return "";
  };
  ansi.transform_hyperlink = (packet) => {
    parts.push(visible(packet.text));
    return "";
  };
  rest = ansi.ansi_to_html(text);
  return [...parts, visible(rest)];
}

const LINE_TONES = [["+++", "strong"], ["---", "strong"], ["diff ", "strong"], ["@@", "call"], ["+", "good"], ["-", "bad"]];

function Diff({ text }) {
  const lines = text.split("\n");
  return html`<pre class="diff">${lines.map((line) => {
    const tone = LINE_TONES.find(([start]) => line.startsWith(start))?.[1] ?? "";
    return html`<span class=${tone}>${visible(line)}\n</span>`;
  })}</pre>`;
}
