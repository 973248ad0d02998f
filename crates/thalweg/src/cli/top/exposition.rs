//! Reads the metrics page (the Prometheus text format 0.0.4), as far as the proxy writes it.

/// A line of the page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricLine {
    /// The name of the metric, with `_bucket` and the like.
    pub(super) name: String,
    /// Names and values of its labels, in their order.
    labels: Vec<(String, String)>,
    /// The value.
    pub(super) value: f64,
}

impl MetricLine {
    /// The value of a label; empty where there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The value as a count.
    pub(super) fn count(&self) -> u64 {
        // Above 2^53 counts lose their last digits, which nobody sees.
        if self.value > 0.0 { self.value as u64 } else { 0 }
    }
}

/// The lines whose names begin so; what is no line of the format is left out.
pub(super) fn lines<'a>(page: &'a str, names: &'a [&str]) -> impl Iterator<Item = MetricLine> + 'a {
    let wanted = |line: &&str| names.iter().any(|name| line.starts_with(name));
    page.lines().filter(wanted).filter_map(line)
}

fn line(text: &str) -> Option<MetricLine> {
    let end = text.find(['{', ' '])?;
    let (name, rest) = text.split_at(end);
    let mut labels = Vec::new();
    let mut rest = match rest.strip_prefix('{') {
        None => rest,
        Some(mut rest) => loop {
            if let Some(behind) = rest.strip_prefix('}') {
                break behind;
            }
            let (label, behind) = rest.split_once("=\"")?;
            let (value, behind) = quoted(behind)?;
            labels.push((label.to_owned(), value));
            rest = behind.strip_prefix(',').unwrap_or(behind);
        },
    };
    rest = rest.trim_start();
    let value = rest.split(' ').next()?.parse().ok()?;
    Some(MetricLine { name: name.to_owned(), labels, value })
}

/// A label's value up to its quotation mark, and what is behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_labels() {
        let page = "# HELP a_total x\n# TYPE a_total counter\na_total{route=\"a \\\"b\\\" \\\\ \\n\",code=\"200\"} 17\n\
                    a_total 3 1700000000\nb_total 1\na_sum{} 0.5 # {trace_id=\"x\"} 1\na_broken{x=\"1 2\na_nan NaN\n";
        let found: Vec<_> = lines(page, &["a_"]).collect();
        assert_eq!(
            (found[0].label("route"), found[0].label("code"), found[0].count()),
            ("a \"b\" \\ \n", "200", 17)
        );
        assert_eq!((found[1].label("route"), found[1].count(), found[2].value), ("", 3, 0.5));
        assert_eq!((found[3].name.as_str(), found[3].count(), found.len()), ("a_nan", 0, 4));
    }
}
