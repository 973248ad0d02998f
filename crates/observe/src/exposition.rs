//! The Prometheus text format, version 0.0.4, and OpenMetrics 1.0: one metric at a time, its head, then its samples.
//!
//! Called by `render` only. Invariant: what comes out parses, whatever the label values hold.
//! Own code because every sample here is a sum over workers taken at this moment, which the
//! encoder of a metrics library, made for values it holds itself, does not fit.

use std::fmt::{Display, Write as _};

use crate::exemplar::Exemplar;
use crate::meter::{BOUNDS_US, BUCKETS, HistogramTotal};
use crate::names::{Kind, Metric};

/// How the page is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Form {
    /// The Prometheus text format 0.0.4.
    #[default]
    Text,
    /// OpenMetrics 1.0: counters are called without `_total` in their heads, buckets may have examples, and an end
    /// says that nothing is missing.
    OpenMetrics,
}

impl Form {
    /// Its `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What a client wants whose `Accept` this is (RFC 9110 §12.5.1): OpenMetrics where it is named and weighs no less
    /// than the text format. Wildcards mean the text format, as every client of it understands.
    pub fn accepted(accept: &str) -> Self {
        let weight = |media: &str| {
            let entries = accept.split(',').filter_map(|entry| {
                let mut parts = entry.split(';').map(str::trim);
                parts.next().filter(|name| name.eq_ignore_ascii_case(media))?;
                let weight = parts.find_map(|part| part.strip_prefix("q="));
                Some(weight.map_or(1.0, |weight| weight.parse::<f64>().unwrap_or(0.0)))
            });
            entries.fold(0.0, f64::max)
        };
        let open = weight("application/openmetrics-text");
        if open > 0.0 && open >= weight("text/plain") { Self::OpenMetrics } else { Self::Text }
    }
}

/// The page as far as it is written.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
    form: Form,
}

impl Exposition {
    pub(crate) fn new(form: Form) -> Self {
        Self { text: String::new(), form }
    }

    /// Begins a metric: its help and type. All of its samples must follow before the next one.
    pub(crate) fn head(&mut self, metric: &Metric) {
        let name = match self.form {
            Form::Text => metric.name,
            Form::OpenMetrics => family(metric),
        };
        // Here and below: writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {}", metric.help);
        let _ = writeln!(self.text, "# TYPE {name} {}", metric.kind.name());
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
        self.histogram_with(metric, labels, total, &[const { None }; BUCKETS]);
    }

    /// The same with examples, where the form has any.
    pub(crate) fn histogram_with(
        &mut self,
        metric: &Metric,
        labels: &[&str],
        total: &HistogramTotal,
        exemplars: &[Option<Exemplar>; BUCKETS],
    ) {
        debug_assert!(metric.kind == Kind::Histogram, "{}", metric.name);
        let mut count = 0u64;
        let bounds = BOUNDS_US.iter().map(|us| Some(*us as f64 / 1e6)).chain([None]);
        for ((bound, bucket), exemplar) in bounds.zip(total.buckets).zip(exemplars) {
            count = count.wrapping_add(bucket);
            self.line(metric, "_bucket", labels, Some(bound.unwrap_or(f64::INFINITY)));
            let _ = write!(self.text, " {count}");
            // An example may be written before its bucket is counted, and read so.
            if let (Some(exemplar), Form::OpenMetrics, true) = (exemplar, self.form, bucket > 0) {
                let Exemplar { id, seconds, unix_s } = exemplar;
                let _ = write!(self.text, " # {{request_id=\"{}\"}} {seconds} {unix_s}", id.as_str());
            }
            self.text.push('\n');
        }
        self.line(metric, "_sum", labels, None);
        let _ = writeln!(self.text, " {}", total.sum_ns as f64 / 1e9);
        self.line(metric, "_count", labels, None);
        let _ = writeln!(self.text, " {count}");
    }

    /// The page.
    pub(crate) fn into_text(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
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
                // OpenMetrics wants floats to look like floats.
                true if self.form == Form::OpenMetrics => write!(self.text, "{separator}le=\"{le:?}\""),
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

/// What a metric is called in its head.
fn family(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => metric.name.strip_suffix("_total").unwrap_or(metric.name),
        Kind::Gauge | Kind::Histogram => metric.name,
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
    fn the_form_is_what_the_client_wants_and_text_for_all_others() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for accept in [prometheus, "application/openmetrics-text", "text/plain, Application/OpenMetrics-Text"]
        {
            assert_eq!(Form::accepted(accept), Form::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/html",
            "text/plain, application/openmetrics-text;q=0.5",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text; q=x",
        ] {
            assert_eq!(Form::accepted(accept), Form::Text, "{accept}");
        }
    }

    #[test]
    fn families_of_openmetrics_have_names_of_their_own() {
        let mut families: Vec<_> = names::ALL.iter().map(|metric| family(metric)).collect();
        families.sort_unstable();
        assert!(families.windows(2).all(|two| two[0] != two[1]));
        // A counter must have the ending that its head leaves out.
        let mut page = Exposition::new(Form::OpenMetrics);
        page.single(&names::PANICS, 3);
        let text = page.into_text();
        assert!(text.ends_with("# TYPE thalweg_panics counter\nthalweg_panics_total 3\n# EOF\n"), "{text}");
    }

    #[test]
    fn buckets_have_examples_in_openmetrics_only() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_millis(1_500));
        let mut total = HistogramTotal::default();
        histogram.add_to(&mut total);
        let mut exemplars = [const { None }; BUCKETS];
        let id = thalweg_core::RequestId::given(b"abc").unwrap();
        exemplars[11] = Some(Exemplar { id, seconds: 1.5, unix_s: 1_800_000_000.25 });
        for (form, wanted) in [
            (Form::OpenMetrics, "le=\"2.5\"} 1 # {request_id=\"abc\"} 1.5 1800000000.25\n"),
            (Form::Text, "le=\"2.5\"} 1\n"),
        ] {
            let mut page = Exposition::new(form);
            page.histogram_with(&names::REQUEST_DURATION, &["r"], &total, &exemplars);
            assert!(page.text.contains(wanted), "{}", page.text);
            assert!(page.text.contains(if form == Form::Text { "le=\"1\"" } else { "le=\"1.0\"" }));
        }
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
