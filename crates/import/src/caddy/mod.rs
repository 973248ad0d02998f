//! Caddy: Caddyfiles.
//!
//! `syntax` reads the text, `order` puts directives into Caddy's order, `matcher` and `paths` say for which requests
//! they are. `walk` follows them to all their ends (`directives`, `fields`, `proxy`, `errors` say what each does), and
//! `arrange` makes routes of these, in an order that precedence keeps. `site` has addresses, certificates and routes.

mod directives;
mod errors;
mod fields;
mod matcher;
mod order;
mod placeholders;
mod proxy;
mod site;
mod syntax;
mod units;
mod walk;

use crate::branch::Branch;
use crate::draft::Draft;
use crate::report::Report;
use crate::yaml::{Map, one};
use crate::{Files, Grade, ImportError, Imported, Place};
use matcher::Decisions;
use site::{Address, Listener};
use syntax::{Directive, Reader};

/// What differs whatever is configured.
const ALWAYS: &[&str] = &[
    "paths are matched in the case in which they are written, where Caddy lets any case pass; where a route refuses or asks who it is, other spellings meet it too",
    "paths are matched and go upstream in normal form: escapes of ordinary characters decoded, `.` and `..` resolved; `//` inside a path is matched as `/` and goes upstream as it is",
    "a path that begins with `//` and escapes that hide a slash, backslash or control character are refused with 400",
    "`*.example.com` takes hosts with several labels in front, and not one alone",
    "requests go upstream with `Via` and `X-Request-Id` beside `X-Forwarded-*`, and without an `Accept-Encoding` of the proxy's own",
    "a directory without its slash is redirected with 301, not 308; a 304 has `Last-Modified`; an empty answer has a `Content-Type`",
    "HTTP/3 is not spoken, and not offered in `Alt-Svc`",
    "responses keep the `Server` of the endpoint beside no other, and redirects, errors and lists of directories have bodies of their own",
    "when no endpoint is well the status is 503",
    "a field that `header` writes without `defer` stands behind that of the service, not before it",
    "bodies that move by less than 128 B/s are given up (`limits.min_rate`)",
    "challenges of `basic_auth` name `charset=\"UTF-8\"`",
    "clients are seen through `trusted_proxies`",
];

/// Global options that are needed elsewhere.
#[derive(Debug)]
struct Options {
    http_port: String,
    https_port: String,
    auto_https: String,
    email: Option<String>,
    default_bind: Vec<String>,
}

/// What is collected while the configuration is read.
struct Importer<'a> {
    files: &'a dyn Files,
    report: Report,
    draft: Draft,
    options: Options,
    /// The order of directives.
    order: Vec<String>,
    listeners: Vec<Listener>,
    /// Listeners that have a site.
    used: Vec<usize>,
    /// Hosts that are sent to https, and the listener where they are.
    redirected: Vec<(usize, Address, Place)>,
    /// The first line, for what no line says.
    first: Place,
    /// Of the site that is read: its name, its matchers, numbers of groups, its pages of errors and its branches.
    site_name: String,
    matchers: Vec<(String, Result<Decisions, String>)>,
    groups: usize,
    error_pages: Vec<Map>,
    branches: Vec<Branch>,
}

/// Reads Caddyfiles.
///
/// # Errors
/// A file cannot be read, or is no Caddyfile.
pub(crate) fn import(paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let mut importer = Importer {
        files,
        report: Report::new("Caddy", ALWAYS),
        draft: Draft::default(),
        options: Options {
            http_port: "80".to_owned(),
            https_port: "443".to_owned(),
            auto_https: "on".to_owned(),
            email: None,
            default_bind: Vec::new(),
        },
        order: order::standard(),
        listeners: Vec::new(),
        used: Vec::new(),
        redirected: Vec::new(),
        first: Place { file: paths.first().cloned().unwrap_or_default(), line: 1 },
        site_name: String::new(),
        matchers: Vec::new(),
        groups: 0,
        error_pages: Vec::new(),
        branches: Vec::new(),
    };
    let mut whole = Vec::new();
    for path in paths {
        let mut reader = Reader::new(files);
        whole.extend(reader.file(path)?);
        for (directive, told) in reader.imports {
            let (grade, about) = match told {
                Ok(()) => (Grade::Exact, String::new()),
                Err(why) => (Grade::Lost, why),
            };
            importer.report.note(&directive.place, directive.text(), grade, about, "");
        }
    }
    whole.iter().filter(|block| !block.name.is_empty()).try_for_each(check_words)?;
    for options in whole.iter().filter(|block| block.name.is_empty()) {
        options.children().iter().for_each(|line| importer.option(line));
    }
    let timeouts = one("connect", "3s").with("first_byte", "1d").with("idle", "1d");
    let defaults = one("timeouts", timeouts).with("retry", one("attempts", 1_u64));
    importer.draft.top.put("defaults", defaults);
    let sites: Vec<&Directive> = whole.iter().filter(|block| !block.name.is_empty()).collect();
    sites.into_iter().for_each(|site| importer.site(site));
    importer.finish();
    importer.report.finish();
    importer.draft.head = vec![
        format!("Made by `thalweg import caddy {}`.", paths.join(" ")),
        "What was not taken over stands in the report that came with it.".to_owned(),
    ];
    Ok(Imported { configuration: importer.draft.yaml(), report: importer.report })
}

