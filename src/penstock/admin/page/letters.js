// Dead letters: list, show, retry, forget. Only processes that keep them have the section.

import { ask, TokenWanted } from "./stream.js";
import { Table } from "./tables.js";
import { element, write } from "./words.js";

const PAGE = 50;
const section = document.getElementById("letters"), said = document.getElementById("letters-said");
const purge = document.getElementById("purge");

const table = new Table(
  section.querySelector(".scroll"),
  [
    { name: "time", text: (row) => String(row.time).slice(0, 19).replace("T", " ") },
    { name: "model", text: (row) => row.model },
    { name: "tenant", text: (row) => row.tenant || "–" },
    { name: "attempts", number: true, text: (row) => String(row.attempts) },
    { name: "error", text: (row) => row.error },
    { name: "message", words: true, text: (row) => row.message },
    { name: "", draw: actions },
  ],
  (row) => row.id,
  "No dead letters.",
);

function actions(cell, row) {
  if (cell.firstChild) return;
  const button = (name, act) => {
    const made = element("button", { type: "button", "aria-label": `${name} ${row.id}` }, name);
    made.addEventListener("click", () => act(row.id));
    return made;
  };
  cell.append(button("Retry", retry), " ", button("Show", show), " ", button("Forget", forget));
}

let counted = null; // dead letters since the start, when the list was last fetched

export async function look(overview) {
  const letters = overview.models.reduce((total, model) => total + model.letters, 0);
  if (letters === counted) return;
  counted = letters;
  await fetchAll();
}

export function forgetWhatIsKnown() {
  counted = null;
}

async function fetchAll() {
  try {
    const rows = await ask(`internal/dlq?limit=${PAGE}`);
    section.hidden = false;
    purge.disabled = !rows.length;
    write(section.querySelector("small"), rows.length >= PAGE ? `the newest ${PAGE}` : rows.length ? String(rows.length) : "");
    table.show(rows);
  } catch {
    counted = null; // the next overview tries again
  }
}

async function change(does, done) {
  try {
    write(said, done(await does()));
  } catch (error) {
    write(said, error instanceof TokenWanted ? "The token is no longer right: load the page again." : error.message);
  }
  await fetchAll();
}

const at = (id) => `internal/dlq/${encodeURIComponent(id)}`;
const retry = (id) => change(() => ask(`${at(id)}/retry`, "POST"), (task) => `Sent again; its result will be at /v1/result/${task.task_id}.`);
const forget = (id) => change(() => ask(at(id), "DELETE"), () => "Forgotten.");

async function show(id) {
  const dialog = document.getElementById("letter-dialog");
  try {
    dialog.querySelector("pre").textContent = JSON.stringify(await ask(at(id)), null, 2);
    dialog.showModal();
  } catch (error) {
    write(said, error.message);
  }
}

purge.addEventListener("click", () =>
  sure("Forget all dead letters?", "They cannot be retried afterwards.", () =>
    change(() => ask("internal/dlq", "DELETE"), (answer) => `Forgotten: ${answer.purged}.`)));

function sure(title, about, act) {
  const dialog = document.getElementById("sure-dialog"), yes = document.getElementById("sure-yes");
  write(document.getElementById("sure-title"), title);
  write(document.getElementById("sure-about"), about);
  yes.onclick = () => { dialog.close(); act(); };
  document.getElementById("sure-no").onclick = () => dialog.close();
  dialog.showModal();
  document.getElementById("sure-no").focus();
}
