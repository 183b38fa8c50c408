// What a person notes on a rollout.

import { html, useEffect, useState } from "./vendor/preact-htm-3.1.1.js";
import { api } from "./api.js";

const LABELS = ["good", "wrong verdict", "cheat"];

export function Notes({ run, group, member }) {
  const empty = { group: Number(group), member: Number(member), label: "", text: "" };
  const [note, setNote] = useState(empty);
  const [error, setError] = useState(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    let ended = false;
    api("notes", { run }).then((notes) => {
      const own = notes.find((one) => one.group === empty.group && one.member === empty.member);
      if (ended || !own) return;
      setNote(own);
      if (own.text) setOpen(true);
    }).catch((failure) => !ended && setError(failure.message));
    return () => { ended = true; };
  }, [run, group, member]);
  const save = async (changes) => {
    const next = { ...note, ...changes };
    setNote(next);
    try {
      await api("notes", { run }, { group: next.group, member: next.member, label: next.label, text: next.text });
      setError(null);
    } catch (failure) {
      setError(failure.message);
    }
  };
  return html`<div class="bar" role="group" aria-label="your note">${LABELS.map((label) => html`<button key=${label} aria-pressed=${note.label === label}
      onClick=${() => save({ label: note.label === label ? "" : label })}>${label}</button>`)}
      <button aria-expanded=${open} onClick=${() => setOpen(!open)}>note</button></div>
    ${open && html`<textarea aria-label="note" maxlength="10000" value=${note.text} onInput=${(event) => setNote({ ...note, text: event.currentTarget.value })} onChange=${(event) => save({ text: event.currentTarget.value })}></textarea>`}
    ${error && html`<p class="error">${error}</p>`}`;
}