/// Checks that a site has addresses and known directives, because any text parses as a Caddyfile of one site. The
/// error quotes none of the text.
fn check_words(site: &Directive) -> Result<(), ImportError> {
    let is_address = |text: &str| {
        let text = crate::yaml::shown(text);
        let known = |c: char| c.is_alphanumeric() || ".:*/[]_-,{}?%~@&()".contains(c);
        // `{$NAME}` is a variable of the environment.
        text.replace("{$", "{").chars().all(known)
    };
    let is_directive = |text: &str| {
        let text = crate::yaml::shown(text);
        let rest = text.strip_prefix('@').unwrap_or(&text);
        rest.chars().all(|c| c.is_alphanumeric() || "_-.{$}".contains(c))
    };
    if !is_address(&site.name) || !site.args.iter().all(|address| is_address(address)) {
        return Err(ImportError::new(&site.place, "this is not the address of a site"));
    }
    let other = site.children().iter().find(|directive| !is_directive(&directive.name));
    other
        .map_or(Ok(()), |other| Err(ImportError::new(&other.place, "this is not a directive of a Caddyfile")))
}

impl Importer<'_> {
    /// A global option.
    fn option(&mut self, line: &Directive) {
        let arg = line.arg().to_owned();
        let mut told = (Grade::Exact, "");
        match line.name.as_str() {
            "http_port" => self.options.http_port = arg,
            "https_port" => self.options.https_port = arg,
            "auto_https" => self.options.auto_https = arg,
            "email" => self.options.email = Some(arg),
            "default_bind" => self.options.default_bind.clone_from(&line.args),
            "admin" if arg == "off" => {}
            "admin" => told = (Grade::Near, "the admin API is another one: see `admin`"),
            "order" if order::reorder(&mut self.order, &line.args) => {}
            "grace_period" => {
                let time = units::milliseconds(&arg).unwrap_or(30_000);
                self.draft.top.put("shutdown", one("grace", crate::draft::duration(time)));
            }
            "debug" | "log" => told = (Grade::Near, "the program's own log is another one"),
            "servers" => {
                line.children().iter().for_each(|inner| self.server_option(inner));
                told = (Grade::Exact, "");
            }
            "storage" | "persist_config" | "acme_ca" | "acme_ca_root" | "skip_install_trust"
            | "local_certs" | "ocsp_stapling" | "renew_interval" | "key_type" => {
                told = (Grade::Lost, "see `acme` and `local` of a listener's `tls`");
            }
            _ => told = (Grade::Lost, "this option has no counterpart"),
        }
        self.report.note(&line.place, line.text(), told.0, told.1, "");
        if line.name != "servers" {
            self.note_inner(line, told.0, told.1);
        }
    }

    /// An option of `servers`.
    fn server_option(&mut self, line: &Directive) {
        let told = match line.name.as_str() {
            "trusted_proxies" if line.arg() == "static" => {
                let mut networks: Vec<String> = Vec::new();
                for arg in &line.args[1..] {
                    match arg.as_str() {
                        "private_ranges" => networks.extend(matcher::PRIVATE.map(str::to_owned)),
                        arg => networks.push(arg.to_owned()),
                    }
                }
                self.draft.top.put("trusted_proxies", networks);
                (Grade::Exact, "")
            }
            "protocols" | "protocol" | "timeouts" | "max_header_size" | "metrics" | "keepalive_interval"
            | "name" | "strict_sni_host" => (Grade::Near, "bounds and protocols are Thalweg's own"),
            _ => (Grade::Lost, "this option has no counterpart"),
        };
        self.report.note(&line.place, line.text(), told.0, told.1, "");
        self.note_inner(line, told.0, told.1);
    }
}
