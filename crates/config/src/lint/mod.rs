//! What looks like a mistake although the configuration runs: pure checks of one file, shown as warnings.
//!
//! Called by `compile` when nothing was wrong, so `check`, `run`, a reload and a configuration that arrives by API all
//! show the same. Each check is one file and one line of the list; none of them may warn of what somebody would
//! write on purpose. Checks that look at the machine (ports, files, names) belong to the binary.

mod certificate_expired;
mod certificate_expires;
mod certificate_lacks_name;
mod certificate_twice;
mod client_ca_expired;
mod crl_expired;
mod endpoint_is_listener;
mod endpoints_partly_secure;
mod insecure_skip_verify;
mod limits_contradict;
mod redirect_to_itself;
mod redirect_without_tls;
mod route_never_matches;
mod setting_ignored;
mod timeouts_contradict;
mod trusts_everyone;
mod unfinished;
mod webhook_twice;
mod weight_zero;
mod word_misspelt;

pub(crate) use unfinished::unfinished;

use crate::diagnose::Problems;
use crate::source::Span;
use crate::spec::{CertificateSpec, ClientAuthSpec, FileSpec, ToSpec};
use std::borrow::Cow;
use std::time::SystemTime;
use thalweg_proxy::plan::Plan;
use thalweg_route::RouteMatch;
use thalweg_tls::{Certificate, ClientAuth};

/// What the checks look at: a configuration without errors, as written and as compiled, in the same order.
pub(crate) struct Subject<'a> {
    pub(crate) spec: &'a FileSpec,
    pub(crate) plan: &'a Plan,
    pub(crate) matches: &'a [RouteMatch],
    /// When the certificates have to hold.
    pub(crate) now: SystemTime,
}

macro_rules! lints {
    ({ $( $name:ident $summary:literal; )* } $( $code:literal $words:literal; )*) => {
        const LINTS: &[fn(&Subject<'_>, &mut Problems)] = &[ $( $name::$name ),* ];

        /// The words of all warnings about a file and what each of them says. These words stay.
        pub const WARNINGS: &[(&str, &str)] =
            &[ $( (stringify!($name), $summary), )* $( ($code, $words), )* ];
    };
}

lints! {
  {
    route_never_matches "another route takes every request that this one could take, or no request can look like this";
    timeouts_contradict "a deadline that can never run out, because one around it is shorter";
    limits_contradict "a bound that can never be reached, because one around it is smaller";
    weight_zero "a part of a split, or every endpoint of a service, with weight 0";
    webhook_twice "two webhooks with the same URL: it gets every event twice";
    endpoint_is_listener "an endpoint that is the proxy itself";
    setting_ignored "a setting for requests, of a service that takes whole connections or datagrams";
    insecure_skip_verify "endpoints whose certificates are not verified: an attacker can impersonate them";
    endpoints_partly_secure "a service of which some endpoints are reached through TLS and others are not";
    trusts_everyone "forwarded fields are trusted from every address";
    certificate_expired "a certificate that has expired or does not hold yet: it is refused";
    certificate_expires "a certificate that expires within 14 days";
    certificate_twice "several certificates with keys of one kind for the same host: only the first is used there";
    certificate_lacks_name "a host that a certificate is to answer for and does not name";
    redirect_to_itself "a redirect by which clients go in circles";
    redirect_without_tls "clients are redirected to TLS, but no listener has TLS";
    client_ca_expired "an authority of clients that has expired, and is believed as long as what it has signed is valid";
    crl_expired "a list of revoked certificates that has expired: the clients of its issuer are refused";
    word_misspelt "a free text that is one letter away from a word with a meaning";
  }
        "service_unused" "no route goes to this service";
        "health_port_ignored" "a port for checks of an endpoint that has none";
    "stray_quote" "a text that ends with a quote but does not begin with one";
        "unfinished" "the last line does not end: the file may be cut off";
}

/// Every certificate as it is written and as it was read, with the names that stand for its own; before that the
/// position of its listener.
fn certificates<'a>(
    subject: &Subject<'a>,
) -> impl Iterator<Item = (usize, CertificateSpec, &'a Certificate, &'a [String])> {
    // Without errors there are as many listeners and certificates as were written.
    let listeners = subject.spec.listeners.0.iter().zip(&subject.plan.listeners).enumerate();
    let secured =
        listeners.filter_map(|(at, ((_, spec), plan))| Some((at, spec.tls.as_ref()?, plan.tls.as_ref()?)));
    secured.flat_map(|(at, spec, tls)| {
        let list = spec.list().map(Cow::into_owned).map_or_else(Vec::new, |list| list.value.items);
        let pairs = list.into_iter().zip(tls.acceptor.entries());
        pairs.map(move |(spec, (read, names))| (at, spec.value, &**read, names))
    })
}

/// What is asked of clients, as it is written and as it was read.
fn client_auths<'a>(subject: &Subject<'a>) -> Vec<(&'a ClientAuthSpec, &'a ClientAuth)> {
    let mut found = Vec::new();
    for ((_, spec), plan) in subject.spec.listeners.0.iter().zip(&subject.plan.listeners) {
        let (Some(spec), Some(tls)) = (&spec.tls, &plan.tls) else { continue };
        let mut common = spec.client_auth.as_ref();
        // The short form says nothing of clients.
        let short = spec.cert.iter().filter(|_| spec.certificates.is_none()).map(|_| None);
        let listed = spec.certificates.iter().flat_map(|list| &list.value.items);
        let listed = listed.map(|certificate| certificate.value.client_auth.as_ref());
        for (own, read) in listed.chain(short).zip(tls.acceptor.client_auths()) {
            let Some(read) = read else { continue };
            // What the listener says is told of once.
            let written = own.or_else(|| common.take());
            found.extend(written.map(|written| (written, &**read)));
        }
        let of_issued = tls.acceptor.issued().and_then(|issued| issued.client_auth.as_ref());
        found.extend(common.zip(of_issued.map(|read| &**read)));
    }
    found
}

/// Every certificate with the place where it is written, and who refuses it when its time is over: those of listeners,
/// and those that services show their endpoints.
fn dated<'a>(subject: &Subject<'a>) -> impl Iterator<Item = (Span, &'a Certificate, &'static str)> {
    let of_listeners =
        certificates(subject).map(|(_, spec, certificate, _)| (spec.cert.span, certificate, "clients"));
    // Named services come first.
    let services = subject.spec.services.0.iter().zip(&subject.plan.services);
    let of_services = services.filter_map(|((_, spec), plan)| {
        let cert = spec.tls.as_ref()?.value.cert.as_ref()?;
        Some((cert.span, &**plan.tls.as_ref()?.policy().certificate.as_ref()?, "endpoints"))
    });
    of_listeners.chain(of_services)
}

/// Where something goes, as it is written: requests first, then connections and datagrams.
fn targets<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a ToSpec> {
    let listeners = subject.spec.listeners.0.iter().map(|(_, listener)| listener);
    let links = listeners.flat_map(|it| it.to.iter().chain(it.sni.0.iter().map(|(_, to)| to)));
    subject.spec.routes.items.iter().filter_map(|route| route.to.as_ref()).chain(links).map(|to| &to.value)
}

/// Runs every check.
pub(crate) fn lint(subject: &Subject<'_>, problems: &mut Problems) {
    for check in LINTS {
        check(subject, problems);
    }
}

#[cfg(test)]
mod tests;
