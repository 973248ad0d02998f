//! `thalweg tap`: exchanges as they end, a line each.

use super::decision::{list, number, sent, text, time};
use super::watch::{WatchArgs, watch, watch_time};
use super::{AdminArgs, complain};
use crate::printable::{self, acts};
use clap::Args;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;
use thalweg_core::units::duration_text;

/// What to watch, and how to show it.
#[derive(Args, Debug)]
#[command(
    after_help = "Credentials are redacted: of headers the values of Authorization, Cookie, Set-Cookie and of all whose \
                        name sounds like a key or a token, of queries the values of token, key, password and the like. \
                        Exit codes: 0 when it has ended as asked, 1 when the proxy does not answer or refuses, 2 for a \
                        condition that is none."
)]
pub(crate) struct TapArgs {
    #[command(flatten)]
    watch: WatchArgs,
    /// Show the headers of request and response
    #[arg(long)]
    headers: bool,
    /// End after this time, at most 1h
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = watch_time)]
    time: Duration,
    /// End after so many exchanges
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    limit: Option<u64>,
    /// Print the JSON of each exchange on a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn tap(args: &TapArgs) -> ExitCode {
    let path = match args.watch.path(args.headers, args.time, args.limit) {
        Ok(path) => path,
        Err(code) => return code,
    };
    let end = watch(&args.admin, &path, |document, exchange| {
        let lines = if args.json { format!("{document}\n") } else { lines(exchange) };
        // Who reads through a pipe may have seen enough.
        let lines = printable::lines(&lines);
        match io::stdout().write_all(lines.as_bytes()).and_then(|()| io::stdout().flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    match end {
        Ok(end) => {
            match end.reason.as_deref() {
                Some("time") => complain(format_args!("ended after {}", duration_text(args.time))),
                Some("stopped") => complain("ended: the proxy stops"),
                _ => {}
            }
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// One exchange: a line, and one for each header that was asked for.
fn lines(exchange: &Value) -> String {
    let began = text(exchange, "began").unwrap_or_default();
    let clock = began.split_once('T').map_or(began, |(_, clock)| clock);
    let status = number(exchange, "status").map_or("-".into(), |status| status.to_string());
    let took = time(number(exchange, "duration_us").unwrap_or(0));
    let mut line = format!("{clock}  {status:>3}  {took:>9}  ");
    let query = sent(exchange, "query").map(|query| format!("?{query}")).unwrap_or_default();
    let part = |name| sent(exchange, name).unwrap_or_default();
    let _ = match sent(exchange, "method") {
        Some(method) => write!(line, "{method} {}{}{query}", part("host"), part("path")),
        None => write!(line, "{} {}", text(exchange, "scheme").unwrap_or("-"), part("host")),
    };
    match (sent(exchange, "route"), sent(exchange, "service")) {
        (Some(route), Some(service)) => line.push_str(&format!("  {route} > {service}")),
        (Some(route), None) => line.push_str(&format!("  {route}")),
        (None, _) => line.push_str("  no route"),
    }
    let attempts = list(exchange, "attempts");
    if let Some(endpoint) = attempts.last().and_then(|attempt| sent(attempt, "endpoint")) {
        line.push_str(&format!("  {endpoint}"));
    }
    if attempts.len() > 1 {
        let _ = write!(line, " ({} attempts)", attempts.len());
    }
    if let Some(fault) = sent(exchange, "fault") {
        line.push_str(&format!("  {fault}"));
    }
    let _ = write!(line, "  from {}", part("client_ip"));
    sent(exchange, "user").iter().for_each(|user| line.push_str(&format!(" ({user})")));
    sent(exchange, "id").iter().for_each(|id| line.push_str(&format!("  {id}")));
    line.push('\n');
    for (list, sign) in [("request_headers", '>'), ("response_headers", '<')] {
        for field in exchange[list].as_array().into_iter().flatten() {
            let [name, value] = [0, 1].map(|at| plain(field[at].as_str().unwrap_or_default()));
            let _ = writeln!(line, "  {sign} {name}: {value}");
        }
    }
    if exchange["headers_cut"].as_bool() == Some(true) {
        line.push_str("  (more headers were left out)\n");
    }
    line
}

/// Text that does nothing to a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if acts(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_exchange_is_a_line_with_what_it_has() {
        let exchange = json!({
            "id": "01923456-789a-7000-8000-000000000000", "began": "2026-11-22T10:00:00.123Z", "client_ip": "192.0.2.7",
            "method": "GET", "host": "a.test", "path": "/p/42", "query": "key=[redacted]", "route": "products",
            "service": "shop", "scheme": "http", "status": 502, "duration_us": 1_234_567, "user": "ann",
            "fault": "connection_refused",
            "attempts": [ { "endpoint": "http://10.0.0.1:80" }, { "endpoint": "http://10.0.0.2:80" } ],
            "request_headers": [["host", "a.test"], ["x", "\u{1b}[2J"]], "response_headers": [["ETag", "\"1\""]],
        });
        assert_eq!(
            lines(&exchange),
            "10:00:00.123Z  502     1.23 s  GET a.test/p/42?key=[redacted]  products > shop  http://10.0.0.2:80 \
             (2 attempts)  connection_refused  from 192.0.2.7 (ann)  01923456-789a-7000-8000-000000000000\n  \
             > host: a.test\n  > x: \u{fffd}[2J\n  < ETag: \"1\"\n"
        );
    }

    #[test]
    fn what_could_not_be_read_and_connections_are_told_with_what_is_known() {
        let exchange = json!({ "began": "2026-11-22T10:00:00.123Z", "client_ip": "::1", "scheme": "tcp",
            "host": "a.test", "attempts": [], "duration_us": 15 });
        assert_eq!(lines(&exchange), "10:00:00.123Z    -      15 µs  tcp a.test  no route  from ::1\n");
        assert!(lines(&Value::Null).contains("no route"));
    }
}
