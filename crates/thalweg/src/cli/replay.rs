//! `thalweg replay FILE --to URL`: recorded exchanges are sent again, and what differs is told.

mod outcome;

use super::{complain, say};
use clap::Args;
use outcome::{Answered, Comparison, Outcome, Report};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_client::{Bounds, Destination, HttpClient};
use thalweg_core::units::parse_duration;
use thalweg_har::{self as har, Recorded};
use thalweg_tls::Trust;
use tokio::task::JoinSet;

/// Largest body of an answer, in bytes.
const BODY: usize = 256 * 1024 * 1024;
/// Headers of answers that are compared unless others are named.
const COMPARED: &[&str] = &["content-type", "location"];

/// What to send again, and to whom.
#[derive(Args, Debug)]
#[command(
    after_help = "Sent are path, query and headers as recorded, `Host` among them; credentials, which are not recorded, with \
                        --header. Not sent, and told at the end: what became a tunnel, what had a body (a recording has \
                        none), what had a credential in its query. Redirects are not followed. Exit codes: 0 when all answers \
                        are the same, 1 when something differs or nothing could be sent, 2 for arguments that make no sense."
)]
pub(crate) struct ReplayArgs {
    /// The archive (HAR 1.2), of `thalweg record` or another program
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The server to send to: `http://127.0.0.1:8080`
    #[arg(long, value_name = "URL", value_parser = Destination::parse)]
    to: Destination,
    /// Requests at once, 1 to 256
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Requests in a second at most, 1 to 100000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
    /// Send GET, HEAD and OPTIONS only (the default)
    #[arg(long, conflicts_with = "all_methods")]
    only_safe: bool,
    /// Send every method: it may change something there
    #[arg(long)]
    all_methods: bool,
    /// A header of every request, in place of a recorded one (may be given several times)
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// A header of the answers to compare, in place of content-type and location (may be given several times)
    #[arg(long = "compare", value_name = "NAME")]
    compared: Vec<String>,
    /// An answer that takes this many times as long as the recorded one differs: `2x`
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    slowdown: Option<f64>,
    /// The longest time for an answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// PEM file of whom to trust at an https URL; default: whom the system trusts
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write `Name: value`")?;
    let (name, value) = (name.trim(), value.trim());
    match name.is_empty() || name.contains(char::is_whitespace) {
        true => Err("write `Name: value`".into()),
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').and_then(|number| number.parse::<f64>().ok());
    number.filter(|factor| (1.0..=1000.0).contains(factor)).ok_or("write a factor from 1x to 1000x".into())
}

pub(crate) fn replay(args: &ReplayArgs) -> ExitCode {
    let report = match run(args) {
        Ok(report) => report,
        Err(error) => {
            complain(error);
            return ExitCode::FAILURE;
        }
    };
    match args.json {
        true => say(format_args!("{:#}", report.json())),
        false => say(report.text().trim_end()),
    }
    match report.outcomes.is_empty() || report.differing() > 0 {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn run(args: &ReplayArgs) -> Result<Report, String> {
    let (mut recorded, mut skipped) = (Vec::new(), BTreeMap::new());
    for entry in har::read(&args.file)? {
        match Recorded::read(&entry, args.all_methods) {
            Ok(mut request) => {
                args.headers.iter().for_each(|header| request.set(header));
                recorded.push(request);
            }
            Err(why) => *skipped.entry(why).or_insert(0) += 1,
        }
    }
    let headers = match args.compared.is_empty() {
        true => COMPARED.iter().map(|name| (*name).to_owned()).collect(),
        false => args.compared.clone(),
    };
    let trust = match &args.ca {
        None => Trust::System,
        Some(path) => {
            Trust::Only(fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?.into())
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let sender = Sender {
        client: HttpClient::new(trust),
        to: args.to.clone(),
        bounds: Bounds::new(args.timeout, BODY),
    };
    let sending = send_all(Arc::new(sender), recorded, (args.concurrency.into(), args.rate));
    let outcomes = runtime.map_err(|error| error.to_string())?.block_on(sending);
    Ok(Report { outcomes, skipped, compared: Comparison { headers, slowdown: args.slowdown } })
}

/// Sends all, in the order of the archive, `concurrency` at once, not faster than `rate`; in the same order come the
/// outcomes.
async fn send_all(
    sender: Arc<Sender>,
    recorded: Vec<Recorded>,
    (concurrency, rate): (usize, Option<u32>),
) -> Vec<Outcome> {
    let (mut under_way, mut done) = (JoinSet::new(), Vec::with_capacity(recorded.len()));
    let begin = tokio::time::Instant::now();
    for (at, request) in recorded.into_iter().enumerate() {
        if under_way.len() >= concurrency {
            done.extend(under_way.join_next().await.and_then(Result::ok));
        }
        if let Some(rate) = rate {
            tokio::time::sleep_until(begin + Duration::from_secs_f64(at as f64 / f64::from(rate))).await;
        }
        let sender = Arc::clone(&sender);
        under_way.spawn(async move { (at, sender.send(request).await) });
    }
    while let Some(outcome) = under_way.join_next().await {
        done.extend(outcome);
    }
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// How requests are sent.
struct Sender {
    client: HttpClient,
    to: Destination,
    bounds: Bounds,
}

impl Sender {
    async fn send(&self, recorded: Recorded) -> Outcome {
        let begin = Instant::now();
        let answered = match recorded.request() {
            Err(error) => Err(format!("it cannot be sent: {error}")),
            Ok(request) => match self.client.send(&self.to, request, self.bounds).await {
                Err(error) => Err(error.to_string()),
                Ok(answer) => {
                    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                    let headers = answer.headers().iter();
                    let headers = headers.map(|(name, value)| (name.to_string(), text(value.as_bytes())));
                    let headers = headers.collect();
                    Ok(Answered { status: answer.status().as_u16(), headers, time: begin.elapsed() })
                }
            },
        };
        Outcome { recorded, answered }
    }
}
