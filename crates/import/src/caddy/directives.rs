//! Directives that change a request or its response, and those that answer by themselves.

use super::Importer;
use super::placeholders::is_constant;
use super::syntax::Directive;
use super::walk::{Moved, State, Step};
use crate::Grade;
use crate::draft::size;
use crate::paths::{Atom, Case};
use crate::pattern::escaped;
use crate::yaml::{Map, Value, one, one_or_many};

/// What a directive comes to: its grade and a sentence; an error answers its requests 501.
type Told = Result<(Grade, String), String>;

fn exact() -> Told {
    Ok((Grade::Exact, String::new()))
}

fn near(about: &str) -> Told {
    Ok((Grade::Near, about.to_owned()))
}

/// Something that is left out, without which requests are treated as before but for itself.
fn left_out(about: impl Into<String>) -> Told {
    Ok((Grade::Lost, about.into()))
}

/// A filter with its condition.
fn with(filter: Map, when: Option<Map>) -> Map {
    match when {
        Some(when) => filter.with("when", when),
        None => filter,
    }
}

fn no_placeholder(name: &str) -> String {
    format!("`{name}` has no counterpart")
}

/// Content types that `encode` takes where none are written.
const ENCODED: &[&str] = &[
    "text/*",
    "application/json",
    "application/javascript",
    "application/x-javascript",
    "application/xhtml+xml",
    "application/xml",
    "application/atom+xml",
    "application/rss+xml",
    "application/wasm",
    "application/graphql+json",
    "image/svg+xml",
    "image/x-icon",
    "font/*",
];

