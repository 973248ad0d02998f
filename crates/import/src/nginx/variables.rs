//! nginx's variables as placeholders.

use crate::draft::literal;
use std::collections::BTreeMap;

/// What is known where a text stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Variables that `set` has given a text, which may itself have variables.
    pub(super) set: BTreeMap<String, String>,
    /// The first name of the server.
    pub(super) server_name: String,
    /// The port of the listener, where there is one only.
    pub(super) server_port: Option<u16>,
    /// `http` or `https`, where it is known.
    pub(super) scheme: Option<&'static str>,
    pub(super) proxy_host: String,
    pub(super) root: String,
    /// The only path; empty where there are others.
    pub(super) path: String,
    /// Names of the route's hosts.
    pub(super) hosts: Vec<String>,
    /// Groups of the location's regular expression may be named.
    pub(super) has_groups: bool,
}

/// A piece of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Variable(String),
}

/// Takes a text apart.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let (mut out, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let (name, after) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, after)) => (name, after),
            None if behind.starts_with(|first: char| first.is_ascii_digit()) => behind.split_at(1),
            None => behind.split_at(
                behind.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count(),
            ),
        };
        if name.is_empty() {
            plain.push('$');
        } else {
            if !plain.is_empty() {
                out.push(Piece::Text(std::mem::take(&mut plain)));
            }
            out.push(Piece::Variable(name.to_owned()));
        }
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        out.push(Piece::Text(plain));
    }
    out
}

/// Whether a text names no variable.
pub(super) fn is_constant(text: &str) -> bool {
    pieces(text).iter().all(|piece| matches!(piece, Piece::Text(_)))
}

impl Scope {
    /// A text with placeholders.
    ///
    /// # Errors
    /// The name of a variable that has no placeholder.
    pub(super) fn template(&self, text: &str) -> Result<String, String> {
        self.filled(text, 0)
    }

    fn filled(&self, text: &str, depth: usize) -> Result<String, String> {
        let mut out = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(&literal(&text)),
                Piece::Variable(name) => match self.set.get(&name) {
                    Some(value) if depth < 8 => out.push_str(&self.filled(value, depth + 1)?),
                    _ => out.push_str(&self.placeholder(&name).ok_or(name)?),
                },
            }
        }
        Ok(out)
    }

    fn placeholder(&self, name: &str) -> Option<String> {
        let fixed = match name {
            "host" => "{host}",
            "remote_addr" | "realip_remote_addr" => "{client_ip}",
            "request_method" => "{method}",
            "uri" | "document_uri" => "{path}",
            "args" | "query_string" => "{query}",
            "request_id" => "{request_id}",
            "ssl_protocol" => "{tls.version}",
            "ssl_server_name" => "{tls.sni}",
            "ssl_client_s_dn" => "{tls.client.subject}",
            "remote_user" => "{user}",
            "status" => "{status}",
            "is_args" => return None,
            "scheme" => return Some(self.scheme.unwrap_or("{scheme}").to_owned()),
            "server_name" => return Some(literal(&self.server_name)),
            "server_port" => return Some(self.server_port.map_or("{port}".into(), |port| port.to_string())),
            "proxy_host" => return Some(literal(&self.proxy_host)),
            "document_root" => return Some(literal(&self.root)),
            "http_host" => "{host}:{port}",
            digit if self.has_groups && digit.len() == 1 && digit.as_bytes()[0].is_ascii_digit() => {
                return Some(format!("{{path.{digit}}}"));
            }
            _ => "",
        };
        if !fixed.is_empty() {
            return Some(fixed.to_owned());
        }
        let named = |prefix: &str, word: &str, dash: bool| {
            let rest = name.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
            Some(format!("{{{word}.{}}}", if dash { rest.replace('_', "-") } else { rest.to_owned() }))
        };
        named("http_", "header", true)
            .or_else(|| named("cookie_", "cookie", false))
            .or_else(|| named("arg_", "query", false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_placeholders() {
        let mut scope = Scope { server_name: "a.example".into(), has_groups: true, ..Scope::default() };
        scope.set.insert("tenant".into(), "t-$http_x_tenant".into());
        for (text, expected) in [
            ("https://$host/x", "https://{host}/x"),
            ("${scheme}s{}", "{scheme}s{{}}"),
            ("$1/$tenant", "{path.1}/t-{header.x-tenant}"),
            ("$arg_q $cookie_sid $", "{query.q} {cookie.sid} $"),
            ("$server_name", "a.example"),
        ] {
            assert_eq!(scope.template(text).as_deref(), Ok(expected));
        }
        assert_eq!(scope.template("$upstream_addr"), Err("upstream_addr".into()));
    }
}
