//! Tables for people: columns as wide as their widest cell, no borders.

use comfy_table::{CellAlignment, ContentArrangement, presets};

use crate::text::{Line, escaped};

/// Rows under a header. What is unsafe in a cell is escaped, so that each row is one line.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// A table with these columns, and no rows.
    pub(crate) fn new<T: AsRef<str>>(header: impl IntoIterator<Item = T>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.into_iter().map(|cell| escaped(cell.as_ref())));
        Self(table)
    }

    /// All columns but the first are aligned to the right.
    pub(crate) fn numbers(mut self) -> Self {
        for column in self.0.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self
    }

    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.add_row(cells.into_iter().map(|cell| escaped(cell.as_ref())));
    }

    /// The header and the rows.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = self.0.to_string();
        let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line));
        lines.map(|line| Line::new(format_args!("{line}")).trimmed()).collect()
    }
}
