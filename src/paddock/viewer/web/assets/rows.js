// The rows of a run, as they come, and what is made of them.

import { api } from "./api.js";
import { dollars, number } from "./format.js";

// The next value of a run's rows from the last: rows by key, the later one of a key counts.
export const readRows = (run) => async (last) => {
  const reply = await api("rows", { run, cursor: last?.cursor ?? "" });
  if (last && !reply.restarted && reply.rows.length === 0) return last;
  const byKey = new Map(reply.restarted || !last ? [] : last.byKey);
  for (const values of reply.rows) {
    const row = Object.fromEntries(reply.columns.map((name, i) => [name, values[i]]));
    row.key = `${row.group}-${row.member}`;
    row.order = byKey.size;
    byKey.delete(row.key);
    byKey.set(row.key, row);
  }
  const rows = [...byKey.values()];
  return { cursor: reply.cursor, byKey, rows, stages: reply.stages, damaged: reply.damaged, firstDamaged: reply.first_damaged };
};

export const COLUMNS = [
  { name: "key", title: "rollout", by: (row) => row.group * 1e6 + row.member },
  { name: "name", title: "row" },
  { name: "agent", title: "agent" },
  { name: "variant", title: "harness" },
  { name: "outcome", title: "outcome" },
  { name: "reward", title: "reward", numeric: true },
  { name: "reason", title: "reason" },
  { name: "turns", title: "turns", numeric: true },
  { name: "output_tokens", title: "tokens out", numeric: true },
  { name: "cached_tokens", title: "cached in", numeric: true, optional: true },
  { name: "reasoning_tokens", title: "reasoned", numeric: true, optional: true },
  { name: "cost_usd", title: "cost", numeric: true, optional: true },
  { name: "total_s", title: "time", numeric: true },
];

// Those that some row has something to say in.
export const usedColumns = (rows) => COLUMNS.filter((column) => !column.optional || rows.some((row) => row[column.name]));

export const reasonOf = (row) => row.reason ?? (row.failure ? `${row.failure[1]}: ${row.failure[3]}` : "");

const words = (row) => [row.key, row.name, row.agent, row.variant, row.outcome, reasonOf(row), ...Object.values(row.labels ?? {})]
  .join("\n").toLowerCase();

// Rows that a state of the page shows, in its order. `found`: keys that a search in texts gave, or null.
export function shownRows(rows, state, { found = null, groups = null } = {}) {
  const filter = (state.filter ?? "").toLowerCase();
  const kept = rows.filter((row) =>
    (!state.outcome || row.outcome === state.outcome)
    && (!state.agent || row.agent === state.agent)
    && (!state.variant || row.variant === state.variant)
    && (!state.kind || row.failure?.[1] === state.kind)
    && (!state.reward || (state.reward === "above" ? row.reward > 0 : row.reward !== null && row.reward <= 0))
    && (!groups || groups.has(row.group))
    && (!found || found.has(row.key))
    && (!filter || words(row).includes(filter)));
  const [name, direction] = (state.sort ?? "").split(".");
  const column = COLUMNS.find((one) => one.name === name);
  if (!column) return kept;
  const value = column.by ?? ((row) => (name === "reason" ? reasonOf(row) : row[name]));
  const sign = direction === "down" ? -1 : 1;
  return kept.sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if (one === other) return a.order - b.order;
    if (one === null || one === undefined) return 1;
    if (other === null || other === undefined) return -1;
    return sign * (typeof one === "number" ? one - other : String(one).localeCompare(String(other)));
  });
}

