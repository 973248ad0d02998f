//! What a rule does, as a filter or an answer.

use super::template::Scope;
use crate::draft::literal;
use crate::pattern::whole;
use crate::yaml::{Map, Value, one};

/// What a rule does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Changes the request. Whether it moves the path, and whether it may be done twice.
    Change {
        filter: Map,
        is_move: bool,
        is_idempotent: bool,
    },
    /// Changes the response.
    Response(Map),
    /// Changes the response, and answers of rules.
    After(Map),
    /// Answers.
    Answer(Map),
    /// Keeps out those that fit, with this answer.
    Deny(Map),
    /// Asks for a name and a password.
    Auth(String),
    /// No further rule of this kind is asked.
    Allow,
    Backend(String),
    /// Nothing is done.
    Nothing,
}

/// Why an action cannot be taken over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lost {
    pub(super) why: String,
    /// Requests that it is for are answered 501.
    pub(super) closes: bool,
    /// It is left out, and the difference is small.
    pub(super) is_near: bool,
}

impl Lost {
    pub(super) fn closing(why: impl Into<String>) -> Self {
        Self { why: why.into(), closes: true, is_near: false }
    }

    pub(super) fn open(why: impl Into<String>) -> Self {
        Self { why: why.into(), closes: false, is_near: false }
    }

    pub(super) fn near(why: impl Into<String>) -> Self {
        Self { why: why.into(), closes: false, is_near: true }
    }
}

/// Fields that the proxy alone writes.
const OF_PROXY: [&str; 7] =
    ["connection", "upgrade", "content-length", "transfer-encoding", "te", "expect", "keep-alive"];

/// The value behind a word.
fn behind<'a>(words: &'a [String], word: &str) -> Option<&'a str> {
    let at = words.iter().position(|known| known == word)?;
    words.get(at + 1).map(String::as_str)
}

/// What `http-request` and its like do, by their words.
///
/// # Errors
/// Why it cannot be taken over.
pub(super) fn request(words: &[String], scope: &Scope) -> Result<Action, Lost> {
    let name = words.first().map_or("", String::as_str);
    let arg = |at: usize| words.get(at).map_or("", String::as_str);
    match name.split('(').next().unwrap_or_default() {
        "allow" | "accept" => Ok(Action::Allow),
        "deny" => Ok(Action::Deny(answer(&words[1..], 403, scope)?)),
        "return" => Ok(Action::Answer(answer(&words[1..], 200, scope)?)),
        "tarpit" => Ok(Action::Deny(answer(&words[1..], 500, scope)?)),
        "reject" | "silent-drop" => Ok(Action::Deny(closed())),
        "auth" => Ok(Action::Auth(behind(words, "realm").unwrap_or(&scope.frontend).to_owned())),
        "redirect" => redirect(&words[1..], scope).map(Action::Answer),
        "set-header" | "add-header" | "del-header" => fields(words, scope),
        "set-path" => set_path(arg(1), scope),
        "replace-path" => replaced(arg(1), arg(2)),
        "replace-pathq" | "replace-uri" => replaced_whole(arg(1), arg(2)),
        "set-query" if arg(1).is_empty() => {
            Ok(changed(one("rewrite", one("query", one("clear", true))), true))
        }
        "set-uri" | "set-pathq" => {
            let (path, query) = arg(1).split_once('?').unwrap_or((arg(1), ""));
            if !path.starts_with('/') || !query.is_empty() || path.contains('%') {
                return Err(Lost::closing("a URI made of samples cannot be said; requests are answered 501"));
            }
            let map = one("path", literal(path)).with("query", one("clear", true));
            Ok(changed(one("rewrite", map), true))
        }
        "set-query" | "set-method" | "set-src" | "set-dst" | "use-service" => {
            Err(Lost::closing(format!("`{name}` has no counterpart; requests are answered 501")))
        }
        "set-var" | "unset-var" | "track-sc0" | "track-sc1" | "track-sc2" | "sc-inc-gpc0" | "sc-inc-gpc1" => {
            Ok(Action::Nothing)
        }
        "capture" | "set-log-level" | "set-nice" => {
            Err(Lost::near("it concerns logs; see `log` and `access_log`"))
        }
        "set-tos" | "set-mark" => Err(Lost::near("packets are not marked")),
        "cache-use" => Err(Lost::open("write the filter `cache`")),
        "normalize-uri" => Err(Lost::near("paths go upstream in normal form anyway")),
        "wait-for-body" => Err(Lost::near("write the filter `buffer`")),
        "disable-l7-retry" => Err(Lost::near("see `retry` of the service")),
        "replace-header" | "replace-value" => {
            Err(Lost::open("values of fields are not changed by expressions; the field goes on as it came"))
        }
        _ => Err(Lost::closing(format!("`{name}` has no counterpart; requests are answered 501"))),
    }
}