impl Importer<'_> {
    /// A directive behind which the request goes on.
    ///
    /// # Errors
    /// Why its requests are answered 501.
    pub(super) fn adjust(&mut self, step: &Step, when: Option<Map>, state: &mut State) -> Result<(), String> {
        let directive = &step.directive;
        let told = match directive.name.as_str() {
            "header" => self.header(directive, when, state),
            "request_header" => request_header(directive, when, state),
            "root" => {
                let root = directive.args.last().cloned().unwrap_or_default();
                match is_constant(&root) {
                    true => {
                        state.root = Some(root);
                        exact()
                    }
                    false => Err("the directory is made of placeholders".to_owned()),
                }
            }
            "rewrite" => rewrite(directive, when, state),
            "uri" => self.uri(directive, when, state),
            "try_files" => try_files(directive, state),
            "basicauth" | "basic_auth" => basic_auth(directive, when, state),
            "forward_auth" => self.forward_auth(directive, when, state),
            "encode" => encode(directive, when, state),
            "request_body" => request_body(directive, state),
            "vars" => vars(directive, state),
            "log_skip" | "skip_log" => {
                state.filters.push(with(one("log", "off"), when));
                exact()
            }
            "tracing" | "log_append" | "log_name" | "metrics" if directive.name != "metrics" => {
                left_out("access log and traces are configured at the top: `access_log`, `tracing`")
            }
            "push" => left_out("HTTP/2 push is spoken by no browser"),
            "map" => left_out(
                "its placeholders have no counterpart; what names them says what becomes of requests",
            ),
            name => Err(format!("`{name}` is not taken over")),
        };
        let concerns = self.concerns(&state.condition);
        let (grade, about) = match &told {
            Ok((grade, about)) => (*grade, about.clone()),
            Err(why) => (Grade::Lost, format!("{why}; requests are answered 501")),
        };
        self.note_inner(directive, grade, &about);
        let concerns = if grade == Grade::Exact { String::new() } else { concerns };
        self.report.note(&directive.place, step.text.as_str(), grade, about, concerns);
        told.map(|_| ())
    }

    /// Lines within a block get the grade of their directive, but for those that say it themselves.
    pub(super) fn note_inner(&mut self, directive: &Directive, grade: Grade, about: &str) {
        if matches!(directive.name.as_str(), "reverse_proxy" | "forward_auth") {
            return;
        }
        for line in directive.children() {
            self.report.note(&line.place, line.text(), grade, about, "");
            self.note_inner(line, grade, about);
        }
    }

    fn header(&mut self, directive: &Directive, when: Option<Map>, state: &mut State) -> Told {
        let lines: Vec<Vec<String>> = match directive.block {
            Some(_) => directive.children().iter().map(Directive::words).collect(),
            None => vec![directive.args.clone()],
        };
        let is_deferred = lines.iter().any(|line| line == &["defer"]);
        let mut worst = exact();
        for line in lines {
            let told = match line.as_slice() {
                [word] if word == "defer" => continue,
                [name] if name.starts_with('-') => {
                    remove(name, when.clone(), state);
                    exact()
                }
                [name, value] => {
                    let scope = state.scope();
                    match scope.template(value) {
                        Ok(value) => {
                            set(name, value, is_deferred, when.clone(), state);
                            exact()
                        }
                        Err(name) => left_out(format!("{}; the field is left out", no_placeholder(&name))),
                    }
                }
                [name] if !name.is_empty() => {
                    set(name, String::new(), is_deferred, when.clone(), state);
                    exact()
                }
                _ => left_out("a replacement within a field has no counterpart; the field stays as it is"),
            };
            if told != exact() {
                worst = told;
            }
        }
        worst
    }

    fn uri(&mut self, directive: &Directive, when: Option<Map>, state: &mut State) -> Told {
        let args: Vec<&str> = directive.args.iter().map(String::as_str).collect();
        match args.as_slice() {
            ["strip_prefix", prefix] if is_constant(prefix) => {
                let prefix =
                    if prefix.starts_with('/') { (*prefix).to_owned() } else { format!("/{prefix}") };
                let prefix = prefix.trim_end_matches('/').to_owned();
                let is_within = state.moved == Moved::No
                    && when.is_none()
                    && state.condition.paths.as_deref().is_some_and(|paths| {
                        let (below, case) = (Atom::Begins(format!("{prefix}/")), Case::Ignored);
                        let is_below = |path: &Atom| {
                            path.and(&below, case)
                                .is_ok_and(|both| both.is_some_and(|it| it.is_same(path, case)))
                        };
                        paths.iter().all(is_below)
                    });
                if is_within {
                    self.strip_prefix(&prefix, state);
                    return exact();
                }
                let regex = one("match", format!("{}(/.*)", escaped(&prefix))).with("to", "$1");
                state.filters.push(with(one("rewrite", one("regex", regex)), when));
                state.is_mapped = true;
                state.moved = Moved::Unknown;
                near("whole segments are taken away, and only what has something behind them")
            }
            ["strip_suffix", suffix] if is_constant(suffix) => {
                let regex = one("match", format!("(.*?){}", escaped(suffix))).with("to", "$1");
                state.filters.push(with(one("rewrite", one("regex", regex)), when));
                (state.moved, state.is_mapped) = (Moved::Unknown, true);
                exact()
            }
            ["replace", from, to] if is_constant(from) && is_constant(to) => {
                let to = to.replace('$', "$$");
                let regex =
                    one("match", format!("(.*?){}(.*)", escaped(from))).with("to", format!("${{1}}{to}$2"));
                state.filters.push(with(one("rewrite", one("regex", regex)), when));
                (state.moved, state.is_mapped) = (Moved::Unknown, true);
                near("the first place in the path is replaced, and nothing in the query")
            }
            ["replace", from, to, "1"] if is_constant(from) && is_constant(to) => {
                let to = to.replace('$', "$$");
                let regex =
                    one("match", format!("(.*?){}(.*)", escaped(from))).with("to", format!("${{1}}{to}$2"));
                state.filters.push(with(one("rewrite", one("regex", regex)), when));
                (state.moved, state.is_mapped) = (Moved::Unknown, true);
                exact()
            }
            _ => Err("this change of the path is not taken over".to_owned()),
        }
    }

    /// `respond`, `redir`, `error` and `abort`.
    pub(super) fn reply(&mut self, step: &Step, state: State) {
        let directive = &step.directive;
        let made = match directive.name.as_str() {
            "respond" => respond(directive, &state),
            "redir" => redirect(directive, &state),
            "error" => error(directive),
            _ => {
                let everybody = vec!["0.0.0.0/0", "::/0"];
                Ok((one("access", one("deny", everybody).with("status", "close")), 0))
            }
        };
        self.note_inner(directive, Grade::Exact, "");
        match made {
            Ok((filter, status)) => {
                let is_html =
                    directive.name == "redir" && directive.args.get(1).is_some_and(|it| it == "html");
                match is_html {
                    true => self.report.note(
                        &directive.place,
                        step.text.as_str(),
                        Grade::Near,
                        "a redirect is sent with status 302, not a page that does it",
                        self.concerns(&state.condition),
                    ),
                    false => self.report.exact(&directive.place, step.text.as_str()),
                }
                self.answer(state, filter, status == 0 || status >= 400);
            }
            Err(why) => {
                let about = format!("{why}; requests are answered 501");
                let concerns = self.concerns(&state.condition);
                self.report.note(&directive.place, step.text.as_str(), Grade::Lost, about, concerns);
                self.refuse(state, &why);
            }
        }
    }

    pub(super) fn file_server(&mut self, step: &Step, rest: &[Step], mut state: State) {
        let directive = &step.directive;
        let mut files = Map::default();
        let (mut grade, mut about) = (Grade::Exact, String::new());
        let mut root = state.root.clone();
        let mut lines: Vec<Vec<String>> = directive.children().iter().map(Directive::words).collect();
        if directive.arg() == "browse" {
            lines.push(vec!["browse".to_owned()]);
        }
        for line in lines {
            let args = line.get(1..).unwrap_or_default().to_vec();
            let told = match line[0].as_str() {
                "root" => {
                    root = args.first().cloned();
                    continue;
                }
                "index" => {
                    files.put("index", one_or_many(args));
                    continue;
                }
                "browse" => {
                    files.put("listing", true);
                    "the page that lists a directory looks otherwise"
                }
                "precompressed" => {
                    files.put("precompressed", true);
                    "files with `.zst`, `.br` and `.gz` are all looked for"
                }
                "pass_thru" => "what is not there is answered 404, and not by what follows",
                "hide" => "`hide` has no counterpart: hidden files are served",
                "status" | "disable_canonical_uris" | "etag_file_extensions" | "fs" => "this is left out",
                _ => "this is not known",
            };
            if !told.is_empty() {
                let is_lost = matches!(line[0].as_str(), "hide" | "status" | "fs");
                grade = grade.max(if is_lost { Grade::Lost } else { Grade::Near });
                told.clone_into(&mut about);
                if line[0] == "hide" {
                    self.report.note(&directive.place, step.text.as_str(), Grade::Lost, about.as_str(), "");
                    return self.refuse(state, "files were hidden");
                }
            }
        }
        let _ = rest;
        self.note_inner(directive, grade, &about);
        let concerns = if grade == Grade::Exact { String::new() } else { self.concerns(&state.condition) };
        self.report.note(&directive.place, step.text.as_str(), grade, about, concerns);
        let root = root.unwrap_or_else(|| ".".to_owned());
        let mut map = one("root", root);
        if let Some(tries) = state.tries.take() {
            map.put("try_files", tries);
        }
        for (key, value) in files.entries() {
            map.put(key.as_str(), value.clone());
        }
        map.put("hidden", true);
        self.answer(state, one("files", map), false);
    }
}

