// The slowest requests that ended of late, each with its timeline: what it waited for, and how long it ran.

import { ask } from "./stream.js";
import { Table } from "./tables.js";
import { element, milliseconds, whole, write } from "./words.js";

const MOST = 10, EVERY = 5; // requests, and seconds between two looks
const section = document.getElementById("slow");
// From which moment to which, and what that is.
const PARTS = [
  ["arrived", "sealed", "--c2", "waited in the queue"],
  ["sealed", "started", "--c6", "waited for its worker"],
  ["started", "ended", "--c1", "ran"],
  ["ended", "answered", "--c7", "its answer was on the way"],
];

let longest = 1; // milliseconds, of all that are shown
const table = new Table(section.querySelector(".scroll"), [
  { name: "ended", text: (row) => row.ended.slice(11, 19) },
  { name: "model", text: (row) => row.model },
  { name: "latency", number: true, text: (row) => milliseconds(row.latency_ms) },
  { name: "timeline", draw: timeline },
  { name: "batch", number: true, text: (row) => whole(row.batch_size) },
  { name: "went", text: (row) => row.reason ?? "–" },
  { name: "worker", text: (row) => row.worker ?? "–" },
  { name: "status", text: (row) => row.error?.error ?? row.status },
  { name: "request", text: (row) => row.request_id },
], (row) => row.request_id, "No request has ended yet.");

function timeline(cell, row) {
  const parts = partsOf(row.timeline_ms ?? {}, stayedInQueue(row));
  const words = parts.map(([, length, , what]) => `${what}: ${milliseconds(length)}`).join(", ");
  if (cell.dataset.drawn === `${words} ${longest}`) return;
  cell.dataset.drawn = `${words} ${longest}`;
  const line = element("span", { class: "line", role: "img", "aria-label": words, title: words });
  for (const [begin, length, colour] of parts) {
    const part = element("span");
    part.style.width = `${(100 * length) / longest}%`;
    part.style.background = `var(${colour})`;
    if (begin) part.style.marginLeft = "1px";
    line.append(part);
  }
  cell.replaceChildren(line);
}

// The parts of a timeline: where each begins, how long it is, its colour and its name. Moments that nobody knows are
// skipped: the part before reaches to the next one that is known.
function partsOf(moments, queued) {
  if (moments.started == null && moments.sealed == null) {
    const [colour, what] = queued ? ["--c2", "waited in the queue"] : ["--c7", "in all, several tries or none"];
    return moments.answered == null ? [] : [[0, moments.answered, colour, what]];
  }
  const parts = [];
  let begin = 0;
  for (const [, until, colour, what] of PARTS) {
    const end = moments[until];
    if (end == null) continue;
    if (end - begin > 0.0005) parts.push([begin, end - begin, colour, what]);
    begin = end;
  }
  return parts;
}

// Whether it was never in a batch: it expired before its whole time was over, so it was the queue's that was.
const stayedInQueue = (row) => row.status === "EXPIRED" && !row.attempts && row.queue_limit_ms != null && row.latency_ms < row.time_limit_ms;

let looked = -EVERY;
export async function look(now, model) {
  if (now - looked < EVERY) return;
  looked = now;
  try {
    const rows = await ask(`internal/requests?slowest=${MOST}${model ? `&model=${encodeURIComponent(model)}` : ""}`);
    longest = Math.max(1, ...rows.map((row) => row.latency_ms));
    section.hidden = false;
    table.show(rows);
    write(section.querySelector("small"), rows.length ? "the slowest of the last ten minutes" : "");
  } catch {
    section.hidden = true; // this process answers no requests, or is away: the next look says
  }
}

export function lookAgain() {
  looked = -EVERY;
}
