// What a person notes on a rollout.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm-3.1.1.js";
import { api } from "./api.js";

const LABELS = ["good", "wrong verdict", "cheat"];

export function Notes({ run, group, member }) {
  const own = { group: Number(group), member: Number(member) };
  // Null: it has not come, and nothing may be written over it.
  const [note, setNote] = useState(null);
  const [error, setError] = useState(null);
  const [open, setOpen] = useState(false);
  // One after another: the last line counts.
  const saved = useRef(Promise.resolve());
  useEffect(() => {
    let ended = false;
    api("notes", { run }).then((notes) => {
      if (ended) return;
      const { label, text } = notes.find((one) => one.group === own.group && one.member === own.member) ?? { label: "", text: "" };
      setNote({ label, text });
      if (text) setOpen(true);
    }).catch((failure) => !ended && setError(failure.message));
    return () => { ended = true; };
  }, [run, group, member]);
  const save = (changes) => {
    const next = { ...note, ...changes };
    setNote(next);
    saved.current = saved.current.then(() => api("notes", { run }, { ...own, ...next }))
      .then(() => setError(null), (failure) => setError(failure.message));
  };
  return html`<div class="bar" role="group" aria-label="your note">${LABELS.map((label) => html`<button key=${label} disabled=${!note} aria-pressed=${note?.label === label}
      onClick=${() => save({ label: note.label === label ? "" : label })}>${label}</button>`)}
      <button aria-expanded=${open} disabled=${!note} onClick=${() => setOpen(!open)}>note</button></div>
    ${open && html`<textarea aria-label="note" maxlength="10000" value=${note.text} onInput=${(event) => setNote({ ...note, text: event.currentTarget.value })} onChange=${(event) => save({ text: event.currentTarget.value })}></textarea>`}
    ${error && html`<p class="error">${error}</p>`}`;
}
