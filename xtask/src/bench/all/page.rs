//! One HTML file of all reports: no script, and nothing that has to be fetched.

use std::fmt::Write as _;

use anyhow::Result;
use pulldown_cmark::{Options, Parser, html};

use super::chart;
use super::tables::tables;
use crate::bench::frame::today;
use crate::bench::machine;

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border: 1px solid #8886; padding: .25rem .6rem; text-align: left; }
td + td, th + th { text-align: right; }
svg { width: 100%; max-width: 40rem; display: block; margin: 1rem 0; }
nav a { margin-right: 1rem; }
section { border-top: 1px solid #8886; margin-top: 3rem; }
.missed { color: #d55e00; }
";

/// The page of these parts, a name and a report each; `failed` could not be measured.
pub(super) fn html(parts: &[(&str, &str)], failed: &[&str], is_quick: bool) -> Result<String> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Thalweg, measured</title>\n\
         <style>{STYLE}</style>\n<h1>Thalweg, measured beside others</h1>\n<p>{}, tree {}, {}.</p>\n",
        today()?,
        escaped(&machine::commit()),
        escaped(&machine::describe())
    );
    if is_quick {
        page +=
            "<p class=\"missed\">A quick run: it shows that everything can be measured, and no result.</p>\n";
    }
    if !failed.is_empty() {
        let _ = writeln!(page, "<p class=\"missed\">Not measured: {}.</p>", escaped(&failed.join(", ")));
    }
    page += &gates(parts);
    page += "<nav>";
    for (name, _) in parts {
        let _ = write!(page, "<a href=\"#{name}\">{name}</a>");
    }
    page += "</nav>\n";
    for (name, markdown) in parts {
        let _ = writeln!(page, "<section id=\"{name}\">");
        // A picture stands behind the table that it is of.
        for piece in pieces(markdown) {
            html::push_html(&mut page, Parser::new_ext(&piece, Options::ENABLE_TABLES));
            page.extend(tables(&piece).iter().map(chart::of));
        }
        page += "</section>\n";
    }
    Ok(page + "</html>\n")
}

/// What every part has to keep, missed ones first.
fn gates(parts: &[(&str, &str)]) -> String {
    let of_part = |(name, markdown): &(&str, &str)| {
        let gates = tables(markdown).into_iter().filter(|table| table.heading == "Gates");
        let rows = gates.flat_map(|table| table.rows).map(|row| (name.to_string(), row));
        rows.collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = parts.iter().flat_map(of_part).filter(|(_, row)| row.len() >= 4).collect();
    rows.sort_by_key(|(_, row)| !row[3].contains("missed"));
    let mut text = "<h2>What has to be kept</h2>\n<table><tr><th>part</th><th>what</th><th>at most</th>\
                    <th>measured</th><th></th></tr>\n"
        .to_owned();
    for (part, row) in rows {
        let class = if row[3].contains("missed") { " class=\"missed\"" } else { "" };
        let _ = write!(text, "<tr{class}><td>{part}</td>");
        for cell in &row[..4] {
            let _ = write!(text, "<td>{}</td>", escaped(&cell.replace("**", "")));
        }
        text += "</tr>\n";
    }
    text + "</table>\n"
}

/// The text cut behind each of its tables; a piece keeps the heading that its table stands below.
fn pieces(markdown: &str) -> Vec<String> {
    let (mut pieces, mut piece) = (Vec::new(), String::new());
    let mut is_table = false;
    for line in markdown.lines() {
        let was_table = std::mem::replace(&mut is_table, line.starts_with('|'));
        if was_table && !is_table {
            pieces.push(std::mem::take(&mut piece));
        }
        piece += line;
        piece.push('\n');
    }
    pieces.push(piece);
    pieces
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "# Small\n\n| | µs |\n|---|---|\n| thalweg | 1 |\n| nginx | 2 |\n\n## Gates\n\n\
                          | thalweg | at most | measured | |\n|---|---|---|---|\n| CPU | 0.8 | 0.7 | met |\n\
                          | RSS | 15 | 16 | **missed** |\n\n## Method\n\n- quietly\n";

    #[test]
    fn a_page_has_all_parts_and_what_was_missed_first() {
        let page = html(&[("small", REPORT)], &["tls"], false).unwrap();
        assert!(page.contains("<section id=\"small\">") && page.contains("Not measured: tls."), "{page}");
        assert_eq!(page.matches("<svg").count(), 1, "{page}");
        assert!(page.find(">RSS<").unwrap() < page.find(">CPU<").unwrap(), "{page}");
        assert!(page.contains("<li>quietly</li>"), "{page}");
        assert!(!page.contains("src=") && !page.contains("http-equiv"), "{page}");
    }

    #[test]
    fn a_text_is_cut_behind_its_tables() {
        let pieces = pieces(REPORT);
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces.concat(), REPORT);
    }
}
