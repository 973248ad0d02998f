//! Pictures of tables as SVG within a page: bars for a column of figures, curves for columns of percentiles.

use std::fmt::Write as _;

use super::tables::{Figure, Table, figure};

/// Sizes of a picture of bars, in its own units.
const WIDTH: f64 = 640.0;
const NAME: f64 = 180.0;
const VALUE: f64 = 90.0;
const BAR: f64 = 18.0;
const LINE: f64 = 26.0;
/// Sizes of a picture of curves.
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 48.0;
/// Rows that one picture shows at the most.
const ROWS: usize = 16;
/// Columns of one table that get a picture at the most.
const COLUMNS: usize = 3;
/// Colours that people tell apart who see few colours (Okabe and Ito); the first is the product's.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The pictures of a table; none where it has nothing to compare.
pub(super) fn of(table: &Table) -> String {
    if table.heading == "Gates" || !(2..=ROWS).contains(&table.rows.len()) {
        return String::new();
    }
    let mut pictures = String::new();
    let sizes = sizes(table);
    if sizes.len() >= 2 {
        let places: Vec<_> = sizes.iter().map(|size| size.ln()).collect();
        let columns: Vec<_> = (1..table.columns.len()).collect();
        return curves(table, &columns, &places, &table.heading);
    }
    let percentiles = percentiles(table);
    if percentiles.len() >= 2 {
        let places: Vec<_> = (0..percentiles.len()).map(|number| number as f64).collect();
        pictures += &curves(table, &percentiles, &places, "latency by percentile");
    }
    let others = (1..table.columns.len()).filter(|column| !percentiles.contains(column));
    for column in others.filter_map(|column| bars(table, column)).take(COLUMNS) {
        pictures += &column;
    }
    pictures
}

/// Columns that are percentiles: `p50`, `p99 ms`.
fn percentiles(table: &Table) -> Vec<usize> {
    let is_one = |name: &str| {
        let digits = name.strip_prefix('p').and_then(|rest| rest.split_whitespace().next());
        digits.is_some_and(|digits| digits.parse::<f64>().is_ok())
    };
    (1..table.columns.len()).filter(|column| is_one(&table.columns[*column])).collect()
}

/// The sizes that columns stand for, where all of them are whole numbers that grow: `10`, `100`.
fn sizes(table: &Table) -> Vec<f64> {
    let whole = |name: &String| name.parse::<u32>().ok().filter(|size| *size > 0).map(f64::from);
    let sizes: Option<Vec<_>> = table.columns.iter().skip(1).map(whole).collect();
    sizes.filter(|sizes| sizes.is_sorted_by(|a, b| a < b)).unwrap_or_default()
}

fn cell(row: &[String], column: usize) -> Option<Figure> {
    figure(row.get(column)?)
}

/// A bar for each row that has a figure in this column, with the range as a line; `None` with fewer than two.
fn bars(table: &Table, column: usize) -> Option<String> {
    let rows: Vec<_> =
        table.rows.iter().filter_map(|row| Some((row.first()?.as_str(), cell(row, column)?))).collect();
    let most =
        rows.iter().map(|(_, figure)| figure.range.map_or(figure.value, |range| range.1)).fold(0.0, f64::max);
    if rows.len() < 2 || most <= 0.0 {
        return None;
    }
    let height = LINE * (rows.len() as f64 + 1.0);
    let mut svg = open(height, &table.columns[column]);
    let at = |value: f64| NAME + value.max(0.0) / most * (WIDTH - NAME - VALUE);
    for (number, (name, figure)) in rows.iter().enumerate() {
        let y = LINE * (number as f64 + 1.0);
        let colour = if name.contains("thalweg") { COLOURS[0] } else { "#8a8f98" };
        let (x, middle) = (at(figure.value), y + BAR / 2.0);
        text(&mut svg, (NAME - 8.0, middle + 4.0), "end", name);
        let _ = write!(
            svg,
            "<rect x=\"{NAME}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>",
            x - NAME
        );
        let mut end = x;
        if let Some((least, most)) = figure.range {
            end = at(most);
            let _ = write!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{end:.1}\" y2=\"{middle:.1}\" stroke=\"#222\"/>",
                at(least)
            );
        }
        text(&mut svg, (end.max(x) + 6.0, middle + 4.0), "start", &shown(figure.value));
    }
    Some(svg + "</svg>\n")
}

