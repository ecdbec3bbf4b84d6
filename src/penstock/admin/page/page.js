// The live page: takes in the stream, and shows it. What each panel means is in docs/page.md.

import { Chart } from "./charts.js";
import { forgetWhatIsKnown, look as lookAtLetters } from "./letters.js";
import { PastHour } from "./past.js";
import { look as lookAtSlow, lookAgain } from "./slow.js";
import { follow, keepToken } from "./stream.js";
import { busy, Table } from "./tables.js";
import { clock, element, GROUPS, milliseconds, percent, rate, sum, whole, write } from "./words.js";

const by = (id) => document.getElementById(id);
const ANSWERS = ["serve", "gateway"]; // who knows of dead letters and of requests that have ended
const past = new PastHour();
const state = { overview: null, model: "", minutes: 60, paused: false };

// ---- the top ------------------------------------------------------------------------------------------------

function showVerdict({ level, says, advice }) {
  by("verdict").className = `verdict ${level}`;
  write(by("verdict").querySelector(".says"), says);
  write(by("verdict").querySelector(".advice"), advice);
  const mark = { good: "", warning: "⚠ ", bad: "✖ " }[level];
  const title = `${mark}${says} Penstock`;
  if (document.title !== title) document.title = title;
}

const TILES = [
  ["served", (now) => [rate(now.figures.rates.ok ?? 0), "requests/s"]],
  ["not served", (now) => [rate(sum(now.figures.rates) - (now.figures.rates.ok ?? 0)), "requests/s"]],
  ["latency p99", (now) => [milliseconds(now.figures.p99), now.promise ? `objective ${milliseconds(1e3 * now.promise.objective)}` : `p50 ${milliseconds(now.figures.p50)}`]],
  ["load", (now) => [percent(now.used), now.used == null ? "nothing is known yet" : now.one ? `of ${whole(now.figures.capacity)} requests/s` : `${now.fullest}, the fullest`]],
  ["queue", (now) => [whole(sum(now.figures.queue)), now.wait == null ? "requests wait" : `wait ${milliseconds(1e3 * now.wait)}`]],
  ["batch", (now) => [now.figures.batch == null ? "–" : now.figures.batch.toFixed(1), now.largest ? `requests, of ${now.largest}` : "requests"]],
  ["workers", (now) => [`${now.healthy}/${now.workers}`, `busy ${percent(now.busy)}`]],
  ["cache", (now) => [percent(now.figures.hits), now.figures.hits == null ? "not asked" : "answered by it"]],
  ["dead letters", (now) => [whole(now.letters), "since the start"]],
];
const tiles = TILES.map(([name, pick]) => {
  const figure = element("div", { class: "figure" }), more = element("div", { class: "more" });
  by("tiles").append(element("div", { class: "tile", "data-tile": name }, element("div", { class: "name" }, name), figure, more));
  return { pick, figure, more };
});

// What is shown of the model that is looked at, or of all together.
function chosen(overview) {
  const one = overview.models.find((model) => model.name === state.model) ?? (overview.models.length === 1 ? overview.models[0] : null);
  const models = one ? [one] : overview.models;
  const fullest = models.reduce((most, model) => (most && (used(most.figures) ?? -1) >= (used(model.figures) ?? -1) ? most : model), null);
  const workers = overview.workers.filter((worker) => !one || worker.model === one.name);
  return {
    one, models, used: fullest && used(fullest.figures), fullest: fullest?.name, workers: workers.length, healthy: workers.filter((worker) => worker.status === "healthy").length,
    figures: state.model && one ? one.figures : overview.figures, promise: one?.promise,
    wait: models.reduce((most, model) => (model.standing.expected_wait == null ? most : Math.max(most ?? 0, model.standing.expected_wait)), null),
    largest: one?.standing.max_batch, letters: models.reduce((total, model) => total + model.letters, 0),
    busy: workers.length ? workers.reduce((total, worker) => total + worker.utilization, 0) / workers.length : null,
  };
}

// ---- charts -------------------------------------------------------------------------------------------------

const COLOURS = { ok: "--c1", failed: "--c5", refused: "--c2", quota: "--c3", rejected: "--c6", left: "--c7" };
const SERIES = ["--c1", "--c2", "--c3", "--c4", "--c6", "--c8", "--c7", "--c5"];
const charts = {
  requests: new Chart(by("chart-requests"), "Requests a second", { format: rate }),
  latency: new Chart(by("chart-latency"), "Latency of served requests", { format: milliseconds }),
  load: new Chart(by("chart-load"), "Load and capacity a second", { format: rate }),
  queue: new Chart(by("chart-queue"), "Waiting, by tier", { format: whole, whole: true, least: 4 }),
  batch: new Chart(by("chart-batch"), "Requests in a batch", { format: (value) => value.toFixed(1) }),
  reasons: new Chart(by("chart-reasons"), "Batches a second, by reason", { format: rate }),
  curve: new Chart(by("chart-curve"), "Time of a batch, by its size", { format: milliseconds, time: false, label: "size" }),
  shares: new Chart(by("chart-shares"), "Cache and padding", { format: percent, least: 0.1 }),
};