fn remove(name: &str, when: Option<Map>, state: &mut State) {
    state.fields.defer("remove", name.trim_start_matches('-'), when);
}

fn set(name: &str, value: String, is_deferred: bool, when: Option<Map>, state: &mut State) {
    if let Some(name) = name.strip_prefix('?') {
        state.fields.defer("default", one(name, value), when);
    } else if let Some(name) = name.strip_prefix('>') {
        state.fields.defer("set", one(name, value), when);
    } else if let Some(name) = name.strip_prefix('+') {
        match is_deferred {
            true => state.fields.defer("append", one(name, value), when),
            false => state.fields.write(name, value, true, when),
        }
    } else if is_deferred {
        state.fields.defer("set", one(name, value), when);
    } else {
        state.fields.write(name, value, false, when);
    }
}

/// A change of a field of the request, as `header_up` and `request_header` write it.
///
/// # Errors
/// Why it is left out.
pub(super) fn up(args: &[String], state: &State) -> Result<Map, String> {
    let request = |key: &str, value: Value| Ok(one("headers", one("request", one(key, value))));
    match args {
        [name] if name.starts_with('-') => request("remove", name.trim_start_matches('-').into()),
        [name, value] => {
            let value = state.scope().template(value).map_err(|name| no_placeholder(&name))?;
            if name.eq_ignore_ascii_case("host") {
                return Ok(one("rewrite", one("host", value)));
            }
            match name.strip_prefix('+') {
                Some(name) => request("append", one(name, value).into()),
                None => request("set", one(name.trim_start_matches(['?', '>']), value).into()),
            }
        }
        _ => Err("a replacement within a field has no counterpart".to_owned()),
    }
}

