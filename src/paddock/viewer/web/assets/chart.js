// One curve, drawn by uPlot (a global of its own script).

import { html, useEffect, useRef } from "./vendor/preact-htm-3.1.1.js";
import { clock, short } from "./format.js";

const HEIGHT = 170;

// `onPoint(index)`: what a click on a point does; `timed`: xs are seconds since 1970.
export function Curve({ title, xs, ys, onPoint, timed = false }) {
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const [text, line, link] = ["--faint", "--line", "--link"].map((name) => style.getPropertyValue(name).trim());
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "11px system-ui" };
    const width = () => Math.max(200, box.current.clientWidth);
    plot.current = new uPlot({
      width: width(), height: HEIGHT, legend: { show: true }, scales: { x: { time: timed } }, cursor: { points: { size: 7 } },
      axes: [timed ? { ...axis, values: (_, ticks) => ticks.map((tick) => clock(tick, xs[xs.length - 1] - xs[0])) } : axis, { ...axis, size: 55, values: (_, ticks) => ticks.map((tick) => short(tick)) }],
      series: [{ label: "at", ...(timed && { value: (_, value) => (value ? clock(value) : "") }) }, { label: "value", stroke: link, width: 1.5, value: (_, value) => short(value, 4), points: { show: xs.length < 40 } }],
    }, [xs, ys], box.current);
    const observer = new ResizeObserver(() => plot.current.setSize({ width: width(), height: HEIGHT }));
    observer.observe(box.current);
    const click = () => { if (onPoint && plot.current.cursor.idx !== null && plot.current.cursor.idx !== undefined) onPoint(plot.current.cursor.idx); };
    plot.current.over.addEventListener("click", click);
    return () => { observer.disconnect(); plot.current.destroy(); };
  }, [xs.length, ys[ys.length - 1], title, timed]);
  const last = ys.findLast((value) => value !== null && value !== undefined);
  return html`<figure class="chart"><h3>${title} <span class="hint">${short(last, 4)}</span></h3><div ref=${box} role="img" aria-label=${`${title}: ${ys.length} values, the last ${short(last, 4)}`}></div></figure>`;
}
