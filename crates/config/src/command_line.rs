//! `run --listen … --to …` and `init`: a configuration of a few arguments.
//!
//! The arguments are written as the file that says the same ([`Arguments::file`]), and that file goes the way of every
//! other one. Only places of mistakes are brought back to where the user wrote them: to a text with one argument per
//! line ([`ArgumentsFile::load`]).

mod writer;

use crate::diagnose::Report;
use crate::interpolate::Environment;
use crate::load::{Loaded, check_text};
use writer::{Argument, Writer};

/// The name of the text that messages quote.
const NAME: &str = "command line";
/// The name of the route and of the service.
const ONLY: &str = "default";

/// What is said without a file: values as the user wrote them.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// Addresses to listen on.
    pub listen: Vec<String>,
    /// URLs of the endpoints.
    pub to: Vec<String>,
    /// The name of a balancer, or `hash:client_ip`, `hash:path`.
    pub balance: Option<String>,
    /// The path that health checks ask for.
    pub health: Option<String>,
    /// The time between two of them.
    pub health_interval: Option<String>,
    /// Failed checks in a row after which an endpoint is left out.
    pub health_failures: Option<String>,
    /// Attempts for one request.
    pub retry: Option<String>,
    /// How long responses are cached that do not say it themselves.
    pub cache: Option<String>,
    /// Networks and addresses that may not pass.
    pub block: Vec<String>,
    /// Requests for each client, and in which time.
    pub rate_limit: Option<(String, String)>,
    /// The format of the access log.
    pub access_log: Option<String>,
    /// URLs that are told of events.
    pub webhook: Vec<String>,
    /// HTTPS beside the first listener.
    pub https: Option<Https>,
}

/// Where a certificate comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Https {
    /// From an authority of this machine's own, for `localhost`.
    Local,
    /// From Let's Encrypt.
    Acme {
        /// Whom the authority may write to.
        email: String,
        /// The hosts.
        domains: Vec<String>,
    },
}

/// The file that says the same as some arguments.
#[derive(Clone, Debug)]
pub struct ArgumentsFile {
    text: String,
    arguments: Vec<Argument>,
}

impl Arguments {
    /// The file that says the same.
    pub fn file(&self) -> ArgumentsFile {
        let mut out = Writer::default();
        self.listeners(&mut out);
        self.route(&mut out);
        self.service(&mut out);
        if let Some(format) = &self.access_log {
            out.argument("--access-log").raw("access_log: { format: ").word(format).raw(" }\n");
        }
        if !self.webhook.is_empty() {
            out.raw("webhooks:\n");
        }
        for url in &self.webhook {
            out.argument("--webhook").raw("  - url: ").text(url).raw("\n");
        }
        let (text, arguments) = out.finish();
        ArgumentsFile { text, arguments }
    }

    fn listeners(&self, out: &mut Writer) {
        out.raw("listeners:\n");
        for (at, address) in self.listen.iter().enumerate() {
            let name = if at == 0 { "web".to_owned() } else { format!("web-{}", at + 1) };
            out.argument("--listen").raw("  ").raw(&name).raw(": ");
            if at == 0 && matches!(self.https, Some(Https::Acme { .. })) {
                out.raw("{ address: ").text(address).raw(", redirect_https: true }\n");
            } else {
                out.text(address).raw("\n");
            }
        }
        let port =
            if self.listen.first().is_some_and(|address| address.ends_with(":80")) { 443 } else { 8443 };
        match &self.https {
            None => {}
            Some(Https::Local) => {
                out.raw(&format!("  secure: {{ address: \":{port}\", tls: {{ local: true }} }}\n"));
            }
            Some(Https::Acme { email, domains }) => {
                out.raw(&format!("  secure:\n    address: \":{port}\"\n"));
                out.argument("--https").raw("    tls: { acme: { email: ").text(email).raw(", domains: [ ");
                out.list(domains).raw(" ] } }\n");
            }
        }
    }

    fn route(&self, out: &mut Writer) {
        out.raw("routes:\n  - name: ").raw(ONLY).raw("\n");
        if !self.block.is_empty() || self.rate_limit.is_some() || self.cache.is_some() {
            out.raw("    filters:\n");
        }
        for (at, network) in self.block.iter().enumerate() {
            out.raw(if at == 0 { "      - access: { deny: [ " } else { ", " });
            out.argument("--block").text(network);
        }
        if !self.block.is_empty() {
            out.raw(" ] }\n");
        }
        if let Some((requests, per)) = &self.rate_limit {
            out.argument("--rate-limit").raw("      - rate_limit: { requests: ").word(requests);
            out.raw(", per: ").shown("/").word(per).raw(", key: client_ip }\n");
        }
        if let Some(lifetime) = &self.cache {
            out.argument("--cache").raw("      - cache: ").word(lifetime).raw("\n");
        }
        out.raw("    to: ").raw(ONLY).raw("\n");
    }

    fn service(&self, out: &mut Writer) {
        out.raw("services:\n  ").raw(ONLY).raw(":\n    endpoints:\n");
        for url in &self.to {
            out.argument("--to").raw("      - ").text(url).raw("\n");
        }
        if let Some(name) = &self.balance {
            out.argument("--balance").raw("    balance: ");
            match name.strip_prefix("hash:") {
                Some(key) => out.raw("{ hash: { on: ").shown("hash:").word(key).raw(" } }\n"),
                None => out.word(name).raw("\n"),
            };
        }
        self.checks(out);
        if let Some(attempts) = &self.retry {
            out.argument("--retry").raw("    retry: { attempts: ").word(attempts).raw(" }\n");
        }
    }

    fn checks(&self, out: &mut Writer) {
        let Some(path) = &self.health else { return };
        out.argument("--health").raw("    health: { path: ").text(path);
        if let Some(interval) = &self.health_interval {
            out.argument("--health-interval").raw(", interval: ").word(interval);
        }
        if let Some(failures) = &self.health_failures {
            out.argument("--health-failures").raw(", unhealthy_after: ").word(failures);
        }
        out.raw(" }\n");
    }
}

impl ArgumentsFile {
    /// The text, YAML.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks and compiles it, as every file.
    ///
    /// # Errors
    /// Every mistake that was found, in a text of one argument per line.
    pub fn load(&self, environment: Environment<'_>) -> Result<Loaded, Report> {
        match check_text(NAME, &self.text, environment) {
            Ok(mut loaded) => {
                self.bring_back(&mut loaded.warnings);
                Ok(loaded)
            }
            Err(mut report) => {
                self.bring_back(&mut report);
                Err(report)
            }
        }
    }

    /// Has a report point into the arguments.
    fn bring_back(&self, report: &mut Report) {
        // What is secret in the text has been covered, at the same places.
        let Some(source) = report.sources.get(0) else { return };
        let shown = writer::shown(source.text(), &self.arguments);
        for error in &mut report.errors {
            error.span = shown.place(error.span, &error.message);
            for (span, label) in &mut error.related {
                *span = shown.place(*span, label);
            }
        }
        report.sources.replace(0, shown.text);
        report.errors.sort_by_key(|error| (error.span.file, error.span.start));
    }
}

#[cfg(test)]
mod tests;