const named = (keys) => keys.map((key, place) => ({ name: key, colour: SERIES[place % SERIES.length] }));

function showCharts(overview, { one, models }) {
  const model = state.model, now = overview.at, since = past.since(now, 60 * state.minutes);
  const scale = [since, now];
  const put = (chart, lines, picks, note = "") => chart.show(lines, past.columns(model, picks, since), note, scale);

  const groups = past.keys(model, "rates", ["ok"]).filter((group) => group in GROUPS);
  put(charts.requests, groups.map((group) => ({ name: GROUPS[group], colour: COLOURS[group], fill: group === "ok" })),
    groups.map((group) => (figures) => figures.rates[group] ?? 0));

  const objective = one?.promise ? 1e3 * one.promise.objective : null;
  const near = objective != null && (overview.figures.p99 ?? 0) > objective / 4;
  put(charts.latency, [
    { name: "p50", colour: "--c1" }, { name: "p95", colour: "--c3" }, { name: "p99", colour: "--c2" },
    ...(near ? [{ name: "objective", colour: "--c7", dash: [6, 4], width: 1 }] : []),
  ], [(f) => f.p50, (f) => f.p95, (f) => f.p99, ...(near ? [() => objective] : [])],
  objective == null || near ? "" : `The objective is ${milliseconds(objective)}.`);

  put(charts.load, [{ name: "asked for", colour: "--c1", fill: true }, { name: "capacity", colour: "--c7", dash: [6, 4] }],
    [(f) => f.load, (f) => f.capacity || null]);

  const tiers = past.keys(model, "queue");
  put(charts.queue, named(tiers), tiers.map((tier) => (f) => f.queue[tier] ?? 0), depths(one));
  put(charts.batch, [{ name: "requests", colour: "--c1", fill: true }], [(f) => f.batch],
    one ? `${one.standing.policy}: ${one.policy_reason}.` : "");
  const reasons = past.keys(model, "reasons");
  put(charts.reasons, named(reasons), reasons.map((reason) => (f) => f.reasons[reason] ?? 0));
  put(charts.shares, [{ name: "cache", colour: "--c4" }, { name: "padding", colour: "--c2" }], [(f) => f.hits, (f) => f.padding]);
  showCurve(models);
}

function depths(one) {
  const { warning_depth: warning, critical_depth: critical } = one?.standing ?? {};
  if (warning == null || Object.keys(one.standing.queue).length < 2) return "";
  return `With ${whole(warning)} waiting the lowest tier is refused, with ${whole(critical)} all but the best.`;
}

function showCurve(models) {
  const known = models.filter((model) => model.standing.curve.length);
  const sizes = [...new Set(known.flatMap((model) => model.standing.curve.map(([size]) => size)))].sort((a, b) => a - b);
  const columns = known.map((model) => {
    const seconds = new Map(model.standing.curve);
    return sizes.map((size) => (seconds.has(size) ? 1e3 * seconds.get(size) : null));
  });
  const best = known.map(({ name, standing }) => `${known.length > 1 ? `${name}: ` : ""}batches of ${standing.best_batch}, at most ${standing.max_batch}`);
  charts.curve.show(
    known.map((model, place) => ({ name: model.name, colour: SERIES[place % SERIES.length], points: true, through: true })),
    [sizes, ...columns], best.length ? `Best throughput: ${best.slice(0, 4).join("; ")}.` : "No batch has been seen yet.",
    sizes.length > 1 ? [0, sizes[sizes.length - 1]] : [0, 2]);
}

// ---- tables -------------------------------------------------------------------------------------------------

