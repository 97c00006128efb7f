//! Tables that fit: a narrow terminal is told less, in the order that each table
//! names. In a pipe nothing is shortened or left out.

use comfy_table::{Attribute, Cell, ColumnConstraint, ContentArrangement, Row as Line, Table, Width, presets};

use crate::output::{Output, Row};

/// What a table gives up when it is too wide; columns are named by their titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Yield {
    /// Times are shown without seconds, and without the year where it is this one.
    ShortTimes,
    /// The column is cut with an ellipsis, to no less than so many characters.
    Cut(&'static str, usize),
    /// The column is folded into several lines, none narrower than so many characters.
    Fold(&'static str, usize),
    /// The column is left out. A column without a title continues the one before and
    /// takes its place.
    Drop(&'static str),
}

/// Between two columns.
const GAP: usize = 2;

/// How a table is drawn after it has given up something.
#[derive(Debug, Clone, Default)]
struct Form {
    short_times: bool,
    dropped: Vec<usize>,
    /// Columns with the least width that is left to them, the first to give way first.
    least: Vec<(usize, usize)>,
    folds: bool,
}

impl Form {
    fn give_up(&mut self, header: &[&str], what: Yield) {
        let place = |title: &str| header.iter().position(|name| *name == title).expect("a column of this table");
        match what {
            Yield::ShortTimes => self.short_times = true,
            Yield::Cut(title, least) => self.set_least(place(title), least),
            Yield::Fold(title, least) => {
                self.folds = true;
                self.set_least(place(title), least);
            }
            Yield::Drop(title) => self.dropped.push(place(title)),
        }
    }

    fn set_least(&mut self, column: usize, least: usize) {
        self.least.retain(|(other, _)| *other != column);
        self.least.push((column, least));
    }

    /// The width of each column, or `None` if they do not fit.
    fn widths(&self, natural: &[usize], available: usize) -> Option<Vec<usize>> {
        let is_shown = |column: &usize| !self.dropped.contains(column);
        let mut widths = natural.to_vec();
        let shown = (0..natural.len()).filter(is_shown).count();
        let gaps = GAP * shown.saturating_sub(1);
        let total: usize = (0..natural.len()).filter(is_shown).map(|column| natural[column]).sum();
        let mut excess = (total + gaps).saturating_sub(available);
        for &(column, least) in self.least.iter().filter(|(column, _)| is_shown(column)) {
            let given = excess.min(widths[column].saturating_sub(least));
            widths[column] -= given;
            excess -= given;
        }
        (excess == 0).then_some(widths)
    }
}

/// Draws the rows, as wide as they are or as wide as the terminal.
pub(crate) fn draw<T: Row>(rows: &[T], out: &Output) -> String {
    let cells = |out: &Output| rows.iter().map(|row| row.cells(out)).collect::<Vec<_>>();
    let (whole, natural) = measured::<T>(cells(out), out);
    let Some(size) = out.terminal else {
        return whole.trim_fmt();
    };
    let mut form = Form::default();
    let mut natural_now = natural;
    let mut yields = T::YIELDS.iter();
    loop {
        if let Some(widths) = form.widths(&natural_now, size.columns) {
            return fitted::<T>(cells(&out.with_short_times(form.short_times)), &form, &widths, out);
        }
        let Some(&what) = yields.next() else {
            // Nothing is left to give up. The terminal folds the lines itself.
            return fitted::<T>(cells(&out.with_short_times(form.short_times)), &form, &natural_now, out);
        };
        form.give_up(T::HEADER, what);
        if what == Yield::ShortTimes {
            natural_now = measured::<T>(cells(&out.with_short_times(true)), out).1;
        }
    }
}

fn empty(out: &Output) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty().set_content_arrangement(ContentArrangement::Disabled);
    if out.colored {
        table.enforce_styling();
    }
    table
}

fn titles(titles: impl Iterator<Item = &'static str>, out: &Output) -> Line {
    let style = |title| if out.colored { Cell::new(title).add_attribute(Attribute::Bold) } else { Cell::new(title) };
    titles.map(style).collect::<Vec<_>>().into()
}

/// The table in full, and the widths of its columns.
fn measured<T: Row>(rows: Vec<Vec<Cell>>, out: &Output) -> (Table, Vec<usize>) {
    let mut table = empty(out);
    table.set_header(titles(T::HEADER.iter().copied(), out));
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP as u16));
    }
    let widths = table.column_max_content_widths().into_iter().map(usize::from).collect();
    (table, widths)
}

fn fitted<T: Row>(rows: Vec<Vec<Cell>>, form: &Form, widths: &[usize], out: &Output) -> String {
    let is_shown = |column: usize| !form.dropped.contains(&column);
    let title = |column: usize| match T::HEADER[column] {
        "" if column > 0 && !is_shown(column - 1) => T::HEADER[column - 1],
        title => title,
    };
    let shown: Vec<usize> = (0..T::HEADER.len()).filter(|&column| is_shown(column)).collect();
    let mut table = empty(out);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::MAX);
    table.set_header(titles(shown.iter().map(|&column| title(column)), out));
    for row in rows {
        let shown_cells = row.into_iter().enumerate().filter(|(column, _)| is_shown(*column));
        let cells = shown_cells.map(|(column, cell)| match without_cut_time(&cell.content(), widths[column]) {
            Some(shorter) if !form.folds => Cell::new(shorter),
            _ => cell,
        });
        let mut line: Line = cells.collect::<Vec<_>>().into();
        if !form.folds {
            line.max_height(1);
        }
        table.add_row(line);
    }
    for (column, &place) in table.column_iter_mut().zip(&shown) {
        let gap = if Some(&place) == shown.last() { 0 } else { GAP };
        // A title that was taken over may be wider than the column was.
        let width = widths[place].max(title(place).chars().count()) + gap;
        column.set_padding((0, gap as u16));
        if !form.folds {
            // Cut where the room ends, not where the last word that fits does.
            column.set_delimiter('\0');
        }
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width as u16)));
    }
    table.trim_fmt()
}

/// A text that ends before a time, if the time would be cut in two: half a time has no zone.
fn without_cut_time(text: &str, width: usize) -> Option<String> {
    let letters: Vec<char> = text.chars().collect();
    // The ellipsis takes the last place.
    let end = width.checked_sub(1).filter(|_| letters.len() > width)?;
    let is_part = |letter: &char| letter.is_ascii_digit() || matches!(letter, ':' | '.' | '-' | '+' | 'T' | 'Z' | ' ');
    let start = letters[..end].iter().rposition(|letter| !is_part(letter)).map_or(0, |place| place + 1);
    let stop = letters[end..].iter().position(|letter| !is_part(letter)).map_or(letters.len(), |place| end + place);
    let is_clock = |part: &[char]| matches!(part, [a, ':', b] if a.is_ascii_digit() && b.is_ascii_digit());
    let is_cut = start < end && letters[start..stop].windows(3).any(is_clock);
    is_cut.then(|| format!("{}…", letters[..start].iter().collect::<String>().trim_end()))
}

#[cfg(test)]
mod tests;
