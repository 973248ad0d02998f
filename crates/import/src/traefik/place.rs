//! Middlewares that change the path, or send clients to another place.

use super::middleware::{Chain, Site};
use super::{Importer, Outcome, exact, get, is_on, near, text, texts};
use crate::document::Node;
use crate::draft::literal;
use crate::pattern::{escaped, whole};
use crate::yaml::{Map, Value, one};
use regex::Regex;

/// A `redirect` as Traefik does it: 301 and 302 for GET, 308 and 307 for the rest.
pub(super) fn redirect(to: &str, is_permanent: bool) -> [Map; 2] {
    let (get, rest) = if is_permanent { (301_u64, 308_u64) } else { (302, 307) };
    let made = |status: u64| one("redirect", one("to", to).with("status", status));
    [made(get).with("when", one("method", "GET")), made(rest)]
}

/// The same place under another scheme and port.
pub(super) fn other_scheme(scheme: &str, port: Option<&str>) -> String {
    let port = match (scheme, port) {
        (_, None) | ("https", Some("443" | "")) | ("http", Some("80" | "")) => String::new(),
        (_, Some(port)) => format!(":{port}"),
    };
    format!("{scheme}://{{host}}{port}{{path}}")
}

impl Importer {
    pub(super) fn paths(&mut self, kind: &str, node: &Node, chain: &mut Chain) -> Result<Outcome, String> {
        self.note_all_inner(node, &exact());
        match kind {
            "addprefix" => {
                let prefix = text(node, "prefix").ok_or("it has no prefix")?;
                let slash = if prefix.starts_with('/') { "" } else { "/" };
                let path = format!("{slash}{}{{upstream_path}}", literal(prefix));
                chain.filters.push(one("rewrite", one("path", path)));
                Ok(exact())
            }
            "stripprefix" => strip(&texts(get(node, "prefixes")), chain),
            "stripprefixregex" => {
                // The first expression that fits, as an alternative of one.
                let mut all = Vec::new();
                for regex in texts(get(node, "regex")) {
                    let inner = regex.trim_start_matches('^').to_owned();
                    Regex::new(&inner).map_err(|_| "its regular expression is not understood".to_owned())?;
                    all.push(format!("(?:{inner})"));
                }
                if all.is_empty() {
                    return Err("it has no expressions".to_owned());
                }
                let regex = format!("(?:{})/?(?P<rest>.*)", all.join("|"));
                chain.filters.push(one("rewrite", one("regex", one("match", regex).with("to", "/${rest}"))));
                Ok(near("`X-Forwarded-Prefix` is not sent"))
            }
            "replacepath" => {
                let path = text(node, "path").ok_or("it has no path")?;
                let field = one("append", one("X-Replaced-Path", "{upstream_path}"));
                chain.filters.push(one("headers", one("request", field)));
                chain.filters.push(one("rewrite", one("path", literal(path))));
                Ok(exact())
            }
            _ => {
                let regex = text(node, "regex").ok_or("it has no regex")?;
                replace(regex, text(node, "replacement").unwrap_or_default(), chain)
            }
        }
    }

    pub(super) fn redirect_scheme(
        &mut self,
        node: &Node,
        site: &Site,
        chain: &mut Chain,
    ) -> Result<Outcome, String> {
        let scheme = text(node, "scheme").ok_or("it has no scheme")?;
        if !matches!(scheme, "http" | "https") {
            return Err(format!("`{scheme}` is no scheme of clients"));
        }
        let port = text(node, "port");
        let own = site.port.map_or(String::new(), |port| port.to_string());
        let is_same = (scheme == "https") == site.is_secure
            && port.is_none_or(|port| port == own || (own.is_empty() && matches!(port, "443" | "80")));
        let to = other_scheme(scheme, port);
        if !is_same {
            chain.filters.extend(redirect(&to, is_on(node, "permanent")));
        }
        let keys = ["scheme", "port", "permanent"];
        self.note_inner(node, &keys.map(|key| (key, exact())));
        Ok(exact())
    }

    /// Taken over where the expression names the host, and the path goes along or the target is fixed.
    pub(super) fn redirect_regex(
        &mut self,
        node: &Node,
        site: &Site,
        chain: &mut Chain,
    ) -> Result<Outcome, String> {
        let regex = text(node, "regex").ok_or("it has no regex")?;
        let to = text(node, "replacement").ok_or("it has no replacement")?;
        let keys = ["regex", "replacement", "permanent"];
        self.note_inner(node, &keys.map(|key| (key, exact())));
        let Some((target, keeps_query)) = target(regex, to, site)? else { return Ok(exact()) };
        for made in redirect(&target, is_on(node, "permanent")) {
            let made = match made.get("redirect") {
                Some(Value::Map(inner)) if !keeps_query => {
                    let inner = inner.clone().with("keep_query", false);
                    made.clone().with("redirect", inner)
                }
                _ => made,
            };
            chain.filters.push(made);
        }
        Ok(exact())
    }
}

/// Which expressions over URLs are understood.
const KNOWN: &str = "only expressions over a host with `/(.*)` or `.*` behind it are taken over";

