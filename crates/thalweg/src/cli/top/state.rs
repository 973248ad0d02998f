//! What is shown, and what keys do to it.

use super::rows::{Row, View, Whole, rows, whole};
use super::sample::Sample;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cell::Cell;

/// Longest text to filter by, in characters.
const FILTER: usize = 64;

/// How the rows of a view are ordered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sorting {
    /// The position of the column.
    pub(super) column: usize,
    /// The largest first.
    pub(super) descending: bool,
}

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct Top {
    pub(super) has_colors: bool,
    pub(super) view: View,
    sorting: [Sorting; View::ALL.len()],
    pub(super) filter: String,
    /// The filter is being written.
    pub(super) is_typing: bool,
    is_paused: bool,
    has_ended: bool,
    /// The first row that is shown.
    pub(super) first: usize,
    /// Rows that there was room for when it was drawn last.
    pub(super) page: Cell<usize>,
    now: Option<Sample>,
    before: Option<Sample>,
    /// Why there is no newer sample.
    pub(super) error: Option<String>,
}

impl Top {
    /// The routes, the busiest first.
    pub(super) fn new(has_colors: bool) -> Self {
        let busiest = |view: View| {
            let column = view.columns().iter().position(|column| matches!(column.title, "REQ/S" | "OPEN"));
            Sorting { column: column.unwrap_or(0), descending: true }
        };
        Self {
            has_colors,
            view: View::default(),
            sorting: View::ALL.map(busiest),
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            has_ended: false,
            first: 0,
            page: Cell::new(1),
            now: None,
            before: None,
            error: None,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// A sample, or why there is none. While paused nothing changes.
    pub(super) fn sampled(&mut self, sample: Result<Sample, String>) {
        if self.is_paused {
            return;
        }
        match sample {
            Ok(sample) => {
                self.before = self.now.replace(sample);
                self.error = None;
            }
            Err(error) => self.error = Some(error.lines().next().unwrap_or_default().to_owned()),
        }
    }

    /// The newest sample.
    pub(super) fn now(&self) -> Option<&Sample> {
        self.now.as_ref()
    }

    /// How the rows of the present view are ordered.
    pub(super) fn sorting(&self) -> Sorting {
        self.sorting[self.view as usize]
    }

    /// The rows of the present view, filtered and in order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let Some(now) = &self.now else { return Vec::new() };
        let wanted = self.filter.to_lowercase();
        let mut rows = rows(self.view, now, self.before.as_ref());
        let texts = |row: &Row| {
            let cells = row.cells.iter().zip(self.view.columns()).filter(|(_, column)| column.is_text);
            cells.map(|(cell, _)| cell.shown().to_lowercase()).collect::<Vec<_>>()
        };
        rows.retain(|row| wanted.is_empty() || texts(row).iter().any(|text| text.contains(&wanted)));
        let Sorting { column, descending } = self.sorting();
        rows.sort_by(|one, other| {
            let order = one.cells[column].order(&other.cells[column]);
            let order = if descending { order.reverse() } else { order };
            // Equal ones stand still.
            order.then_with(|| one.cells[0].order(&other.cells[0]))
        });
        rows
    }

    /// The rates of the whole process.
    pub(super) fn whole(&self) -> Whole {
        self.now
            .as_ref()
            .map_or(Whole { requests: None, errors: None }, |now| whole(now, self.before.as_ref()))
    }

    /// What a key does.
    pub(super) fn handle(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.has_ended = true;
            return;
        }
        if self.is_typing {
            self.edit(key.code);
            return;
        }
        match key.code {
            KeyCode::Char('q') => self.has_ended = true,
            KeyCode::Char(digit @ '1'..='4') => self.look_at(digit as usize - '1' as usize),
            KeyCode::Tab => self.look_at(self.view as usize + 1),
            KeyCode::BackTab => self.look_at(self.view as usize + View::ALL.len() - 1),
            KeyCode::Right | KeyCode::Char('>' | 's') => self.sort_by(1),
            KeyCode::Left | KeyCode::Char('<' | 'S') => self.sort_by(self.view.columns().len() - 1),
            KeyCode::Char('r') => {
                let sorting = &mut self.sorting[self.view as usize];
                sorting.descending = !sorting.descending;
            }
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_to(self.first + 1),
            KeyCode::PageUp => self.first = self.first.saturating_sub(self.page.get()),
            KeyCode::PageDown => self.scroll_to(self.first + self.page.get()),
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.scroll_to(usize::MAX),
            _ => {}
        }
    }

    fn edit(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < FILTER && !c.is_control() => {
                self.filter.push(c)
            }
            _ => {}
        }
        self.first = 0;
    }

    fn look_at(&mut self, at: usize) {
        self.view = View::ALL[at % View::ALL.len()];
        self.first = 0;
    }

    fn sort_by(&mut self, further: usize) {
        let columns = self.view.columns();
        let sorting = &mut self.sorting[self.view as usize];
        sorting.column = (sorting.column + further) % columns.len();
        // Names from A on, numbers from the largest on.
        sorting.descending = !columns[sorting.column].is_text;
    }

    /// The last page is as far as it goes.
    fn scroll_to(&mut self, first: usize) {
        self.first = first.min(self.rows().len().saturating_sub(self.page.get()));
    }
}
