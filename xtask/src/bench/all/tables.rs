//! The tables of a report, read from its Markdown: for JSON and for pictures.

use serde_json::{Value, json};

/// A table below a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) heading: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A cell with a number: the number, and the least and the most where they stand behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) value: f64,
    pub(super) range: Option<(f64, f64)>,
}

/// All tables in their order.
pub(super) fn tables(markdown: &str) -> Vec<Table> {
    let (mut found, mut heading) = (Vec::<Table>::new(), String::new());
    let mut is_within = false;
    for line in markdown.lines() {
        if let Some(words) = line.strip_prefix('#') {
            heading = words.trim_start_matches('#').trim().to_owned();
        }
        let Some(inner) = line.strip_prefix('|') else {
            is_within = false;
            continue;
        };
        let cells: Vec<_> =
            inner.trim_end().trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        match found.last_mut().filter(|_| is_within) {
            None => found.push(Table { heading: heading.clone(), columns: cells, rows: Vec::new() }),
            Some(_) if cells.iter().all(|cell| cell.starts_with("---")) => {}
            Some(table) => table.rows.push(cells),
        }
        is_within = true;
    }
    found
}

/// The same as JSON, numbers as numbers.
pub(super) fn json(markdown: &str) -> Value {
    let cell = |text: &String| match figure(text) {
        Some(Figure { value, range: Some((least, most)) }) => {
            json!({"value": value, "least": least, "most": most})
        }
        Some(Figure { value, range: None }) => json!({"value": value, "text": text}),
        None => json!(text),
    };
    let table = |table: Table| {
        let rows: Vec<Vec<Value>> = table.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        json!({"heading": table.heading, "columns": table.columns, "rows": rows})
    };
    Value::Array(tables(markdown).into_iter().map(table).collect())
}

/// The number of a cell such as `17.43 (17.10–20.03)`, `**0.85** (0.80–1.01)`, `94 %` or `11.6 MB`.
pub(super) fn figure(cell: &str) -> Option<Figure> {
    let text = cell.replace("**", "");
    let number =
        |word: &str| word.trim_matches(|c: char| !c.is_ascii_digit() && c != '-').parse::<f64>().ok();
    let first = text.split_whitespace().next()?;
    first.starts_with(|c: char| c.is_ascii_digit() || c == '-').then_some(())?;
    let value = number(first)?;
    let range = text.split_once('(').and_then(|(_, rest)| {
        let (least, most) = rest.split_once(')')?.0.split_once('–')?;
        Some((number(least)?, number(most)?))
    });
    Some(Figure { value, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\nwords\n\n| | µs (least–most) | busy |\n|---|---|---|\n\
                        | thalweg | **17.43** (17.10–20.03) | 94 % |\n| nginx | none | 98 % |\n\n\
                        ## More\n\n| a |\n|---|\n| 1 |\n";

    #[test]
    fn tables_are_found_below_their_headings() {
        let found = tables(TEXT);
        assert_eq!(found.iter().map(|table| table.heading.as_str()).collect::<Vec<_>>(), ["Title", "More"]);
        assert_eq!(found[0].columns, ["", "µs (least–most)", "busy"]);
        assert_eq!(found[0].rows[1], ["nginx", "none", "98 %"]);
        let json = json(TEXT);
        assert_eq!(json[0]["rows"][0][1]["least"], 17.10);
        assert_eq!(json[0]["rows"][0][2]["value"], 94.0);
        assert_eq!(json[0]["rows"][1][1], "none");
    }

    #[test]
    fn numbers_are_read_and_words_are_not() {
        assert_eq!(figure("11.6 MB"), Some(Figure { value: 11.6, range: None }));
        assert_eq!(figure("**0.85** (0.80–1.01)"), Some(Figure { value: 0.85, range: Some((0.80, 1.01)) }));
        for cell in ["", "none", "met", "**missed**", "nginx 1.22"] {
            assert_eq!(figure(cell), None, "{cell}");
        }
    }
}
