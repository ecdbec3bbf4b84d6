// Tables whose rows are kept from one overview to the next, so that focus and selection stay where they are.

import { element, write } from "./words.js";

const MOST = 200; // rows

export class Table {
  // `columns`: { name, text(row), number, words, sort(row), draw(cell, row) }. `key(row)`: which row is which.
  constructor(place, columns, key, nothing, sort = null) {
    this.columns = columns;
    this.key = key;
    this.sort = sort; // [the column's number, 1 for ascending or -1]
    this.rows = new Map();
    this.last = [];
    this.heads = columns.map((column, place) => {
      const head = element("th", { scope: "col", ...(column.number ? { class: "number" } : {}) });
      if (column.sort) {
        const button = element("button", { type: "button", title: `Sort by ${column.name}` }, column.name);
        button.addEventListener("click", () => this.sortBy(place));
        head.append(button);
      } else {
        head.append(column.name);
      }
      return head;
    });
    this.body = element("tbody");
    this.nothing = element("p", { class: "none" }, nothing);
    this.table = element("table", {}, element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    place.append(this.table, this.nothing);
  }

  sortBy(place) {
    const descends = this.sort?.[0] === place ? -this.sort[1] : this.columns[place].number ? -1 : 1;
    this.sort = [place, descends];
    this.show(this.last);
  }

  show(rows) {
    this.last = rows;
    if (this.sort) {
      const [place, way] = this.sort, by = this.columns[place].sort;
      rows = [...rows].sort((a, b) => { const x = by(a), y = by(b); return way * (x < y ? -1 : x > y ? 1 : 0); });
      this.heads.forEach((head, at) => (at === place ? head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending") : head.removeAttribute("aria-sort")));
    }
    const seen = new Set();
    rows.slice(0, MOST).forEach((row, place) => {
      const name = String(this.key(row));
      seen.add(name);
      let kept = this.rows.get(name);
      if (!kept) {
        const cells = this.columns.map((column) => element("td", { class: column.number ? "number" : column.words ? "words" : "" }));
        this.rows.set(name, (kept = { cells, line: element("tr", {}, ...cells) }));
      }
      this.columns.forEach((column, at) => (column.draw ? column.draw(kept.cells[at], row) : write(kept.cells[at], column.text(row))));
      if (this.body.children[place] !== kept.line) this.body.insertBefore(kept.line, this.body.children[place] ?? null);
    });
    for (const [name, kept] of this.rows)
      if (!seen.has(name)) { kept.line.remove(); this.rows.delete(name); }
    this.table.hidden = !rows.length;
    this.nothing.hidden = rows.length > 0;
  }
}

// A bar for a part from 0 to 1, with its number.
export function busy(cell, part, text) {
  if (!cell.firstChild) cell.append(element("span", { class: "busy" }, element("span")), element("span"));
  const [bar, said] = cell.children;
  const width = `${Math.round(100 * Math.min(1, part))}%`;
  if (bar.firstChild.style.width !== width) bar.firstChild.style.width = width;
  write(said, text);
}