const scroll = (id) => by(id).querySelector(".scroll");
const used = (figures) => (figures.capacity ? figures.load / figures.capacity : null);
const models = new Table(scroll("models"), [
  { name: "model", text: (row) => row.name, sort: (row) => row.name },
  { name: "served/s", number: true, text: (row) => rate(row.figures.rates.ok ?? 0), sort: (row) => row.figures.rates.ok ?? 0 },
  { name: "not served/s", number: true, text: (row) => rate(sum(row.figures.rates) - (row.figures.rates.ok ?? 0)), sort: (row) => sum(row.figures.rates) - (row.figures.rates.ok ?? 0) },
  { name: "load", number: true, text: (row) => percent(used(row.figures)), sort: (row) => used(row.figures) ?? -1 },
  { name: "p50", number: true, text: (row) => milliseconds(row.figures.p50), sort: (row) => row.figures.p50 ?? -1 },
  { name: "p99", number: true, text: (row) => milliseconds(row.figures.p99), sort: (row) => row.figures.p99 ?? -1 },
  { name: "queue", number: true, text: (row) => whole(sum(row.figures.queue)), sort: (row) => sum(row.figures.queue) },
  { name: "batch", number: true, text: (row) => `${row.figures.batch == null ? "–" : row.figures.batch.toFixed(1)} of ${row.standing.max_batch}` },
  { name: "workers", number: true, text: (row) => `${row.healthy}/${row.workers}` },
  { name: "policy", text: (row) => row.standing.policy },
  { name: "why", words: true, text: (row) => row.policy_reason },
], (row) => row.name, "No model has been announced yet.");

const tiers = new Table(scroll("tiers"), [
  { name: "tier", text: (row) => row.tier },
  { name: "waiting", number: true, text: (row) => whole(row.waiting) },
  { name: "refused/s", number: true, text: (row) => rate(row.refused) },
  { name: "now", text: (row) => (row.refused > 0 ? "some requests are refused" : "let in") },
], (row) => row.tier, "No tier is known yet.");

function tierRows(shown) {
  const rows = new Map();
  for (const model of shown.models)
    for (const [tier, waiting] of Object.entries(model.standing.queue)) {
      const row = rows.get(tier) ?? { tier, waiting: 0, refused: 0 };
      row.waiting += waiting;
      row.refused += model.refused_tiers[tier] ?? 0;
      rows.set(tier, row);
    }
  return [...rows.values()];
}

const workers = new Table(scroll("workers"), [
  { name: "worker", text: (row) => row.worker, sort: (row) => row.worker },
  { name: "model", text: (row) => row.model, sort: (row) => row.model },
  { name: "state", text: (row) => row.state, sort: (row) => row.state },
  { name: "busy", draw: (cell, row) => busy(cell, row.utilization, percent(row.utilization)), sort: (row) => row.utilization },
  { name: "in flight", number: true, text: (row) => whole(row.in_flight), sort: (row) => row.in_flight },
  { name: "batches", number: true, text: (row) => whole(row.batches), sort: (row) => row.batches },
  { name: "speed", number: true, text: (row) => (row.relative_service_time == null ? "–" : `× ${row.relative_service_time.toFixed(2)}`), sort: (row) => row.relative_service_time ?? 0 },
  { name: "restarts", number: true, text: (row) => whole(row.restarts), sort: (row) => row.restarts },
  { name: "host", text: (row) => row.host, sort: (row) => row.host },
  { name: "last error", words: true, text: (row) => row.last_error },
], (row) => row.worker, "No worker has joined.", [0, 1]);

const codes = new Table(scroll("codes"), [
  { name: "code", text: (row) => row.code },
  { name: "a second", number: true, text: (row) => rate(row.now) },
  { name: "since the start", number: true, text: (row) => whole(row.total) },
], (row) => row.code, "");

function codeRows(shown) {
  const rows = new Map();
  for (const model of shown.models)
    for (const table of [model.outcomes, model.refused])
      for (const [code, number] of Object.entries(table))
        if (code !== "SUCCESS") rows.set(code, (rows.get(code) ?? 0) + number);
  for (const code of Object.keys(shown.figures.codes)) if (!rows.has(code)) rows.set(code, null);
  return [...rows].map(([code, total]) => ({ code, total, now: shown.figures.codes[code] ?? 0 })).sort((a, b) => b.now - a.now || b.total - a.total);
}

const processes = new Table(scroll("processes"), [
  { name: "process", text: (row) => row.name },
  { name: "role", text: (row) => row.role },
  { name: "host", text: (row) => row.host },
  { name: "last heard of", text: (row) => `${row.last_seen.toFixed(1)} s ago` },
  { name: "figures", text: (row) => (["worker", "autoscaler"].includes(row.role) ? "in its heartbeats" : row.told ? "here" : "missing") },
], (row) => row.name, "");

// ---- one overview -------------------------------------------------------------------------------------------

