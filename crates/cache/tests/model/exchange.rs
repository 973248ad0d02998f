//! What the model does with a request.

use super::*;

/// What a client wants (§5.2.1).
struct Wanted(Vec<Directive>);

impl Wanted {
    fn of(rules: &Rules, request: &Asked) -> Self {
        if !rules.honours_clients {
            return Self(Vec::new());
        }
        let lines = all(&request.fields, "cache-control");
        let no_cache = Directive { name: "no-cache".into(), value: None, is_odd: false };
        let mut found = cache_control(&lines).unwrap_or_else(|| vec![no_cache.clone()]);
        // §5.4
        if lines.is_empty() && all(&request.fields, "pragma").contains(&"no-cache") {
            found.push(no_cache);
        }
        Self(found)
    }

    fn has(&self, name: &str) -> bool {
        named(&self.0, name).is_some()
    }

    fn seconds(&self, name: &str, odd: i64) -> Option<i64> {
        named(&self.0, name).map(|directive| seconds(directive).unwrap_or(odd))
    }

    fn suits(&self, rules: &Rules, entry: &Entry, now: i64) -> bool {
        let age = entry.age(now);
        let is_unchanged =
            named(&entry.directives(rules), "immutable").is_some() && entry.is_fresh(rules, now);
        let is_young = is_unchanged || self.seconds("max-age", 0).is_none_or(|most| age <= most * 1000);
        let rest = (entry.lifetime(rules) * 1000 - age).max(0);
        let stays = self.seconds("min-fresh", MOST).is_none_or(|least| rest >= least * 1000);
        !self.has("no-cache") && is_young && stays
    }
}

/// §5.2.1.5; a field that cannot be read says no-store.
fn says_no_store(request: &Asked) -> bool {
    cache_control(&all(&request.fields, "cache-control"))
        .is_none_or(|found| named(&found, "no-store").is_some())
}

fn has_credentials(request: &Asked) -> bool {
    !all(&request.fields, "authorization").is_empty()
}