/// What `http-response` does.
///
/// # Errors
/// Why it cannot be taken over.
pub(super) fn response(words: &[String], scope: &Scope) -> Result<Map, Lost> {
    let name = words.first().map_or("", String::as_str);
    match name.split('(').next().unwrap_or_default() {
        "set-header" | "add-header" | "del-header" => edit(words, scope, "response"),
        "set-log-level" | "capture" | "set-nice" | "set-tos" | "set-mark" => {
            Err(Lost::near("it concerns logs; see `log` and `access_log`"))
        }
        "cache-store" => Err(Lost::open("write the filter `cache`")),
        "allow" => Err(Lost::open("rules behind it are called too")),
        "replace-header" | "replace-value" => Err(Lost::open(
            "values of fields are not changed by expressions; see `map_back` for places and cookies",
        )),
        _ => Err(Lost::open(format!("`{name}` of responses has no counterpart"))),
    }
}

/// The connection ends without an answer.
fn closed() -> Map {
    one("access", one("deny", vec!["0.0.0.0/0", "::/0"]).with("status", "close"))
}

fn changed(filter: Map, is_move: bool) -> Action {
    Action::Change { filter, is_move, is_idempotent: !is_move }
}

/// The answer of `deny` and `return`.
fn answer(words: &[String], status: u16, scope: &Scope) -> Result<Map, Lost> {
    let said = behind(words, "deny_status").or_else(|| behind(words, "status"));
    let status: u16 = said.and_then(|status| status.parse().ok()).unwrap_or(status);
    let mut map = one("status", status);
    let text = |format: &str| {
        scope.template(format).map_err(|sample| {
            Lost::closing(format!("`{sample}` has no placeholder; requests are answered 501"))
        })
    };
    if let Some(body) = behind(words, "string") {
        map.put("body", literal(body));
    } else if let Some(body) = behind(words, "lf-string") {
        map.put("body", text(body)?);
    } else if let Some(file) = behind(words, "file") {
        map.put("file", file);
    } else if words.iter().any(|word| matches!(word.as_str(), "lf-file" | "errorfile" | "errorfiles")) {
        return Err(Lost::closing(
            "its page has a head of its own or samples; write `respond` with `file` and `headers`",
        ));
    }
    if let Some(kind) = behind(words, "content-type") {
        map.put("content_type", kind);
    }
    let mut fields = Map::default();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| *word == "hdr") {
        let name = words.get(at + 1).map_or("", String::as_str);
        fields.put(name, text(words.get(at + 2).map_or("", String::as_str))?);
    }
    if !fields.is_empty() {
        map.put("headers", fields);
    }
    Ok(match map.entries().len() {
        1 => one("respond", status),
        _ => one("respond", map),
    })
}

