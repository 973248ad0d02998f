//! The report of slow readers: small requests beside them, memory span by span, the gates, the method.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;

use super::ends::{SmallRun, Times};
use super::{Measured, QUIET_SPANS, Slow};
use crate::bench::figures::{Gate, head};
use crate::bench::{LOAD_CPU, PROXY_CPU, frame, kernel_setting};

/// Most of the 99th percentile beside slow readers, as a multiple of that on the quiet machine.
const P99_GATE: f64 = 1.5;
/// Most growth of the proxy's memory from the span with the least to that with the most, as a factor.
const GROWTH_GATE: f64 = 1.05;
/// Most pages for TCP, as a multiple of the least of the kernel's three marks: below it nothing is short.
const PAGES_GATE: f64 = 1.0;
/// Most reads for which nothing was there, as a share: the readers must be what is slow.
const DRY_GATE: f64 = 0.01;

/// Everything that was measured, and where.
pub(super) struct Report<'a> {
    pub(super) args: &'a Slow,
    pub(super) measured: &'a Measured,
    pub(super) version: &'a str,
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Slow readers".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## Small requests beside {} of them\n", self.args.readers)?;
        writeln!(
            text,
            "Times in milliseconds from the moment at which a request was to be sent. Control: the slow readers get \
             their bodies\nfrom the origin directly, the small requests pass the proxy.\n"
        )?;
        head(text, &["", "requests", "p50", "p99", "p99 of the best and the worst span", "most", "failed"])?;
        let measured = self.measured;
        for (name, run) in [
            ("quiet, before", &measured.before),
            ("control", &measured.control),
            ("beside slow readers", &measured.beside),
            ("quiet, after", &measured.after),
        ] {
            let far = run.spans.iter().map(|(times, _)| times.p99);
            let (best, worst) = (far.clone().min().unwrap_or_default(), far.max().unwrap_or_default());
            let Times { count, p50, p99, most } = run.all;
            let [p50, p99, best, worst, most] = [p50, p99, best, worst, most].map(millis);
            writeln!(text, "| {name} | {count} | {p50} | {p99} | {best}–{worst} | {most} | {} |", run.bad)?;
        }
        self.spans(text)
    }

    fn gates(&self) -> Vec<Gate> {
        let measured = self.measured;
        let quiet = far(&measured.before).midpoint(far(&measured.after));
        let seen = || measured.beside.spans.iter().map(|(_, vitals)| vitals);
        let resident = || seen().map(|vitals| vitals.resident as f64);
        let growth = resident().fold(0.0, f64::max) / resident().fold(f64::INFINITY, f64::min);
        let held = seen().map(|vitals| vitals.held as f64 / vitals.may_hold as f64).fold(0.0, f64::max);
        let pages = seen().map(|vitals| vitals.pages as f64).fold(0.0, f64::max) / marks()[0];
        let active = seen().map(|vitals| vitals.active).min().unwrap_or(0);
        let missing = (self.args.readers as u64).saturating_sub(active);
        let outcome = measured.outcomes[1];
        let dry = outcome.dry as f64 / outcome.reads.max(1) as f64;
        let runs = [&measured.before, &measured.control, &measured.beside, &measured.after];
        let failed = runs.iter().map(|run| run.bad).sum::<u64>() + outcome.bad;
        let gate =
            |name: &str, most, measured| Gate { name: name.to_owned(), most, measured: Some(measured) };
        vec![
            gate("p99 of small requests, × quiet", P99_GATE, far(&measured.beside) / quiet),
            gate("RSS, most × least", GROWTH_GATE, growth),
            gate("held bytes, × budget", 1.0, held),
            gate("TCP pages, × the mark of no pressure", PAGES_GATE, pages),
            gate("slow readers not served at some time", 0.0, missing as f64),
            gate("reads that found nothing, share", DRY_GATE, dry),
            gate("failed small connections and slow readers", 0.0, failed as f64),
        ]
    }

    fn versions(&self) -> Vec<String> {
        vec![self.version.to_owned()]
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        let [direct, proxied] = self.measured.outcomes.map(|outcome| outcome.bytes as f64 / 1e6);
        writeln!(
            text,
            "- slow readers: {} connections, each of which reads at most {} bytes once a second of a body of {:.0} MB; \
             all of\n  them have begun before a span does; every byte was checked: {direct:.0} MB in the control, \
             {proxied:.0} MB through the proxy",
            args.readers,
            args.rate,
            args.bytes as f64 / 1e6
        )?;
        writeln!(
            text,
            "- small requests: {} per second on {} kept-alive connections, whatever the pace of answers; spans of {} \
             s after\n  one that is dropped; quiet and control: {QUIET_SPANS} of them each",
            args.requests, args.connections, args.seconds
        )?;
        writeln!(
            text,
            "- one worker, on CPU {PROXY_CPU}, and with real-time priority beside it both ends of the small requests; \
             origin and\n  clients of the slow readers on CPU {LOAD_CPU}, with socket buffers of 8 KiB (which the kernel \
             doubles), because they\n  are not the proxy's; `bench/peers/ends` for all"
        )?;
        writeln!(
            text,
            "- TCP: {}, tcp_mem {}, tcp_rmem {}, tcp_wmem {}",
            kernel_setting("tcp_congestion_control"),
            kernel_setting("tcp_mem"),
            kernel_setting("tcp_rmem"),
            kernel_setting("tcp_wmem")
        )?;
        Ok(())
    }
}

impl Report<'_> {
    fn spans(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## Memory, span by span\n")?;
        head(text, &["until second", "exchanges", "p50", "p99", "RSS, MB", "held, MB", "TCP, pages"])?;
        for (number, (times, vitals)) in (1..).zip(&self.measured.beside.spans) {
            let [resident, held] = [vitals.resident, vitals.held].map(|bytes| bytes as f64 / 1e6);
            writeln!(
                text,
                "| {} | {} | {} | {} | {resident:.0} | {held:.1} | {} |",
                number * self.args.seconds,
                vitals.active,
                millis(times.p50),
                millis(times.p99),
                vitals.pages
            )?;
        }
        let [least, pressure, most] = marks();
        writeln!(
            text,
            "\nThe kernel's marks for TCP (tcp_mem): {least:.0} pages, below which nothing is short, {pressure:.0}, \
             from which it is, and {most:.0}."
        )?;
        Ok(())
    }
}

/// The 99th percentile in seconds.
fn far(run: &SmallRun) -> f64 {
    run.all.p99.as_secs_f64()
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

/// The kernel's marks for TCP, in pages.
fn marks() -> [f64; 3] {
    let setting = kernel_setting("tcp_mem");
    let mut numbers = setting.split(' ').map(|word| word.parse().unwrap_or(f64::NAN));
    std::array::from_fn(|_| numbers.next().unwrap_or(f64::NAN))
}
