// Requests to the server, and the page's state, which is all in the address: `#/PAGE?KEY=VALUE`.

const TOKEN = "paddock-token";
const WANTED = "paddock-wanted";

// The address that the command printed has the token in its fragment; it is kept for this tab alone.
export function takeToken() {
  const match = /^#token=([^&]+)$/.exec(location.hash);
  if (match) {
    sessionStorage.setItem(TOKEN, decodeURIComponent(match[1]));
    // A link from elsewhere came without the token: what it names is shown once the token is there.
    history.replaceState(null, "", sessionStorage.getItem(WANTED) ?? "#/");
    sessionStorage.removeItem(WANTED);
  }
}

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function api(name, query = {}, body) {
  const address = `/api/${name}?${new URLSearchParams(query)}`;
  const headers = { authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? ""}` };
  const options = body === undefined ? { headers } : {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body),
    keepalive: true, // what was noted last is stored though the page is left
  };
  let reply;
  try {
    reply = await fetch(address, options);
  } catch {
    throw new ApiError(0, "the server does not answer: `paddock view` has ended, or the tunnel to it");
  }
  if (reply.ok) return reply.json();
  if (reply.status === 401) sessionStorage.setItem(WANTED, location.hash);
  const text = await reply.text();
  let message = text;
  try {
    message = JSON.parse(text).error.message;
  } catch { /* no JSON: the text is the message */ }
  throw new ApiError(reply.status, message);
}

export function readState() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { page: path.replace(/^\//, "") || "runs", ...Object.fromEntries(new URLSearchParams(query)) };
}

export function href(page, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return `#/${page}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

// Changes some of the state on the page that is shown, as the address has it now: clicks come faster than renders.
export function change(changes, options) {
  const { page, ...state } = readState();
  go(page, { ...state, ...changes }, options);
}

// `replace`: for what is typed, so that "back" leaves the page.
export function go(page, query, { replace = false } = {}) {
  const address = href(page, query);
  if (replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}
