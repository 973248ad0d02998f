//! Middlewares as filters, and what they ask of services.

use super::ledger::{At, Ledger};
use super::{headers, redirects};
use crate::draft::{Draft, duration, literal, size};
use crate::pattern::plain;
use crate::yaml::{Map, Value, one};
use std::collections::BTreeMap;

/// What a middleware comes to for a router.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    pub(super) filters: Vec<Map>,
    /// Keys of the service: `retry`, `breaker`.
    pub(super) service: Map,
    /// Why requests are refused.
    pub(super) closed: Option<String>,
    /// The request or response is moved, and nothing is to be mapped back.
    pub(super) is_moved: bool,
}

impl Made {
    pub(super) fn close(&mut self, why: impl Into<String>) {
        self.closed.get_or_insert(why.into());
    }

    fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.filters.push(one(name, value));
    }

    fn join(&mut self, other: Self) {
        self.filters.extend(other.filters);
        for (key, value) in other.service.entries() {
            self.service.put(key.as_str(), value.clone());
        }
        if let Some(why) = other.closed {
            self.close(why);
        }
        self.is_moved |= other.is_moved;
    }
}

/// What is known where a middleware stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) is_tls: bool,
    /// Hosts of the router.
    pub(super) hosts: Vec<String>,
}

/// The middlewares of the configuration by their names.
pub(super) type Middlewares<'a> = BTreeMap<String, At<'a>>;

/// Makes filters of the middlewares of a router.
pub(super) struct Maker<'a, 'b> {
    pub(super) all: &'b Middlewares<'a>,
    pub(super) ledger: &'b mut Ledger,
    pub(super) draft: &'b mut Draft,
    pub(super) scope: Scope,
}

/// Chains that contain chains.
const DEPTH: usize = 16;

impl Maker<'_, '_> {
    pub(super) fn chain(&mut self, names: &[String], depth: usize) -> Made {
        let mut made = Made::default();
        for name in names {
            let bare = name.rsplit_once('@').map_or(name.as_str(), |(bare, _)| bare);
            match self.all.get(bare).cloned() {
                _ if depth > DEPTH => made.close("chains of middlewares are nested too deeply"),
                None => made.close(format!("there is no middleware `{name}`")),
                Some(at) => {
                    let one = self.one(&at, depth);
                    made.join(one);
                }
            }
        }
        made
    }

    /// One middleware: the only key of its map says which.
    pub(super) fn one(&mut self, at: &At<'_>, depth: usize) -> Made {
        let mut made = Made::default();
        for (kind, inner) in at.entries() {
            self.kind(&kind.to_ascii_lowercase(), &inner, depth, &mut made);
        }
        made
    }

    fn kind(&mut self, kind: &str, at: &At<'_>, depth: usize, made: &mut Made) {
        match kind {
            "chain" => {
                self.ledger.exact(at);
                let names = at.get("middlewares").map(|list| list.texts()).unwrap_or_default();
                let inner = self.chain(&names, depth + 1);
                made.join(inner);
            }
            "addprefix" => {
                self.ledger.exact(at);
                let prefix = at.get("prefix").map_or("", |it| it.text()).trim_end_matches('/');
                made.add("rewrite", format!("{}{{upstream_path}}", literal(&plain(prefix))));
                made.is_moved = true;
            }
            "stripprefix" => self.strip_prefix(at, made),
            "stripprefixregex" => self.strip_regex(at, made),
            "replacepath" => {
                self.ledger.exact(at);
                let path = at.get("path").map_or("/", |it| it.text());
                let field = one("X-Replaced-Path", "{upstream_path}");
                made.add("headers", one("request", one("set", field)));
                made.add("rewrite", literal(&plain(path)));
                made.is_moved = true;
            }
            "replacepathregex" => self.replace_regex(at, made),
            "redirectscheme" => redirects::scheme(self.ledger, at, self.scope.is_tls, made),
            "redirectregex" => redirects::regex(self.ledger, at, &self.scope, made),
            "headers" => headers::make(self.ledger, at, self.scope.is_tls, made),
            "basicauth" => self.basic(at, made),
            "forwardauth" => self.forward(at, made),
            "ipallowlist" | "ipwhitelist" => self.networks(at, made),
            "ratelimit" => self.rate(at, made),
            "inflightreq" => self.in_flight(at, made),
            "retry" => self.retry(at, made),
            "circuitbreaker" => self.breaker(at, made),
            "compress" => self.compress(at, made),
            "buffering" => self.buffering(at, made),
            "grpcweb" => {
                self.ledger.near(at, "origins are those of the filter `cors`");
                made.add("grpc_web", Map::default());
            }
            "contenttype" => self.ledger.exact(at),
            "errors" => self.ledger.lost(
                at,
                "pages do not come from a service; write `error_pages` with texts or files: the status stays",
            ),
            "passtlsclientcert" => self.ledger.lost(
                at,
                "write `client_auth` with `forward` at the listener: its fields have other names; the service gets none",
            ),
            _ => {
                let why = format!("Thalweg has no middleware `{kind}`; requests are answered 501");
                self.ledger.lost(at, why.clone());
                made.close(why);
            }
        }
    }