export function countBy(rows, of) {
  const counts = new Map();
  for (const row of rows) {
    const value = of(row);
    if (value !== null && value !== undefined && value !== "") counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

export const total = (values) => values.reduce((sum, value) => sum + value, 0);

export const mean = (values) => (values.length ? total(values) / values.length : null);

// Failures of one owner, kind and stage together: how many, and what the first says.
export function failureKinds(rows) {
  const kinds = new Map();
  for (const { failure } of rows) {
    if (!failure) continue;
    const [owner, kind, stage, message] = failure;
    const key = JSON.stringify([owner, kind, stage]);
    if (!kinds.has(key)) kinds.set(key, { owner, kind, stage, message, count: 0 });
    kinds.get(key).count += 1;
  }
  return [...kinds.values()].sort((a, b) => b.count - a.count);
}

// Mean seconds of each stage over rollouts with a verdict; those that took none are left out.
export function stageMeans(rows, stages) {
  const judged = rows.filter((row) => row.reward !== null);
  return stages.map((name, i) => [name.replace(/_s$/, "").replace("_", " "), mean(judged.map((row) => row.stages[i]))])
    .filter(([, value]) => value);
}

// What rollouts used: a line each. Prices are of those rollouts alone that have one.
export function totals(rows) {
  const sum = (name) => total(rows.map((row) => row[name] ?? 0));
  const priced = rows.filter((row) => row.cost_usd !== null);
  return [
    ["tokens in", number(sum("input_tokens"))],
    ["of them cached", sum("cached_tokens") ? number(sum("cached_tokens")) : ""],
    ["tokens out", number(sum("output_tokens"))],
    ["of them reasoned", sum("reasoning_tokens") ? number(sum("reasoning_tokens")) : ""],
    ["cost", priced.length ? `${dollars(sum("cost_usd"))}${priced.length < rows.length ? `, of ${number(priced.length)} of ${number(rows.length)} rollouts` : ""}` : ""],
  ].filter(([, text]) => text && text !== "0");
}

// For each tool: rollouts that called it, how often, and their mean reward.
export function toolUse(rows) {
  const tools = new Map();
  for (const row of rows) for (const [name, count] of Object.entries(row.tools ?? {})) {
    if (!tools.has(name)) tools.set(name, []);
    tools.get(name).push({ count, reward: row.reward });
  }
  return [...tools].map(([name, uses]) => ({
    name,
    count: uses.length,
    reward: mean(uses.map((use) => use.reward).filter((reward) => reward !== null)),
    calls: mean(uses.map((use) => use.count)),
  })).sort((a, b) => b.count - a.count);
}

// Running figures over rollouts as they ended: over the clock where each says when, else by their order.
export function progress(rows) {
  const timed = rows.length > 0 && rows.every((row) => row.ended_at);
  const ordered = [...rows].sort((a, b) => (timed && a.ended_at - b.ended_at) || a.order - b.order);
  const rewards = { xs: [], ys: [] };
  const failures = { xs: [], ys: [] };
  let sum = 0;
  let failed = 0;
  ordered.forEach((row, i) => {
    const x = timed ? row.ended_at : i + 1;
    if (row.reward === null) failed += 1;
    else {
      sum += row.reward;
      rewards.xs.push(x);
      rewards.ys.push(sum / rewards.xs.length);
    }
    failures.xs.push(x);
    failures.ys.push(failed);
  });
  return { timed, rewards, failures, ended: { xs: failures.xs, ys: ordered.map((_, i) => i + 1) } };
}

// One line for each value of `of`: rewards, outcomes, cost.
export function summary(rows, of) {
  const parts = new Map();
  for (const row of rows) {
    const name = of(row) ?? "";
    if (!parts.has(name)) parts.set(name, []);
    parts.get(name).push(row);
  }
  return [...parts].map(([name, own]) => ({
    name,
    count: own.length,
    reward: mean(own.map((row) => row.reward).filter((reward) => reward !== null)),
    failed: own.filter((row) => row.reward === null).length,
    turns: mean(own.map((row) => row.turns)),
    tokens: mean(own.map((row) => row.output_tokens)),
    cost: mean(own.map((row) => row.cost_usd).filter((cost) => cost !== null)),
    time: mean(own.map((row) => row.total_s)),
  })).sort((a, b) => String(a.name).localeCompare(String(b.name)));
}
