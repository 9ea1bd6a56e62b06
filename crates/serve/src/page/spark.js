// Sparklines, drawn as SVG.

import { el, svg, text } from "./dom.js";
import { SAMPLES } from "./state.js";

/** Samples in the full width at first, so that a page that was just opened does not show an empty area. */
const LEAST = 30;

/**
 * A line over the last samples, with the area below it. Where there are no samples, nothing is drawn, not even the line
 * of zero. `scale` says the value at the upper edge; `label` is what is drawn, `format` writes a value.
 */
export class Sparkline {
  #line = svg("path", { class: "line", "vector-effect": "non-scaling-stroke" });
  #area = svg("path", { class: "area" });
  #base = svg("path", { class: "base", "vector-effect": "non-scaling-stroke" });
  #title = svg("title");
  #width;
  #height;
  #label;
  #format;
  scale = el("small.scale");

  constructor(width, height, label, format) {
    this.#width = width;
    this.#height = height;
    this.#label = label;
    this.#format = format;
    this.element = svg(
      "svg",
      {
        class: "spark",
        viewBox: `0 0 ${width} ${height}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": label,
      },
      this.#title,
      this.#base,
      this.#area,
      this.#line,
    );
  }

  /** `least` is the smallest value of the upper edge, so that noise near zero stays flat. */
  draw(all, least = 1) {
    const values = all.slice(-SAMPLES);
    const most = Math.max(0, ...values.map((value) => value ?? 0));
    const highest = Math.max(least, most);
    const shown = Math.max(LEAST, values.length);
    const step = this.#width / (shown - 1);
    const first = shown - values.length;
    const y = (value) => this.#height - 1 - (value / highest) * (this.#height - 3);
    let line = "";
    let area = "";
    let base = "";
    let start = null;
    let end = 0;
    const close = () => {
      if (start !== null) {
        area += `L${end} ${this.#height}L${start} ${this.#height}Z`;
        base += `M${start} ${this.#height - 0.5}H${end}`;
      }
      start = null;
    };
    values.forEach((value, index) => {
      if (value === null) {
        close();
        return;
      }
      const point = `${((first + index) * step).toFixed(1)} ${y(value).toFixed(1)}`;
      end = ((first + index) * step).toFixed(1);
      line += `${start === null ? "M" : "L"}${point}`;
      area += `${start === null ? "M" : "L"}${point}`;
      if (start === null) start = end;
    });
    close();
    this.#line.setAttribute("d", line);
    this.#area.setAttribute("d", area);
    this.#base.setAttribute("d", base);
    const known = values.some((value) => value !== null);
    text(this.scale, known ? `max ${this.#format(most)}` : "");
    const label = `${this.#label}, last 2 minutes: ${known ? `at most ${this.#format(most)}` : "no data"}`;
    if (this.#title.textContent !== label) {
      this.#title.textContent = label;
      this.element.setAttribute("aria-label", label);
    }
  }
}
