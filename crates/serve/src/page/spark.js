// Sparklines, drawn as SVG.

import { svg } from "./dom.js";
import { SAMPLES } from "./state.js";

/** Samples in the full width at first, so that a page that was just opened does not show an empty area. */
const LEAST = 30;

/** A line over the last samples, with the area below it. Gaps in the samples are gaps in the line. */
export class Sparkline {
  #line = svg("path", { class: "line", "vector-effect": "non-scaling-stroke" });
  #area = svg("path", { class: "area" });
  #width;
  #height;

  #samples;

  constructor(width, height, label, samples = SAMPLES) {
    this.#samples = samples;
    this.#width = width;
    this.#height = height;
    const base = svg("path", { class: "base", d: `M0 ${height - 0.5}H${width}`, "vector-effect": "non-scaling-stroke" });
    this.element = svg(
      "svg",
      {
        class: "spark",
        viewBox: `0 0 ${width} ${height}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": label,
      },
      base,
      this.#area,
      this.#line,
    );
  }

  /** `least` is the smallest value of the upper edge, so that noise near zero stays flat. */
  draw(all, least = 1) {
    const values = all.slice(-this.#samples);
    const highest = Math.max(least, ...values.map((value) => value ?? 0));
    const shown = Math.max(LEAST, values.length);
    const step = this.#width / (shown - 1);
    const first = shown - values.length;
    const y = (value) => this.#height - 1 - (value / highest) * (this.#height - 3);
    let line = "";
    let area = "";
    let start = null;
    let end = 0;
    const close = () => {
      if (start !== null) area += `L${end} ${this.#height}L${start} ${this.#height}Z`;
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
  }
}
