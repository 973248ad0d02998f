//! `map_back: true`: what a service says of places becomes what the client knows, where filters have moved the
//! request.
//!
//! `Location` and `Content-Location` that name the host that the service was asked for get the one that the client
//! named, and paths the prefix that `strip_prefix` or `rewrite` has taken away; `Set-Cookie` likewise in `Domain` and
//! `Path`. Places on other hosts, places that are relative, and the proxy's own answers stay as they are. Chains in
//! which a filter changes the host or a prefix have it at their end without its being written; `map_back: false` is
//! the way to leave that out.

use crate::names::FieldNames;
use crate::{Facts, Filter, Hooks, Moved, Moves, ResponseCx};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Whether places and cookies are changed back.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MapBackSpec(bool);

impl MapBackSpec {
    /// Makes it.
    ///
    /// # Errors
    /// None.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        Ok(Arc::new(MapBack::new(self.0, Moves::Back)))
    }
}

/// The one that nobody has written.
pub(crate) fn implied() -> Arc<dyn Filter> {
    Arc::new(MapBack::new(true, Moves::BackImplied))
}

#[derive(Debug)]
struct MapBack {
    is_on: bool,
    moves: Moves,
    /// Fields that may say a place.
    names: FieldNames,
}

impl MapBack {
    fn new(is_on: bool, moves: Moves) -> Self {
        Self { is_on, moves, names: ["Location", "Content-Location", "Set-Cookie"].into_iter().collect() }
    }
}

impl Filter for MapBack {
    fn name(&self) -> &'static str {
        "map_back"
    }

    fn argument(&self) -> String {
        self.is_on.to_string()
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        if self.is_on { Hooks::RESPONSE } else { Hooks::NONE }
    }

    fn moves(&self) -> Moves {
        self.moves
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let (true, Some(target)) = (cx.is_upstream, cx.target) else { return };
        if !cx.fields.contains_any(&self.names) {
            return;
        }
        let ways = Ways { facts: &cx.facts, asked: without_port(cx.upstream_host), moved: target.moved() };
        for name in ["Location", "Content-Location"] {
            let place = {
                let mut values = cx.fields.view().values(name);
                let only = values.next().filter(|_| values.next().is_none());
                only.and_then(|value| ways.place(value))
            };
            if let Some(place) = place {
                cx.fields.set(name, &place);
            }
        }
        let cookies: Vec<(Vec<u8>, bool)> = {
            let values = cx.fields.view().values("Set-Cookie");
            values.map(|value| ways.cookie(value).map_or_else(|| (value.to_vec(), false), |new| (new, true)))
        }
        .collect();
        if cookies.iter().any(|(_, is_changed)| *is_changed) {
            cx.fields.remove("Set-Cookie");
            cookies.iter().for_each(|(cookie, _)| cx.fields.append("Set-Cookie", cookie));
        }
    }
}

/// What leads from the service's places to the client's.
struct Ways<'a> {
    facts: &'a Facts<'a>,
    /// The host that the service was asked for, without the port of a scheme.
    asked: &'a [u8],
    moved: &'a [Moved],
}

