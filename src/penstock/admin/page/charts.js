// The charts: one class around uPlot, with a key above each that shows the newest values, or those under the pointer.

import { element, write } from "./words.js";

const WHOLE = [1, 2, 5].flatMap((step) => [0, 1, 2, 3, 4, 5, 6].map((power) => step * 10 ** power)).sort((a, b) => a - b);
const letter = () => parseFloat(getComputedStyle(document.documentElement).fontSize); // pixels; it follows the width
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  // `lines`: { name, colour, width, fill, dash, show } for each column but the first.
  constructor(figure, title, { format, time = true, label = "", least = 1, whole = false }) {
    this.figure = figure;
    this.format = format;
    this.time = time;
    this.least = least; // the least that the axis reaches to
    this.whole = whole; // whether only whole numbers mean something
    this.label = label; // what x is, where it is not the time
    this.key = element("div", { class: "key" });
    this.place = element("div", { class: "plot", role: "img", "aria-label": title });
    this.note = element("p", { class: "note" });
    figure.append(element("h2", {}, title), this.key, this.place, this.note);
    this.shape = "";
    this.plot = null;
    this.values = [];
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  show(lines, columns, note = "", scale = null) {
    write(this.note, note);
    this.columns = columns;
    this.scale = scale;
    const shape = JSON.stringify([lines.map((line) => [line.name, line.colour, line.dash]), document.documentElement.dataset.theme]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.make(lines);
    } else {
      this.plot.setData(columns);
    }
    this.tell(null);
  }

  make(lines) {
    this.plot?.destroy();
    this.lines = lines;
    this.letter = letter();
    const text = colour("--soft"), grid = colour("--grid"), size = this.letter;
    const font = `${Math.round(0.75 * size)}px system-ui, sans-serif`;
    const axis = { stroke: text, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 } };
    const format = this.format;
    this.plot = new uPlot(
      {
        ...this.size(),
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { size: 6 } },
        scales: { x: { time: this.time, range: (_, low, high) => this.scale ?? [low, high] }, y: { range: (_, low, high) => [0, Math.max(high * 1.08, this.least)] } },
        axes: [
          { ...axis, size: 1.9 * size, space: 5 * size, values: this.time ? (_, ticks) => ticks.map(atTick) : undefined },
          { ...axis, size: 4.2 * size, space: 2 * size, ...(this.whole ? { incrs: WHOLE } : {}), values: (_, ticks) => ticks.map((tick) => format(tick)) },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            stroke: colour(line.colour), width: line.width ?? 1.75, dash: line.dash,
            fill: line.fill ? `${colour(line.colour)}26` : undefined, points: { show: line.points ?? false }, spanGaps: line.through ?? false,
          })),
        ],
        hooks: { setCursor: [(plot) => this.tell(plot.cursor.idx)] },
      },
      this.columns,
      this.place,
    );
    this.values = lines.map((line) => element("b"));
    const mark = (line) => { const made = element("i"); made.style.background = colour(line.colour); return made; };
    this.key.replaceChildren(...lines.map((line, place) => element("span", {}, mark(line), `${line.name} `, this.values[place])));
  }

  // The values at this place of the columns; the newest where there is none.
  tell(place) {
    if (!this.plot) return;
    const under = this.plot.cursor.left >= 0 ? this.plot.cursor.idx : place;
    this.values.forEach((value, line) => {
      const column = this.columns[line + 1];
      const said = under == null ? (this.time ? column[column.length - 1] : null) : column[under];
      const x = under != null && !this.time && line === 0 ? `${this.label} ${this.columns[0][under]}: ` : "";
      write(value, said == null ? (this.time ? "–" : "") : x + this.format(said));
    });
  }

  size() {
    return { width: Math.max(120, Math.floor(this.place.clientWidth)), height: Math.floor(this.place.clientHeight) || 180 };
  }

  resize() {
    if (!this.plot) return;
    const size = this.size();
    if (letter() !== this.letter) {
      this.make(this.lines);
      this.tell(null);
    } else if (size.width !== this.plot.width || size.height !== this.plot.height) {
      this.plot.setSize(size);
    }
  }
}

const atTick = (tick) => {
  const text = new Date(tick * 1000).toLocaleTimeString("en-GB");
  return text.endsWith(":00") ? text.slice(0, 5) : text;
};
