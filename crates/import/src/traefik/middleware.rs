//! Middlewares as filters.

use super::known::milliseconds;
use super::{Importer, Outcome, exact, find, get, is_on, local, lost, near, text, texts};
use crate::document::Node;
use crate::draft::{duration, size};
use crate::yaml::{Map, one};

/// Chains within chains.
const DEPTH: usize = 16;

/// Where a list of middlewares stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    pub(super) is_secure: bool,
    /// Port of the clients' URL, where it is not that of the scheme.
    pub(super) port: Option<u16>,
    /// Hosts that the router names; empty: any.
    pub(super) hosts: Vec<String>,
}

/// What a list of middlewares comes to.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    pub(super) filters: Vec<Map>,
    pub(super) attempts: Option<u64>,
    /// The path is changed, and Traefik does not change places back.
    pub(super) moves: bool,
    /// A prefix is taken away, and told to the service.
    pub(super) strips: bool,
}

impl Importer {
    /// Filters of a list of middlewares.
    ///
    /// # Errors
    /// It cannot be said: its requests are refused.
    pub(super) fn chain(&mut self, names: &[String], site: &Site) -> Result<Chain, String> {
        let mut chain = Chain::default();
        self.extend(&mut chain, names, site, 0)?;
        Ok(chain)
    }

    fn extend(
        &mut self,
        chain: &mut Chain,
        names: &[String],
        site: &Site,
        depth: usize,
    ) -> Result<(), String> {
        if depth > DEPTH {
            return Err(format!("more than {DEPTH} chains within each other"));
        }
        for name in names {
            if local(name).contains('@') {
                return Err(format!("the middleware `{name}` comes from elsewhere"));
            }
            let Some(node) = find(&self.middlewares, name).cloned() else {
                return Err(format!("there is no middleware `{name}` in these files"));
            };
            let Some((kind, inner)) = node.entries().first().cloned() else {
                return Err(format!("the middleware `{name}` is empty"));
            };
            if kind.eq_ignore_ascii_case("chain") {
                self.extend(chain, &texts(get(&inner, "middlewares")), site, depth + 1)?;
                self.note_all(&kind, &inner, &exact());
                continue;
            }
            match self.one(&kind.to_ascii_lowercase(), &inner, site, chain) {
                Ok(outcome) => self.note(&kind, &inner, outcome),
                Err(about) => {
                    self.note_for(&kind, &inner, lost(&about), &format!("requests that pass {name}"));
                    return Err(format!("{kind}: {about}"));
                }
            }
        }
        Ok(())
    }

    fn one(&mut self, kind: &str, node: &Node, site: &Site, chain: &mut Chain) -> Result<Outcome, String> {
        match kind {
            "addprefix" | "stripprefix" | "stripprefixregex" | "replacepath" | "replacepathregex" => {
                chain.moves = true;
                self.paths(kind, node, chain)
            }
            "redirectscheme" => self.redirect_scheme(node, site, chain),
            "redirectregex" => self.redirect_regex(node, site, chain),
            "headers" => self.headers(node, site, chain),
            "basicauth" => self.basic_auth(node, chain),
            "forwardauth" => self.forward_auth(node, chain),
            "ipallowlist" | "ipwhitelist" => self.allow_list(node, chain),
            "ratelimit" => self.rate_limit(node, chain),
            "inflightreq" => self.in_flight(node, chain),
            "retry" => {
                let attempts = text(node, "attempts").and_then(|text| text.parse().ok());
                chain.attempts = Some(attempts.ok_or("`attempts` is no number")?);
                self.note_inner(
                    node,
                    &[("attempts", exact()), ("initialInterval", near("attempts follow at once"))],
                );
                Ok(near(
                    "a retry counts against a budget (`retry.budget`), and only idempotent requests are sent again",
                ))
            }
            "compress" => self.compress(node, chain),
            "buffering" => self.buffering(node, chain),
            "grpcweb" => {
                chain.filters.push(one("grpc_web", Map::default()));
                Ok(near("any origin may call; write `cors` for less"))
            }
            "contenttype" => {
                self.note_all_inner(node, &exact());
                Ok(exact())
            }
            "errors" => {
                self.note_all_inner(node, &lost("errors are not answered by a service; write `error_pages`"));
                Ok(lost("errors go to the client as they are; write `error_pages`"))
            }
            "circuitbreaker" => {
                self.note_all_inner(node, &lost("write `breaker` at the service"));
                Ok(lost("nothing breaks the circuit; write `breaker` at the service"))
            }
            _ => Err(format!("`{kind}` has no counterpart")),
        }
    }

