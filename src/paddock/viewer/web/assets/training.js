// Curves of a training run; a point leads to the rollouts of its step.

import { html, useMemo, useState } from "./vendor/preact-htm-3.1.1.js";
import { api, go } from "./api.js";
import { Curve } from "./chart.js";
import { usePolled } from "./live.js";

// What is looked at first, where a run has it (docs/training_metrics.md says what each tells); all others are found by their name.
const FIRST = ["train/total_reward/mean", "validation/accuracy", "train/groups_alike_rate", "train/logprob_error/current/mean_abs",
  "train/staleness/mean", "train/approx_entropy", "train/grad_norm", "rollouts/failed_rate/all", "rollouts/group_s/p95", "train/group_s/p95",
  "timing/step_s", "timing/wait_share"];
// After these: how often the rollouts of each environment fail.
const ENVIRONMENTS = "rollouts/failed_rate/environment/";
const MOST = 16;

const readMetrics = (run) => async (last) => {
  let lines = last?.lines ?? [];
  for (;;) {
    const reply = await api("metrics", { run, after: lines.length });
    if (reply.restarted) lines = [];
    else if (reply.lines.length === 0) return last && lines === last.lines ? last : { lines };
    else lines = [...lines, ...reply.lines];
  }
};

export function Training({ run }) {
  const { value } = usePolled(readMetrics(run), 2000, run);
  const [words, setWords] = useState("");
  const lines = value?.lines ?? [];
  const names = useMemo(() => [...new Set(lines.flatMap((line) => Object.keys(line.metrics ?? {})))].sort(), [lines]);
  if (lines.length === 0) return null;
  const first = [...FIRST.filter((name) => names.includes(name)), ...names.filter((name) => name.startsWith(ENVIRONMENTS))];
  const rest = names.filter((name) => !first.includes(name));
  const shown = (words ? names.filter((name) => name.includes(words)) : [...first, ...rest]).slice(0, MOST);
  const open = (line) => go("run", { run, groups: (line.groups ?? []).join(","), step: line.step });
  return html`<section aria-label="training"><h2>Training: step ${lines[lines.length - 1].step}</h2>
    <div class="bar"><input type="search" aria-label="curves by name" placeholder="curves by name" value=${words} onInput=${(event) => setWords(event.currentTarget.value)} />
      <span class="hint">${names.length} curves; a click on a point shows the rollouts of its step</span></div>
    <div class="charts">${shown.map((name) => {
      const own = lines.filter((line) => line.metrics?.[name] !== undefined && line.metrics[name] !== null);
      return html`<${Curve} key=${name} title=${name} xs=${own.map((line) => line.step)} ys=${own.map((line) => line.metrics[name])} onPoint=${(i) => open(own[i])} />`;
    })}</div></section>`;
}
