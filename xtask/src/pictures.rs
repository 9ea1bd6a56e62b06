//! The drawings of the documentation, as SVG: `cargo xtask pictures` writes them, and `tidy` compares them.

use std::fmt::Write as _;

use crate::files;

/// The pictures, by their files: of the README and docs/concepts.md, and of docs/beyond-one-process.md.
const PICTURES: [(&str, Draw); 2] = [("docs/images/flow.svg", flow), ("docs/images/handover.svg", handover)];

type Draw = fn() -> String;

/// Writes all pictures.
pub(crate) fn run() -> Result<(), String> {
    PICTURES.iter().try_for_each(|(file, picture)| files::write(&files::root().join(file), &picture()))
}

/// Reports pictures that are not those of this code.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for (file, picture) in PICTURES {
        found.extend(files::difference(&files::read(file)?, &picture(), file, "cargo xtask pictures"));
    }
    Ok(found)
}

/// A position or a size, in pixels.
type Point = (i32, i32);

/// A drawing of boxes and arrows.
struct Picture {
    size: Point,
    title: &'static str,
    body: String,
}

impl Picture {
    fn new(size: Point, title: &'static str) -> Self {
        Self { size, title, body: String::new() }
    }

    /// A frame around boxes, with a label in its upper left corner.
    fn frame(self, (x, y): Point, size: Point, label: &str) -> Self {
        self.rect("frame", (x, y), size).text("label", (x + 12, y + 20), "start", label)
    }

    /// A box with a title and a smaller line below it.
    fn part(self, (x, y): Point, size: Point, title: &str, note: &str) -> Self {
        let middle = x + size.0 / 2;
        let boxed = self.rect("part", (x, y), size);
        boxed.text("title", (middle, y + 28), "middle", title).text("note", (middle, y + 48), "middle", note)
    }

    /// An arrow through points.
    fn arrow(mut self, points: &[Point]) -> Self {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let points = points.join(" ");
        self.line(format_args!("<polyline class=\"arrow\" points=\"{points}\" marker-end=\"url(#head)\"/>"));
        self
    }

    /// A vertical line below a box: time passes downwards.
    fn lifeline(mut self, (x, y): Point, height: i32) -> Self {
        self.line(format_args!("<path class=\"frame\" d=\"M{x} {y}v{height}\"/>"));
        self
    }

    /// The label of an arrow, whose baseline begins at a place.
    fn label(self, place: Point, text: &str) -> Self {
        self.text("label", place, "start", text)
    }

    fn rect(mut self, class: &str, (x, y): Point, (width, height): Point) -> Self {
        self.line(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>"
        ));
        self
    }

    fn text(mut self, class: &str, (x, y): Point, anchor: &str, text: &str) -> Self {
        self.line(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
        self
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        _ = writeln!(self.body, "{line}");
    }

    fn svg(&self) -> String {
        let Self { size: (width, height), title, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n<defs>{HEAD}</defs>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n"
        )
    }
}

const STYLE: &str = "text { font-family: system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.note, .label { font-size: 12px; fill: #59636e }
.paper { fill: #ffffff }
.part { fill: #eef4fb; stroke: #3b6ea8 }
.frame { fill: none; stroke: #8b949e; stroke-dasharray: 5 4 }
.arrow { fill: none; stroke: #3b6ea8; stroke-width: 1.5 }
.head { fill: #3b6ea8 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.note, .label { fill: #9da7b1 }
.paper { fill: #0d1117 }
.part { fill: #162235; stroke: #6ea8e6 }
.arrow { stroke: #6ea8e6 }
.head { fill: #6ea8e6 }
}
";

const HEAD: &str = "<marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
                    orient=\"auto\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker>";

/// The flow from the API server to the program and back.
fn flow() -> String {
    const PART: Point = (136, 64);
    Picture::new((860, 300), "The flow of objects and events")
        .frame((214, 12), (410, 116), "informer: one for each kind")
        .frame((214, 168), (410, 116), "controller")
        .part((8, 46), PART, "API server", "or your own source")
        .part((228, 46), PART, "reflector", "retries, lists again")
        .part((474, 46), PART, "store", "objects, indexes")
        .part((704, 46), PART, "reads", "by key, label, index")
        .part((474, 202), PART, "work queue", "each key once")
        .part((228, 202), PART, "reconcile", "your function")
        .part((704, 202), PART, "handlers", "any number")
        .arrow(&[(144, 78), (228, 78)])
        .label((147, 70), "list, watch")
        .arrow(&[(364, 78), (474, 78)])
        .label((394, 70), "changes")
        .arrow(&[(610, 78), (704, 78)])
        .label((634, 70), "snapshots")
        .arrow(&[(542, 110), (542, 202)])
        .label((640, 140), "events")
        .arrow(&[(542, 146), (772, 146), (772, 202)])
        .arrow(&[(474, 234), (364, 234)])
        .label((406, 226), "keys")
        .arrow(&[(228, 234), (76, 234), (76, 110)])
        .label((84, 226), "writes")
        .svg()
}

/// How slots move from one process to another.
fn handover() -> String {
    const PART: Point = (200, 64);
    const LANES: [i32; 3] = [108, 430, 752];
    let [a, table, b] = LANES;
    let heads = [
        ("process a", "owns the slots 0-1023"),
        ("Lease of the ring", "the table of owners"),
        ("process b", "begins"),
    ];
    let mut picture = Picture::new((860, 456), "How slots move to another process");
    for (x, (title, note)) in LANES.into_iter().zip(heads) {
        picture = picture.part((x - 100, 12), PART, title, note).lifeline((x, 76), 372);
    }
    picture
        .arrow(&[(b, 112), (a, 112)])
        .label((table + 12, 104), "Lease of b: \u{201c}I take part\u{201d}")
        .part((a - 100, 136), PART, "release 512-1023", "running work is finished")
        .arrow(&[(a, 226), (table, 226)])
        .label((a + 12, 218), "512-1023: b, since version 4711")
        .label((a + 12, 244), "refused if the table has changed")
        .arrow(&[(table, 262), (b, 262)])
        .label((table + 12, 254), "b sees that it owns them")
        .part((b - 100, 282), PART, "list 512-1023", "at version 4711 or later")
        .part((b - 100, 368), PART, "reconcile", "as long as its Lease is valid")
        .part((a - 100, 368), PART, "reconcile", "0-511")
        .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handover_has_its_steps() {
        let text = handover();
        assert_eq!(text.matches("class=\"part\"").count(), 7);
        assert_eq!(text.matches("marker-end").count(), 3);
    }

    #[test]
    fn the_flow_has_its_parts() {
        let text = flow();
        assert_eq!(text.matches("class=\"part\"").count(), 7);
        assert_eq!(text.matches("marker-end").count(), 7);
        assert!(
            text.contains("<text class=\"title\" x=\"542\" y=\"74\" text-anchor=\"middle\">store</text>"),
            "{text}"
        );
    }
}
