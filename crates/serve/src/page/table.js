// A table with elements for its visible rows only.

import { el, fill, text } from "./dom.js";

const ROW = 26;
/** Rows drawn above and below the visible ones. */
const MARGIN = 8;
/** Browsers limit the height of an element (Firefox to 17.8 million pixels). Beyond this one, scrolling is scaled. */
const TALLEST = 15_000_000;

/**
 * `columns` are `{ name, label, width, className, render(cell, row) }`; `source` has `total`, `row(index)` and
 * `want(first, end)`. `on.open(row)` opens a row, `on.sort(column)` sorts.
 */
export class Table {
  #columns;
  #on;
  #source = null;
  #rows = new Map();
  #free = [];
  #selected = -1;
  #opened = null;
  #seen = new Map();
  #frame = 0;
  #sort = "";

  constructor(columns, label, on) {
    this.#columns = columns;
    this.#on = on;
    this.head = el("div.thead", { role: "row", "aria-rowindex": 1 });
    this.space = el("div.space", { role: "presentation" });
    this.scroller = el("div.scroller", { role: "rowgroup", tabIndex: 0, "aria-label": `${label}, rows` }, this.space);
    this.note = el("p.empty", { hidden: true });
    this.element = el(
      "div.table",
      { role: "grid", "aria-label": label, "aria-readonly": "true" },
      this.head,
      this.scroller,
      this.note,
    );
    this.element.style.setProperty("--columns", columns.map((column) => column.width).join(" "));
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.scroller.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.#resize = new ResizeObserver(() => this.draw());
    this.#resize.observe(this.scroller);
    this.#drawHead();
  }

  #resize;