impl Ways<'_> {
    /// Whether the service was asked for another host than the client named.
    fn is_elsewhere(&self) -> bool {
        !self.facts.host.is_empty() && !self.asked.eq_ignore_ascii_case(&self.authority())
    }

    /// What the client named, without the port of its scheme.
    fn authority(&self) -> Vec<u8> {
        let own = if self.facts.scheme == "https" { 443 } else { 80 };
        let mut authority = self.facts.host.to_vec();
        if self.facts.port != own {
            authority.extend_from_slice(format!(":{}", self.facts.port).as_bytes());
        }
        authority
    }

    /// A URL or a path as the client knows it; `None`: it stays.
    fn place(&self, value: &[u8]) -> Option<Vec<u8>> {
        let begins = [&b"http://"[..], b"https://", b"//"];
        let begin = begins
            .iter()
            .find(|begin| value.get(..begin.len()).is_some_and(|start| start.eq_ignore_ascii_case(begin)));
        let Some(begin) = begin else {
            return value.starts_with(b"/").then(|| self.path(value)).flatten();
        };
        let rest = &value[begin.len()..];
        let end = rest.iter().position(|byte| b"/?#\\".contains(byte)).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        let named = without_port(authority);
        if self.is_elsewhere() && named.eq_ignore_ascii_case(self.asked) {
            let path = self.path(behind).unwrap_or_else(|| behind.to_vec());
            let scheme = self.facts.scheme.as_bytes();
            return Some([scheme, b"://", &self.authority(), &path].concat());
        }
        if !named.eq_ignore_ascii_case(without_port(&self.authority())) {
            return None;
        }
        Some([begin, authority, &*self.path(behind)?].concat())
    }

    /// A path with what stands behind it; `None`: it stays.
    fn path(&self, value: &[u8]) -> Option<Vec<u8>> {
        let end = value.iter().position(|byte| b"?#".contains(byte)).unwrap_or(value.len());
        let (path, behind) = value.split_at(end);
        let mut path = self.prefix(path)?;
        // What was a path is none that begins with a host.
        if path.iter().any(u8::is_ascii_control) {
            // Browsers leave a tab out, and then it would.
            return None;
        }
        let slashes = path.iter().take_while(|byte| b"/\\".contains(byte)).count();
        path.drain(..slashes.saturating_sub(1));
        match path.first_mut() {
            Some(first) => *first = b'/',
            None => path.push(b'/'),
        }
        path.extend_from_slice(behind);
        Some(path)
    }

    /// A path with the prefixes that were taken away, the last one first; `None`: none was.
    fn prefix(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut now: Option<Vec<u8>> = None;
        for moved in self.moved.iter().rev() {
            let Moved::Prefix(moved) = moved else { return None };
            let path = now.as_deref().unwrap_or(path);
            // The service may know what it is called outside.
            if moved.from.len() > moved.to.len() && behind(path, &moved.from).is_some() {
                continue;
            }
            now = Some([&*moved.from, behind(path, &moved.to)?].concat());
        }
        now
    }

    /// A `Set-Cookie` as the client's browser takes it (RFC 6265 §5.2); `None`: it stays.
    fn cookie(&self, value: &[u8]) -> Option<Vec<u8>> {
        let mut parts = value.split(|byte| *byte == b';');
        let pair = parts.next()?;
        // Such a cookie has the path `/` (RFC 6265bis §4.1.3.2).
        let is_bound =
            pair.trim_ascii_start().get(..7).is_some_and(|name| name.eq_ignore_ascii_case(b"__Host-"));
        let (mut out, mut is_changed) = (pair.to_vec(), false);
        for part in parts {
            let (name, given) = match memchr::memchr(b'=', part) {
                Some(at) => (part[..at].trim_ascii(), part[at + 1..].trim_ascii()),
                None => (part.trim_ascii(), &b""[..]),
            };
            let new = match () {
                () if name.eq_ignore_ascii_case(b"domain") => self.domain(given),
                () if name.eq_ignore_ascii_case(b"path") && !is_bound => {
                    self.cookie_path(given).map(|path| Some([b" Path=", &*path].concat()))
                }
                () => None,
            };
            is_changed |= new.is_some();
            if let Some(part) = new.unwrap_or_else(|| Some(part.to_vec())) {
                out.push(b';');
                out.extend_from_slice(&part);
            }
        }
        is_changed.then_some(out)
    }

    /// A `Domain`: another one, none, or `None`: it stays.
    fn domain(&self, given: &[u8]) -> Option<Option<Vec<u8>>> {
        let asked = without_any_port(self.asked);
        let given = given.strip_prefix(b".").unwrap_or(given);
        let host = self.facts.host;
        if given.is_empty() || !self.is_elsewhere() || !is_below(asked, given) || is_below(host, given) {
            return None;
        }
        let is_name = !host.starts_with(b"[")
            && !str::from_utf8(host).is_ok_and(|host| host.parse::<Ipv4Addr>().is_ok());
        let takes_all_of_it = asked.eq_ignore_ascii_case(given) && is_name;
        Some(takes_all_of_it.then(|| [b" Domain=", host].concat()))
    }

    fn cookie_path(&self, given: &[u8]) -> Option<Vec<u8>> {
        if !given.starts_with(b"/") {
            return None;
        }
        // `/a` holds for `/a` and all below it, `/a/` not for `/a`.
        let path = self.prefix(if given == b"/" { b"" } else { given })?;
        Some(if path.is_empty() { b"/".to_vec() } else { path })
    }
}