    fn strip_prefix(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger.exact(at);
        made.is_moved = true;
        let Some(prefixes) = at.get("prefixes") else { return };
        let texts = prefixes.texts();
        for prefix in &texts {
            let bare = plain(prefix.trim_end_matches('/'));
            if bare.is_empty() {
                continue;
            }
            if !prefix.ends_with('/') {
                self.ledger.near(&prefixes, "whole segments are removed: of `/ab`, `/a` stays");
            }
            let below = format!("{bare}/*");
            let fields = one("set", one("X-Forwarded-Prefix", literal(&bare)));
            made.filters
                .push(one("headers", one("request", fields)).with("when", one("path", below.as_str())));
            let strip = one("strip_prefix", bare.as_str());
            made.filters.push(if texts.len() > 1 { strip.with("when", one("path", below)) } else { strip });
        }
        if let Some(force) = at.get("forceSlash").filter(|it| !it.node.is_true()) {
            self.ledger.near(&force, "a path that is empty then becomes `/`");
        }
    }

    fn strip_regex(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger.near(at, "`X-Forwarded-Prefix` is not sent");
        made.is_moved = true;
        for regex in at.get("regex").map(|it| it.texts()).unwrap_or_default() {
            let inner = regex.trim_start_matches('^');
            let text = format!("(?:{inner})/?(?P<rest>.*)");
            match regex::Regex::new(&text) {
                Ok(_) => made.add("rewrite", one("regex", one("match", text).with("to", "/${rest}"))),
                Err(_) => {
                    let why =
                        "its regular expression cannot be matched in linear time; requests are answered 501";
                    self.ledger.lost(at, why);
                    made.close(why);
                }
            }
        }
    }

    fn replace_regex(&mut self, at: &At<'_>, made: &mut Made) {
        let text = |key: &str| at.get(key).map_or("", |it| it.text());
        let (searched, replacement) = (text("regex"), text("replacement"));
        let Some(inner) = searched.strip_prefix('^') else {
            let why = "an expression that does not begin with `^` may replace several places; requests are answered 501";
            self.ledger.lost(at, why);
            return made.close(why);
        };
        let (whole, to) = match inner.strip_suffix('$').filter(|inner| !inner.ends_with('\\')) {
            Some(inner) => (inner.to_owned(), replacement.to_owned()),
            None => (format!("(?:{inner})(?P<behind>.*)"), format!("{replacement}${{behind}}")),
        };
        if regex::Regex::new(&whole).is_err() {
            let why = "its regular expression cannot be matched in linear time; requests are answered 501";
            self.ledger.lost(at, why);
            return made.close(why);
        }
        self.ledger.exact(at);
        made.is_moved = true;
        let field = one("request", one("set", one("X-Replaced-Path", "{upstream_path}")));
        made.filters.push(one("headers", field).with("when", one("path", format!("~{whole}"))));
        made.add("rewrite", one("regex", one("match", whole).with("to", to)));
    }

