//! Draws what is shown: two lines of the process, a table, a line of keys.

use super::rows::{Cell, Column, Mood, Row, View};
use super::state::Top;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use std::time::Duration;
use thalweg_core::units::duration_text;

/// Lines beside the rows: the process, the views, the titles, the keys.
const BESIDE: usize = 4;
/// Below this nothing can be read.
const LEAST: (u16, u16) = (24, 6);

/// Draws everything.
pub(super) fn draw(top: &Top, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        frame.render_widget(Line::raw("too small; q ends"), area);
        return;
    }
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let page = height - BESIDE;
    top.page.set(page);
    let rows = top.rows();
    let first = top.first.min(rows.len().saturating_sub(page));
    let shown = visible(top.view, width);
    let mut lines = vec![process_line(top), views_line(top, rows.len()), titles(top, &shown)];
    let cells = rows.iter().skip(first).take(page);
    lines.extend(cells.map(|row| row_line(top, row, &shown)));
    if rows.is_empty() {
        lines.push(Line::raw(if top.filter.is_empty() {
            "nothing yet"
        } else {
            "nothing has this in its name"
        }));
    }
    for (at, line) in (0..).zip(lines) {
        frame.render_widget(line, Rect { y: area.y + at, height: 1, ..area });
    }
    frame.render_widget(keys_line(top, width), Rect { y: area.bottom() - 1, height: 1, ..area });
}

/// Columns that there is room for, with their positions and widths: the first one takes what is left.
fn visible(view: View, width: usize) -> Vec<(usize, Column)> {
    let mut shown: Vec<_> = view.columns().iter().copied().enumerate().collect();
    let needed =
        |shown: &[(usize, Column)]| shown.iter().map(|(_, column)| column.width + 1).sum::<usize>() - 1;
    while shown.len() > 1 && needed(&shown) > width {
        // The highest rank; of equal ones the last.
        let worst = (1..shown.len()).max_by_key(|at| shown[*at].1.rank).unwrap_or(1);
        shown.remove(worst);
    }
    let spare = width.saturating_sub(needed(&shown));
    shown[0].1.width += spare;
    shown
}

fn process_line(top: &Top) -> Line<'static> {
    if let Some(error) = &top.error {
        return Line::styled(format!("no answer: {error}"), top.style(Mood::Bad));
    }
    let Some(now) = top.now() else { return Line::raw("thalweg") };
    let (process, whole) = (&now.process, top.whole());
    let known = |number: Option<f64>, cell: fn(f64) -> Cell| number.map_or(Cell::Unknown, cell).shown();
    let text = format!(
        "{} req/s  {} 5xx  {} in flight  {}/{} connections  {}  up {}  pid {}  thalweg {}",
        known(whole.requests, Cell::Rate),
        known(whole.errors, Cell::Share),
        process.active,
        process.connections.0,
        process.connections.1,
        process.state,
        duration_text(Duration::from_secs(process.uptime_seconds)),
        process.pid,
        process.version,
    );
    Line::raw(text)
}

fn views_line(top: &Top, count: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, view) in (1..).zip(View::ALL) {
        let style =
            if view == top.view { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.push(Span::styled(format!(" {at} {} ", view.name()), style));
    }
    spans.push(Span::raw(format!("  {count}")));
    if top.is_paused() {
        spans.push(Span::styled("  paused", top.style(Mood::Odd)));
    }
    if top.is_typing || !top.filter.is_empty() {
        spans.push(Span::raw(format!("  /{}{}", top.filter, if top.is_typing { "_" } else { "" })));
    }
    Line::from(spans)
}

fn titles(top: &Top, shown: &[(usize, Column)]) -> Line<'static> {
    let sorting = top.sorting();
    let spans = shown.iter().map(|(at, column)| {
        let is_sorted = *at == sorting.column;
        let sign = match (is_sorted, sorting.descending) {
            (false, _) => "",
            (true, true) => "\u{25be}",
            (true, false) => "\u{25b4}",
        };
        let style = Style::new().add_modifier(Modifier::BOLD);
        let style = if is_sorted { style.add_modifier(Modifier::UNDERLINED) } else { style };
        Span::styled(fitted(&format!("{}{sign}", column.title), column), style)
    });
    spaced(spans)
}

fn row_line(top: &Top, row: &Row, shown: &[(usize, Column)]) -> Line<'static> {
    let style = top.style(row.mood);
    let spans = shown
        .iter()
        .filter_map(|(at, column)| Some(Span::styled(fitted(&row.cells.get(*at)?.shown(), column), style)));
    spaced(spans)
}

fn keys_line(top: &Top, width: usize) -> Line<'static> {
    let text = match top.is_typing {
        true => "type a part of a name   Enter keeps it   Esc drops it",
        false => {
            "q end  1-4 Tab view  \u{2190}\u{2192} sort  r reverse  / filter  p pause  \u{2191}\u{2193} scroll"
        }
    };
    let text: String = text.chars().take(width).collect();
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

fn spaced(spans: impl Iterator<Item = Span<'static>>) -> Line<'static> {
    let mut all = Vec::new();
    for span in spans {
        if !all.is_empty() {
            all.push(Span::raw(" "));
        }
        all.push(span);
    }
    Line::from(all)
}

/// A text in a column: cut where it is too long, with space on the side that the column has none of.
fn fitted(text: &str, column: &Column) -> String {
    let mut text = text.to_owned();
    if Span::raw(text.as_str()).width() > column.width {
        while Span::raw(text.as_str()).width() >= column.width && text.pop().is_some() {}
        text.push('\u{2026}');
    }
    let space = " ".repeat(column.width.saturating_sub(Span::raw(text.as_str()).width()));
    if column.is_text { text + &space } else { space + &text }
}

impl Top {
    /// How a mood looks: in colours, or bold and underlined without them.
    fn style(&self, mood: Mood) -> Style {
        match (mood, self.has_colors) {
            (Mood::Well, _) => Style::new(),
            (Mood::Odd, true) => Style::new().fg(Color::Yellow),
            (Mood::Bad, true) => Style::new().fg(Color::Red),
            (Mood::Odd, false) => Style::new().add_modifier(Modifier::UNDERLINED),
            (Mood::Bad, false) => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}
