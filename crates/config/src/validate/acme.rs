//! `listeners.<name>.tls.acme:` what an authority is asked for.

use super::secret::Secrets;
use super::{duration, number};
use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{
    AcmeSpec, ChallengeSpec, DnsHookSpec, FileSpec, KeyTypeSpec, ListSpec, OnDemandSpec, OneOrMoreSpec,
    ProtocolSpec, Spanned,
};
use std::time::Duration;
use thalweg_core::SigningKey;
use thalweg_core::limits::TLS_PEM;
use thalweg_http::HttpUrl;
use thalweg_route::HostPattern;
use thalweg_tls::acme::{DIRECTORY, DNS_PROPAGATION, DNS_TIMEOUT, PER_HOUR};
use thalweg_tls::{AcmeBinding, AcmeChallenge, AcmeKeyType, AcmePolicy, DnsHook, DnsHookBy, OnDemandPolicy};

/// Most hosts of a listener, each with a certificate of its own.
const DOMAINS: usize = 5000;
/// Most patterns of hosts that may be asked for on demand.
const ALLOWED: usize = 1000;
/// Longest name of a profile, in bytes.
const PROFILE: usize = 64;

/// Checks what a listener asks of an authority. `hosts` are those of its routes that have no certificate.
pub(super) fn acme(
    spec: &AcmeSpec,
    hosts: Vec<String>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<AcmePolicy> {
    let challenge = match spec.challenge.map(|challenge| challenge.value) {
        Some(ChallengeSpec::Http) => AcmeChallenge::Http,
        Some(ChallengeSpec::Dns) => AcmeChallenge::Dns,
        Some(ChallengeSpec::TlsAlpn) | None => AcmeChallenge::TlsAlpn,
    };
    let email = email(&spec.email, problems);
    let domains = match &spec.domains {
        Some(list) => domains(list, challenge, problems),
        None => Some(hosts),
    };
    let directory = directory(spec.directory.as_ref(), problems);
    let directory_ca = spec
        .directory_ca
        .as_ref()
        .map(|file| secrets.roots(file, (TLS_PEM, "the file of the roots"), problems));
    let eab = spec.eab.as_ref().map(|eab| {
        let hmac = secrets.read(&eab.hmac, problems)?;
        let Some(hmac) = AcmeBinding::decode(&hmac) else {
            let error =
                SpecError::new(Class::Invalid, eab.hmac.span, "the key of the account is not base64url");
            problems.push(error.help("write it as the authority shows it"));
            return None;
        };
        Some(AcmeBinding { key_id: eab.key_id.value.clone(), hmac: hmac.into() })
    });
    let dns = spec.dns.as_ref().map(|dns| dns_hook(dns, secrets, problems));
    has_its_hook(spec, challenge, problems);
    let on_demand = spec.on_demand.as_ref().map(|on_demand| self::on_demand(on_demand, problems));
    if let (Some(on_demand), AcmeChallenge::Dns) = (&spec.on_demand, challenge) {
        let message = "no client waits as long as a record in the DNS takes";
        let error = SpecError::new(Class::Invalid, on_demand.span, message);
        problems.push(error.help("write `challenge: tls_alpn` or `challenge: http`"));
    }
    let domains = domains?;
    if domains.is_empty() && spec.domains.is_none() && spec.on_demand.is_none() {
        let message = "there is no host to ask for: no route of this listener has one that is no wildcard";
        let error = SpecError::new(Class::Invalid, spec.email.span, message);
        problems.push(error.help("write for example `domains: [ www.example.com ]`"));
    }
    Some(AcmePolicy {
        email: email?,
        challenge,
        domains,
        directory: directory?,
        directory_ca: given(directory_ca)?,
        key_type: match spec.key_type {
            Some(KeyTypeSpec::P384) => AcmeKeyType::P384,
            Some(KeyTypeSpec::Rsa2048) => AcmeKeyType::Rsa2048,
            Some(KeyTypeSpec::P256) | None => AcmeKeyType::P256,
        },
        eab: given(eab)?,
        dns: given(dns)?,
        on_demand: given(on_demand)?,
        profile: given(spec.profile.as_ref().map(|profile| self::profile(profile, problems)))?,
    })
}

/// What is written must be right; `None`: it is not.
fn given<T>(written: Option<Option<T>>) -> Option<Option<T>> {
    match written {
        Some(None) => None,
        Some(right) => Some(right),
        None => Some(None),
    }
}

/// The hosts of the routes that a listener serves, as they are written, without wildcards and addresses.
pub(super) fn hosts_of(spec: &FileSpec, listener: &str) -> Vec<String> {
    let mut hosts = Vec::new();
    let is_it = |name: &Spanned<String>| name.value == listener;
    let takes_requests =
        spec.listeners.0.iter().any(|(name, it)| is_it(name) && it.protocol == ProtocolSpec::Http);
    let routes = takes_requests.then_some(&spec.routes.items);
    for route in routes.into_iter().flatten().map(|route| &route.value) {
        let serves = &route.listeners.items;
        if !serves.is_empty() && serves.iter().all(|name| name.value != listener) {
            continue;
        }
        let Some(written) = &route.r#match.host else { continue };
        for host in OneOrMoreSpec::list(written.clone()).items {
            if let Ok(host) = name(&host.value, false)
                && !hosts.contains(&host)
            {
                hosts.push(host);
            }
        }
    }
    hosts
}

fn email(email: &Spanned<String>, problems: &mut Problems) -> Option<String> {
    let is_one = email.split_once('@').is_some_and(|(user, host)| {
        !user.is_empty() && host.contains('.') && !host.contains('@') && HostPattern::parse(host).is_ok()
    });
    let odd = |c: char| c.is_whitespace() || c.is_control() || "?,;<>\"".contains(c);
    if !is_one || email.contains(odd) {
        let message = format!("`{}` is not an address that mail can be sent to", email.value);
        problems.push(SpecError::value(email.span, "address", message));
        return None;
    }
    Some(email.value.clone())
}

/// A host that an authority issues certificates for, in normal form.
fn name(text: &str, wildcards: bool) -> Result<String, String> {
    match HostPattern::parse(text)? {
        HostPattern::Any => Err("`*` is not a host; write each of them".into()),
        HostPattern::Exact(name) if name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() => {
            Err(format!("`{text}` is an address; certificates are asked for hosts"))
        }
        HostPattern::Wildcard(_) if !wildcards => {
            Err(format!("`{text}`: an authority issues wildcards only for a record in the DNS"))
        }
        pattern => Ok(pattern.to_string()),
    }
}

fn domains(
    list: &Spanned<ListSpec<String>>,
    challenge: AcmeChallenge,
    problems: &mut Problems,
) -> Option<Vec<String>> {
    if list.value.written == 0 {
        let error = SpecError::new(Class::Invalid, list.span, "an empty list names no host");
        problems.push(error.help("remove `domains`: the hosts of the routes of this listener hold then"));
    }
    let help = |message: &str| {
        let is_wildcard = message.contains("wildcards only");
        is_wildcard.then(|| {
            "write `challenge: dns`, and `dns` with the program or webhook that sets the record".to_owned()
        })
    };
    names(list, DOMAINS, |text| name(text, challenge == AcmeChallenge::Dns), help, problems)
}

fn names(
    list: &Spanned<ListSpec<String>>,
    most: usize,
    read: impl Fn(&str) -> Result<String, String>,
    help: impl Fn(&str) -> Option<String>,
    problems: &mut Problems,
) -> Option<Vec<String>> {
    if let Some(extra) = list.value.items.get(most) {
        problems.push(SpecError::new(
            Class::Invalid,
            extra.span,
            format!("there are at most {most} hosts here"),
        ));
        return None;
    }
    let mut names = Vec::with_capacity(list.value.items.len());
    for written in &list.value.items {
        match read(written) {
            Ok(name) if names.contains(&name) => {
                let error = SpecError::new(Class::Invalid, written.span, "this host is listed twice");
                problems.push(error.help("remove one of the two"));
            }
            Ok(name) => names.push(name),
            Err(message) => {
                let help = help(&message);
                problems.push(SpecError::value(written.span, "host", message).maybe_help(help));
            }
        }
    }
    (names.len() == list.value.written).then_some(names)
}

fn directory(written: Option<&Spanned<String>>, problems: &mut Problems) -> Option<HttpUrl> {
    let Some(written) = written else { return HttpUrl::parse(DIRECTORY).ok() };
    let message = match HttpUrl::parse(written) {
        Ok(url) if url.tls() => return Some(url),
        Ok(_) => "an authority is asked through TLS alone",
        Err(message) => message,
    };
    let error = SpecError::new(Class::Invalid, written.span, message);
    problems.push(error.help(format!("write for example `{DIRECTORY}`")));
    None
}

/// The challenge `dns` and the key `dns` need each other.
fn has_its_hook(spec: &AcmeSpec, challenge: AcmeChallenge, problems: &mut Problems) {
    match (&spec.dns, challenge) {
        (None, AcmeChallenge::Dns) => {
            let span = spec.challenge.map_or(spec.email.span, |challenge| challenge.span);
            let error = SpecError::new(
                Class::Invalid,
                span,
                "the DNS challenge needs a program or a webhook that sets records",
            );
            problems.push(error.help("write for example `dns: { exec: [ /usr/local/bin/dns-hook ] }`"));
        }
        (Some(dns), AcmeChallenge::Http | AcmeChallenge::TlsAlpn) => {
            let error = SpecError::new(Class::Invalid, dns.span, "no record is set for this challenge");
            problems.push(error.help("write `challenge: dns`, or remove this key"));
        }
        _ => {}
    }
}

fn dns_hook(spec: &Spanned<DnsHookSpec>, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<DnsHook> {
    let (least, most) = (Duration::from_secs(5), Duration::from_secs(30 * 60));
    let timeout = duration(spec.timeout.as_ref(), least, most, problems);
    let most = Duration::from_secs(60 * 60);
    let propagation = duration(spec.propagation.as_ref(), Duration::ZERO, most, problems);
    let by = match (&spec.exec, &spec.webhook) {
        (Some(exec), None) => {
            let command: Vec<_> = exec.value.items.iter().map(|word| word.value.clone()).collect();
            if command.first().is_none_or(String::is_empty) {
                let error = SpecError::new(Class::Invalid, exec.span, "a program is missing");
                problems
                    .push(error.help("write for example `exec: [ /usr/local/bin/dns-hook, example.com ]`"));
                return None;
            }
            DnsHookBy::Exec(command)
        }
        (None, Some(webhook)) => {
            let url = HttpUrl::parse(&webhook.url);
            if let Err(message) = &url {
                let error = SpecError::new(Class::Invalid, webhook.url.span, *message);
                problems.push(error.help("write for example `https://dns.example.com/hook`"));
            }
            let secret = webhook.secret.as_ref().map(|spec| secrets.read(spec, problems));
            let secret = given(secret)?.and_then(|secret| SigningKey::new(&secret).ok());
            DnsHookBy::Webhook { url: url.ok()?, secret }
        }
        (Some(_), Some(webhook)) => {
            let message = "either a program sets the record or a service does";
            let error = SpecError::new(Class::Invalid, webhook.span, message);
            problems.push(error.help("remove `exec` or `webhook`"));
            return None;
        }
        (None, None) => {
            let error = SpecError::new(
                Class::Invalid,
                spec.span,
                "the DNS challenge needs a program or a webhook that sets records",
            );
            problems.push(error.help("write `exec: [ PROGRAM ]` or `webhook: { url: URL }`"));
            return None;
        }
    };
    let (timeout, propagation) = (timeout.unwrap_or(DNS_TIMEOUT), propagation.unwrap_or(DNS_PROPAGATION));
    Some(DnsHook { by, timeout, propagation })
}

/// Anybody can come with any name: what is allowed has to be said.
fn on_demand(spec: &Spanned<OnDemandSpec>, problems: &mut Problems) -> Option<OnDemandPolicy> {
    let allow = match &spec.allow {
        Some(list) => names(list, ALLOWED, |text| name(text, true), |_| None, problems),
        None => Some(Vec::new()),
    };
    let ask = spec.ask.as_ref().map(|url| match HttpUrl::parse(url) {
        Ok(parsed) => Some(parsed),
        Err(message) => {
            let error = SpecError::new(Class::Invalid, url.span, message);
            problems.push(error.help("write for example `http://127.0.0.1:9000/may-be-issued`"));
            None
        }
    });
    let per_hour = number(spec.per_hour.as_ref(), 1, 1000, problems).unwrap_or(PER_HOUR);
    let is_bounded = spec.ask.is_some() || spec.allow.as_ref().is_some_and(|list| list.value.written > 0);
    if !is_bounded {
        let message = "it must be said which hosts may be asked for: clients can name any";
        let error = SpecError::new(Class::Invalid, spec.span, message);
        problems.push(error.help("write `allow: [ \"*.example.com\" ]`, or `ask: URL`"));
        return None;
    }
    Some(OnDemandPolicy { allow: allow?, ask: given(ask)?, per_hour })
}

/// It becomes a part of the name of a directory.
fn profile(profile: &Spanned<String>, problems: &mut Problems) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if profile.is_empty() || profile.len() > PROFILE || !profile.bytes().all(is_plain) {
        let message = format!("a profile is a word of letters, digits, `-` and `_`, at most {PROFILE} bytes");
        problems.push(SpecError::value(profile.span, "profile", message));
        return None;
    }
    Some(profile.value.clone())
}
