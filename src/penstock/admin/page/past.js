// What the charts show: the last hour, a second a point for the last five minutes and ten seconds before that.

const FINE = 300, STEP = 10, HOUR = 3600, GAP = 25, MINUTE = 60; // seconds

export class PastHour {
  points = []; // { at, all, models }, the oldest first

  // The server's hour, which comes when the stream begins. What this page has seen itself is finer, and stays.
  fill(steps) {
    const known = new Set(this.points.map((point) => Math.floor(point.at / STEP)));
    for (const step of steps)
      if (!known.has(Math.floor(step.at / STEP))) this.points.push({ at: step.at, all: step.figures, models: step.models });
    this.points.sort((a, b) => a.at - b.at);
  }

  add(overview) {
    const models = {};
    for (const model of overview.models) models[model.name] = model.figures;
    this.points.push({ at: overview.at, all: overview.figures, models });
    this.thin(overview.at);
  }

  thin(now) {
    let last = -1;
    this.points = this.points.filter((point) => {
      if (point.at < now - HOUR) return false;
      if (point.at > now - FINE) return true;
      const step = Math.floor(point.at / STEP), kept = step !== last;
      last = step;
      return kept;
    });
  }

  // Columns for a chart: the times, and for each of `picks` its values. Where nothing is known there is a gap.
  columns(model, picks, since) {
    const times = [], columns = picks.map(() => []);
    let last = null;
    for (const point of this.points) {
      if (point.at < since) continue;
      if (last !== null && point.at - last > GAP) {
        times.push(last + 1);
        columns.forEach((column) => column.push(null));
      }
      last = point.at;
      times.push(point.at);
      const figures = model ? point.models[model] : point.all;
      picks.forEach((pick, place) => columns[place].push(figures ? pick(figures) ?? null : null));
    }
    return [times, ...columns];
  }

  // Where a chart begins that is to show so many seconds: later if less is known, but never less than a minute ago.
  since(now, seconds) {
    return Math.max(now - seconds, Math.min(this.points[0]?.at ?? now, now - MINUTE));
  }

  // Every key that a table of the figures has had, in the order of `first` and then as they came.
  keys(model, table, first = []) {
    const found = new Set(first);
    for (const point of this.points) {
      const figures = model ? point.models[model] : point.all;
      for (const key of Object.keys(figures?.[table] ?? {})) found.add(key);
    }
    return [...found];
  }
}
