//! The middleware `headers`.

use super::middleware::{Chain, Site};
use super::{Importer, Outcome, exact, is_on, lost, near, texts};
use crate::document::Node;
use crate::draft::literal;
use crate::yaml::{Map, one, one_or_many};

/// Keys that set a field of responses: to what is written, or to a value of their own where they are on.
const PLAIN: &[(&str, &str, &str)] = &[
    ("framedeny", "X-Frame-Options", "DENY"),
    ("customframeoptionsvalue", "X-Frame-Options", ""),
    ("contenttypenosniff", "X-Content-Type-Options", "nosniff"),
    ("browserxssfilter", "X-XSS-Protection", "1; mode=block"),
    ("custombrowserxssvalue", "X-XSS-Protection", ""),
    ("contentsecuritypolicy", "Content-Security-Policy", ""),
    ("contentsecuritypolicyreportonly", "Content-Security-Policy-Report-Only", ""),
    ("referrerpolicy", "Referrer-Policy", ""),
    ("permissionspolicy", "Permissions-Policy", ""),
    ("featurepolicy", "Feature-Policy", ""),
];

impl Importer {
    pub(super) fn headers(&mut self, node: &Node, site: &Site, chain: &mut Chain) -> Result<Outcome, String> {
        let (mut request, mut response) = (Change::default(), Change::default());
        let mut cors = Map::default();
        let mut host = None;
        // What begins with `custom` has the last word.
        let mut entries: Vec<&(String, Node)> = node.entries().iter().collect();
        entries.sort_by_key(|(key, _)| key.to_ascii_lowercase().starts_with("custom"));
        for (key, inner) in entries {
            let value = inner.text();
            let on = value.eq_ignore_ascii_case("true");
            let outcome = match key.to_ascii_lowercase().as_str() {
                "customrequestheaders" => {
                    host = self.custom(inner, &mut request, true).or(host);
                    exact()
                }
                "customresponseheaders" => {
                    self.custom(inner, &mut response, false);
                    exact()
                }
                "stsseconds" => {
                    let line = transport_security(node, value);
                    let is_sent = value != "0" && (site.is_secure || is_on(node, "forceSTSHeader"));
                    response.put_if(is_sent, "Strict-Transport-Security", &line)
                }
                "stsincludesubdomains"
                | "stspreload"
                | "forcestsheader"
                | "addvaryheader"
                | "isdevelopment"
                    if !key.eq_ignore_ascii_case("isdevelopment") || !on =>
                {
                    exact()
                }
                name if name.starts_with("accesscontrol") => cross_origin(name, inner, &mut cors),
                name => match PLAIN.iter().find(|(known, ..)| *known == name) {
                    Some((_, field, "")) => response.put_if(true, field, value),
                    Some((_, field, fixed)) => response.put_if(on, field, fixed),
                    None => return Err(format!("`{key}` has no counterpart")),
                },
            };
            self.note(key, inner, outcome);
        }
        if !cors.is_empty() {
            if cors.get("origins").is_none() {
                return Err("`accessControlAllowOriginList` is not written; write `cors`".to_owned());
            }
            chain.filters.push(one("cors", cors));
        }
        let mut map = Map::default();
        for (key, change) in [("request", request), ("response", response)] {
            let change = change.map();
            if !change.is_empty() {
                map.put(key, change);
            }
        }
        if !map.is_empty() {
            chain.filters.push(one("headers", map));
        }
        if let Some(host) = host {
            chain.filters.push(one("rewrite", one("host", literal(&host))));
            chain.moves = true;
        }
        Ok(exact())
    }

    /// Fields of one's own; gives the value of `Host` among those of requests.
    fn custom(&mut self, node: &Node, change: &mut Change, is_request: bool) -> Option<String> {
        let mut host = None;
        for (name, value) in node.entries() {
            if is_request && name.eq_ignore_ascii_case("host") {
                host = Some(value.text().to_owned());
            } else {
                change.put(name, value.text());
            }
            self.note(name, value, exact());
        }
        host
    }
}

fn transport_security(node: &Node, seconds: &str) -> String {
    let mut line = format!("max-age={seconds}");
    if is_on(node, "stsIncludeSubdomains") {
        line.push_str("; includeSubDomains");
    }
    if is_on(node, "stsPreload") {
        line.push_str("; preload");
    }
    line
}

/// Fields that are set and removed.
#[derive(Default)]
struct Change {
    set: Map,
    remove: Vec<String>,
}

impl Change {
    /// An empty value removes the field.
    fn put(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            self.remove.push(name.to_owned());
        } else {
            self.set.put(name, literal(value));
        }
    }

    fn put_if(&mut self, is_sent: bool, name: &str, value: &str) -> Outcome {
        if is_sent {
            self.put(name, value);
        }
        exact()
    }

    fn map(self) -> Map {
        let mut map = Map::default();
        if !self.remove.is_empty() {
            map.put("remove", one_or_many(self.remove));
        }
        if !self.set.is_empty() {
            map.put("set", self.set);
        }
        map
    }
}

fn cross_origin(name: &str, inner: &Node, cors: &mut Map) -> Outcome {
    let list = texts(Some(inner));
    match name {
        "accesscontrolalloworiginlist" => {
            cors.put("origins", if list == ["*"] { "*".into() } else { one_or_many(list) })
        }
        "accesscontrolallowmethods" => cors.put("methods", list),
        "accesscontrolallowheaders" if list == ["*"] => {}
        "accesscontrolallowheaders" => cors.put("headers", list),
        "accesscontrolexposeheaders" => cors.put("expose_headers", list),
        "accesscontrolallowcredentials" => cors.put("allow_credentials", inner.text() == "true"),
        "accesscontrolmaxage" => cors.put("max_age", format!("{}s", inner.text())),
        _ => return lost("origins are written one by one, or as `https://*.example.com`"),
    }
    near("preflights are answered by `cors`, which sends its fields to origins that are listed alone")
}