/// `redirect prefix|location|scheme`.
///
/// # Errors
/// Why it cannot be taken over.
pub(super) fn redirect(words: &[String], scope: &Scope) -> Result<Map, Lost> {
    let unknown = ["set-cookie", "clear-cookie", "append-slash"];
    if let Some(word) = words.iter().find(|word| unknown.contains(&word.as_str())) {
        return Err(Lost::closing(format!(
            "`{word}` of a redirect has no counterpart; requests are answered 501"
        )));
    }
    let status: u16 = behind(words, "code").and_then(|code| code.parse().ok()).unwrap_or(302);
    let text = |format: &str| {
        scope.template(format).map_err(|sample| {
            Lost::closing(format!("`{sample}` has no placeholder; requests are answered 501"))
        })
    };
    let path = if scope.is_moved { "{upstream_path}" } else { "{path}" };
    let (to, keeps) = if let Some(prefix) = behind(words, "prefix") {
        let prefix = text(prefix)?;
        (format!("{}{path}", prefix.trim_end_matches('/')), true)
    } else if let Some(scheme) = behind(words, "scheme") {
        (format!("{}://{{host}}{path}", text(scheme)?), true)
    } else if let Some(location) = behind(words, "location") {
        let endings = ["%[capture.req.uri]", "%[pathq]", "%[url]", "%HU", "%[path]?%[query]", "%HPO%HQ"];
        match endings.iter().find_map(|end| location.strip_suffix(end)) {
            Some(begin) => (format!("{}{path}", text(begin)?), true),
            None => match location.strip_suffix("?%[query]") {
                Some(begin) => (text(begin)?, true),
                None => (text(location)?, false),
            },
        }
    } else {
        return Err(Lost::closing("it says no place; requests are answered 501"));
    };
    let mut map = one("to", to).with("status", status);
    if !keeps || words.iter().any(|word| word == "drop-query") {
        map.put("keep_query", false);
    }
    Ok(one("redirect", map))
}

/// Changes of fields of the request.
fn fields(words: &[String], scope: &Scope) -> Result<Action, Lost> {
    let (kind, name) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    let value = words.get(2).map_or("", String::as_str);
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if OF_PROXY.iter().any(|known| is(known)) {
        return Err(Lost::near("this field is the proxy's own"));
    }
    if is("Host") {
        let host = scope
            .template(value)
            .map_err(|sample| Lost::closing(format!("`{sample}` has no placeholder")))?;
        let is_known = !["{header.", "{query.", "{cookie."].iter().any(|part| host.contains(part));
        if kind == "del-header" || !is_known {
            return Err(Lost::closing("the host that goes upstream is not made of what clients say"));
        }
        let filter = one("rewrite", one("host", host));
        return Ok(Action::Change { filter, is_move: false, is_idempotent: true });
    }
    let filter = edit(words, scope, "request")?;
    Ok(Action::Change { filter, is_move: false, is_idempotent: kind != "add-header" })
}

/// A change of a field.
fn edit(words: &[String], scope: &Scope, side: &str) -> Result<Map, Lost> {
    let (kind, name) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    let value = words.get(2).map_or("", String::as_str);
    if kind == "del-header" {
        return match value {
            "" => Ok(one("headers", one(side, one("remove", name)))),
            _ => Err(Lost::open("fields are removed by their names; these go on as they came")),
        };
    }
    let text = scope.template(value);
    let text = text
        .map_err(|sample| Lost::open(format!("`{sample}` has no placeholder; the field is not written")))?;
    let verb = if kind == "add-header" { "append" } else { "set" };
    Ok(one("headers", one(side, one(verb, one(name, text)))))
}