/// What stands behind a prefix of whole segments.
fn behind<'p>(path: &'p [u8], prefix: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(prefix).filter(|rest| matches!(rest, [] | [b'/', ..]))
}

/// An authority without the port of a scheme.
fn without_port(authority: &[u8]) -> &[u8] {
    let ports = [&b":80"[..], b":443"];
    ports.iter().find_map(|port| authority.strip_suffix(*port)).unwrap_or(authority)
}

fn without_any_port(authority: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', authority) {
        Some(at) if authority[at + 1..].iter().all(u8::is_ascii_digit) => &authority[..at],
        _ => authority,
    }
}

/// Whether a host is this one or below it (RFC 6265 §5.1.3).
fn is_below(host: &[u8], domain: &[u8]) -> bool {
    let Some(begin) = host.len().checked_sub(domain.len()) else { return false };
    let is_address = str::from_utf8(host).is_ok_and(|host| host.parse::<IpAddr>().is_ok());
    host[begin..].eq_ignore_ascii_case(domain) && (begin == 0 || (host[begin - 1] == b'.' && !is_address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::RewriteSpec;
    use crate::strip_prefix::StripPrefixSpec;
    use crate::tests::{Asked, built};

    /// Browsers leave tabs out of places: what follows would be a host.
    #[test]
    fn a_place_with_a_control_character_stays() {
        let filter = built::<RewriteSpec>(r#"{"prefix": {"from": "/", "to": "/api/"}}"#).build().unwrap();
        let line = "Location: /api/\t/evil.test\r\n";
        assert_eq!(back(&*filter, "/a", ("", line)), line.trim_end());
    }

    /// The lines of a response to a request that this filter has moved, asked for on that host.
    fn back(filter: &dyn Filter, path: &str, (host, lines): (&str, &str)) -> String {
        let mut asked = Asked::at(path);
        asked.send(filter);
        asked.upstream_host = host.to_owned();
        asked.response = lines.as_bytes().to_vec();
        asked.answer(&*implied());
        asked.response_lines().trim_end().to_owned()
    }

    fn strip() -> Arc<dyn Filter> {
        built::<StripPrefixSpec>(r#""/shop""#).build().unwrap()
    }

    fn rewrite(json: &str) -> Arc<dyn Filter> {
        built::<RewriteSpec>(json).build().unwrap()
    }

    #[test]
    fn a_prefix_that_was_taken_away_comes_back() {
        for (given, expected) in [
            ("/login?next=/a#b", "/shop/login?next=/a#b"),
            ("/", "/shop/"),
            ("https://shop.test/login", "https://shop.test/shop/login"),
            ("http://shop.test:80/login", "http://shop.test:80/shop/login"),
            ("HTTPS://SHOP.test", "https://SHOP.test/shop"),
            ("//shop.test/login", "//shop.test/shop/login"),
            ("/shop/login", "/shop/login"),
            ("/shopping", "/shop/shopping"),
            ("login", "login"),
            ("../x", "../x"),
            ("?a", "?a"),
            ("https://other.test/login", "https://other.test/login"),
            ("https://shop.test@evil.test/login", "https://shop.test@evil.test/login"),
            ("mailto:a@b", "mailto:a@b"),
        ] {
            for name in ["Location", "Content-Location"] {
                let lines = format!("{name}: {given}\r\n");
                let expected = format!("{name}: {expected}");
                assert_eq!(back(&*strip(), "/shop/a", ("shop.test", &lines)), expected);
            }
        }
        // Nothing was taken away.
        assert_eq!(back(&*strip(), "/a", ("shop.test", "Location: /x\r\n")), "Location: /x");
    }

    #[test]
    fn a_prefix_that_was_replaced_is_replaced_back() {
        let filter = rewrite(r#"{"prefix": {"from": "/old", "to": "/v2"}}"#);
        let location =
            |given: &str| back(&*filter, "/old/a", ("shop.test", &format!("Location: {given}\r\n")));
        assert_eq!(location("/v2/x"), "Location: /old/x");
        assert_eq!(location("/v2"), "Location: /old");
        assert_eq!(location("/v22"), "Location: /v22");
        let root = rewrite(r#"{"prefix": {"from": "/", "to": "/v2"}}"#);
        let location = |given: &str| back(&*root, "/a", ("shop.test", &format!("Location: {given}\r\n")));
        assert_eq!(location("/v2/x"), "Location: /x");
        assert_eq!(location("/v2"), "Location: /");
        // Nobody is led to another host by what was a path.
        assert_eq!(location("/v2//evil.test"), "Location: /evil.test");
        assert_eq!(location("/v2/\\evil.test"), "Location: /evil.test");
    }

    #[test]
    fn a_host_that_the_client_does_not_know_becomes_its_own() {
        let filter = rewrite(r#"{"host": "s.internal.test:8080"}"#);
        let host = "s.internal.test:8080";
        for (given, expected) in [
            ("http://s.internal.test:8080/x", "https://shop.test/x"),
            ("//s.internal.test:8080/x", "https://shop.test/x"),
            ("http://s.internal.test/x", "http://s.internal.test/x"),
            ("/x", "/x"),
        ] {
            let lines = format!("Location: {given}\r\n");
            assert_eq!(back(&*filter, "/a", (host, &lines)), format!("Location: {expected}"));
        }
        // There is no way back from a path that was made of others, but from the host.
        let filter = rewrite(r#"{"path": "/u/1", "host": "s.internal.test:8080"}"#);
        let lines = "Location: http://s.internal.test:8080/u/2\r\n";
        assert_eq!(back(&*filter, "/a", (host, lines)), "Location: https://shop.test/u/2");
    }

    #[test]
    fn cookies_are_for_what_the_client_knows() {
        let cookie = |filter: &dyn Filter, path: &str, host: &str, given: &str| {
            back(filter, path, (host, &format!("Set-Cookie: {given}\r\n")))
        };
        for (given, expected) in [
            ("a=/; Path=/; Secure", "a=/; Path=/shop; Secure"),
            ("a=1;path=/x", "a=1; Path=/shop/x"),
            ("a=1; Path=/shop/x", "a=1; Path=/shop/x"),
            ("a=1; HttpOnly", "a=1; HttpOnly"),
            ("__Host-a=1; Path=/; Secure", "__Host-a=1; Path=/; Secure"),
        ] {
            assert_eq!(cookie(&*strip(), "/shop/a", "shop.test", given), format!("Set-Cookie: {expected}"));
        }
        let host = rewrite(r#"{"host": "s.internal.test"}"#);
        for (given, expected) in [
            ("a=1; Domain=s.internal.test; Path=/", "a=1; Domain=shop.test; Path=/"),
            ("a=1; Domain=.internal.test; Path=/", "a=1; Path=/"),
            ("a=1; Domain=shop.test", "a=1; Domain=shop.test"),
            ("a=1; Domain=other.test", "a=1; Domain=other.test"),
        ] {
            let expected = format!("Set-Cookie: {expected}");
            assert_eq!(cookie(&*host, "/a", "s.internal.test:8080", given), expected);
        }
    }

    #[test]
    fn each_cookie_stays_one() {
        let lines = "Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\n";
        let expected = "Set-Cookie: a=1; Path=/shop\r\nSet-Cookie: b=2";
        assert_eq!(back(&*strip(), "/shop/a", ("shop.test", lines)), expected);
    }

    #[test]
    fn chains_that_move_have_the_way_back_unless_it_is_written() {
        use crate::{Chain, Step};
        let names = |filters: &[Arc<dyn Filter>]| {
            let chain = Chain::new(filters.iter().cloned().map(Step::always).collect());
            chain.steps().iter().map(Step::name).collect::<Vec<_>>().join(" ")
        };
        let (on, off) = (MapBackSpec(true).build().unwrap(), MapBackSpec(false).build().unwrap());
        assert_eq!(names(&[strip()]), "strip_prefix map_back");
        assert_eq!(names(&[implied(), strip()]), "strip_prefix map_back");
        assert_eq!(names(&[on, strip()]), "map_back strip_prefix");
        assert_eq!(names(&[strip(), off]), "strip_prefix map_back");
        assert_eq!(names(&[implied()]), "");
        let off = Chain::new([strip(), MapBackSpec(false).build().unwrap()].map(Step::always).to_vec());
        assert!(!off.has(Hooks::RESPONSE));
    }
}