function show() {
  const overview = state.overview;
  if (!overview) return;
  write(by("who"), `${overview.name}${overview.name === overview.role ? "" : ` (${overview.role})`} ${overview.version} · ${clock(overview.at)}`);
  offerModels(overview.models.map((model) => model.name));
  const shown = chosen(overview);
  showVerdict(overview.verdict);
  for (const tile of tiles) {
    const [figure, more] = tile.pick(shown);
    write(tile.figure, figure);
    write(tile.more, more);
  }
  showCharts(overview, shown);
  models.show(state.model ? shown.models : overview.models);
  tiers.show(tierRows(shown));
  const own = overview.workers.filter((worker) => !state.model || worker.model === state.model);
  write(by("workers").querySelector("small"), own.length > 1 ? `${own.length}` : "");
  workers.show(own);
  const rows = codeRows(shown);
  by("codes").hidden = !rows.length;
  codes.show(rows);
  by("processes").hidden = !overview.processes.length;
  processes.show(overview.processes);
}

function offerModels(names) {
  const select = by("model"), offered = [...select.options].map((option) => option.value);
  const wanted = ["", ...names];
  if (offered.join("\n") !== wanted.join("\n")) {
    select.replaceChildren(...wanted.map((name) => element("option", { value: name }, name || "all")));
    if (!names.includes(state.model)) state.model = "";
    select.value = state.model;
  }
  by("model-choice").hidden = names.length < 2;
}

// ---- the stream ---------------------------------------------------------------------------------------------

function told(event, said) {
  if (event === "hour") {
    past.fill(said);
    forgetWhatIsKnown();
    return;
  }
  past.add(said);
  if (state.paused) return;
  state.overview = said;
  show();
  if (!ANSWERS.includes(said.role)) return;
  lookAtLetters(said);
  lookAtSlow(said.at, state.model);
}

function stands(word) {
  const link = by("link");
  link.className = `link ${word}`;
  write(link, { live: state.paused ? "paused" : "live", waiting: "waiting for the token", lost: "no answer, trying again" }[word]);
  document.body.classList.toggle("stale", word !== "live");
}

function wanted(refused) {
  const dialog = by("token-dialog"), input = by("token");
  write(by("token-said"), refused ? "That is not the token." : "");
  if (!dialog.open) dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    const send = () => {
      if (!input.value) return;
      keepToken(input.value);
      input.value = "";
      dialog.close();
      resolve();
    };
    by("token-send").onclick = send;
    input.onkeydown = (event) => { if (event.key === "Enter") { event.preventDefault(); send(); } };
    dialog.oncancel = (event) => event.preventDefault();
  });
}

let line = null;
const connect = () => { line ??= follow(told, stands, wanted); };
const hangUp = () => { line?.stop(); line = null; };
// Nobody looks at a hidden page, so it costs the server nothing. The hour that the server sends fills the gap.
document.addEventListener("visibilitychange", () => (document.hidden ? hangUp() : connect()));

// ---- keys and buttons ---------------------------------------------------------------------------------------

function choose(minutes) {
  state.minutes = minutes;
  for (const button of by("range").querySelectorAll("button")) button.setAttribute("aria-pressed", String(+button.dataset.minutes === minutes));
  show();
}

function turn(theme) {
  document.documentElement.dataset.theme = theme;
  show();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const KEPT = "penstock-theme";
turn(localStorage.getItem(KEPT) ?? (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => { if (!localStorage.getItem(KEPT)) turn(dark.matches ? "dark" : "light"); });

function otherTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem(KEPT, theme);
  turn(theme);
}

function see(model) {
  state.model = model;
  lookAgain();
  show();
}

function nextModel() {
  const select = by("model");
  if (select.options.length < 3) return;
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
  see(select.value);
}

function go(id) {
  const place = by(id);
  if (place.hidden) return;
  place.scrollIntoView({ block: "start" });
  (place.querySelector("button") ?? place.querySelector(".scroll") ?? place).focus({ preventScroll: true });
}

function pause() {
  state.paused = !state.paused;
  stands("live");
}

const KEYS = {
  1: () => choose(5), 2: () => choose(15), 3: () => choose(60), m: nextModel, t: otherTheme, p: pause, "?": () => by("help-dialog").showModal(),
  w: () => go("workers"), d: () => go("letters"), s: () => go("slow"), o: () => { scrollTo(0, 0); by("main").focus({ preventScroll: true }); },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, select, textarea")) return;
  KEYS[event.key]?.();
});
for (const button of by("range").querySelectorAll("button")) button.addEventListener("click", () => choose(+button.dataset.minutes));
by("theme").addEventListener("click", otherTheme);
by("help").addEventListener("click", () => by("help-dialog").showModal());
by("model").addEventListener("change", (event) => see(event.target.value));
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());

connect();
