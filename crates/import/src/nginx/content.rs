//! What a location does with a request, as the filters and the service of a route.

use super::Importer;
use super::conditions::Test;
use super::level::{Action, Check, Level};
use super::matching::Pattern;
use super::settings::Settings;
use super::upstream::Pass;
use super::variables::{Scope, is_constant};
use crate::Grade;
use crate::draft::{Conditions, To, literal, size};
use crate::networks::outcome;
use crate::yaml::{Map, Value, one, one_or_many};

/// Bodies of requests that nginx takes where nothing is written.
pub(super) const MAX_BODY: u64 = 1 << 20;
/// Statuses to which `add_header` adds a field without `always`.
const WITH_FIELDS: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// What a route does.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) filters: Vec<Map>,
    pub(super) to: To,
    pub(super) timeouts: Map,
    pub(super) limits: Map,
    pub(super) notes: Vec<String>,
}

/// What conditions make of a location.
#[derive(Debug, Default)]
struct Asked {
    /// Those that are answered before the location.
    before: Vec<(Conditions, Content)>,
    /// What a request must fulfil to reach it.
    conditions: Conditions,
    content: Content,
    /// Those that do not reach it, the last one first.
    behind: Vec<(Conditions, Content)>,
}

impl Asked {
    /// Whether routes with these conditions are asked in this order: those with methods first, then by the number of
    /// conditions on fields, then on the query.
    fn is_ordered(&self) -> bool {
        let before = self.before.iter().map(|(conditions, _)| conditions.rank());
        let behind = self.behind.iter().rev().map(|(conditions, _)| conditions.rank());
        let ranks: Vec<_> = before.chain([self.conditions.rank()]).chain(behind).collect();
        ranks.is_sorted_by(|one, next| one >= next)
    }
}

/// A filter that is called only `when`.
pub(super) fn conditional(filter: Map, when: Map) -> Map {
    filter.with("when", when)
}

/// The filter that answers as `return` does.
///
/// # Errors
/// The name of a variable that has no placeholder.
pub(super) fn reply(status: u16, text: &str, scope: &Scope, kind: &str) -> Result<Map, String> {
    if status == 444 {
        let everybody = vec!["0.0.0.0/0", "::/0"];
        return Ok(one("access", one("deny", everybody).with("status", "close")));
    }
    if matches!(status, 301 | 302 | 303 | 307 | 308) {
        return redirect(status, text, scope);
    }
    if text.is_empty() && (!(200..300).contains(&status) || status == 204) {
        return Ok(one("respond", status));
    }
    let body = scope.template(text)?;
    Ok(one("respond", one("status", status).with("body", body).with("content_type", kind)))
}

fn redirect(status: u16, text: &str, scope: &Scope) -> Result<Map, String> {
    let endings = [
        ("$request_uri", "$uri", true),
        ("$uri$is_args$args", "$uri", true),
        ("$is_args$args", "", true),
        ("?$args", "", true),
        ("?$query_string", "", true),
    ];
    let found =
        endings.iter().find_map(|(end, instead, keeps)| Some((text.strip_suffix(end)?, *instead, *keeps)));
    let (begin, instead, keeps) = found.unwrap_or((text, "", false));
    let to = scope.template(&format!("{begin}{instead}"))?;
    if to.is_empty() {
        return Ok(one("respond", status));
    }
    let mut map = one("to", to).with("status", status);
    if !keeps {
        map.put("keep_query", false);
    }
    Ok(one("redirect", map))
}

