//! Text tables: columns as wide as their widest cell, no borders.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};

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

    /// Makes the columns at least this wide.
    pub(crate) fn at_least(&mut self, widths: &[u16]) {
        for (column, width) in self.0.column_iter_mut().zip(widths) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width)));
        }
    }

    /// Returns the widths of the columns.
    pub(crate) fn widths(&self) -> Vec<u16> {
        let padding = |column: &comfy_table::Column| column.padding_width();
        let content = self.0.column_max_content_widths().into_iter();
        content.zip(self.0.column_iter()).map(|(width, column)| width + padding(column)).collect()
    }

    /// Returns the header and the rows.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = self.0.to_string();
        let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line));
        lines.map(|line| Line::new(format_args!("{line}")).trimmed()).collect()
    }
}
