//! `proxy_pass`: the destination, and the path and fields with which requests go there.

use super::Importer;
use super::content::{Content, conditional, refuse};
use super::level::Level;
use super::matching::{Kind, Pattern, plain};
use super::upstream::{Pass, note_unverified};
use super::variables::{Scope, is_constant};
use crate::Grade;
use crate::draft::{To, duration, literal};
use crate::pattern::escaped;
use crate::yaml::{Map, one, one_or_many};

/// Fields that the proxy alone writes.
const OF_PROXY: [&str; 7] =
    ["Connection", "Upgrade", "Content-Length", "Transfer-Encoding", "TE", "Expect", "Via"];

impl Importer<'_> {
    pub(super) fn pass(
        &mut self,
        url: &str,
        level: &Level,
        (pattern, scope): (&Pattern, &Scope),
        content: &mut Content,
    ) {
        let settings = &level.settings;
        let substituted = level.set.iter().fold(url.to_owned(), |url, (name, value)| {
            if is_constant(value) { url.replace(&format!("${name}"), value) } else { url }
        });
        let pass = Pass::parse(&substituted).filter(|pass| is_constant(&pass.target));
        let Some(pass) = pass else {
            let about = "the destination is made of variables; requests are answered 501";
            self.report.note(
                &level.place,
                format!("proxy_pass {url}"),
                Grade::Lost,
                about,
                "requests of this block",
            );
            return refuse("the destination of nginx was made of variables", content);
        };
        if let Some(rewrite) = level.rewrites.first().filter(|rewrite| rewrite.redirect().is_none()) {
            self.rewrite(rewrite, level.rewrites.len(), content);
        } else if let Some(uri) = &pass.uri {
            self.replace(uri, pattern, level, content);
        }
        let is_moved = content.filters.iter().any(|filter| filter.get("map_back").is_some());
        if settings.redirect_off && !is_moved {
            content.filters.push(one("map_back", false));
        }
        let mut host = self.fields(level, &pass, scope, content);
        let is_name = !pass.target.starts_with("unix:") && !pass.target.contains('_');
        if host.is_some() && is_name && !is_moved && !settings.redirect_off && pass.uri.is_none() {
            // Said by a filter, so that places of responses come back to the client's host.
            let port = if pass.scheme == "https" { ":443" } else { ":80" };
            let name = pass.target.strip_suffix(port).unwrap_or(&pass.target);
            content.filters.push(one("rewrite", one("host", literal(name))));
            host = None;
        }
        let name = pass.target.split(':').next().unwrap_or_default();
        let upstream = self.upstreams.get(&pass.target).or_else(|| self.upstreams.get(name)).cloned();
        note_unverified(&pass, settings, &level.place, &mut self.report);
        content.to = To::Service(pass.service(&mut self.draft, upstream.as_ref(), settings, host));
        let timeouts = [
            ("connect", settings.connect_timeout),
            ("first_byte", settings.read_timeout),
            ("idle", settings.read_timeout),
        ];
        for (key, value) in timeouts {
            if let Some(value) = value.filter(|value| *value > 0 && *value != 60_000) {
                content.timeouts.put(key, duration(value));
            }
        }
    }

    pub(super) fn rewrite(&mut self, rewrite: &super::level::Rewrite, count: usize, content: &mut Content) {
        let (to, query) = rewrite.to.split_once('?').unwrap_or((&rewrite.to, ""));
        let is_plain = super::variables::pieces(to).iter().all(|piece| match piece {
            super::variables::Piece::Text(_) => true,
            super::variables::Piece::Variable(name) => name.len() == 1 && name.as_bytes()[0].is_ascii_digit(),
        });
        if count > 1 || !query.is_empty() || !is_plain {
            let about = "of several rewrites, or one with variables or a query, requests are answered 501";
            self.report.note(
                &rewrite.place,
                rewrite.text.as_str(),
                Grade::Lost,
                about,
                "requests of this block",
            );
            return refuse("this rewrite of nginx is not taken over", content);
        }
        if rewrite.flag != "break" {
            let about = "the path changes, and no other location is looked for";
            self.report.note(
                &rewrite.place,
                rewrite.text.as_str(),
                Grade::Near,
                about,
                "requests of this block",
            );
        }
        let regex = one("match", rewrite.regex.text.as_str()).with("to", to);
        content.filters.push(one("rewrite", one("regex", regex)));
        content.filters.push(one("map_back", false));
    }

    /// The URI of `proxy_pass` takes the place of the location.
    fn replace(&mut self, uri: &str, pattern: &Pattern, level: &Level, content: &mut Content) {
        let path = plain(&pattern.path);
        if !is_constant(uri) || uri.contains('?') {
            let about = "the path is made of variables or has a query; requests are answered 501";
            self.report.note(
                &level.place,
                format!("proxy_pass … {uri}"),
                Grade::Lost,
                about,
                "requests of this block",
            );
            return refuse("the path of nginx was made of variables", content);
        }
        let filter = match (&pattern.kind, path.ends_with('/'), uri.ends_with('/')) {
            (Kind::Exact, ..) => one("rewrite", literal(uri)),
            _ if path == uri => return,
            (_, true, true) => match (path.trim_end_matches('/'), uri) {
                (prefix, "/") => one("strip_prefix", prefix),
                (prefix, _) => {
                    let from = if prefix.is_empty() { "/" } else { prefix };
                    one("rewrite", one("prefix", one("from", from).with("to", uri.trim_end_matches('/'))))
                }
            },
            (_, false, true) if uri == "/" => {
                let about = format!("`{path}/x` goes upstream as `/x`, not as `//x`");
                self.report.note(&level.place, format!("proxy_pass … {uri}"), Grade::Near, about, "");
                one("strip_prefix", path)
            }
            _ => {
                let to = format!("{}$1", uri.replace('$', "$$"));
                let regex = one("match", format!("{}(.*)", escaped(&path))).with("to", to);
                one("rewrite", one("regex", regex))
            }
        };
        content.filters.push(filter);
    }

    /// Fields of the request that goes upstream; gives the rule for the host.
    pub(super) fn fields(
        &mut self,
        level: &Level,
        pass: &Pass,
        scope: &Scope,
        content: &mut Content,
    ) -> Option<String> {
        let (mut set, mut gone, mut chosen) = (Map::default(), Vec::new(), Vec::new());
        let mut host = None;
        for (name, value) in &level.settings.set_headers {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            if is("Host") {
                host = Some(value.as_str());
            } else if OF_PROXY.iter().any(|known| is(known)) || value == "$proxy_add_x_forwarded_for" {
                // Upgrades pass by themselves, and the others are the proxy's own.
            } else if value.is_empty() {
                gone.push(name.clone());
            } else if let Some(filters) = self.chosen(name, value, level, scope) {
                chosen.extend(filters);
            } else {
                match scope.template(value) {
                    Ok(text) if text == format!("{{header.{}}}", name.to_ascii_lowercase()) => {}
                    Ok(text) => match whole_header(&text) {
                        // nginx sends no field whose value is empty.
                        Some(header) => {
                            gone.push(name.clone());
                            let set = one("headers", one("request", one("set", one(name, text.as_str()))));
                            chosen.push(conditional(set, one("header", one(header, "*"))));
                        }
                        None => set.put(name.as_str(), text),
                    },
                    Err(variable) => {
                        let about = format!("`${variable}` has no placeholder; the field is not sent");
                        let what = format!("proxy_set_header {name} {value}");
                        self.report.note(&level.place, what, Grade::Lost, about, "requests of this block");
                    }
                }
            }
        }
        let mut request = Map::default();
        if !gone.is_empty() {
            request.put("remove", one_or_many(gone));
        }
        if !set.is_empty() {
            request.put("set", set);
        }
        if !request.is_empty() {
            content.filters.push(one("headers", one("request", request)));
        }
        content.filters.extend(chosen);
        match host {
            None | Some("$proxy_host") => {
                let is_upstream = self.upstreams.contains_key(&pass.target);
                if is_upstream && pass.target.contains('_') {
                    let about = "the name of its upstream is no name of a host: that of the endpoint is sent as `Host`";
                    let what = format!("proxy_pass {}://{}", pass.scheme, pass.target);
                    self.report.note(&level.place, what, Grade::Near, about, "`Host` of its requests");
                    return Some("endpoint".to_owned());
                }
                Some(if is_upstream { pass.target.clone() } else { "endpoint".to_owned() })
            }
            Some("$http_host") => None,
            Some(text) => {
                if let Ok(text) = scope.template(text) {
                    content.filters.push(one("rewrite", one("host", text)));
                }
                None
            }
        }
    }

    /// A field whose value is a variable of `map`: its default, then what conditions give it.
    fn chosen(&self, name: &str, value: &str, level: &Level, scope: &Scope) -> Option<Vec<Map>> {
        let choice = level.maps.get(value.strip_prefix('$')?)?;
        let edit = |value: &str| {
            let text = scope.template(value).ok()?;
            let request = if text.is_empty() { one("remove", name) } else { one("set", one(name, text)) };
            Some(one("headers", one("request", request)))
        };
        let mut filters = vec![edit(&choice.default)?];
        // The last one that is called wins, and the first condition that holds must.
        for (condition, value) in choice.entries.iter().rev() {
            filters.push(conditional(edit(value)?, condition.when()?));
        }
        Some(filters)
    }
}

/// The field of which a text consists.
fn whole_header(text: &str) -> Option<&str> {
    let name = text.strip_prefix("{header.")?.strip_suffix('}')?;
    (!name.contains(['{', '}'])).then_some(name)
}
