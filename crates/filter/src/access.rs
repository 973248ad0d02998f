//! `access: { deny: [ 192.0.2.0/24, { list: blocked } ] }`: who may pass, by address, country, header or path.
//!
//! The rule: what is denied does not pass, whatever is allowed; and where something is allowed, nothing else passes.
//! The address is the client's as `trusted_proxies` lets it be seen. What decides is in the crate `access`; this
//! translates.

mod spec;

pub use spec::{AddressRulesSpec, MembersSpec};

use crate::filter::{Upkeep, UpkeepTools};
use crate::when::When;
use crate::{ConfigFiles, Facts, FieldView, Filter, Hooks, OneOrManySpec, RequestCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use spec::{Side, databases};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use thalweg_access::sources::keep_fresh;
use thalweg_core::{Fault, FaultKind};

/// What clients are told.
const DENIED: &str = "the configuration does not let this client pass";
/// The same words as for a path that no route has.
const NOT_FOUND: &str = "no route matches";

/// Who may pass. What is in `deny` does not pass; where `allow` is written, nothing else than what is in it passes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `allow` and `deny`")]
pub struct AccessSpec {
    /// What passes: networks, or maps with one of `list`, `file`, `url`, `country`, `asn`, `header` and `path`.
    #[schemars(extend("x-default-words" = "everything"))]
    allow: Option<MembersSpec>,
    /// What does not pass, likewise.
    #[schemars(extend("x-default-words" = "nothing"))]
    deny: Option<MembersSpec>,
    /// Databases in MaxMind's format (MMDB) that know countries and autonomous systems; they are read again when they
    /// are replaced.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    geo_file: Option<OneOrManySpec<String>>,
    /// What clients get that do not pass: `403`, `404` as where there is nothing, or `close`, which ends the connection
    /// without an answer (over HTTP/2 the stream).
    #[schemars(extend("x-default" = 403))]
    status: Option<RefusalSpec>,
    /// Nobody is refused; the access log and decision records say who would be.
    #[schemars(extend("x-default" = false))]
    dry_run: bool,
}

/// What clients get that do not pass.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`403`, `404` or `close`")]
enum RefusalSpec {
    /// A status.
    Status(#[schemars(extend("enum" = [403, 404]))] u16),
    /// A word.
    Word(#[schemars(extend("enum" = ["close"]))] String),
}

impl AccessSpec {
    /// Checks it and reads lists and databases.
    ///
    /// # Errors
    /// A sentence: something is wrong, or a list cannot be read.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        if self.allow.is_none() && self.deny.is_none() {
            return Err("`access` says nothing; write `allow` or `deny`".into());
        }
        let databases = databases(self.geo_file.as_ref(), files)?;
        let side = |members: &Option<MembersSpec>| {
            members.as_ref().map(|members| members.side(files, &databases)).transpose()
        };
        let status = match &self.status {
            None | Some(RefusalSpec::Status(403)) => 403,
            Some(RefusalSpec::Status(404)) => 404,
            Some(RefusalSpec::Word(word)) if word == "close" => Fault::NO_ANSWER,
            Some(_) => return Err("`status` is none of 403, 404 and `close`".into()),
        };
        let (allow, deny) = (side(&self.allow)?, side(&self.deny)?);
        let mut words = Vec::new();
        let written = [("allow", &self.allow), ("deny", &self.deny)];
        words
            .extend(written.iter().filter_map(|(key, members)| Some(format!("{key} {}", members.as_ref()?))));
        match status {
            403 => {}
            404 => words.push("status 404".into()),
            _ => words.push("close".into()),
        }
        if self.dry_run {
            words.push("dry run".into());
        }
        let text = words.join(", ");
        Ok(Arc::new(Access { allow, deny: deny.unwrap_or_default(), status, dry_run: self.dry_run, text }))
    }
}

#[derive(Debug)]
struct Access {
    allow: Option<Side>,
    deny: Side,
    /// [`Fault::NO_ANSWER`]: the connection is closed.
    status: u16,
    dry_run: bool,
    text: String,
}

impl Access {
    /// Why the request does not pass.
    fn refusal(&self, cx: &RequestCx<'_>) -> Option<String> {
        if let Some(found) = self.deny.find(cx) {
            return Some(format!("{} is denied: {found}", cx.facts.client_ip));
        }
        let allow = self.allow.as_ref()?;
        let is_allowed = allow.addresses.contains(cx.facts.client_ip)
            || allow.fitting(cx, When::fits_in_every_reading).is_some();
        (!is_allowed).then(|| format!("{} is not allowed", cx.facts.client_ip))
    }
}

impl Filter for Access {
    fn name(&self) -> &'static str {
        "access"
    }

    fn argument(&self) -> String {
        self.text.clone()
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn guards(&self) -> bool {
        !self.dry_run
    }

    fn restricts(&self) -> bool {
        self.guards()
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        let has_sources = |side: &Side| side.addresses.has_sources();
        (has_sources(&self.deny) || self.allow.as_ref().is_some_and(has_sources)).then(list_upkeep)
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let Some(reason) = self.refusal(cx) else { return Verdict::Continue };
        if self.dry_run {
            cx.explain(format!("`access` would refuse it: {reason}"));
            return Verdict::Continue;
        }
        match self.status {
            404 => {
                cx.explain(reason);
                Verdict::Fault(Fault::new(FaultKind::DestinationNotFound, NOT_FOUND))
            }
            status => cx.refuse(status, DENIED, reason),
        }
    }
}

/// What reads lists and databases again: one for all that name some.
pub fn list_upkeep() -> Arc<dyn Upkeep> {
    static ONE: OnceLock<Arc<Lists>> = OnceLock::new();
    ONE.get_or_init(|| Arc::new(Lists)).clone()
}

#[derive(Debug)]
struct Lists;

impl Upkeep for Lists {
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { keep_fresh(|notice| (tools.say)(notice)).await })
    }
}

/// Tests a condition against one, any or all readings of a path.
type Fits = fn(&When, &Facts<'_>, FieldView<'_>) -> bool;

impl Side {
    /// What of it has the request, in words.
    fn find(&self, cx: &RequestCx<'_>) -> Option<String> {
        let found = self.addresses.find(cx.facts.client_ip);
        found.or_else(|| self.fitting(cx, When::fits_in_some_reading).cloned())
    }

    fn fitting(&self, cx: &RequestCx<'_>, fits: Fits) -> Option<&String> {
        let fits = |when: &When| fits(when, &cx.facts, cx.fields.view());
        self.requests.iter().find(|(when, _)| fits(when)).map(|(_, label)| label)
    }
}

#[cfg(test)]
mod tests;
