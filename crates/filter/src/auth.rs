//! `auth:` lets those pass who prove who they are.
//!
//! One file per way to prove it (a [`Method`]) under `auth/`, and one line in the `methods!` list below. This file is
//! what they share: the walk over `any:` and `all:`, answers to those who do not pass, what the service is told, and
//! that credentials do not go on.
//!
//! Invariant: fields of `forward`, and those that methods write, never come from a client, whatever becomes of the
//! request.

mod api_key;
mod authorization;
mod basic;
mod credential_place;
mod forward;
mod forward_auth;
mod jwt;
#[cfg(test)]
mod more_tests;
mod mtls;
mod network;
mod oidc;
mod query;
mod require;
mod signed_url;
#[cfg(test)]
mod tests;
mod together;

use crate::filter::Upkeep;
use crate::{
    ConfigFiles, Filter, Hooks, Identity, Job, JobResult, Reply, RequestCx, ResponseCx, TemplateSpec, Verdict,
};
use forward::Forward;
use require::{Require, RequireSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use thalweg_access::{Attempts, WRONG};
use thalweg_core::Fault;
use together::Together;

/// Methods that `any` and `all` may have.
const METHODS: usize = 16;
/// Bytes that a realm may have.
const REALM: usize = 128;
/// The realm, where none is written.
const DEFAULT_REALM: &str = "restricted";

/// A way to prove who a client is.
pub(crate) trait Method: Any + Debug + Send + Sync {
    /// The word in the configuration.
    fn name(&self) -> &'static str;

    /// Its argument on one line, for people; no secret.
    fn argument(&self) -> String;

    /// What `WWW-Authenticate` of a 401 says of it; `None`: nothing that a client could be asked for.
    fn challenge(&self, _realm: &str) -> Option<String> {
        None
    }

    /// The field in which it looks for a credential, besides `Authorization` and `Cookie`.
    fn credential_field(&self) -> Option<&str> {
        None
    }

    /// Called for each request. What it remembers (`cx.remember`) is its own.
    fn check(&self, cx: &mut RequestCx<'_>) -> Finding;

    /// Called when what [`Finding::Wait`] has asked for is there, or was not to be had.
    fn resume(&self, _cx: &mut RequestCx<'_>, _got: JobResult) -> Finding {
        Finding::refused(401, "the credential could not be checked", "a method was resumed that did not wait")
    }

    /// Removes the credential from what goes upstream, that of a client that another method has verified too.
    fn strip(&self, cx: &mut RequestCx<'_>);

    /// Removes what clients have sent in fields by which this method tells the service something, unless it has told
    /// it. Called for each request that goes on, whichever methods know the client.
    fn remove_forged(&self, _cx: &mut RequestCx<'_>) {}

    /// Fields that the method sets for the service.
    fn own_fields(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether [`Self::on_response`] is to be called.
    fn sees_responses(&self) -> bool {
        false
    }

    /// Called with the head of the final response, unless the filter has given it itself.
    fn on_response(&self, _cx: &mut ResponseCx<'_>) {}

    /// See [`Filter::decides_by_route`].
    fn decides_by_route(&self) -> bool {
        false
    }

    /// Services that it asks.
    fn calls(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Work beside the requests.
    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        None
    }

    /// Takes over the live state of the one that stood in its place; of any kind. May be called several times.
    fn adopt(&self, _former: &dyn Method) {}
}

/// What a method has found out about a request.
#[derive(Debug)]
pub(crate) enum Finding {
    /// Who the client is.
    Verified(Identity),
    /// There is no credential of this kind.
    Absent,
    /// The credential is wrong.
    Refused {
        /// Of the answer; those of 401 get the challenges of all methods.
        status: u16,
        /// For the client.
        detail: &'static str,
        /// For the operator; no credential.
        reason: Cow<'static, str>,
    },
    /// The client gets this answer, such as a redirect to a login.
    Reply(Box<Reply>),
    /// The exchange waits; then the method is resumed.
    Wait(Job),
    /// The client gets the answer of this fault.
    Fault(Fault),
}

impl Finding {
    /// The credential is wrong.
    pub(crate) fn refused(status: u16, detail: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused { status, detail, reason: reason.into() }
    }
}

/// Declares every method: the key in the configuration, its Spec, and what it does.
macro_rules! methods {
    ($( $(#[doc = $doc:literal])+ $key:ident: $spec:ty, )*) => {
        /// Who may pass, and what the service is told of them.
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        #[serde(
            deny_unknown_fields,
            default,
            expecting = "a map with a method such as `basic`, or with `any` or `all` and a list of methods"
        )]
        pub struct AuthSpec {
            $( $(#[doc = $doc])+
            #[schemars(extend("x-default-words" = "not used"))]
            $key: Option<$spec>, )*
            /// Methods one of which must know the client. They are asked in their order; one that finds a wrong
            /// credential of its kind refuses the request.
            #[schemars(extend("x-default-words" = "not used", "minItems" = 1, "maxItems" = METHODS))]
            any: Option<Vec<MethodSpec>>,
            /// Methods all of which must know the client.
            #[schemars(extend("x-default-words" = "not used", "minItems" = 1, "maxItems" = METHODS))]
            all: Option<Vec<MethodSpec>>,
            /// What those who are known must have; others get 403.
            #[schemars(extend("x-default-words" = "nothing"))]
            require: Option<RequireSpec>,
            /// Fields that tell the service what was verified, and what they say, with placeholders: `X-User:
            /// "{user}"`, `X-Plan: "{claim.plan}"`. What clients send in them is removed from every request, and names
            /// that differ from them only in case and in characters that are neither letters nor digits count as the
            /// same. A field that would be empty is not sent. A client gets 401 if its name, or a claim that is
            /// forwarded, has a control character or white space at an edge: the field would tell the name of another.
            /// Of a list, elements with white space are left out.
            #[schemars(extend("x-default-words" = "none"))]
            #[schemars(extend("x-named" = true, "x-sent" = true))]
            forward: BTreeMap<String, TemplateSpec>,
            /// Whether the credentials of clients go on to the service.
            #[schemars(extend("x-default" = false))]
            keep_credentials: bool,
            /// What clients are told that they need a credential for, in `WWW-Authenticate`.
            #[schemars(extend("x-default" = DEFAULT_REALM))]
            realm: Option<String>,
            /// Whether those who would be refused pass nevertheless; the access log and the decision record say why
            /// they would have been.
            #[schemars(extend("x-default" = false))]
            dry_run: bool,
        }

        /// A method of a list.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[schemars(rename = "AuthMethodSpec")]
        #[expect(non_camel_case_types, reason = "the variant is the key that users write")]
        pub(crate) enum MethodSpec { $( $(#[doc = $doc])+ $key($spec), )* }

        impl MethodSpec {
            fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
                match self { $( Self::$key(spec) => spec.build(files), )* }
            }
        }

        impl AuthSpec {
            /// Methods that stand alone.
            fn alone(&self) -> Vec<MethodSpec> {
                let mut found = Vec::new();
                $( found.extend(self.$key.clone().map(MethodSpec::$key)); )*
                found
            }
        }

        /// The words of all methods.
        const NAMES: &[&str] = &[ $( stringify!($key), )* ];
    };
}

methods! {
    /// User and password, as browsers ask for them (RFC 7617).
    basic: basic::BasicSpec,
    /// A key of a program, in a field, as a Bearer token, or in the query.
    api_key: api_key::ApiKeySpec,
    /// The certificate that the client has shown in its TLS handshake, and the listener has verified.
    mtls: mtls::MtlsSpec,
    /// Links that somebody with a key has signed, good until a time.
    signed_url: signed_url::SignedUrlSpec,
    /// Another service decides, as in Traefik and nginx's `auth_request`.
    forward_auth: forward_auth::ForwardAuthSpec,
    /// A signed token (JWT, RFC 7519).
    jwt: jwt::JwtSpec,
    /// Clients of these networks, without a credential: beside other methods in `any`.
    network: network::KnownNetworksSpec,
    /// Browsers log in with an identity provider (OpenID Connect), and have a session in cookies.
    oidc: oidc::OidcSpec,
}

impl AuthSpec {
    /// Checks the methods and what belongs to them.
    ///
    /// # Errors
    /// A sentence that names what is wrong and the remedy.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        let (methods, needs) = self.chosen()?;
        if methods.is_empty() || methods.len() > METHODS {
            return Err(format!("`{}` takes from 1 to {METHODS} methods", needs.word()));
        }
        let methods = methods.iter().map(|spec| spec.build(files)).collect::<Result<Box<[_]>, _>>()?;
        let realm = self.realm.as_deref().unwrap_or(DEFAULT_REALM);
        if realm.is_empty() || realm.len() > REALM || !realm.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(format!("`realm` has from 1 to {REALM} characters of ASCII"));
        }
        Ok(Arc::new(Auth {
            upkeep: Mutex::new(Together::of(&methods)),
            methods,
            needs,
            require: self.require.as_ref().map(RequireSpec::build).transpose()?,
            forward: Forward::new(&self.forward)?,
            keeps_credentials: self.keep_credentials,
            realm: realm.replace('\\', "\\\\").replace('"', "\\\"").into(),
            is_dry: self.dry_run,
        }))
    }

    fn chosen(&self) -> Result<(Vec<MethodSpec>, Needs), String> {
        let alone = self.alone();
        match (&*alone, &self.any, &self.all) {
            ([_], None, None) => Ok((alone, Needs::All)),
            ([], Some(methods), None) => Ok((methods.clone(), Needs::Any)),
            ([], None, Some(methods)) => Ok((methods.clone(), Needs::All)),
            ([], None, None) => Err(format!(
                "`auth` has no method; write one of {}, or `any` or `all` with a list of them",
                NAMES.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            )),
            _ => Err("`auth` takes one method, or `any`, or `all`; write several methods as a list: \
                      `any: [ { basic: … }, … ]`"
                .into()),
        }
    }
}

/// How many of the methods must know a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Needs {
    Any,
    All,
}

impl Needs {
    fn word(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::All => "all",
        }
    }
}

#[derive(Debug)]
struct Auth {
    methods: Box<[Arc<dyn Method>]>,
    needs: Needs,
    require: Option<Require>,
    forward: Forward,
    keeps_credentials: bool,
    /// As it stands between quotes.
    realm: Box<str>,
    is_dry: bool,
    /// The same one as long as what it consists of is the same.
    upkeep: Mutex<Option<Arc<Together>>>,
}

/// How far the methods were asked: remembered while one waits.
#[derive(Debug, Default)]
struct Walk {
    /// The method that is asked.
    at: usize,
    /// What those before it have verified.
    verified: Option<Identity>,
}

impl Filter for Auth {
    fn name(&self) -> &'static str {
        "auth"
    }

    fn argument(&self) -> String {
        let methods: Vec<String> =
            self.methods.iter().map(|method| format!("{} ({})", method.name(), method.argument())).collect();
        let mut words = vec![match (&*methods, self.needs) {
            ([_], _) => methods.concat(),
            (_, needs) => format!("{} of {}", needs.word(), methods.join(", ")),
        }];
        words.extend(self.require.as_ref().map(ToString::to_string));
        words.extend(self.forward.words());
        words.extend(self.keeps_credentials.then(|| "keeps credentials".to_owned()));
        words.extend((*self.realm != *DEFAULT_REALM).then(|| format!("realm \"{}\"", self.realm)));
        words.extend(self.is_dry.then(|| "dry run".to_owned()));
        words.join(", ")
    }

    fn hooks(&self) -> Hooks {
        if self.methods.iter().any(|method| method.sees_responses()) { Hooks::BOTH } else { Hooks::REQUEST }
    }

    fn guards(&self) -> bool {
        !self.is_dry
    }

    fn restricts(&self) -> bool {
        self.guards()
    }

    fn decides_by_route(&self) -> bool {
        self.methods.iter().any(|method| method.decides_by_route())
    }

    fn verifies(&self) -> bool {
        true
    }

    fn captures(&self) -> Vec<String> {
        self.forward.captures()
    }

    fn credential_fields(&self) -> Vec<&str> {
        self.methods.iter().filter_map(|method| method.credential_field()).collect()
    }

    fn own_fields(&self) -> Vec<&str> {
        self.methods.iter().flat_map(|method| method.own_fields()).chain(self.forward.names()).collect()
    }

    fn calls(&self) -> Vec<Arc<str>> {
        self.methods.iter().flat_map(|method| method.calls()).collect()
    }

    fn adopt(&self, former: &dyn Filter) {
        let Some(former) = (former as &dyn Any).downcast_ref::<Self>() else { return };
        let mut left: Vec<_> = former.methods.iter().collect();
        for method in &self.methods {
            let is_it = |old: &&Arc<dyn Method>| old.name() == method.name();
            if let Some(at) = left.iter().position(is_it) {
                method.adopt(&**left.remove(at));
            }
        }
        let now = Together::of(&self.methods);
        let before = former.upkeep.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_same = Together::is_same(now.as_deref(), before.as_deref());
        *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner) = if is_same { before } else { now };
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        let upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).clone();
        upkeep.map(|upkeep| upkeep as Arc<dyn Upkeep>)
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        self.forward.remove_all(cx);
        self.walk(cx, Walk::default(), None)
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Verdict {
        let walk = cx.recall::<Walk>().unwrap_or_default();
        let Some(method) = self.methods.get(walk.at) else { return self.walk(cx, walk, None) };
        let found = part(cx, walk.at, |cx| method.resume(cx, got));
        self.walk(cx, walk, Some(found))
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        for (at, method) in self.methods.iter().enumerate().rev() {
            if method.sees_responses() {
                cx.part = at as u16 + 1;
                method.on_response(cx);
                cx.part = 0;
            }
        }
    }
}

/// Counts a credential that was found wrong, except in a dry run.
///
/// # Errors
/// The client's network has sent too many: the time until its window ends.
fn count_wrong(
    cx: &RequestCx<'_>,
    attempts: &RwLock<Arc<Attempts>>,
    credential: &[u8],
) -> Result<(), Duration> {
    if cx.facts.is_dry_run {
        return Ok(());
    }
    let attempts = attempts.read().unwrap_or_else(PoisonError::into_inner).clone();
    attempts.was_wrong(cx.facts.client_ip, credential, cx.facts.now)
}

/// The refusal of a wrong credential of a network that has sent too many.
fn too_many(cx: &mut RequestCx<'_>, wait: Duration) -> Finding {
    cx.fault_field("Retry-After", (wait.as_secs() + 1).to_string().as_bytes());
    Finding::refused(
        429,
        "too many wrong credentials came from this network",
        format!("{WRONG} wrong credentials of this client's network within a minute"),
    )
}

/// Calls the method at `at`, which remembers for itself.
fn part<T>(cx: &mut RequestCx<'_>, at: usize, call: impl FnOnce(&mut RequestCx<'_>) -> T) -> T {
    cx.part = at as u16 + 1;
    let result = call(cx);
    cx.part = 0;
    result
}

impl Auth {
    /// Asks the methods from `walk.at` on; `found` is what the first of them has found already.
    fn walk(&self, cx: &mut RequestCx<'_>, mut walk: Walk, mut found: Option<Finding>) -> Verdict {
        while let Some(method) = self.methods.get(walk.at) {
            let finding = found.take().unwrap_or_else(|| part(cx, walk.at, |cx| method.check(cx)));
            match finding {
                Finding::Verified(identity) => {
                    match &mut walk.verified {
                        Some(known) => known.merge(identity),
                        none => *none = Some(identity),
                    }
                    if self.needs == Needs::Any {
                        break;
                    }
                }
                Finding::Absent if self.needs == Needs::All => return self.lacks(cx, method.name()),
                Finding::Absent => {}
                Finding::Refused { status, detail, reason } => {
                    let reason = format!("{}: {reason}", method.name());
                    return self.deny(cx, (status, detail), reason.into());
                }
                Finding::Wait(job) => {
                    cx.remember(walk);
                    return Verdict::Wait(job);
                }
                Finding::Reply(_) | Finding::Fault(_) if self.is_dry => {
                    cx.explain(format!("would not pass: {}", method.name()));
                    self.remove_forged(cx);
                    return Verdict::Continue;
                }
                Finding::Reply(reply) => return Verdict::Reply(reply),
                Finding::Fault(fault) => return Verdict::Fault(fault),
            }
            walk.at += 1;
        }
        match walk.verified {
            Some(identity) => self.pass(cx, identity),
            None => {
                let names: Vec<_> = self.methods.iter().map(|method| method.name()).collect();
                self.lacks(cx, &names.join(", "))
            }
        }
    }

    fn remove_forged(&self, cx: &mut RequestCx<'_>) {
        for (at, method) in self.methods.iter().enumerate() {
            part(cx, at, |cx| method.remove_forged(cx));
        }
    }

    fn lacks(&self, cx: &mut RequestCx<'_>, methods: &str) -> Verdict {
        let reason = format!("no credential ({methods})");
        self.deny(cx, (401, "this needs a credential, and the request has none"), reason.into())
    }

    fn deny(
        &self,
        cx: &mut RequestCx<'_>,
        (status, detail): (u16, &'static str),
        reason: Cow<'static, str>,
    ) -> Verdict {
        if self.is_dry {
            cx.explain(format!("would not pass: {reason}"));
            self.remove_forged(cx);
            return Verdict::Continue;
        }
        if status == 401 {
            let mut said = Vec::new();
            for challenge in self.methods.iter().filter_map(|method| method.challenge(&self.realm)) {
                if !said.contains(&challenge) {
                    cx.fault_field("WWW-Authenticate", challenge.as_bytes());
                    said.push(challenge);
                }
            }
        }
        cx.refuse(status, detail, reason)
    }

    /// The client is known: it goes on if it has what is required.
    fn pass(&self, cx: &mut RequestCx<'_>, identity: Identity) -> Verdict {
        let lacking = self.require.as_ref().and_then(|require| require.lacking(&identity));
        cx.identify(identity);
        if let Some(reason) = self.forward.inexact(cx) {
            return self.deny(cx, (401, "the service cannot be told who the client is"), reason.into());
        }
        if let Some(lacking) = lacking
            && let verdict = self.deny(cx, (403, "the client is known and may not do this"), lacking.into())
            && !self.is_dry
        {
            return verdict;
        }
        self.remove_forged(cx);
        if !self.keeps_credentials {
            self.methods.iter().for_each(|method| method.strip(cx));
        }
        self.forward.set(cx);
        Verdict::Continue
    }
}
