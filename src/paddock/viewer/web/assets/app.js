// The page: which view the address names.

import { html, render, useEffect, useLayoutEffect, useState } from "./vendor/preact-htm-3.1.1.js";
import { readState, takeToken } from "./api.js";
import { Report } from "./report.js";
import { Rollout } from "./rollout.js";
import { Run } from "./run.js";
import { Runs } from "./runs.js";

const PAGES = { runs: Runs, run: Run, report: Report, rollout: Rollout };

function App() {
  const [state, setState] = useState(readState());
  // At once: an address that changes before the first paint would go unseen.
  useLayoutEffect(() => {
    const change = () => { takeToken(); setState(readState()); };
    const press = (event) => {
      if (event.key !== "/" || event.target.matches("input, textarea")) return;
      const field = document.getElementById("filter");
      if (field) { event.preventDefault(); field.focus(); }
    };
    addEventListener("hashchange", change);
    addEventListener("keydown", press);
    return () => { removeEventListener("hashchange", change); removeEventListener("keydown", press); };
  }, []);
  useEffect(() => { document.title = [state.at, state.run, "Paddock"].filter(Boolean).join(" · "); }, [state]);
  const Page = Object.hasOwn(PAGES, state.page) && PAGES[state.page];
  if (!Page) return html`<p class="error" role="alert">There is no page <code>${state.page}</code>. <a href="#/">All runs</a></p>`;
  return html`<${Page} key=${`${state.page} ${state.run ?? ""} ${state.at ?? ""}`} state=${state} />`;
}

takeToken();
const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