/// `set-path`, with what is often done to the path there.
fn set_path(format: &str, scope: &Scope) -> Result<Action, Lost> {
    let inner = format.strip_prefix("%[path,regsub(").and_then(|rest| rest.strip_suffix(")]"));
    if let Some(inner) = inner {
        let inner = inner.replace(['"', '\''], "");
        let mut parts = inner.splitn(3, ',');
        let (regex, to) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if !regex.contains(['(', '|']) && parts.next().is_none() {
            let regex = regex.trim_end_matches('$');
            return match regex.strip_prefix('^') {
                Some(begin) => rewritten(&format!("^{begin}(.*)$"), &format!("{}$1", to.replace('$', "$$"))),
                None => rewritten(&format!("^(.*?){regex}(.*)$"), &format!("$1{}$2", to.replace('$', "$$"))),
            };
        }
        return Err(Lost::closing("this change of the path cannot be said; requests are answered 501"));
    }
    let plain = Scope { is_moved: true, ..scope.clone() };
    let path = plain.template(format);
    let path = path.map_err(|sample| {
        Lost::closing(format!("`{sample}` has no placeholder; requests are answered 501"))
    })?;
    Ok(changed(one("rewrite", one("path", path)), true))
}

fn rewritten(regex: &str, to: &str) -> Result<Action, Lost> {
    let found =
        whole(regex, false).map_err(|why| Lost::closing(format!("{why}; requests are answered 501")))?;
    Ok(changed(one("rewrite", one("regex", one("match", found.text).with("to", Value::from(to)))), true))
}

/// `\1` as `$1`.
fn groups(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                digit if digit.is_ascii_digit() => out.push_str(&format!("${{{digit}}}")),
                other => out.push(other),
            },
            '$' => out.push_str("$$"),
            '%' => match letters.next() {
                Some('%') => out.push('%'),
                _ => return None,
            },
            letter => out.push(letter),
        }
    }
    Some(out)
}

/// `replace-path`.
fn replaced(regex: &str, to: &str) -> Result<Action, Lost> {
    let Some(to) = groups(to) else {
        return Err(Lost::closing("samples in the new path cannot be said; requests are answered 501"));
    };
    rewritten(regex, &to)
}

/// `replace-uri` and `replace-pathq`: with the query, which the last group takes along.
fn replaced_whole(regex: &str, to: &str) -> Result<Action, Lost> {
    let bare = regex.trim_end_matches('$');
    let count = bare.matches('(').count();
    let is_plain = bare.ends_with("(.*)") && to.ends_with(&format!("\\{count}")) && !bare.contains('?');
    if !is_plain {
        return Err(Lost::closing(
            "path and query are changed each by themselves; requests are answered 501",
        ));
    }
    replaced(regex, to)
}

/// The field that a rule of `X-Forwarded-Proto` writes by itself: whether it says `https`.
pub(super) fn told_scheme(words: &[String]) -> Option<&str> {
    match words {
        [kind, name, value] if kind == "set-header" && name.eq_ignore_ascii_case("X-Forwarded-Proto") => {
            Some(value)
        }
        _ => None,
    }
}

/// The answer of `monitor-uri`.
pub(super) fn monitored() -> Map {
    let body = "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n";
    let fields = one("Cache-Control", "no-cache");
    one(
        "respond",
        one("status", 200_u16).with("body", body).with("content_type", "text/html").with("headers", fields),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Result<Action, Lost> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        request(&words, &Scope::default())
    }

    #[test]
    fn actions_become_filters_or_are_lost() {
        let moved = |map: Map| Ok(changed(one("rewrite", map), true));
        assert_eq!(made("set-path /x%[path]"), moved(one("path", "/x{upstream_path}")));
        let regex = |text: &str, to: &str| one("regex", one("match", text).with("to", to));
        assert_eq!(made("replace-path ^/api/(.*) /\\1"), moved(regex("/api/(.*).*", "/${1}")));
        assert_eq!(made("set-path %[path,regsub(^/api/,/)]"), moved(regex("/api/(.*)", "/$1")));
        assert_eq!(made("deny deny_status 429"), Ok(Action::Deny(one("respond", 429_u16))));
        assert!(made("replace-pathq ^/a(.*)b /\\1").unwrap_err().closes);
        assert!(!made("replace-header X a b").unwrap_err().closes);
        let to = one("to", "https://{host}{path}").with("status", 301_u16);
        assert_eq!(made("redirect scheme https code 301"), Ok(Action::Answer(one("redirect", to))));
    }
}
