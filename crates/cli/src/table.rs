//! Text tables: columns as wide as their widest cell, no borders.

use comfy_table::{CellAlignment, ContentArrangement, presets};

use crate::text::{Line, escaped};

/// Rows below a header. Unsafe characters in cells are escaped, so each row is one line.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// Creates a table with these columns and no rows.
    pub(crate) fn new<T: AsRef<str>>(header: impl IntoIterator<Item = T>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.into_iter().map(|cell| escaped(cell.as_ref())));
        Self(table)
    }

    /// Aligns all columns but the first to the right.
    pub(crate) fn numbers(mut self) -> Self {
        for column in self.0.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self
    }

    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.add_row(cells.into_iter().map(|cell| escaped(cell.as_ref())));
    }

    /// Returns the header and the rows.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = self.0.to_string();
        let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line));
        lines.map(|line| Line::new(format_args!("{line}")).trimmed()).collect()
    }
}