    fn basic(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger.exact(at);
        let mut basic = Map::default();
        let mut users = Map::default();
        if let Some(list) = at.get("users") {
            for user in list.texts() {
                match user.split_once(':') {
                    Some((name, hash)) if hash.starts_with("$2") || hash.starts_with("$argon2id$") => {
                        users.put(name, hash);
                    }
                    _ => self.ledger.lost(
                        &list,
                        "passwords are hashed with bcrypt or argon2id: others do not pass; write them anew with `thalweg hash-password`",
                    ),
                }
            }
        }
        let file = at.get("usersFile");
        if let Some(file) = &file {
            self.ledger.near(file, "its passwords must be hashed with bcrypt or argon2id");
            basic.put("file", file.text());
        }
        if !users.is_empty() {
            basic.put("users", users);
        }
        if basic.is_empty() {
            return made.close("no user of `basicAuth` could be taken over");
        }
        let realm = at.get("realm").map_or("traefik", |it| it.text());
        let mut auth = one("basic", basic).with("realm", realm);
        if !at.get("removeHeader").is_some_and(|it| it.node.is_true()) {
            auth.put("keep_credentials", true);
        }
        if let Some(field) = at.get("headerField") {
            auth.put("forward", one(field.text(), "{user}"));
        }
        made.add("auth", auth);
    }