impl Model {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, entries: Vec::new(), stored: 0 }
    }

    /// Handles a request at a time; the service is told whether it is asked with conditions.
    pub(crate) fn handle(
        &mut self,
        request: &Asked,
        now: i64,
        service: &mut dyn FnMut(bool) -> Option<Told>,
    ) -> String {
        let rules = self.rules;
        let is_plain = ["GET", "HEAD"].contains(&&*request.method)
            && !request.has_body
            && all(&request.fields, "if-match").is_empty();
        if !is_plain {
            return self.pass(request, service);
        }
        let wanted = Wanted::of(&rules, request);
        let Some(entry) = self.select(request) else {
            if wanted.has("only-if-cached") {
                return "unavailable".into();
            }
            let why = if self.entries.iter().any(|entry| entry.path == request.path) {
                "vary-miss"
            } else {
                "uri-miss"
            };
            let has_conditions = ["if-none-match", "if-modified-since"]
                .iter()
                .any(|name| !all(&request.fields, name).is_empty());
            return match service(has_conditions) {
                Some(told) => {
                    if request.method == "GET" {
                        self.keep(request, &told);
                    }
                    format!("fetched {why} {}", told.status)
                }
                None => "failed".into(),
            };
        };
        match self.reuse(&wanted, &entry, now) {
            Some(refresh) => {
                let how = if refresh { "served and fetched again" } else { "served" };
                let seen = format!("{how} {}", self.served(request, &entry, now));
                if refresh {
                    self.validate(request, entry, now, service);
                }
                seen
            }
            None if wanted.has("only-if-cached") => "unavailable".into(),
            None => self.validate(request, entry, now, service),
        }
    }

    /// §4, §4.2.4: whether the stored response is used as it is, and whether it is fetched again beside that.
    fn reuse(&self, wanted: &Wanted, entry: &Entry, now: i64) -> Option<bool> {
        let rules = &self.rules;
        if is_whole(&entry.directives(rules), "no-cache") || !wanted.suits(rules, entry, now) {
            return None;
        }
        if entry.is_fresh(rules, now) {
            return Some(false);
        }
        let any = named(&wanted.0, "max-stale")
            .is_some_and(|directive| directive.value.is_none() && !directive.is_odd);
        let most = if any { Some(MOST) } else { wanted.seconds("max-stale", 0) };
        let is_allowed = most.is_some_and(|most| most > 0 && entry.staleness(rules, now) <= most * 1000);
        if is_allowed && !entry.forbids_stale(rules) && !entry.has_s_maxage(rules) {
            return Some(false);
        }
        let takes_stale = !wanted.has("max-age") && !wanted.has("min-fresh");
        (takes_stale && entry.is_used_while_revalidated(rules, now)).then_some(true)
    }

    /// §4.1.
    fn select(&self, request: &Asked) -> Option<Entry> {
        let fits = |entry: &&Entry| {
            let names: Vec<_> = entry.selecting.iter().map(|(name, _)| name.clone()).collect();
            entry.path == request.path && selecting(&names, &request.fields) == entry.selecting
        };
        self.entries.iter().rev().find(fits).cloned()
    }

    fn served(&self, request: &Asked, entry: &Entry, now: i64) -> String {
        let rules = &self.rules;
        let (age, is_fresh) = ((entry.age(now) / 1000).min(MOST), entry.is_fresh(rules, now));
        let status = if self.is_known(request, entry) { 304 } else { entry.status };
        let mut fields = entry.fields.clone();
        // RFC 9110 §15.4.5
        fields.retain(|(name, _)| status != 304 || name != "content-encoding");
        let number = entry.number;
        let fields = shown(fields);
        format!("{number} age {age} fresh {is_fresh} status {status} {fields}")
    }

    /// §4.3.2.
    fn is_known(&self, request: &Asked, entry: &Entry) -> bool {
        let tags = all(&request.fields, "if-none-match");
        if !(200..300).contains(&entry.status) {
            return false;
        }
        if !tags.is_empty() {
            let mut members = tags.iter().flat_map(|line| line.split(',')).map(str::trim);
            return members.any(|tag| tag == "*" || entry.etag().is_some_and(|etag| is_weakly(&etag, tag)));
        }
        match all(&request.fields, "if-modified-since")[..] {
            [since] => date(since).is_some_and(|since| entry.modified().unwrap_or(entry.date()) <= since),
            _ => false,
        }
    }

    /// §4.3.
    fn validate(
        &mut self,
        request: &Asked,
        entry: Entry,
        now: i64,
        service: &mut dyn FnMut(bool) -> Option<Told>,
    ) -> String {
        let wanted = &Wanted::of(&self.rules, request);
        let can_be_validated = entry.etag().is_some() || entry.modified().is_some();
        let is_fresh =
            entry.is_fresh(&self.rules, now) && !is_whole(&entry.directives(&self.rules), "no-cache");
        let why = if is_fresh { "request" } else { "stale" };
        let Some(mut told) = service(can_be_validated) else {
            return match self.on_failure(wanted, &entry, None, now) {
                true => format!("on failure {}", self.served(request, &entry, now)),
                false => "failed".into(),
            };
        };
        if told.status == 304 && !is_about(&entry, &told) {
            match service(false) {
                Some(again) => told = again,
                None => return "failed".into(),
            }
        }
        if told.status != 304 && self.on_failure(wanted, &entry, Some(told.status), told.received) {
            return format!("on failure {}", self.served(request, &entry, told.received));
        }
        if told.status == 304 {
            return self.freshen(request, &entry, &told);
        }
        let is_for_all = !says_no_store(request) && !has_credentials(request);
        if is_for_all && (told.status < 400 || [404, 410].contains(&told.status)) {
            self.entries.retain(|known| known.number != entry.number);
        }
        let mut status = told.status;
        if request.method == "HEAD" {
            self.head(request, &entry, &told);
        } else if let Some(new) = self.keep(request, &told)
            && self.is_known(request, &new)
        {
            status = 304;
        }
        format!("replaced {why} {status}")
    }

    /// §4.3.4.
    fn freshen(&mut self, request: &Asked, entry: &Entry, told: &Told) -> String {
        let new = self.updated(entry, told);
        let as_get = Asked { method: "GET".into(), ..request.clone() };
        let seen = |new: &Entry| format!("validated {}", self.served(request, new, told.received));
        let refused =
            self.refuses(&as_get, &new).or_else(|| self.refuses_update(request, told, entry.status));
        if refused.is_none() && vary(&new.fields) == vary(&entry.fields) {
            let seen = seen(&new);
            let place = self.entries.iter_mut().find(|known| known.number == entry.number);
            *place.expect("it was selected") = new;
            return seen;
        }
        // A response that is not stored keeps all fields for its client.
        let seen = seen(&Entry { fields: merged(entry, self.passed_fields(told)), ..new });
        match refused {
            None => self.entries.retain(|known| known.path != entry.path),
            Some(is_of_response) => {
                if is_of_response {
                    self.entries.retain(|known| known.number != entry.number);
                }
            }
        }
        seen
    }

    /// §4.3.5.
    fn head(&mut self, request: &Asked, entry: &Entry, told: &Told) {
        if told.status != 200 || entry.status != 200 || says_no_store(request) || has_credentials(request) {
            return;
        }
        let new = self.updated(entry, told);
        let is_same = etag(&told.fields)
            .is_none_or(|tag| entry.etag().is_some_and(|known| is_weakly(&known, &tag)))
            && modified(told).is_none_or(|date| entry.modified() == Some(date));
        let as_get = Asked { method: "GET".into(), ..request.clone() };
        self.entries.retain(|known| known.number != entry.number);
        let is_refused = self.refuses(&as_get, &new).is_some()
            || self.refuses_update(request, told, entry.status).is_some();
        if is_same && !is_refused && vary(&new.fields) == vary(&entry.fields) {
            self.entries.push(new);
        }
    }

    /// §3.2.
    fn updated(&self, entry: &Entry, told: &Told) -> Entry {
        let told_age = told_age(told);
        let fields = self.without_listed(merged(entry, self.stored_fields(told)));
        Entry { fields, told_age, requested: told.requested, received: told.received, ..entry.clone() }
    }

    /// RFC 5861 §4, RFC 9111 §4.2.4.
    fn on_failure(&self, wanted: &Wanted, entry: &Entry, status: Option<u16>, now: i64) -> bool {
        let rules = &self.rules;
        if wanted.has("no-cache") || is_whole(&entry.directives(rules), "no-cache") {
            return false;
        }
        if status.is_some_and(|status| ![500, 502, 503, 504].contains(&status)) {
            return false;
        }
        if entry.is_fresh(rules, now) {
            return wanted.suits(rules, entry, now);
        }
        let mut window = entry.window(rules, "stale-if-error", 0);
        if !entry.has_s_maxage(rules) {
            window = window.max(wanted.seconds("stale-if-error", 0).unwrap_or(0));
            window = window.max(if status.is_none() { rules.stale_when_unreachable } else { 0 });
        }
        !entry.forbids_stale(rules) && window > 0 && entry.staleness(rules, now) <= window * 1000
    }

    /// §4.4, §9.2.1 of RFC 9110.
    fn pass(&mut self, request: &Asked, service: &mut dyn FnMut(bool) -> Option<Told>) -> String {
        let has_conditions =
            ["if-none-match", "if-modified-since"].iter().any(|name| !all(&request.fields, name).is_empty());
        let Some(told) = service(has_conditions) else { return "failed".into() };
        let is_safe = ["GET", "HEAD", "OPTIONS", "TRACE"].contains(&&*request.method);
        if !is_safe && (200..400).contains(&told.status) {
            let mut gone = vec![request.path.clone()];
            for name in ["location", "content-location"] {
                // The tests write absolute paths and URLs of this and another host.
                let reference =
                    all(&told.fields, name).last().map(|text| text.replace("http://a.example/", "/"));
                gone.extend(reference.filter(|text| text.starts_with('/')));
            }
            self.entries.retain(|entry| !gone.contains(&entry.path));
        }
        format!("passed {}", told.status)
    }

    /// §3.
    fn keep(&mut self, request: &Asked, told: &Told) -> Option<Entry> {
        let names = vary(&told.fields).unwrap_or_else(|| vec!["*".into()]);
        let mut new = Entry {
            number: self.stored + 1,
            path: request.path.clone(),
            selecting: selecting(&names, &request.fields),
            status: told.status,
            fields: told.fields.clone(),
            told_age: told_age(told),
            requested: told.requested,
            received: told.received,
        };
        if self.refuses(request, &new).is_some() {
            return None;
        }
        new.fields = self.stored_fields(told);
        self.stored += 1;
        // The newest response says what there are variants by.
        self.entries.retain(|known| {
            known.path != new.path
                || vary(&known.fields) == vary(&new.fields) && known.selecting != new.selecting
        });
        self.entries.push(new.clone());
        Some(new)
    }

    /// Why a response is not stored: because of the response (true) or of the request (false).
    fn refuses(&self, request: &Asked, entry: &Entry) -> Option<bool> {
        let rules = &self.rules;
        if request.method != "GET" || request.has_body || says_no_store(request) {
            return Some(false);
        }
        if entry.status < 200 || entry.status == 304 {
            return Some(true);
        }
        let Some((directives, _)) = response_directives(rules, &entry.fields) else { return Some(true) };
        let has = |name: &str| named(&directives, name).is_some();
        let may = |name: &str| {
            directives.iter().any(|known| known.name == name && known.value.is_none() && !known.is_odd)
        };
        let understood = ![299, 599].contains(&entry.status);
        if may("must-understand") && !understood || has("no-store") && !may("must-understand") {
            return Some(true);
        }
        if is_whole(&directives, "private") {
            return Some(true);
        }
        // §3.5
        let s_maxage = named(&directives, "s-maxage");
        let is_for_all =
            may("public") || has("must-revalidate") || s_maxage.is_some_and(|d| seconds(d).is_some());
        if has_credentials(request) && !is_for_all {
            return Some(false);
        }
        if !rules.strips_cookies && !all(&entry.fields, "set-cookie").is_empty()
            || vary(&entry.fields).is_none()
        {
            return Some(true);
        }
        let has_expires =
            !all(&entry.fields, "expires").is_empty() && !response_directives(rules, &entry.fields)?.1;
        let is_stated = has("max-age") || s_maxage.is_some() || has_expires;
        let is_heuristic = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501].contains(&entry.status);
        if !is_stated && !may("public") && !is_heuristic {
            return Some(true);
        }
        (!self.is_of_use(entry, &directives)).then_some(true)
    }

    /// Why a newer response may not change the fields of a stored one: because of the response (true) or of the
    /// request (false). Only the newer response's directives count, not those of the stored one.
    fn refuses_update(&self, request: &Asked, told: &Told, status: u16) -> Option<bool> {
        let Some((directives, _)) = response_directives(&self.rules, &told.fields) else { return Some(true) };
        let has = |name: &str| named(&directives, name).is_some();
        let may = |name: &str| {
            directives.iter().any(|known| known.name == name && known.value.is_none() && !known.is_odd)
        };
        let understood = ![299, 599].contains(&status);
        let sets_cookie = !self.rules.strips_cookies && !all(&told.fields, "set-cookie").is_empty();
        if may("must-understand") && !understood
            || has("no-store") && !may("must-understand")
            || is_whole(&directives, "private")
            || sets_cookie
        {
            return Some(true);
        }
        let is_for_all = may("public")
            || has("must-revalidate")
            || named(&directives, "s-maxage").is_some_and(|d| seconds(d).is_some());
        (has_credentials(request) && !is_for_all).then_some(false)
    }

    /// What can never be used is not kept.
    fn is_of_use(&self, entry: &Entry, directives: &[Directive]) -> bool {
        let rules = &self.rules;
        if entry.etag().is_some() || entry.modified().is_some() {
            return true;
        }
        if is_whole(directives, "no-cache") {
            return false;
        }
        let now = entry.received;
        let states =
            |name: &str| directives.iter().any(|known| known.name == name && seconds(known).is_some());
        let may_be_stale =
            entry.lifetime(rules) > 0 || states("stale-while-revalidate") || states("stale-if-error");
        let window = entry
            .window(rules, "stale-while-revalidate", rules.stale_while_revalidate)
            .max(entry.window(rules, "stale-if-error", rules.stale_when_unreachable));
        let is_usable_stale =
            !entry.forbids_stale(rules) && may_be_stale && entry.staleness(rules, now) < window * 1000;
        entry.is_fresh(rules, now) || is_usable_stale
    }

    /// §3.1, §5.2.2.4, §5.2.2.7.
    fn stored_fields(&self, told: &Told) -> Fields {
        let mut fields = self.passed_fields(told);
        fields.retain(|(name, _)| name != "set-cookie");
        self.without_listed(fields)
    }

    /// The fields that are forwarded to the client (RFC 9110 §7.6.1), with `Date`.
    fn passed_fields(&self, told: &Told) -> Fields {
        let nominated = all(&told.fields, "connection").join(",").to_ascii_lowercase();
        let nominated: Vec<_> = nominated.split(',').map(str::trim).collect();
        let hop = ["connection", "keep-alive", "transfer-encoding", "upgrade", "te", "age", "content-length"];
        let mut fields: Fields = Vec::new();
        for (name, value) in &told.fields {
            let name = name.to_ascii_lowercase();
            if !hop.contains(&&*name) && !nominated.contains(&&*name) {
                fields.push((name, value.clone()));
            }
        }
        let dated = all(&fields, "date").first().is_some_and(|text| date(text).is_some());
        if !dated {
            fields.retain(|(name, _)| name != "date");
            let received = UNIX_EPOCH + std::time::Duration::from_millis(told.received as u64);
            fields.push(("date".into(), httpdate::fmt_http_date(received)));
        }
        fields
    }

    fn without_listed(&self, mut fields: Fields) -> Fields {
        if let Some((directives, _)) = response_directives(&self.rules, &fields) {
            let names = directives.iter().filter(|known| ["no-cache", "private"].contains(&&*known.name));
            let names: Vec<_> = names.flat_map(listed).collect();
            fields.retain(|(name, _)| !names.contains(name));
        }
        fields
    }
}

/// §3.2: the fields of an entry, and newer ones in place of theirs.
fn merged(entry: &Entry, newer: Fields) -> Fields {
    let of_body = ["content-encoding", "content-range"];
    let newer: Fields = newer.into_iter().filter(|(name, _)| !of_body.contains(&&**name)).collect();
    let mut fields: Fields =
        entry.fields.iter().filter(|(name, _)| all(&newer, name).is_empty()).cloned().collect();
    fields.extend(newer);
    fields
}

fn told_age(told: &Told) -> i64 {
    let first = all(&told.fields, "age").first().copied().unwrap_or_default();
    delta_seconds(first.split(',').next().unwrap_or_default().trim()).unwrap_or(0)
}

fn modified(told: &Told) -> Option<i64> {
    all(&told.fields, "last-modified").last().and_then(|text| date(text))
}

/// §4.3.4.
fn is_about(entry: &Entry, told: &Told) -> bool {
    match (etag(&told.fields), entry.etag()) {
        (Some(new), Some(known)) => is_weakly(&new, &known),
        (Some(_), None) => false,
        (None, _) => modified(told).is_none() || modified(told) == entry.modified(),
    }
}
