//! The Prometheus text format, version 0.0.4: one metric at a time, its head, then its samples.
//!
//! Called by `render` only. Invariant: what comes out parses, whatever the label values hold.
//! Own code because every sample here is a sum over workers taken at this moment, which the
//! encoder of a metrics library, made for values it holds itself, does not fit.

use std::fmt::{Display, Write as _};

use crate::meter::{BOUNDS_US, HistogramTotal};
use crate::names::{Kind, Metric};

/// The page as far as it is written.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a metric: its help and type. All of its samples must follow before the next one.
    pub(crate) fn head(&mut self, metric: &Metric) {
        // Here and below: writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(self.text, "# TYPE {} {}", metric.name, metric.kind.name());
    }

    /// One sample of a counter or gauge. `labels` are the values of `metric.labels`, in order.
    pub(crate) fn sample(&mut self, metric: &Metric, labels: &[&str], value: impl Display) {
        debug_assert!(metric.kind != Kind::Histogram, "{}", metric.name);
        self.line(metric, "", labels, None);
        let _ = writeln!(self.text, " {value}");
    }

    /// A whole metric without labels: head and sample.
    pub(crate) fn single(&mut self, metric: &Metric, value: impl Display) {
        self.head(metric);
        self.sample(metric, &[], value);
    }

    /// The samples of a histogram with these labels. The count is the sum of the buckets, so the
    /// page is consistent in itself although workers go on counting.
    pub(crate) fn histogram(&mut self, metric: &Metric, labels: &[&str], total: &HistogramTotal) {
        debug_assert!(metric.kind == Kind::Histogram, "{}", metric.name);
        let mut count = 0u64;
        let bounds = BOUNDS_US.iter().map(|us| Some(*us as f64 / 1e6)).chain([None]);
        for (bound, bucket) in bounds.zip(total.buckets) {
            count = count.wrapping_add(bucket);
            self.line(metric, "_bucket", labels, Some(bound.unwrap_or(f64::INFINITY)));
            let _ = writeln!(self.text, " {count}");
        }
        self.line(metric, "_sum", labels, None);
        let _ = writeln!(self.text, " {}", total.sum_ns as f64 / 1e9);
        self.line(metric, "_count", labels, None);
        let _ = writeln!(self.text, " {count}");
    }

    /// The page.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Name and labels of one sample.
    fn line(&mut self, metric: &Metric, suffix: &str, values: &[&str], le: Option<f64>) {
        debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
        self.text.push_str(metric.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for (label, value) in metric.labels.iter().zip(values) {
            self.text.push(separator);
            self.text.push_str(label);
            self.text.push_str("=\"");
            self.escaped(value);
            self.text.push('"');
            separator = ',';
        }
        if let Some(le) = le {
            let _ = match le.is_finite() {
                true => write!(self.text, "{separator}le=\"{le}\""),
                false => write!(self.text, "{separator}le=\"+Inf\""),
            };
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
    }

    /// A label value: backslash, quote and line feed are escaped, everything else stands for itself.
    fn escaped(&mut self, value: &str) {
        for c in value.chars() {
            match c {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                c => self.text.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::meter::Histogram;
    use crate::names;

    #[test]
    fn label_values_cannot_break_out() {
        let mut page = Exposition::default();
        page.sample(&names::CONNECTIONS_TOTAL, &["a\"} 1\nb\\"], 5);
        assert_eq!(page.into_text(), "thalweg_connections_total{listener=\"a\\\"} 1\\nb\\\\\"} 5\n");
    }

    #[test]
    fn histograms_are_cumulative_and_end_with_infinity() {
        let histogram = Histogram::default();
        for ms in [0, 1, 100_000] {
            histogram.record(Duration::from_millis(ms));
        }
        let mut total = HistogramTotal::default();
        histogram.add_to(&mut total);
        let mut page = Exposition::default();
        page.histogram(&names::REQUEST_DURATION, &["r"], &total);
        let text = page.into_text();
        let name = "thalweg_request_duration_seconds";
        assert!(text.starts_with(&format!("{name}_bucket{{route=\"r\",le=\"0.0005\"}} 1\n")), "{text}");
        assert!(text.contains(&format!("{name}_bucket{{route=\"r\",le=\"1\"}} 2\n")), "{text}");
        assert!(text.contains(&format!("{name}_bucket{{route=\"r\",le=\"60\"}} 2\n")), "{text}");
        let end = format!(
            "{name}_bucket{{route=\"r\",le=\"+Inf\"}} 3\n{name}_sum{{route=\"r\"}} 100.001\n{name}_count{{route=\"r\"}} 3\n"
        );
        assert!(text.ends_with(&end), "{text}");
    }

    #[test]
    fn metrics_without_labels_have_no_braces() {
        let mut page = Exposition::default();
        page.single(&names::REQUESTS_ACTIVE, -1);
        assert_eq!(
            page.into_text(),
            "# HELP thalweg_requests_active Exchanges under way.\n# TYPE thalweg_requests_active gauge\nthalweg_requests_active -1\n"
        );
    }
}