/// A curve for each row over these columns, each at its place on the axis: percentiles from the most usual to the
/// rarest, or logarithms of sizes.
fn curves(table: &Table, columns: &[usize], places: &[f64], title: &str) -> String {
    let figures =
        |row: &[String]| columns.iter().filter_map(|column| Some(cell(row, *column)?.value)).collect();
    let rows: Vec<(&str, Vec<f64>)> =
        table.rows.iter().filter_map(|row| Some((row.first()?.as_str(), figures(row)))).collect();
    let rows: Vec<_> = rows.into_iter().filter(|(_, values)| values.len() == columns.len()).collect();
    let most = rows.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    if rows.len() < 2 || most <= 0.0 {
        return String::new();
    }
    let mut svg = open(HEIGHT, title);
    let (first, last) = (places[0], places[places.len() - 1]);
    let at = |number: usize, value: f64| {
        let share = (places[number] - first) / (last - first);
        (MARGIN + share * (WIDTH - NAME - MARGIN), HEIGHT - MARGIN - value / most * (HEIGHT - 2.0 * MARGIN))
    };
    for (number, column) in columns.iter().enumerate() {
        let (x, y) = at(number, 0.0);
        text(&mut svg, (x, y + 18.0), "middle", &table.columns[*column]);
    }
    for (number, (name, values)) in rows.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<_> = values.iter().enumerate().map(|(i, value)| at(i, *value)).collect();
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        let (y, last) = (MARGIN + 18.0 * number as f64, values.last().copied().unwrap_or_default());
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>",
            WIDTH - NAME + 12.0,
            y - 6.0
        );
        text(&mut svg, (WIDTH - NAME + 30.0, y), "start", &format!("{name}: {}", shown(last)));
    }
    svg + "</svg>\n"
}

fn open(height: f64, title: &str) -> String {
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-size=\"13\">");
    text(&mut svg, (0.0, 14.0), "start", title);
    svg
}

fn shown(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        most if most >= 100.0 => format!("{value:.0}"),
        most if most >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = words.replace("**", "").replace('&', "&amp;").replace('<', "&lt;");
    let _ = write!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"currentColor\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::super::tables::tables;
    use super::*;

    fn pictures(markdown: &str) -> String {
        tables(markdown).iter().map(of).collect()
    }

    #[test]
    fn a_column_of_figures_becomes_bars_and_percentiles_become_curves() {
        let text = "# T\n| | µs | p50 | p99 | p99.9 |\n|---|---|---|---|---|\n\
                    | thalweg | 17.43 (17.10–20.03) | 1 | 2 | 3 |\n| a < b | 20 | 1 | 3 | 9 |\n";
        let svg = pictures(text);
        assert_eq!(svg.matches("<svg").count(), 2, "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains(COLOURS[0]), "{svg}");
    }

    #[test]
    fn sizes_become_curves_on_a_logarithmic_axis() {
        let text = "# CPU, routes\n| | 10 | 100 | 10000 |\n|---|---|---|---|\n\
                    | thalweg | 1 | 2 | 4 |\n| nginx | 1 | 1 | 2 |\n";
        let svg = pictures(text);
        assert_eq!((svg.matches("<svg").count(), svg.matches("<polyline").count()), (1, 2), "{svg}");
        // 100 lies a third of the way from 10 to 10,000.
        let width = WIDTH - NAME - MARGIN;
        assert!(svg.contains(&format!(" {:.1},", MARGIN + width / 3.0)), "{svg}");
        assert!(svg.contains("CPU, routes"), "{svg}");
        assert_eq!(pictures(&text.replace("| 100 |", "| x |")).matches("<polyline").count(), 0);
    }

    #[test]
    fn a_table_without_anything_to_compare_has_no_picture() {
        assert_eq!(pictures("# T\n| | µs |\n|---|---|\n| thalweg | 1 |\n"), "");
        assert_eq!(pictures("## Gates\n| | a |\n|---|---|\n| x | 1 |\n| y | 2 |\n"), "");
        assert_eq!(pictures("# T\n| | a |\n|---|---|\n| x | none |\n| y | none |\n"), "");
    }
}
