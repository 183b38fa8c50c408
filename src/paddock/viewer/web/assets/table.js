// A table of any length: only the rows in sight are in the page.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm-3.1.1.js";

const HEIGHT = 28; // pixels of a row, as in style.css
const MARGIN = 12; // rows above and below those in sight

// columns: [{name, title, cell(row), align, tone(row)}]; `link(row)`: where a row leads; `selected`: index; without
// `onSort` the order stays.
export function Table({ rows, columns, sort, onSort, link, keyOf, selected, onSelect, label }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setHeight(box.current?.clientHeight || 600));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (selected === undefined || selected < 0 || !box.current) return;
    const at = selected * HEIGHT;
    const { scrollTop, clientHeight } = box.current;
    if (at < scrollTop) box.current.scrollTop = at;
    else if (at + 2 * HEIGHT > scrollTop + clientHeight) box.current.scrollTop = at + 2 * HEIGHT - clientHeight;
  }, [selected]);
  const first = Math.max(0, Math.floor(top / HEIGHT) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((top + height) / HEIGHT) + MARGIN);
  const head = columns.map((column) => {
    const on = sort?.column === column.name;
    const mark = on ? (sort.descending ? " ↓" : " ↑") : "";
    return html`<th key=${column.name} class=${column.align} aria-sort=${on ? (sort.descending ? "descending" : "ascending") : "none"}>
      ${onSort ? html`<button onClick=${() => onSort(column.name)}>${column.title}${mark}</button>` : html`<span>${column.title}</span>`}</th>`;
  });
  return html`<div class="table" ref=${box} tabindex="0" role="region" aria-label=${label} onScroll=${(event) => setTop(event.currentTarget.scrollTop)}>
    <table aria-rowcount=${rows.length}>
      <thead><tr>${head}</tr></thead>
      <tbody>
        ${first > 0 && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} ref=${heightOf(first * HEIGHT)}></td></tr>`}
        ${rows.slice(first, last).map((row, i) => html`
          <tr key=${keyOf(row)} aria-rowindex=${first + i + 1} class=${first + i === selected ? "selected" : ""} onClick=${(event) => { onSelect?.(first + i); if (link && !event.target.closest("a")) location.hash = link(row); }}>
            ${columns.map((column, at) => html`<td class=${`${column.align ?? ""} ${column.tone?.(row) ?? ""}`} title=${link ? undefined : column.cell(row)}>
              ${at === 0 && link ? html`<a href=${link(row)}>${column.cell(row)}</a>` : column.cell(row)}</td>`)}
          </tr>`)}
        ${last < rows.length && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} ref=${heightOf((rows.length - last) * HEIGHT)}></td></tr>`}
      </tbody>
    </table></div>`;
}

// The page's policy allows no style attributes; the property of the element is allowed.
const heightOf = (pixels) => (element) => { if (element) element.style.height = `${pixels}px`; };