  close() {
    cancelAnimationFrame(this.#frame);
    this.#resize.disconnect();
  }

  /** Shows another source, from its start. */
  show(source, sort) {
    this.#source = source;
    this.#selected = -1;
    this.#seen.clear();
    this.scroller.scrollTop = 0;
    this.#sort = sort;
    this.#drawHead();
    this.draw();
  }

  /** Marks the row of the opened object. */
  open(key) {
    this.#opened = key;
    this.draw();
  }

  /** Draws the visible rows before the next frame. */
  draw() {
    if (this.#frame === 0) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#draw();
      });
    }
  }

  /** Shows a sentence in place of rows. */
  say(...content) {
    this.note.hidden = content.length === 0;
    fill(this.note, ...content);
  }

  /** Moves the selection by a number of rows. */
  move(by) {
    const total = this.#source?.total ?? 0;
    if (total === 0) return;
    const from = this.#selected < 0 ? (by > 0 ? this.#firstVisible() - 1 : this.#firstVisible() + 1) : this.#selected;
    this.select(Math.max(0, Math.min(total - 1, from + by)));
  }

  /** Selects a row and scrolls to it. */
  select(index) {
    this.#selected = index;
    const top = this.#offset(index);
    const visible = this.#viewport();
    const now = this.#position();
    if (top < now) this.#scrollTo(top);
    else if (top + ROW > now + visible) this.#scrollTo(top + ROW - visible);
    this.draw();
  }

  selectFirst() {
    this.select(0);
  }

  selectLast() {
    this.select(Math.max(0, (this.#source?.total ?? 0) - 1));
  }

  /** Opens the selected row. */
  openSelected() {
    const row = this.#selected < 0 ? null : this.#source?.row(this.#selected);
    if (row) this.#on.open(row);
    return row !== null;
  }

  pageRows() {
    return Math.max(1, Math.floor(this.#viewport() / ROW) - 1);
  }

  #viewport() {
    return this.scroller.clientHeight;
  }

  #offset(index) {
    return index * ROW;
  }

  #fullHeight() {
    return (this.#source?.total ?? 0) * ROW;
  }

  /** Rows' pixels for one pixel of scrolling; 1 unless the table is taller than an element may be. */
  #scale() {
    const full = this.#fullHeight();
    const visible = this.#viewport();
    return full <= TALLEST ? 1 : (full - visible) / (TALLEST - visible);
  }

  /** The position in the full height. */
  #position() {
    return this.scroller.scrollTop * this.#scale();
  }

  #scrollTo(position) {
    this.scroller.scrollTop = position / this.#scale();
  }

  #firstVisible() {
    return Math.ceil(this.#position() / ROW);
  }

  #wheel(event) {
    // In a scaled table, one step of the wheel would skip rows.
    if (this.#scale() === 1 || event.deltaMode !== 0 || event.ctrlKey) return;
    event.preventDefault();
    this.#scrollTo(this.#position() + event.deltaY);
  }

  #drawHead() {
    const sorted = this.#sort.replace(/^-/, "");
    fill(
      this.head,
      this.#columns.map((column) => {
        const order = sorted === column.name ? (this.#sort.startsWith("-") ? "descending" : "ascending") : "none";
        return el(
          `span.th${column.className ? `.${column.className}` : ""}`,
          { role: "columnheader", "aria-sort": order },
          el(
            "button",
            { type: "button", title: `Sort by ${column.label.toLowerCase()}`, on: { click: () => this.#on.sort(column.name) } },
            column.label,
            el("i.arrow", { "aria-hidden": "true" }, order === "none" ? "↕" : order === "ascending" ? "↑" : "↓"),
          ),
        );
      }),
    );
  }

  #draw() {
    const source = this.#source;
    const total = source?.total ?? 0;
    const height = Math.min(TALLEST, total * ROW);
    this.space.style.height = `${height}px`;
    this.element.setAttribute("aria-rowcount", String(total + 1));
    if (!source) return;
    const position = this.#position();
    const first = Math.max(0, Math.floor(position / ROW) - MARGIN);
    const end = Math.min(total, Math.ceil((position + this.#viewport()) / ROW) + MARGIN);
    source.want(first, Math.max(end, first + 1));
    for (const [index, row] of this.#rows) {
      if (index < first || index >= end) {
        row.remove();
        this.#rows.delete(index);
        if (this.#free.length < 32) this.#free.push(row);
      }
    }
    const shift = this.scroller.scrollTop - position;
    const seen = new Map();
    for (let index = first; index < end; index += 1) {
      let row = this.#rows.get(index);
      if (!row) {
        row = this.#free.pop() ?? this.#newRow();
        this.#rows.set(index, row);
        this.space.append(row);
      }
      row.style.transform = `translateY(${index * ROW + shift}px)`;
      this.#fillRow(row, index, source.row(index), seen);
    }
    this.#seen = seen;
    if (this.#selected >= first && this.#selected < end) {
      this.scroller.setAttribute("aria-activedescendant", `row-${this.#selected}`);
    } else {
      this.scroller.removeAttribute("aria-activedescendant");
    }
  }

  #newRow() {
    const cells = this.#columns.map((column) =>
      el(`span.td${column.className ? `.${column.className}` : ""}`, { role: "gridcell" }),
    );
    const row = el("div.row", { role: "row" }, cells);
    row.addEventListener("click", () => {
      const index = Number(row.dataset.index);
      const object = this.#source?.row(index);
      this.#selected = index;
      if (object) this.#on.open(object);
      this.draw();
    });
    return row;
  }

  #fillRow(row, index, object, seen) {
    row.id = `row-${index}`;
    row.dataset.index = String(index);
    row.setAttribute("aria-rowindex", String(index + 2));
    row.classList.toggle("selected", index === this.#selected);
    row.classList.toggle("loading", object === null);
    row.classList.toggle("opened", object !== null && object.key === this.#opened);
    row.setAttribute("aria-selected", String(index === this.#selected));
    row.dataset.key = object?.key ?? "";
    this.#columns.forEach((column, number) => {
      const cell = row.children[number];
      if (object === null) text(cell, number === 0 ? "…" : "");
      else column.render(cell, object);
    });
    if (object === null) return;
    // A row whose object has another version than when it was last drawn is marked for a moment.
    const before = this.#seen.get(object.key);
    seen.set(object.key, object.resourceVersion);
    if (before !== undefined && before !== object.resourceVersion) {
      row.classList.remove("changed");
      row.getBoundingClientRect();
      row.classList.add("changed");
      row.addEventListener("animationend", () => row.classList.remove("changed"), { once: true });
    }
  }
}