impl Importer<'_> {
    /// What a location does, where its conditions do not matter.
    pub(super) fn content(&mut self, level: &Level, pattern: &Pattern, scope: &Scope) -> Content {
        let mut bare = level.clone();
        bare.checks.clear();
        self.contents(&bare, pattern, scope).pop().map(|(_, content)| content).unwrap_or_default()
    }

    /// A `proxy_pass` to a variable of `map`: a route for each value.
    fn routed(
        &mut self,
        level: &Level,
        pattern: &Pattern,
        scope: &Scope,
    ) -> Option<Vec<(Conditions, Content)>> {
        let Some(Action::Pass(url)) = &level.action else { return None };
        let name = level.maps.keys().find(|name| url.contains(&format!("${name}")))?.clone();
        let choice = level.maps.get(&name)?.clone();
        let with = |value: &str| {
            let mut level = level.clone();
            level.action = Some(Action::Pass(url.replace(&format!("${name}"), value)));
            level
        };
        let mut all = Vec::new();
        for (condition, value) in &choice.entries {
            let conditions = match &condition.test {
                Test::Request(conditions) => conditions.clone(),
                Test::Host(host) if !scope.hosts.contains(host) && !scope.hosts.is_empty() => continue,
                Test::Host(host) if !scope.hosts.is_empty() => {
                    Conditions { hosts: vec![host.clone()], ..Conditions::default() }
                }
                _ => return None,
            };
            let content = self.content(&with(value), pattern, scope);
            all.push((conditions, content));
        }
        all.push((Conditions::default(), self.content(&with(&choice.default), pattern, scope)));
        all.iter()
            .map(|(conditions, _)| conditions.rank())
            .is_sorted_by(|one, next| one >= next)
            .then_some(all)
    }

    /// What a location does with the requests that fulfil conditions, in the order in which they are asked.
    pub(super) fn contents(
        &mut self,
        level: &Level,
        pattern: &Pattern,
        scope: &Scope,
    ) -> Vec<(Conditions, Content)> {
        if level.checks.is_empty()
            && let Some(all) = self.routed(level, pattern, scope)
        {
            return all;
        }
        let mut content = Content::default();
        let settings = &level.settings;
        if let Some(why) = &level.refused {
            refuse(why, &mut content);
            return vec![(Conditions::default(), content)];
        }
        content.filters = self.response_fields(level, scope);
        content.filters.extend(self.error_pages(level));
        if settings.gzip {
            content.filters.push(compress(settings));
        }
        let body = settings.max_body.unwrap_or(MAX_BODY);
        if body != MAX_BODY {
            content.limits.put("max_body", if body == 0 { "1TiB".to_owned() } else { size(body) });
        }
        let mut asked = self.checks(level, scope, content);
        self.act(level, pattern, scope, &mut asked.content);
        let mut all = asked.before;
        all.push((asked.conditions, asked.content));
        all.extend(asked.behind.into_iter().rev());
        all
    }

    /// What answers, behind all conditions.
    fn act(&mut self, level: &Level, pattern: &Pattern, scope: &Scope, content: &mut Content) {
        let action = level.action.clone().unwrap_or_default();
        if let Action::Return(status, text) = &action {
            return self.answer((*status, text), level, scope, content);
        }
        content.filters.extend(self.limits(level));
        self.access(level, content);
        self.judge(level, scope, content);
        match action {
            Action::Pass(url) => self.pass(&url, level, (pattern, scope), content),
            Action::Unsupported(what) => refuse(&format!("{what} of nginx is not taken over"), content),
            _ => self.files(level, pattern, content),
        }
    }

    /// Conditions become filters that answer, or where a filter cannot say it, routes of their own: before the location
    /// those that fulfil a condition, behind it those that do not.
    fn checks(&mut self, level: &Level, scope: &Scope, content: Content) -> Asked {
        let kind = level.settings.kind_of(&scope.path);
        let mut asked = Asked { content, ..Asked::default() };
        for check in &level.checks {
            let made = reply(check.reply.0, &check.reply.1, scope, &kind);
            let Ok(filter) = made else {
                self.lost_check(check, "its answer has a variable without a placeholder", &mut asked.content);
                continue;
            };
            if let Some(when) = check.condition.when() {
                asked.content.filters.push(conditional(filter, when));
                continue;
            }
            let Test::Request(conditions) = &check.condition.test else {
                self.lost_check(
                    check,
                    "neither a filter nor a route can ask for this here",
                    &mut asked.content,
                );
                continue;
            };
            let mut answer = asked.content.clone();
            answer.filters.push(filter);
            match (asked.conditions.and(conditions), check.condition.negated) {
                (Some(both), false) => asked.before.push((both, answer)),
                (Some(both), true) => {
                    asked.behind.push((std::mem::replace(&mut asked.conditions, both), answer));
                }
                (None, _) => {
                    self.lost_check(check, "it contradicts another condition", &mut asked.content);
                }
            }
        }
        if !asked.is_ordered() {
            let about = "the order of its conditions cannot be kept";
            level.checks.iter().for_each(|check| self.lost_check(check, about, &mut asked.content));
            (asked.before, asked.behind, asked.conditions) = Default::default();
        }
        asked
    }

    /// A condition that is not taken over; whom it would keep out is not known then, and nobody passes.
    fn lost_check(&mut self, check: &Check, about: &str, content: &mut Content) {
        self.report.note(&check.place, check.text.as_str(), Grade::Lost, about, "requests of this block");
        if check.reply.0 >= 400 {
            refuse("a condition that keeps requests out", content);
        }
    }

    fn answer(&mut self, (status, text): (u16, &str), level: &Level, scope: &Scope, content: &mut Content) {
        let kind = level.settings.kind_of(&scope.path);
        match reply(status, text, scope, &kind) {
            Ok(filter) => content.filters.push(filter),
            Err(variable) => self.lost_variable(&variable, level, content),
        }
    }

    fn lost_variable(&mut self, variable: &str, level: &Level, content: &mut Content) {
        let about = format!("`${variable}` has no placeholder; requests are answered 501");
        self.report.note(&level.place, format!("${variable}"), Grade::Lost, about, "requests of this block");
        refuse(&format!("${variable} of nginx has no placeholder"), content);
    }

    /// `add_header`, `expires` and `proxy_hide_header`. Filters see responses in reverse: what is hidden is removed
    /// first.
    fn response_fields(&mut self, level: &Level, scope: &Scope) -> Vec<Map> {
        let mut filters: Vec<Map> = Vec::new();
        for field in &level.settings.add_headers {
            let Ok(value) = scope.template(&field.value) else {
                let what = format!("add_header {} {}", field.name, field.value);
                let about = "its value has a variable without a placeholder; the field is left out";
                self.report.note(&level.place, what, Grade::Lost, about, "responses of this block");
                continue;
            };
            if value.is_empty() {
                continue;
            }
            let response = one("response", one("append", one(&field.name, value)));
            let filter = one("headers", response);
            filters.push(match field.always {
                true => filter,
                false => conditional(filter, one("status", WITH_FIELDS.to_vec())),
            });
        }
        if let Some(expires) = &level.settings.expires {
            let control = match expires.as_str() {
                "max" => "max-age=315360000".to_owned(),
                "epoch" => "no-cache".to_owned(),
                text if text.starts_with('-') => "no-cache".to_owned(),
                text => format!("max-age={}", super::known::milliseconds(text).unwrap_or(0) / 1000),
            };
            let response = one("response", one("set", one("Cache-Control", control)));
            filters.push(conditional(one("headers", response), one("status", WITH_FIELDS.to_vec())));
        }
        if !level.settings.hide_headers.is_empty() {
            let names = level.settings.hide_headers.clone();
            filters.push(one("headers", one("response", one("remove", one_or_many(names)))));
        }
        filters
    }

    fn limits(&mut self, level: &Level) -> Vec<Map> {
        let (mut filters, settings) = (Vec::new(), &level.settings);
        for limit in &settings.limit_req {
            let Some(zone) = self.zones.get(&limit.zone) else { continue };
            let map = one("requests", zone.requests)
                .with("per", zone.per.as_str())
                .with("burst", limit.burst + 1)
                .with("key", zone.key.clone())
                .with("missing", "allow")
                .with("name", limit.zone.as_str())
                .with("headers", "none");
            filters.push(one("rate_limit", map));
            if settings.limit_req_status != Some(429) {
                let about = "who is refused gets 429 and `Retry-After`, not 503";
                self.report.note(&level.place, format!("limit_req {}", limit.zone), Grade::Near, about, "");
            }
        }
        for (zone, most) in &settings.limit_conn {
            let Some(key) = self.connection_zones.get(zone) else { continue };
            let status = settings.limit_conn_status.filter(|status| *status == 429).unwrap_or(503);
            let map = one("max", *most)
                .with("key", key.clone())
                .with("missing", "allow")
                .with("status", status)
                .with("name", zone.as_str());
            filters.push(one("concurrency", map));
        }
        filters
    }

    fn access(&mut self, level: &Level, content: &mut Content) {
        let settings = &level.settings;
        let (only, networks) = outcome(&settings.rules);
        let names: Vec<String> = networks.iter().map(ToString::to_string).collect();
        let users = settings.realm.as_ref().zip(settings.users_file.as_ref());
        if let (Some((realm, file)), true, true) = (users, settings.satisfy_any, only) {
            let methods: Vec<Value> = std::iter::once(names.clone())
                .filter(|names| !names.is_empty())
                .map(|names| one("network", one_or_many(names)).into())
                .chain([one("basic", one("file", file.as_str())).into()])
                .collect();
            self.note_users(file, level);
            let auth = one("any", methods).with("realm", realm.as_str()).with("keep_credentials", true);
            content.filters.push(one("auth", auth));
            return;
        }
        let members = match (only, names.is_empty()) {
            (true, true) => Some(("deny", vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()])),
            (true, false) => Some(("allow", names)),
            (false, true) => None,
            (false, false) => Some(("deny", names)),
        };
        if let Some((key, members)) = members {
            content.filters.push(one("access", one(key, one_or_many(members))));
        }
        if let Some((realm, file)) = users {
            self.note_users(file, level);
            let auth = one("basic", one("file", file.as_str()));
            content
                .filters
                .push(one("auth", auth.with("realm", realm.as_str()).with("keep_credentials", true)));
        }
    }

    /// `auth_request`: another service decides.
    fn judge(&mut self, level: &Level, scope: &Scope, content: &mut Content) {
        let Some(place) = &level.settings.judge else { return };
        let judge = self.internal.iter().find(|(path, _)| path == place).map(|(_, level)| level.clone());
        let Some((judge, Action::Pass(url))) = judge.and_then(|level| Some((level.clone(), level.action?)))
        else {
            let about = "there is no location of that name with a `proxy_pass`; requests are answered 501";
            self.report.note(&level.place, format!("auth_request {place}"), Grade::Lost, about, "");
            return refuse("who may pass was asked of something else", content);
        };
        let Some(pass) = Pass::parse(&url).filter(|pass| is_constant(&pass.target)) else {
            return refuse("who may pass was asked of a destination made of variables", content);
        };
        let mut asked = Content::default();
        let host = self.fields(&judge, &pass, scope, &mut asked);
        let upstream = self.upstreams.get(&pass.target).cloned();
        let service = pass.service(&mut self.draft, upstream.as_ref(), &judge.settings, host);
        let path = pass.uri.clone().unwrap_or_else(|| place.clone());
        let mut copy: Vec<String> = Vec::new();
        for (_, value) in &level.settings.judged {
            if let Some(name) = value.strip_prefix("$upstream_http_") {
                copy.push(name.replace('_', "-"));
            }
        }
        let mut forward = one("service", service).with("path", path).with("fields", vec!["*"]);
        if !copy.is_empty() {
            forward.put("copy", one_or_many(copy));
        }
        content.filters.push(one("auth", one("forward_auth", forward)));
    }

    /// Says which passwords of a file cannot be checked.
    fn note_users(&mut self, file: &str, level: &Level) {
        let text = match self.files.read(file) {
            Ok(text) => text,
            Err(error) => {
                let about = format!("the file cannot be read here: {error}");
                self.report.note(
                    &level.place,
                    format!("auth_basic_user_file {file}"),
                    Grade::Near,
                    about,
                    "",
                );
                return;
            }
        };
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let old = lines.filter_map(|line| line.split_once(':'));
        let old = old.filter(|(_, hash)| !hash.starts_with("$2") && !hash.starts_with("$argon2id$")).count();
        if old > 0 {
            let about = format!(
                "{old} passwords are hashed by other means than bcrypt and argon2id, and the file is refused as it is; make them anew with `htpasswd -B`"
            );
            self.report.note(&level.place, format!("auth_basic_user_file {file}"), Grade::Lost, about, "");
        }
    }
}

fn compress(settings: &Settings) -> Map {
    let mut types = vec!["text/html".to_owned()];
    types.extend(settings.gzip_types.iter().filter(|kind| *kind != "text/html" && *kind != "*").cloned());
    let mut map = one("algorithms", "gzip").with("types", types);
    map.put("min_length", size(settings.gzip_min_length.unwrap_or(20)));
    one("compress", map)
}

/// Requests are answered 501: they must not fall to another route.
pub(super) fn refuse(why: &str, content: &mut Content) {
    content.notes.push(format!("NOT TAKEN OVER: {why}"));
    let body = format!("501 Not Implemented: {why}\n");
    content.filters.push(one("respond", one("status", 501_u16).with("body", literal(&body))));
    content.to = To::Nowhere;
}
