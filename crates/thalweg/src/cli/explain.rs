//! `thalweg explain METHOD URL`: which route takes a request, why the others do not, and where it goes.
//!
//! Without `--live` a file is explained, the one that `run` would find. With it, or with `--admin`, the running proxy
//! says how its endpoints stand too. `--id` tells what became of a request that has been there.

use super::check::{locate, show};
use super::{AdminArgs, complain, decision, say};
use crate::printable::acts;
use clap::Args;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_config::load_file;
use thalweg_proxy::explain::{Question, Unaskable, explain as explain_plan};

/// What to explain.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The method; default: GET, as in `thalweg explain /products/42`
    #[arg(value_name = "METHOD", required_unless_present = "id")]
    method: Option<String>,
    /// The URL, or a path alone: `https://shop.example.com/products/42`
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Tell of the request with this id, as in X-Request-Id and in the access log
    #[arg(long, value_name = "ID", conflicts_with_all = ["method", "url", "headers", "from", "listener", "config", "all"])]
    id: Option<String>,
    /// A header of the request (may be given several times)
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The address that the request comes from; default: 127.0.0.1
    #[arg(long, value_name = "IP")]
    from: Option<IpAddr>,
    /// The listener; default: one with TLS for `https://`, and with the port that the URL names, else the first
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// The configuration; default: where `run` would find it
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["live", "admin"])]
    config: Option<PathBuf>,
    /// Ask the running proxy instead of a file
    #[arg(long)]
    live: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// List every route and every endpoint
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn explain(args: &ExplainArgs) -> ExitCode {
    if let Some(id) = &args.id {
        return decision::explain_id(id, &args.admin, args.json);
    }
    let question = match args.question() {
        Ok(question) => question,
        Err(error) => return refuse(&error),
    };
    if args.live || args.admin.admin.is_some() { ask(args, &question) } else { read(args, &question) }
}

impl ExplainArgs {
    fn question(&self) -> Result<Question, Unaskable> {
        let (method, url) = match (&self.method, &self.url) {
            (Some(method), Some(url)) => (method.clone(), url.clone()),
            (Some(url), None) if url.contains(['/', '.', ':', '*']) => ("GET".to_owned(), url.clone()),
            (method, _) => (method.clone().unwrap_or_default(), String::new()),
        };
        let headers = self.headers.iter().map(|text| Question::field(text)).collect::<Result<_, _>>()?;
        Ok(Question { method, url, headers, from: self.from, listener: self.listener.clone() })
    }

    /// The operation of the admin API that answers the question.
    fn path(&self, question: &Question) -> String {
        let mut path = "/api/v1/explain?".to_owned();
        let mut add = |name: &str, value: &str| {
            path.push_str(&format!("{name}={}&", thalweg_admin::encode(value)));
        };
        add("method", &question.method);
        add("url", &question.url);
        question.headers.iter().for_each(|(name, value)| add("header", &format!("{name}: {value}")));
        question.from.iter().for_each(|from| add("from", &from.to_string()));
        question.listener.iter().for_each(|listener| add("listener", listener));
        path + &format!("all={}&text={}", self.all, !self.json)
    }
}

/// Explains a file.
fn read(args: &ExplainArgs, question: &Question) -> ExitCode {
    let Some(path) = locate(args.config.as_deref()) else { return ExitCode::FAILURE };
    let loaded = match load_file(&path) {
        Ok(loaded) => loaded,
        Err(report) => {
            show(&report, false);
            return ExitCode::FAILURE;
        }
    };
    let told = explain_plan(&loaded.plan, question, args.all, None).map(|mut told| {
        loaded.provenance.add_origins(&loaded.plan, &mut told);
        loaded.provenance.add_endpoint_origins(&loaded.plan, &mut told);
        for part in told.route.iter_mut().flat_map(|route| &mut route.services) {
            let discover = loaded.settings.discover.get(&*part.name);
            let words = discover.map(|discover| thalweg_discovery::words(&*discover.source));
            part.source = words.map(|words| loaded.plan.secrets.concealed.hide(&words).into_owned());
        }
        told
    });
    match told {
        Ok(told) if args.json => match serde_json::to_string_pretty(&told) {
            Ok(text) => print(text),
            Err(error) => fail(error),
        },
        Ok(told) => print(plain(&told.to_string())),
        Err(error) => refuse(&error),
    }
}

/// Asks the running proxy.
fn ask(args: &ExplainArgs, question: &Question) -> ExitCode {
    match args.admin.call("GET", &args.path(question)) {
        Ok(answer) if answer.status == 200 => print(plain(&String::from_utf8_lossy(&answer.body))),
        Ok(answer) => refused(&answer.body),
        Err(error) => fail(error),
    }
}

/// Text that does to a terminal nothing but fill lines, whatever a configuration holds.
fn plain(text: &str) -> String {
    let visible = |c: char| if acts(c) && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    text.trim_end().chars().map(visible).collect()
}

/// Says what a problem document of the admin API says.
fn refused(body: &[u8]) -> ExitCode {
    let document: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |key: &str| document.get(key).and_then(|value| value.as_str());
    match text("detail") {
        Some(detail) => complain(detail),
        None => complain(String::from_utf8_lossy(body).trim()),
    }
    if let Some(help) = text("help") {
        complain(format_args!("help: {help}"));
    }
    ExitCode::FAILURE
}

fn print(text: impl Display) -> ExitCode {
    say(text);
    ExitCode::SUCCESS
}

fn fail(text: impl Display) -> ExitCode {
    complain(text);
    ExitCode::FAILURE
}

fn refuse(error: &Unaskable) -> ExitCode {
    complain(error);
    if let Some(help) = &error.help {
        complain(format_args!("help: {help}"));
    }
    ExitCode::from(2)
}