/// Where an expression over the URL sends its requests, and whether their query goes along; `None`: it never fits.
fn target(regex: &str, to: &str, site: &Site) -> Result<Option<(String, bool)>, String> {
    let bare = regex.trim_start_matches('^').trim_end_matches('$');
    let (bare, goes_along) = match bare.strip_suffix("/(.*)") {
        Some(bare) => (bare, true),
        None => match bare.strip_suffix("/.*").or_else(|| bare.strip_suffix(".*")) {
            Some(bare) => (bare, false),
            None => return Err(KNOWN.to_owned()),
        },
    };
    let (scheme, host) = bare.split_once("://").ok_or(KNOWN)?;
    let (is_mine, before) = match scheme {
        "https?" => (true, 0),
        "http(s)?" | "(https?)" | "(http|https)" => (true, 1),
        "http" => (!site.is_secure, 0),
        "https" => (site.is_secure, 0),
        _ => return Err(KNOWN.to_owned()),
    };
    if !is_mine {
        return Ok(None);
    }
    let host_regex = Regex::new(&format!(r"\A(?:{host})\z")).map_err(|_| KNOWN.to_owned())?;
    if site.hosts.is_empty() || site.hosts.iter().any(|host| host.contains('*')) || host.contains('/') {
        return Err("the router does not name its hosts".to_owned());
    }
    // Clients name the port or not: it may be another one outside.
    let named = |host: &String| match site.port {
        Some(port) if !host_regex.is_match(host) => format!("{host}:{port}"),
        _ => host.clone(),
    };
    let names: Vec<String> = site.hosts.iter().map(named).collect();
    let fits = names.iter().filter(|name| host_regex.is_match(name)).count();
    if fits == 0 {
        return Ok(None);
    }
    if fits < names.len() {
        return Err("it holds for some hosts of the router and not for others".to_owned());
    }
    let mut text = to.to_owned();
    if goes_along {
        let last = before + host_regex.captures_len();
        let ends = [format!("/${{{last}}}"), format!("/${last}")];
        text = ends.iter().find_map(|end| to.strip_suffix(end.as_str())).ok_or(KNOWN)?.to_owned();
    }
    if text.contains('$') {
        // Groups of the host, where there is one host alone.
        let ([name], 0) = (names.as_slice(), before) else { return Err(KNOWN.to_owned()) };
        let found = host_regex.captures(name).ok_or(KNOWN)?;
        for at in 1..found.len() {
            let value = found.get(at).map_or("", |it| it.as_str());
            text = text.replace(&format!("${{{at}}}"), value).replace(&format!("${at}"), value);
        }
    }
    if text.contains('$') {
        return Err(KNOWN.to_owned());
    }
    let path = if goes_along { "{path}" } else { "" };
    Ok(Some((format!("{}{path}", literal(&text)), goes_along)))
}

/// Whether a filter before has changed the path.
fn is_moved(chain: &Chain) -> bool {
    chain.filters.iter().any(|filter| filter.get("rewrite").is_some())
}

/// A condition on the path as clients have sent it.
fn when(regex: &str) -> Map {
    one("path", format!("~{regex}"))
}

/// `stripPrefix`: the first prefix that fits goes.
fn strip(prefixes: &[String], chain: &mut Chain) -> Result<Outcome, String> {
    if prefixes.is_empty() {
        return Err("it has no prefixes".to_owned());
    }
    let is_moved = is_moved(chain);
    // What the client has said of it is not believed.
    if !chain.strips {
        chain.filters.push(one("headers", one("request", one("remove", "X-Forwarded-Prefix"))));
        chain.strips = true;
    }
    for prefix in prefixes {
        let field = one("append", one("X-Forwarded-Prefix", literal(prefix)));
        let regex = format!("{}.*", escaped(prefix));
        chain.filters.push(one("headers", one("request", field)).with("when", when(&regex)));
    }
    let all: Vec<String> = prefixes.iter().map(|it| escaped(it)).collect();
    let regex = format!("(?:{})/?(.*)", all.join("|"));
    chain.filters.push(one("rewrite", one("regex", one("match", regex).with("to", "/$1"))));
    Ok(match prefixes.len() {
        _ if is_moved => near("`X-Forwarded-Prefix` goes by the path of the client, before it was changed"),
        1 => exact(),
        _ => near("where several prefixes fit, `X-Forwarded-Prefix` names each"),
    })
}

/// `replacePathRegex`.
fn replace(regex: &str, to: &str, chain: &mut Chain) -> Result<Outcome, String> {
    Regex::new(regex).map_err(|_| "its regular expression is not understood".to_owned())?;
    let is_moved = is_moved(chain);
    let (front, body) = match regex.strip_prefix('^') {
        Some(rest) => ("", rest),
        None => ("(?P<front>.*?)", regex),
    };
    let (body, back) = match body.strip_suffix('$') {
        Some(rest) => (rest, ""),
        None if body.ends_with("(.*)") => (body, ""),
        None => (body, "(?P<back>.*)"),
    };
    if body.contains('|') && !(front.is_empty() && back.is_empty()) {
        return Err("an expression with alternatives is not anchored at both ends".to_owned());
    }
    let is_whole = front.is_empty();
    if !is_whole && to.contains('$') {
        return Err("groups of an expression without `^` are counted otherwise".to_owned());
    }
    let begin = if is_whole { "" } else { "${front}" };
    let end = if back.is_empty() { "" } else { "${back}" };
    let field = one("request", one("append", one("X-Replaced-Path", "{upstream_path}")));
    chain.filters.push(one("headers", field).with("when", when(&whole(regex, false)?.text)));
    let rewrite = one("match", format!("{front}{body}{back}")).with("to", format!("{begin}{to}{end}"));
    chain.filters.push(one("rewrite", one("regex", rewrite)));
    Ok(match is_whole {
        _ if is_moved => near("`X-Replaced-Path` goes by the path of the client, before it was changed"),
        true => exact(),
        false => near("only the first match is replaced"),
    })
}