fn request_header(directive: &Directive, when: Option<Map>, state: &mut State) -> Told {
    match up(&directive.args, state) {
        Ok(filter) => {
            state.is_mapped |= filter.get("rewrite").is_some();
            state.filters.push(with(filter, when));
            exact()
        }
        Err(why) => left_out(format!("{why}; the field stays as it is")),
    }
}

fn rewrite(directive: &Directive, when: Option<Map>, state: &mut State) -> Told {
    let to = directive.args.last().cloned().unwrap_or_default();
    let (path, query) = to.split_once('?').map_or((to.as_str(), None), |(path, query)| (path, Some(query)));
    let mut rewrite = Map::default();
    let mut moved = Moved::Unknown;
    match path.strip_suffix("{uri}") {
        Some("") => {}
        Some(prefix) => {
            let prefix = state.scope().template(prefix).map_err(|name| no_placeholder(&name))?;
            rewrite.put("path", format!("{prefix}{{upstream_path}}"));
        }
        None if path.is_empty() || path == "{path}" => moved = state.moved.clone(),
        None => {
            let text = state.scope().template(path).map_err(|name| no_placeholder(&name))?;
            if is_constant(path) {
                moved = Moved::To(path.to_owned());
            }
            rewrite.put("path", text);
        }
    }
    match query {
        None | Some("{query}") => {}
        Some("") => rewrite.put("query", one("clear", true)),
        Some(text) => {
            let mut set = Map::default();
            let mut clear = true;
            for pair in text.split('&') {
                if pair == "{query}" {
                    clear = false;
                    continue;
                }
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                set.put(name, state.scope().template(value).map_err(|name| no_placeholder(&name))?);
            }
            rewrite.put("query", one("clear", clear).with("set", set));
        }
    }
    if !rewrite.is_empty() {
        state.filters.push(with(one("rewrite", rewrite), when.clone()));
    }
    state.moved = if when.is_some() { Moved::Unknown } else { moved };
    match query.is_some_and(|query| query.contains('&')) {
        true => near("parameters of the query stand in another order"),
        false => exact(),
    }
}

fn try_files(directive: &Directive, state: &mut State) -> Told {
    let mut places: Vec<String> = Vec::new();
    for place in &directive.args {
        if place == "{path}/" || place == "{http.request.uri.path}/" {
            continue;
        }
        let text = place.replace("{http.request.uri.path}", "{path}");
        if !is_constant(&text.replace("{path}", "")) {
            return Err(format!("`{place}` of `try_files` is not taken over"));
        }
        places.push(text);
    }
    let has_query = places.iter().any(|place| place.contains('?'));
    if has_query {
        return Err("`try_files` with a query is not taken over".to_owned());
    }
    if places.first().is_some_and(|place| place != "{path}") && !places.iter().any(|place| place == "{path}")
    {
        state.tries = Some(places);
        return exact();
    }
    state.tries = Some(places);
    near("a directory is served by its index, or redirected to it, and not the next place looked at")
}

fn basic_auth(directive: &Directive, when: Option<Map>, state: &mut State) -> Told {
    let mut users = Map::default();
    for line in directive.children() {
        let hash = line.arg();
        if !hash.starts_with("$2") {
            return Err(format!("the password of `{}` is no hash of bcrypt in the open", line.name));
        }
        users.put(line.name.as_str(), hash);
    }
    let realm = directive.args.get(1).map_or("restricted", String::as_str);
    let auth = one("basic", one("users", users)).with("realm", realm).with("keep_credentials", true);
    state.filters.push(with(one("auth", auth), when));
    state.is_guarded = true;
    exact()
}

fn encode(directive: &Directive, when: Option<Map>, state: &mut State) -> Told {
    let mut algorithms: Vec<String> = directive
        .args
        .iter()
        .filter(|name| matches!(name.as_str(), "gzip" | "zstd" | "br"))
        .cloned()
        .collect();
    let mut types: Vec<String> = ENCODED.iter().map(|kind| (*kind).to_owned()).collect();
    let mut least = 512_u64;
    for line in directive.children() {
        match line.name.as_str() {
            "minimum_length" => least = line.arg().parse().unwrap_or(512),
            "match" => {
                let lines: Vec<&Directive> =
                    if line.block.is_some() { line.children().iter().collect() } else { vec![line] };
                let given: Vec<String> = lines
                    .iter()
                    .flat_map(|it| it.args.iter())
                    .filter(|arg| arg.contains('/'))
                    .map(|arg| arg.trim_end_matches('*').trim_end_matches(['/', ';']).to_owned())
                    .map(|kind| if kind.contains('/') { kind } else { format!("{kind}/*") })
                    .collect();
                if !given.is_empty() {
                    types = given;
                }
            }
            name @ ("gzip" | "zstd" | "br") => algorithms.push(name.to_owned()),
            _ => {}
        }
    }
    if algorithms.is_empty() {
        algorithms = vec!["zstd".to_owned(), "gzip".to_owned()];
    }
    let map = one("algorithms", one_or_many(algorithms)).with("types", types).with("min_length", size(least));
    state.filters.insert(0, with(one("compress", map), when));
    near("other levels and a table of types of its own; bodies of unknown length are compressed too")
}