    fn forward(&mut self, at: &At<'_>, made: &mut Made) {
        let address = at.get("address").map_or("", |it| it.text());
        let Some((scheme, rest)) = address.split_once("://") else {
            let why = "its address is no URL; requests are answered 501";
            self.ledger.lost(at, why);
            return made.close(why);
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let mut service = one("endpoints", vec![format!("{scheme}://{host}")]).with("host", "endpoint");
        if let Some(tls) = at.get("tls") {
            service.put("tls", super::services::client_tls(self.ledger, &tls));
        }
        let name = self.draft.service(&format!("auth-{}", host.replace([':', '[', ']'], "-")), &service);
        self.ledger
            .near(at, "a fixed set of fields is sent to the service, unless `authRequestHeaders` names them");
        self.ledger.exact_keys(at, &["address", "trustForwardHeader"]);
        let mut question = one("service", name);
        if !path.is_empty() {
            question.put("path", path);
        }
        for (key, ours) in [
            ("authResponseHeaders", "copy"),
            ("authRequestHeaders", "fields"),
            ("addAuthCookiesToResponse", "to_client"),
        ] {
            if let Some(list) = at.get(key) {
                self.ledger.exact(&list);
                let texts = if ours == "to_client" { vec!["Set-Cookie".to_owned()] } else { list.texts() };
                question.put(ours, texts);
            }
        }
        for key in [
            "authResponseHeadersRegex",
            "forwardBody",
            "headerField",
            "preserveRequestMethod",
            "authSigninURL",
        ] {
            if let Some(inner) = at.get(key) {
                self.ledger.lost(&inner, "it has no counterpart");
            }
        }
        made.add("auth", one("forward_auth", question).with("keep_credentials", true));
    }

    fn networks(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger.exact(at);
        let Some(list) = at.get("sourceRange") else {
            return made.close("its list of networks is empty");
        };
        let nets: Vec<String> = list
            .texts()
            .iter()
            .filter_map(|text| Some(crate::networks::network(text)?.to_string()))
            .collect();
        if nets.is_empty() {
            return made.close("none of its networks can be read");
        }
        if let Some(strategy) = at.get("ipStrategy") {
            self.ledger.near(
                &strategy,
                "the client is the last address of `X-Forwarded-For` that is none of `trusted_proxies`",
            );
        }
        let mut access = one("allow", nets);
        if let Some(status) = at.get("rejectStatusCode") {
            match status.text() {
                "403" => {}
                "404" => access.put("status", 404_u64),
                _ => self.ledger.near(&status, "the status is 403"),
            }
        }
        made.add("access", access);
    }

    fn key(&mut self, at: &At<'_>, otherwise: &str) -> Value {
        let Some(criterion) = at.get("sourceCriterion") else { return otherwise.into() };
        if let Some(name) = criterion.get("requestHeaderName") {
            return one("header", name.text()).into();
        }
        if criterion.get("requestHost").is_some_and(|it| it.node.is_true()) {
            return "host".into();
        }
        if criterion.get("ipStrategy").is_some_and(|it| !it.node.entries().is_empty()) {
            self.ledger.near(&criterion, "the client is known through `trusted_proxies`");
        }
        "client_ip".into()
    }

    fn rate(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger.exact(at);
        let number = |key: &str| at.get(key).and_then(|it| it.text().parse::<u64>().ok());
        if let Some(redis) = at.get("redis") {
            self.ledger.lost(&redis, "write `store: { redis: … }`; each proxy counts by itself");
        }
        let Some(average) = number("average").filter(|average| *average > 0) else { return };
        let period = at.get("period").and_then(|it| milliseconds(it.text())).unwrap_or(1000).max(1);
        let key = self.key(at, "client_ip");
        let limit = one("requests", average)
            .with("per", duration(period))
            .with("burst", number("burst").unwrap_or(1).max(1))
            .with("key", key)
            .with("prefix", one("v6", 128_u64));
        made.add("rate_limit", limit);
    }

    fn in_flight(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger.exact(at);
        let amount = at.get("amount").and_then(|it| it.text().parse::<u64>().ok()).unwrap_or(0);
        if amount == 0 {
            return;
        }
        let key = self.key(at, "host");
        made.add("concurrency", one("max", amount.min(1_000_000)).with("key", key));
    }

    fn retry(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger.near(at, "requests that may not be repeated are not; the next attempt is made at once");
        let attempts = at.get("attempts").and_then(|it| it.text().parse::<u64>().ok()).unwrap_or(2);
        made.service.put("retry", one("attempts", attempts.clamp(1, 10)));
    }

    fn breaker(&mut self, at: &At<'_>, made: &mut Made) {
        let expression = at.get("expression").map_or("", |it| it.text());
        let share = expression
            .rsplit_once('>')
            .filter(|_| {
                expression.contains("Ratio(") && !expression.contains("||") && !expression.contains("&&")
            })
            .and_then(|(_, share)| share.trim().parse::<f64>().ok())
            .filter(|share| (0.01..=1.0).contains(share));
        let Some(share) = share else {
            return self.ledger.lost(at, "a breaker opens by the share of failures alone; there is none");
        };
        self.ledger.near(at, "the share of all failures counts, errors of the network and 5xx alike");
        let open = at.get("fallbackDuration").and_then(|it| milliseconds(it.text())).unwrap_or(10_000);
        let breaker = one("failures", format!("{:.0}%", share * 100.0))
            .with("open", duration(open.clamp(100, 3_600_000)));
        made.service.put("breaker", breaker);
    }

    fn compress(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger
            .near(at, "types that are not listed stay as they are, unless `includedContentTypes` names them");
        let mut compress = Map::default();
        if let Some(types) = at.get("includedContentTypes") {
            self.ledger.exact(&types);
            compress.put("types", types.texts());
        }
        if let Some(types) = at.get("excludedContentTypes") {
            self.ledger.lost(&types, "name those that are compressed, in `types`");
        }
        if let Some(least) = at.get("minResponseBodyBytes").and_then(|it| it.text().parse().ok()) {
            compress.put("min_length", size(u64::min(least, 1 << 20)));
        }
        if let Some(encodings) = at.get("encodings") {
            compress.put("algorithms", encodings.texts());
        }
        made.add("compress", compress);
    }

    fn buffering(&mut self, at: &At<'_>, made: &mut Made) {
        self.ledger.exact(at);
        let number = |key: &str| at.get(key).and_then(|it| it.text().parse::<u64>().ok()).filter(|n| *n > 0);
        let most = number("maxRequestBodyBytes");
        let mut buffer = one("max_body", size(most.unwrap_or(1 << 30).clamp(1024, 1 << 30)));
        if most.is_none() {
            self.ledger
                .near(at, "bodies of requests have at most 1 GiB, those of responses are not buffered");
        }
        if let Some(memory) = number("memRequestBodyBytes") {
            buffer.put("memory", size(memory.min(256 << 10)));
        }
        made.add("buffer", buffer);
        if let Some(most) = number("maxResponseBodyBytes") {
            made.add("body_limit", one("response", size(most)));
        }
        if let Some(retry) = at.get("retryExpression") {
            self.ledger.lost(&retry, "write `retry` at the service");
        }
    }
}

/// A duration as Go writes it, `1m30s`, or whole seconds.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1000);
    }
    let (mut total, mut rest) = (0.0_f64, text);
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit_end =
            rest[digits..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |at| at + digits);
        let unit = match &rest[digits..unit_end] {
            "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "us" | "µs" | "ns" => 0.0,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[unit_end..];
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is neither negative nor large"
    )]
    (total < 1e13).then_some(total as u64)
}
