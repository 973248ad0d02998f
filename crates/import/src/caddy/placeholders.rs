//! Placeholders of Caddy as those of Thalweg.

use crate::branch::Condition;
use crate::draft::literal;
use crate::paths::Atom;
use std::collections::BTreeMap;

/// What placeholders may stand for where a text is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Of `vars`.
    pub(super) vars: BTreeMap<String, String>,
    /// The name of the expression over the path that the route goes by: its groups are at hand.
    pub(super) groups: Option<String>,
    /// The path was changed.
    pub(super) is_moved: bool,
}

impl Scope {
    /// The name of the expression that the paths of a condition are.
    pub(super) fn groups_of(condition: &Condition) -> Option<String> {
        match condition.paths.as_deref() {
            Some([Atom::Regex { name, .. }]) => Some(name.clone()),
            _ => None,
        }
    }

    /// A text with placeholders of Thalweg.
    ///
    /// # Errors
    /// The placeholder that has no counterpart.
    pub(super) fn template(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, behind) = rest.split_at(at);
            out.push_str(&literal(before));
            let end = behind.find('}').filter(|end| is_name(&behind[1..*end]));
            let Some(end) = end else {
                out.push_str("{{");
                rest = &behind[1..];
                continue;
            };
            let name = &behind[1..end];
            match self.placeholder(name) {
                Some(found) => out.push_str(&found),
                None => return Err(format!("{{{name}}}")),
            }
            rest = &behind[end + 1..];
        }
        out.push_str(&literal(rest));
        Ok(out)
    }

    fn placeholder(&self, name: &str) -> Option<String> {
        let short = name.strip_prefix("http.request.").unwrap_or(name);
        let is_long = short.len() != name.len();
        let path = if self.is_moved { "{upstream_path}" } else { "{path}" };
        let fixed = match short {
            "host" => "{host}",
            "method" => "{method}",
            "scheme" => "{scheme}",
            "remote_host" | "remote.host" | "client_ip" => "{client_ip}",
            "path" | "uri.path" => path,
            "orig_path" | "orig_uri.path" => "{path}",
            "query" | "uri.query" => "{query}",
            "tls_version" | "tls.version" => "{tls.version}",
            "tls_client_subject" | "tls.client.subject" => "{tls.client.subject}",
            "tls.server_name" => "{tls.sni}",
            "uuid" => "{request_id}",
            "http.error.status_code" | "err.status_code" => "{status}",
            "http.error.status_text" | "err.status_text" => "{reason}",
            "http.error.message" | "err.message" => "{fault.detail}",
            "http.auth.user.id" => "{user}",
            _ => "",
        };
        if !fixed.is_empty() {
            return Some(fixed.to_owned());
        }
        let named = |prefix: &str| short.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        let placed = |word: &str, name: &str| Some(format!("{{{word}.{name}}}"));
        if let Some(field) = named("header.") {
            return placed("header", field);
        }
        if let Some(cookie) = named("cookie.") {
            return placed("cookie", cookie);
        }
        if let Some(parameter) = named("query.").or_else(|| named("uri.query.")) {
            return placed("query", parameter);
        }
        if let Some(variable) = name.strip_prefix("env.") {
            return Some(crate::yaml::variable(variable, ""));
        }
        if let Some(variable) = name.strip_prefix("vars.").or_else(|| name.strip_prefix("http.vars.")) {
            return self.vars.get(variable).cloned();
        }
        if let Some(group) = named("re.").or_else(|| named("regexp.").filter(|_| is_long)) {
            let known = self.groups.as_deref()?;
            let (regex, group) = group.rsplit_once('.').unwrap_or(("", group));
            return (regex.is_empty() || regex == known).then(|| format!("{{path.{group}}}"));
        }
        None
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-$".contains(&byte))
        && !text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A text without placeholders.
pub(super) fn is_constant(text: &str) -> bool {
    !text.contains('{')
}