fn request_body(directive: &Directive, state: &mut State) -> Told {
    let mut worst = exact();
    for line in directive.children() {
        match (line.name.as_str(), super::units::bytes(line.arg())) {
            ("max_size", Some(bytes)) => state.limits.put("max_body", size(bytes)),
            _ => worst = left_out(format!("`{}` of `request_body` has no counterpart", line.name)),
        }
    }
    worst
}

fn vars(directive: &Directive, state: &mut State) -> Told {
    let mut pairs: Vec<(String, String)> =
        directive.children().iter().map(|line| (line.name.clone(), line.arg().to_owned())).collect();
    if let [name, value] = directive.args.as_slice() {
        pairs.push((name.clone(), value.clone()));
    }
    for (name, value) in pairs {
        match state.scope().template(&value) {
            Ok(value) => drop(state.vars.insert(name, value)),
            Err(name) => return left_out(format!("{}; the variable is not known", no_placeholder(&name))),
        }
    }
    exact()
}

/// The status and the text of `respond`.
fn respond(directive: &Directive, state: &State) -> Result<(Map, u16), String> {
    let is_status = |text: &str| text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mut body, mut status) = (String::new(), 200_u16);
    match directive.args.as_slice() {
        [] => {}
        [one] if is_status(one) => status = one.parse().unwrap_or(200),
        [text] => body.clone_from(text),
        [text, code, ..] => {
            body.clone_from(text);
            status = code.parse().map_err(|_| "the status is no number".to_owned())?;
        }
    }
    for line in directive.children() {
        match line.name.as_str() {
            "body" => line.arg().clone_into(&mut body),
            "status" => status = line.arg().parse().map_err(|_| "the status is no number".to_owned())?,
            // The connection is closed behind it.
            "close" => {}
            other => return Err(format!("`{other}` of `respond` is not taken over")),
        }
    }
    let body = state.scope().template(&body).map_err(|name| no_placeholder(&name))?;
    let mut map = one("status", status);
    if !matches!(status, 204 | 304) {
        map.put("body", body.as_str());
    }
    if !body.is_empty() {
        let is_json = body.trim_start_matches("{{").len() != body.len() || body.starts_with('[');
        map.put("content_type", if is_json { "application/json" } else { "text/plain; charset=utf-8" });
    }
    Ok((one("respond", map), status))
}

fn redirect(directive: &Directive, state: &State) -> Result<(Map, u16), String> {
    let (to, code) = match directive.args.as_slice() {
        [to] => (to.as_str(), "302"),
        [to, code, ..] => (to.as_str(), code.as_str()),
        [] => return Err("the place of a redirect is not written".to_owned()),
    };
    let status = match code {
        "permanent" => 301,
        "temporary" | "html" => 302,
        code => code.parse::<u16>().map_err(|_| "the status is no number".to_owned())?,
    };
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Err(format!("a redirect with status {status} is not taken over"));
    }
    let (begin, keeps) = match (to.strip_suffix("{uri}"), to.strip_suffix("?{query}")) {
        (Some(begin), _) => (format!("{begin}{{path}}"), true),
        (_, Some(begin)) => (begin.to_owned(), true),
        _ => (to.to_owned(), false),
    };
    let text = state.scope().template(&begin).map_err(|name| no_placeholder(&name))?;
    let mut map = one("to", text).with("status", status);
    if !keeps {
        map.put("keep_query", false);
    }
    Ok((one("redirect", map), status))
}

fn error(directive: &Directive) -> Result<(Map, u16), String> {
    let status = directive.args.last().and_then(|word| word.parse::<u16>().ok()).unwrap_or(500);
    Ok((one("respond", one("status", status).with("body", "")), status))
}