    /// Grades keys of a middleware by a table; others are left to the end, where they are lost.
    pub(super) fn note_inner(&mut self, node: &Node, known: &[(&str, Outcome)]) {
        for (key, inner) in node.entries() {
            if let Some((_, outcome)) = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) {
                self.note(key, inner, outcome.clone());
            }
        }
    }

    pub(super) fn note_all_inner(&mut self, node: &Node, outcome: &Outcome) {
        for (key, inner) in node.entries() {
            self.note_all(key, inner, outcome);
        }
    }

    /// What requests are counted by.
    fn criterion(&mut self, node: &Node, default: &str) -> Result<crate::yaml::Value, String> {
        let Some(criterion) = get(node, "sourceCriterion") else { return Ok(default.into()) };
        self.note_all("sourceCriterion", criterion, &exact());
        if let Some(name) = text(criterion, "requestHeaderName") {
            return Ok(one("header", name).into());
        }
        if is_on(criterion, "requestHost") {
            return Ok("host".into());
        }
        match get(criterion, "ipStrategy") {
            Some(strategy) if !strategy.entries().is_empty() => {
                Err("`ipStrategy`: write `trusted_proxies`, by which the client's address is found"
                    .to_owned())
            }
            _ => Ok("client_ip".into()),
        }
    }

    fn rate_limit(&mut self, node: &Node, chain: &mut Chain) -> Result<Outcome, String> {
        let number = |key: &str| text(node, key).and_then(|text| text.parse::<u64>().ok());
        let average = number("average").unwrap_or(0);
        self.note_inner(node, &[("average", exact()), ("period", exact()), ("burst", exact())]);
        if average == 0 {
            return Ok(exact());
        }
        let period =
            text(node, "period").map_or(Some(1000), milliseconds).ok_or("`period` is no duration")?;
        let key = self.criterion(node, "client_ip")?;
        if get(node, "redis").is_some() {
            return Err("`redis`: write `store: { redis: … }` at the filter `rate_limit`".to_owned());
        }
        let limit = one("requests", average)
            .with("per", duration(period))
            .with("burst", number("burst").unwrap_or(1).max(1))
            .with("key", key)
            .with("headers", "none");
        chain.filters.push(one("rate_limit", limit));
        Ok(near("requests are never held back for a moment, and `Retry-After` says when the next may come"))
    }

    fn in_flight(&mut self, node: &Node, chain: &mut Chain) -> Result<Outcome, String> {
        let amount =
            text(node, "amount").and_then(|text| text.parse::<u64>().ok()).filter(|amount| *amount > 0);
        let amount = amount.ok_or("`amount` is no number")?;
        let key = self.criterion(node, "host")?;
        self.note_inner(node, &[("amount", exact())]);
        chain.filters.push(one("concurrency", one("max", amount).with("key", key)));
        Ok(exact())
    }

    fn compress(&mut self, node: &Node, chain: &mut Chain) -> Result<Outcome, String> {
        let mut compress = Map::default();
        for (key, inner) in node.entries() {
            let outcome = match key.to_ascii_lowercase().as_str() {
                "minresponsebodybytes" => {
                    compress
                        .put("min_length", size(inner.text().parse().map_err(|_| "a size is no number")?));
                    exact()
                }
                "includedcontenttypes" => {
                    compress.put("types", texts(Some(inner)));
                    exact()
                }
                "encodings" => {
                    compress.put("algorithms", texts(Some(inner)));
                    exact()
                }
                "excludedcontenttypes" => {
                    near("types that are text are compressed, and no others; write `types`")
                }
                _ => lost("clients that accept no coding get none"),
            };
            self.note(key, inner, outcome);
        }
        chain.filters.push(one("compress", compress));
        Ok(near("types that are text are compressed, from 1 KiB on unless it is written"))
    }

    fn buffering(&mut self, node: &Node, chain: &mut Chain) -> Result<Outcome, String> {
        let mut buffer = Map::default();
        for (key, inner) in node.entries() {
            let bytes = inner.text().parse::<u64>().ok();
            let outcome = match key.to_ascii_lowercase().as_str() {
                "maxrequestbodybytes" => {
                    buffer.put("max_body", size(bytes.ok_or("a size is no number")?.clamp(1024, 1 << 30)));
                    exact()
                }
                "memrequestbodybytes" => {
                    buffer.put("memory", size(bytes.ok_or("a size is no number")?.min(256 << 10)));
                    exact()
                }
                "maxresponsebodybytes" => {
                    let limit = one("response", size(bytes.ok_or("a size is no number")?));
                    chain.filters.push(one("body_limit", limit));
                    near("a response that is too long is answered 502, or breaks off")
                }
                "memresponsebodybytes" => near("responses are not buffered"),
                _ => lost("write `retry` at the service"),
            };
            self.note(key, inner, outcome);
        }
        chain.filters.push(one("buffer", buffer));
        Ok(near(
            "a body of a request has 10 MiB at most unless it is written, and responses are not buffered",
        ))
    }
}
