//! Filters: what is done to requests and responses.

use super::{Call, find};
use crate::Grade;
use crate::branch::Condition;
use crate::draft::literal;
use crate::paths::Atom;
use crate::yaml::{Map, Value, one, one_or_many};

/// What filters of a route come to.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) filters: Vec<Map>,
    pub(super) retry: Map,
    pub(super) breaker: bool,
    pub(super) keeps_host: bool,
    /// Something answers, and nothing goes on.
    pub(super) answers: bool,
    is_moved: bool,
}

type Told = Result<(Grade, &'static str), String>;

const EXACT: Told = Ok((Grade::Exact, ""));

/// Fields of `SecureHeaders`.
const SECURE: [(&str, &str); 8] = [
    ("X-Xss-Protection", "1 ; mode=block"),
    ("Strict-Transport-Security", "max-age=631138519"),
    ("X-Frame-Options", "DENY"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    (
        "Content-Security-Policy",
        "default-src 'self' https:; font-src 'self' https: data:; img-src 'self' https: data:; object-src 'none'; \
         script-src https:; style-src 'self' https: 'unsafe-inline'",
    ),
    ("X-Download-Options", "noopen"),
    ("X-Permitted-Cross-Domain-Policies", "none"),
];

/// A text in which `{name}` is a part of the path.
fn template(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((name, after)) = behind.split_once('}') else { break };
        out.push_str(&literal(before));
        out.push_str(&format!("{{path.{name}}}"));
        rest = after;
    }
    out + &literal(rest)
}

impl Done {
    /// Takes a filter over.
    ///
    /// # Errors
    /// Why requests are answered 501.
    pub(super) fn take(&mut self, call: &Call, condition: &Condition) -> Told {
        let text =
            |name: &str, number: usize| call.arg(name, number).map_or("", |node| node.text()).to_owned();
        let pair = || one(&text("name", 0), template(&text("value", 1)));
        let fields = |side: &str, key: &str, value: Value| one("headers", one(side, one(key, value)));
        let filter = match call.name.as_str() {
            "AddRequestHeader" => fields("request", "append", pair().into()),
            "SetRequestHeader" => fields("request", "set", pair().into()),
            "RemoveRequestHeader" => fields("request", "remove", text("name", 0).into()),
            "AddResponseHeader" => fields("response", "append", pair().into()),
            "SetResponseHeader" => fields("response", "set", pair().into()),
            "RemoveResponseHeader" => fields("response", "remove", text("name", 0).into()),
            "AddRequestParameter" => one(
                "rewrite",
                one("query", one("append", one(&text("name", 0), template(&text("value", 1))))),
            ),
            "RemoveRequestParameter" => one("rewrite", one("query", one("remove", text("name", 0)))),
            "SetRequestHostHeader" => one("rewrite", one("host", literal(&text("host", 0)))),
            "StripPrefix" => self.strip(&text("parts", 0), condition),
            "PrefixPath" => {
                one("rewrite", one("path", format!("{}{{upstream_path}}", template(&text("prefix", 0)))))
            }
            "SetPath" => one("rewrite", one("path", template(&text("template", 0)))),
            "RewritePath" => return self.rewrite(&text("regexp", 0), &text("replacement", 1)),
            "RedirectTo" => {
                self.answers = true;
                let status =
                    text("status", 0).parse::<u16>().map_err(|_| "its status is no number".to_owned())?;
                one(
                    "redirect",
                    one("to", template(&text("url", 1))).with("status", status).with("keep_query", false),
                )
            }
            "RequestSize" => {
                let bytes = super::service::bytes(&text("maxSize", 0)).ok_or("its size is not understood")?;
                one("body_limit", crate::draft::size(bytes))
            }
            "SecureHeaders" => {
                let all = SECURE.iter().fold(Map::default(), |map, (name, value)| map.with(*name, *value));
                self.filters.push(fields("response", "set", all.into()));
                return Ok((Grade::Near, "all of its fields are set, whatever is disabled"));
            }
            "PreserveHostHeader" => {
                self.keeps_host = true;
                return EXACT;
            }
            "Retry" => return self.retry(call),
            "CircuitBreaker" => return self.breaker(call),
            "RequestRateLimiter" => return self.rate(call),
            "RewriteLocationResponseHeader" => {
                self.filters.push(one("map_back", true));
                return Ok((Grade::Near, "places come back to the client's host and path"));
            }
            "DedupeResponseHeader" | "SaveSession" | "RemoveJsonAttributesResponseBody" => {
                return Ok((Grade::Lost, "it is left out"));
            }
            name => return Err(format!("the filter `{name}` has no counterpart")),
        };
        self.is_moved |= filter.get("rewrite").is_some() || filter.get("strip_prefix").is_some();
        self.filters.push(filter);
        EXACT
    }

    /// `StripPrefix`: so many segments.
    fn strip(&self, parts: &str, condition: &Condition) -> Map {
        let count: usize = parts.parse().unwrap_or(1);
        if let (Some([Atom::Within(path)]), false) = (condition.paths.as_deref(), self.is_moved)
            && path.matches('/').count() == count
        {
            return one("strip_prefix", literal(path));
        }
        let regex = format!("(?:/[^/]+){{0,{count}}}/?(.*)");
        one("rewrite", one("regex", one("match", regex).with("to", "/$1")))
    }

    fn rewrite(&mut self, regex: &str, to: &str) -> Told {
        let regex = regex.trim_start_matches('^').trim_end_matches('$');
        crate::pattern::whole(regex, false)?;
        let to = to.replace("$\\{", "${");
        self.filters.push(one("rewrite", one("regex", one("match", regex).with("to", to))));
        self.is_moved = true;
        Ok((
            Grade::Near,
            "the expression must take the whole path; where it takes a part alone, nothing changes",
        ))
    }

    fn retry(&mut self, call: &Call) -> Told {
        let retries = call.arg("retries", 0).and_then(|it| it.text().parse::<u64>().ok()).unwrap_or(3);
        self.retry.put("attempts", (retries + 1).min(10));
        let known = |name: &str| match name {
            "TOO_MANY_REQUESTS" => Some(429),
            "INTERNAL_SERVER_ERROR" => Some(500),
            "NOT_IMPLEMENTED" => Some(501),
            "BAD_GATEWAY" => Some(502),
            "SERVICE_UNAVAILABLE" => Some(503),
            "GATEWAY_TIMEOUT" => Some(504),
            number => number.parse::<u64>().ok(),
        };
        let mut statuses: Vec<Value> = Vec::new();
        if call.args.iter().any(|(key, _)| super::same(key, "statuses")) {
            statuses.extend(call.list("statuses").iter().filter_map(|name| known(name)).map(Value::Number));
        } else {
            statuses.push("500-599".into());
        }
        self.retry.put("statuses", statuses);
        Ok((Grade::Near, "idempotent requests are sent again, at once, within a budget (`retry.budget`)"))
    }

    fn breaker(&mut self, call: &Call) -> Told {
        self.breaker = true;
        match call.arg("fallbackUri", 9) {
            Some(_) => Ok((Grade::Lost, "while it is open the answer is 503, and not that of `fallbackUri`")),
            None => Ok((Grade::Near, "it opens by the numbers of `breaker`, not those of Resilience4J")),
        }
    }

    fn rate(&mut self, call: &Call) -> Told {
        let number = |name: &str| {
            let key = |key: &str| key.rsplit('.').next().is_some_and(|last| super::same(last, name));
            let direct = call.args.iter().find(|(known, _)| key(known)).map(|(_, node)| node);
            let inner = || call.args.iter().find_map(|(_, node)| find(node, name));
            direct.or_else(inner).and_then(|node| node.text().parse::<u64>().ok())
        };
        let requests = number("replenishRate").ok_or("its rate is not written here")?;
        let mut limit = one("requests", requests).with("per", "1s").with("key", "client_ip");
        if let Some(burst) = number("burstCapacity") {
            limit.put("burst", burst);
        }
        self.filters.push(one("rate_limit", limit));
        Ok((
            Grade::Near,
            "it counts by the address of clients in this process, and not by its key resolver in Redis",
        ))
    }
}

/// `cors-configurations` of a path.
///
/// # Errors
/// Why it is left out.
pub(super) fn cors(path: &str, rules: &crate::document::Node) -> Result<Map, String> {
    let list = |key: &str| -> Vec<String> {
        find(rules, key)
            .map(|node| node.members().iter().map(|it| it.text().to_owned()).collect())
            .unwrap_or_default()
    };
    let origins = list("allowed-origins");
    if origins.is_empty() {
        return Err("patterns of origins have no counterpart: write `cors` with `origins`".to_owned());
    }
    let credentials = find(rules, "allow-credentials").is_some_and(|it| it.text() == "true");
    if credentials && origins.iter().any(|origin| origin == "*") {
        return Err("all origins with credentials are refused".to_owned());
    }
    let mut map = one("origins", one_or_many(origins));
    let methods = list("allowed-methods");
    if !methods.is_empty() && !methods.iter().any(|method| method == "*") {
        map.put("methods", methods);
    }
    for (key, name) in [("allowed-headers", "headers"), ("exposed-headers", "expose_headers")] {
        let names = list(key);
        if !names.is_empty() && !names.iter().any(|name| name == "*") {
            map.put(name, names);
        }
    }
    if credentials {
        map.put("allow_credentials", true);
    }
    if let Some(seconds) = find(rules, "max-age").and_then(|it| it.text().parse::<u64>().ok()) {
        map.put("max_age", crate::draft::duration(seconds.min(86_400) * 1000));
    }
    let filter = one("cors", map);
    Ok(if path == "/**" { filter } else { filter.with("when", one("path", path.replace("/**", "/*"))) })
}
