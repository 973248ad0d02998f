//! Which exchanges `tap` and `record` watch, and how they hear of them.

use super::problem::refused;
use super::{AdminArgs, complain, print_error};
use clap::Args;
use serde_json::Value;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;
use thalweg_admin::StreamEnd;
use thalweg_core::units::{duration_text, parse_duration};
use thalweg_observe::{Condition, IdShare};

/// Longest time that can be asked for.
const LONGEST: Duration = Duration::from_secs(3600);

/// Which exchanges are watched.
#[derive(Args, Debug)]
pub(super) struct WatchArgs {
    /// Only those of the route with this name
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// Only those of the service with this name
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only those for which this holds, as in `status>=500 or latency>1s`; fields: status, latency, method, host, path,
    /// route, service, endpoint, client_ip, user, fault, attempts, bytes_in, bytes_out, proto; operators: = != < <= >
    /// >= ~ (contains, or with * matches) !~, and, or, not, parentheses
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Look at this share of all exchanges
    #[arg(long, value_name = "PERCENT", value_parser = IdShare::parse)]
    sample: Option<IdShare>,
}

/// Why the watching came to its end, and what of it was dropped.
pub(super) struct WatchEnd {
    /// `time`, `limit`, `stopped`; `None`: a signal, or the connection ended.
    pub(super) reason: Option<String>,
    pub(super) dropped: u64,
}

/// The time of `--for`.
pub(super) fn watch_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if time <= LONGEST && !time.is_zero() => Ok(time),
        _ => Err("write a time of at most 1h".into()),
    }
}

impl WatchArgs {
    /// The path of the stream. `Err` has been told: a condition that is none is a mistake of usage.
    pub(super) fn path(&self, headers: bool, time: Duration, limit: Option<u64>) -> Result<String, ExitCode> {
        if let Some(Err(error)) = self.condition.as_deref().map(Condition::parse) {
            complain(format_args!("--where: {error}"));
            if let Some(help) = &error.help {
                print_error(format_args!("  help: {help}"));
            }
            return Err(ExitCode::from(2));
        }
        let mut path = format!("/api/v1/tap?headers={headers}&for={}", duration_text(time));
        let mut add = |name: &str, value: &str| {
            path.push_str(&format!("&{name}={}", thalweg_admin::encode(value)));
        };
        self.route.iter().for_each(|route| add("route", route));
        self.service.iter().for_each(|service| add("service", service));
        self.condition.iter().for_each(|condition| add("where", condition));
        self.sample.iter().for_each(|sample| add("sample", &sample.to_string()));
        limit.iter().for_each(|limit| add("limit", &limit.to_string()));
        Ok(path)
    }
}

/// Watches; `seen` is called with the document of each exchange, as text and read. `Err` has been told.
pub(super) fn watch(
    admin: &AdminArgs,
    path: &str,
    mut seen: impl FnMut(&str, &Value) -> ControlFlow<()>,
) -> Result<WatchEnd, ExitCode> {
    let mut end = WatchEnd { reason: None, dropped: 0 };
    let heard = admin.listen(path, |event| {
        let document: Value = serde_json::from_str(&event.data).unwrap_or_default();
        match event.kind.as_str() {
            "open" => complain("watching"),
            "exchange" => return seen(&event.data, &document),
            "dropped" => {
                let count = document["count"].as_u64().unwrap_or(0);
                end.dropped += count;
                complain(format_args!(
                    "{count} exchanges were dropped: there are more than can be shown; narrow it with `--where` or `--sample`"
                ));
            }
            "end" => {
                end.reason = document["reason"].as_str().map(str::to_owned);
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    match heard {
        Ok(StreamEnd::Ended) => Ok(end),
        Ok(StreamEnd::Refused(answer)) => Err(refused(&answer, "configuration")),
        Err(error) => {
            complain(error);
            Err(ExitCode::FAILURE)
        }
    }
}
