// The line to the server: the stream of overviews, requests for the rest, and the token.
// The browser's EventSource cannot send a header, so the stream is read with fetch.

const KEPT = "penstock-admin-token"; // in this tab's sessionStorage, which ends with the tab
const FIRST_WAIT = 500, LONGEST_WAIT = 2000, SILENT = 5000; // milliseconds

let token = sessionStorage.getItem(KEPT) ?? "";

export function keepToken(given) {
  token = given;
  sessionStorage.setItem(KEPT, given);
}

export class TokenWanted extends Error {}

function headers(more = {}) {
  return token ? { authorization: `Bearer ${token}`, ...more } : more;
}

export async function ask(path, method = "GET") {
  const change = method === "GET" ? {} : { "x-penstock": "1" };
  const answer = await fetch(path, { method, headers: headers(change), cache: "no-store" });
  if (answer.status === 401) throw new TokenWanted();
  const text = await answer.text(), isJson = answer.headers.get("content-type")?.startsWith("application/json");
  const said = text && isJson ? JSON.parse(text) : null;
  if (!answer.ok) throw Object.assign(new Error(said?.message ?? `status ${answer.status}`), { status: answer.status });
  return said;
}

// Reads the stream again and again, until `stop` is called. `told(event, said)` is called for each event, and
// `stands(word)` with live, waiting or lost. `wanted()` resolves when a token has been given.
export function follow(told, stands, wanted) {
  let wait = FIRST_WAIT, over = false, current = null;

  async function once() {
    const control = (current = new AbortController());
    let timer = setTimeout(() => control.abort(), SILENT);
    const answer = await fetch("internal/stream", { headers: headers(), signal: control.signal, cache: "no-store" });
    if (answer.status === 401) { clearTimeout(timer); throw new TokenWanted(); }
    if (!answer.ok) { clearTimeout(timer); throw new Error(`status ${answer.status}`); }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => control.abort(), SILENT);
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const [name, data] = event.split("\n");
          told(name.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
          stands("live");
          wait = FIRST_WAIT;
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async function run() {
    while (!over) {
      try {
        await once();
      } catch (error) {
        if (error instanceof TokenWanted) { stands("waiting"); await wanted(token !== ""); continue; }
      }
      if (over) return;
      stands("lost");
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(LONGEST_WAIT, 2 * wait);
    }
  }

  run();
  return { stop() { over = true; current?.abort(); } };
}
