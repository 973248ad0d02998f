//! `listeners.<name>.tls:` certificates are read here, and what is wrong with one is told at the line that names its
//! file.

use super::client_auth::ClientAuths;
use super::secret::Secrets;
use super::{acme, duration};
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::settings::AdminTls;
use crate::source::Span;
use crate::spec::{
    AdminTlsSpec, CertificateSpec, ListSpec, ListenerTlsSpec, ProtocolSpec, Spanned, SwitchSpec,
    TicketKeysSpec, TicketsSpec, TlsVersionSpec, UnknownNameSpec,
};
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::limits::{TLS_PEM, TLS_TICKET_FILE};
use thalweg_proxy::plan::{CertificateFiles, ListenerTls, TicketKeyFile, TicketPolicy};
use thalweg_route::HostPattern;
use thalweg_tls::acme::local;
use thalweg_tls::{
    Acceptor, Certificate, CertificateError, ClientAuth, Entry, Group, Issued, IssuedStore, Policy,
    PolicyError, Suite, TicketKeys, Tickets, UnknownName, Version,
};
use thalweg_tls::{AcmePolicy, OnDemandPolicy};

/// Most certificates of a listener: all of them are read at every reload.
const CERTIFICATES: usize = 10_000;
/// Most names of one certificate.
const NAMES: usize = 1000;
/// From the first byte to the end of the handshake, where nothing is written.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a ticket key seals, where nothing is written.
const ROTATE: Duration = Duration::from_secs(12 * 60 * 60);

/// Checks the TLS of a listener and reads its certificates. `None` when something keeps it from being used.
pub(super) fn listener_tls(
    (spec, protocol): (&Spanned<ListenerTlsSpec>, ProtocolSpec),
    hosts: impl FnOnce() -> Vec<String>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Arc<ListenerTls>> {
    let local = spec.local.as_ref().is_some_and(|local| local.value);
    if let (true, Some(written), Some(_)) = (local, &spec.local, &spec.acme) {
        let message = "`local` and `acme` both bring certificates to this listener";
        problems.push(SpecError::new(Class::Invalid, written.span, message).help("write one of them"));
        return None;
    }
    short_form(spec, problems)?;
    let list = spec.list();
    if list.is_none() && spec.acme.is_none() && !local {
        // What seems to be missing may only be wrong.
        if !problems.has_error_in(spec.span) {
            let error =
                SpecError::new(Class::Invalid, spec.span, "the TLS of this listener has no certificate");
            problems.push(error.help(
                "write `cert: site.pem` and `key: site.key`, `acme: { email: ops@example.com }`, or `local: true` for localhost",
            ));
        }
        return None;
    }
    let span = list.as_ref().map_or(spec.span, |list| list.span);
    let mut auths = ClientAuths::default();
    // Looked at also where each certificate has its own.
    let otherwise = spec.client_auth.as_ref().map(|spec| auths.read(spec, secrets, problems));
    let certificates = match &list {
        Some(list) => certificates(list, (&mut auths, otherwise.as_ref()), secrets, problems),
        None => Some(Vec::new()),
    };
    let acme = spec.acme.as_ref().map(|acme| {
        let mut hosts = hosts();
        hosts.retain(|host| !has(certificates.as_deref().unwrap_or_default(), host));
        acme::acme(acme, hosts, secrets, problems).map(Arc::new)
    });
    let policy = policy(span, (spec, protocol), problems);
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(5 * 60));
    let handshake_timeout = duration(spec.handshake_timeout.as_ref(), least, most, problems);
    let resumption = resumption(spec, secrets, problems);
    let Resumption { tickets, policy: ticket_policy } = resumption?;
    let (certificates, policy) = (certificates?, policy?);
    let (acme, client_auth) = (if_right(acme)?, if_right(otherwise)?);
    let acceptor = match &acme {
        Some(acme) => Acceptor::with_issued(certificates, issued(acme, client_auth), policy, tickets),
        None if local => Acceptor::with_issued(certificates, issued_here(client_auth), policy, tickets),
        None => Acceptor::new(certificates, policy, tickets),
    };
    let acceptor = match acceptor {
        Ok(acceptor) => Arc::new(acceptor),
        Err(flaw) => {
            problems.push(contradiction(span, spec, &flaw));
            return None;
        }
    };
    let items = list.iter().flat_map(|list| &list.value.items);
    let files = items.map(|item| files(&item.value.cert, &item.value.key, secrets));
    Some(Arc::new(ListenerTls {
        acceptor,
        files: files.collect(),
        tickets: ticket_policy,
        handshake_timeout: handshake_timeout.unwrap_or(HANDSHAKE),
        acme,
        local,
    }))
}

/// What is written, if anything is; `None` when it is wrong.
fn if_right<T>(written: Option<Option<T>>) -> Option<Option<T>> {
    match written {
        Some(read) => read.map(Some),
        None => Some(None),
    }
}

/// What an authority issues is found where all listeners find it that ask it for the like.
fn issued(policy: &AcmePolicy, client_auth: Option<Arc<ClientAuth>>) -> Issued {
    let issued_store = IssuedStore::of_process(&policy.mark());
    Issued { issued_store, names: policy.domains.clone(), on_demand: policy.on_demand.clone(), client_auth }
}

/// What the authority of this machine signs: `localhost`, and what is below it when a client comes with it.
fn issued_here(client_auth: Option<Arc<ClientAuth>>) -> Issued {
    let issued_store = IssuedStore::of_process(local::MARK);
    let allow = vec![local::BELOW.to_owned()];
    let on_demand = Some(OnDemandPolicy { allow, ask: None, per_hour: u32::MAX });
    Issued { issued_store, names: vec![local::NAME.to_owned()], on_demand, client_auth }
}

/// Whether one of the certificates is for this host.
fn has(certificates: &[Entry], host: &str) -> bool {
    let wildcard = host.split_once('.').map(|(_, suffix)| format!("*.{suffix}"));
    certificates.iter().any(|Entry { certificate, names, .. }| {
        let names = if names.is_empty() { certificate.names() } else { names };
        names.iter().any(|name| name == host || Some(name) == wildcard.as_ref())
    })
}

/// How sessions are resumed.
#[derive(Default)]
struct Resumption {
    /// What seals them; `None`: nothing does.
    tickets: Option<Arc<Tickets>>,
    policy: Option<TicketPolicy>,
}

/// `None` when something is wrong.
fn resumption(spec: &ListenerTlsSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<Resumption> {
    let settings = spec.tickets.as_ref().map_or(Some(TicketsSpec::default()), SwitchSpec::settings);
    let Some(settings) = settings else { return Some(Resumption::default()) };
    let (least, most) = (Duration::from_secs(10 * 60), Duration::from_secs(7 * 24 * 60 * 60));
    let rotate = match &settings.rotate {
        Some(written) => duration(Some(written), least, most, problems)?,
        None => ROTATE,
    };
    let Some(TicketKeysSpec { file: path }) = &settings.keys else {
        let policy = Some(TicketPolicy { rotate, keys: None });
        return Some(Resumption { tickets: Tickets::of_process_for(rotate), policy });
    };
    let bytes = secrets.file(path, (TLS_TICKET_FILE, "the file of the ticket keys"), problems)?;
    secrets.warn_of_readers(path, "these keys", problems);
    let keys = match TicketKeys::read(&bytes) {
        Ok(keys) => keys,
        Err(why) => {
            let message = format!("the file of the ticket keys is wrong: {why}");
            let error = SpecError::new(Class::Invalid, path.span, message);
            problems.push(error.help("`openssl rand -hex 32` prints a line of it"));
            return None;
        }
    };
    // The library takes any 32 bytes.
    let tickets = Arc::new(Tickets::with_keys(rotate, &keys).ok()?);
    let keys = TicketKeyFile { path: secrets.path(path), digest: keys.digest(), tickets: tickets.clone() };
    Some(Resumption { tickets: Some(tickets), policy: Some(TicketPolicy { rotate, keys: Some(keys) }) })
}

/// Checks the TLS of the admin listener and reads its certificate. `None` when something keeps it from being used.
pub(super) fn admin_tls(
    spec: &AdminTlsSpec,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<AdminTls> {
    let certificate = certificate((&spec.cert, &spec.key), secrets, problems)?;
    let policy = Policy { alpn: vec![b"http/1.1".to_vec()], ..Policy::default() };
    match Acceptor::new(vec![(Arc::new(certificate), Vec::new())], policy, None) {
        Ok(acceptor) => {
            Some(AdminTls { acceptor: Arc::new(acceptor), files: files(&spec.cert, &spec.key, secrets) })
        }
        Err(flaw) => {
            let message = format!("TLS cannot be set up like this: {flaw}");
            problems.push(SpecError::value(spec.cert.span, "certificate", message));
            None
        }
    }
}

fn files(cert: &Spanned<String>, key: &Spanned<String>, secrets: &Secrets<'_>) -> CertificateFiles {
    CertificateFiles { cert: secrets.path(cert), key: secrets.path(key) }
}

/// What an acceptor refuses although each value is right for itself.
fn contradiction(span: Span, spec: &ListenerTlsSpec, flaw: &PolicyError) -> SpecError {
    let items = spec.certificates.iter().flat_map(|list| &list.value.items);
    let names = items.filter_map(|item| item.value.names.as_ref());
    let mut names = names.flat_map(|names| &names.value.items);
    if let PolicyError::ClientAuthDiffers(name) = flaw {
        let message = format!("certificates for `{name}` ask different things of clients");
        return SpecError::new(Class::Invalid, span, message)
            .help("a host asks one thing: give them the same `client_auth`, or other `names`");
    }
    if let PolicyError::BadName(name) = flaw
        && let Some(written) = names.find(|written| self::name(written).as_ref() == Ok(name))
    {
        return SpecError::value(written.span, "host", format!("`{}` is not a host name", written.value));
    }
    let message = format!("TLS cannot be set up like this: {flaw}");
    SpecError::value(span, "list of certificates", message)
}

/// The certificates with the names that are written beside them, and what they ask of clients: what the listener asks,
/// where they do not say it. `None` when one of them cannot be used.
fn certificates(
    list: &Spanned<ListSpec<CertificateSpec>>,
    (auths, otherwise): (&mut ClientAuths, Option<&Option<Arc<ClientAuth>>>),
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Vec<Entry>> {
    if list.value.written == 0 {
        let error = SpecError::new(Class::Invalid, list.span, "an empty list: TLS needs a certificate")
            .help("write for example `certificates: [ { cert: site.pem, key: site.key } ]`");
        problems.push(error);
    }
    if let Some(extra) = list.value.items.get(CERTIFICATES) {
        let message = format!("a listener has at most {CERTIFICATES} certificates");
        problems.push(SpecError::new(Class::Invalid, extra.span, message));
        return None;
    }
    let read = list.value.items.iter().map(|spec| {
        let certificate = certificate((&spec.value.cert, &spec.value.key), secrets, problems);
        let names = spec.value.names.as_ref().map_or(Some(Vec::new()), |names| self::names(names, problems));
        let own = spec.value.client_auth.as_ref().map(|spec| auths.read(spec, secrets, problems));
        let client_auth = if_right(own.or_else(|| otherwise.cloned()))?;
        Some(Entry { certificate: Arc::new(certificate?), names: names?, client_auth })
    });
    // Each of them is looked at, also behind one that is wrong.
    let read: Vec<_> = read.collect();
    let whole = list.value.written == read.len() && !read.is_empty();
    read.into_iter().collect::<Option<Vec<_>>>().filter(|_| whole)
}

/// `cert` and `key` stand together, and not beside `certificates`.
fn short_form(spec: &ListenerTlsSpec, problems: &mut Problems) -> Option<()> {
    let error = match (&spec.cert, &spec.key, &spec.certificates) {
        (None, None, _) | (Some(_), Some(_), None) => return Some(()),
        (Some(one), _, Some(list)) | (None, Some(one), Some(list)) => {
            SpecError::new(Class::Invalid, one.span, "a listener has `cert` and `key`, or `certificates`")
                .related(list.span, "the list is here")
                .help("add it to the list: `- { cert: site.pem, key: site.key }`")
        }
        (Some(one), None, None) => {
            SpecError::new(Class::Invalid, one.span, "the `key` of this certificate is missing")
                .help("add `key: site.key` beside it")
        }
        (None, Some(one), None) => {
            SpecError::new(Class::Invalid, one.span, "the `cert` of this key is missing")
                .help("add `cert: site.pem` beside it")
        }
    };
    problems.push(error);
    None
}

/// Reads a chain and its key.
pub(super) fn certificate(
    (cert, key_file): (&Spanned<String>, &Spanned<String>),
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Certificate> {
    let chain = file(cert, "the file of the certificate", secrets, problems);
    let key = file(key_file, "the file of the key", secrets, problems);
    if key.is_some() {
        secrets.warn_of_readers(key_file, "this key", problems);
    }
    let flaw = match Certificate::read(&chain?, &key?) {
        Ok(certificate) => return Some(certificate),
        Err(flaw) => flaw,
    };
    let error = match flaw.is_of_key() {
        true => SpecError::new(
            Class::Invalid,
            key_file.span,
            format!("{} {flaw}", secrets.shown("the file of the key", key_file)),
        )
        .related(cert.span, "for this certificate"),
        false => SpecError::new(
            Class::Invalid,
            cert.span,
            format!("{} {flaw}", secrets.shown("the file of the certificate", cert)),
        ),
    };
    problems.push(error.maybe_help(help(&flaw)));
    None
}

/// A PEM file.
pub(super) fn file(
    path: &Spanned<String>,
    what: &str,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Vec<u8>> {
    if path.value.contains("-----BEGIN ") {
        let message = format!("the path of {what} is needed, not what it holds");
        let error = SpecError::new(Class::Invalid, path.span, message);
        problems
            .push(error.help("put it into a file that only the user of the proxy can read, and name that"));
        return None;
    }
    secrets.file(path, (TLS_PEM, what), problems)
}

/// What to do about a flaw, where that is not plain from what it says.
fn help(flaw: &CertificateError) -> Option<String> {
    let help = match flaw {
        CertificateError::NoCertificate | CertificateError::NoKey | CertificateError::BadPem { .. } => {
            "a PEM file is needed: `cert` names the one with the certificates, `key` the one with the private key"
        }
        CertificateError::KeyDoesNotMatch => {
            "`openssl x509 -noout -pubkey -in CERT` and `openssl pkey -pubout -in KEY` print the same for a pair"
        }
        CertificateError::EncryptedKey => "`openssl pkey -in KEY -out NEW` writes it without a password",
        CertificateError::OutOfOrder(_) => {
            "the certificate of the site comes first, then the one that issued it, and so on"
        }
        CertificateError::NoNames => {
            "clients look only at subjectAltName: have it issued anew with the host in it"
        }
        CertificateError::SeveralKeys
        | CertificateError::UnusableKey(_)
        | CertificateError::TooLarge { .. }
        | CertificateError::BadCertificate(..) => return None,
    };
    Some(help.to_owned())
}

/// The hosts that a certificate is to answer for, in normal form.
fn names(list: &Spanned<ListSpec<String>>, problems: &mut Problems) -> Option<Vec<String>> {
    if list.value.written == 0 {
        let error = SpecError::new(Class::Invalid, list.span, "an empty list names no host")
            .help("remove `names`: those of the certificate hold then");
        problems.push(error);
    }
    if let Some(extra) = list.value.items.get(NAMES) {
        let message = format!("a certificate has at most {NAMES} names here");
        problems.push(SpecError::new(Class::Invalid, extra.span, message));
        return None;
    }
    let mut names = Vec::with_capacity(list.value.items.len());
    for written in &list.value.items {
        match name(written) {
            Ok(name) if names.contains(&name) => {
                let error = SpecError::new(Class::Invalid, written.span, "this host is listed twice");
                problems.push(error.help("remove one of the two"));
            }
            Ok(name) => names.push(name),
            Err(message) => problems.push(SpecError::value(written.span, "host", message)),
        }
    }
    (names.len() == list.value.written).then_some(names)
}

/// A host as a client may name it: RFC 6066 §3 has names only, no addresses.
fn name(text: &str) -> Result<String, String> {
    match HostPattern::parse(text)? {
        HostPattern::Any => {
            Err("`*` is not a host; clients that name an unknown one get the first certificate".into())
        }
        HostPattern::Exact(name) if name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() => {
            Err(format!("`{text}` is an address; clients name only hosts"))
        }
        pattern => Ok(pattern.to_string()),
    }
}

/// Versions, suites and groups. `None` when they do not go together.
fn policy(
    span: Span,
    (spec, protocol): (&ListenerTlsSpec, ProtocolSpec),
    problems: &mut Problems,
) -> Option<Policy> {
    let built_in = match protocol {
        ProtocolSpec::Http => Policy::default(),
        // What is spoken is a matter between clients and endpoints: nothing is agreed on, and nobody is sent away for
        // it.
        ProtocolSpec::Tcp | ProtocolSpec::TlsPassthrough | ProtocolSpec::Udp => {
            Policy { alpn: Vec::new(), ..Policy::default() }
        }
    };
    let version = |written: &Option<Spanned<TlsVersionSpec>>, otherwise| match written.map(|v| v.value) {
        Some(TlsVersionSpec::Tls12) => Version::Tls12,
        Some(TlsVersionSpec::Tls13) => Version::Tls13,
        None => otherwise,
    };
    let (min_version, max_version) =
        (version(&spec.min_version, built_in.min_version), version(&spec.max_version, built_in.max_version));
    let known = Known { what: "cipher suite", all: Suite::ALL, named: Suite::named };
    let suites = chosen(&spec.suites, known, problems);
    let known = Known { what: "group", all: Group::ALL, named: Group::named };
    let groups = chosen(&spec.groups, known, problems);
    if min_version > max_version {
        let (min, max) = (spec.min_version.map(|v| v.span), spec.max_version.map(|v| v.span));
        let span = max.or(min).unwrap_or(span);
        let mut error =
            SpecError::new(Class::Invalid, span, "`max_version` must not be older than `min_version`");
        error.related.extend(min.filter(|min| *min != span).map(|min| (min, "this is newer".to_owned())));
        problems.push(error);
        return None;
    }
    let policy = Policy {
        min_version,
        max_version,
        suites: suites?,
        groups: groups?,
        unknown_name: match spec.unknown_name {
            Some(UnknownNameSpec::Refuse) => UnknownName::Refuse,
            Some(UnknownNameSpec::Default) | None => UnknownName::Default,
        },
        ..built_in
    };
    speaks_every_version(&policy, (span, spec), problems).then_some(policy)
}

/// Names that a list may hold.
struct Known<T> {
    /// What each of them is.
    what: &'static str,
    all: &'static [&'static str],
    named: fn(&str) -> Option<T>,
}

/// A list of names. Empty where nothing is written, `None` when something is wrong.
fn chosen<T: PartialEq>(
    list: &Option<Spanned<ListSpec<String>>>,
    Known { what, all, named }: Known<T>,
    problems: &mut Problems,
) -> Option<Vec<T>> {
    let Some(list) = list else { return Some(Vec::new()) };
    if list.value.written == 0 {
        let error = SpecError::new(Class::Invalid, list.span, format!("an empty list leaves no {what}"))
            .help("remove the key for the list that is built in");
        problems.push(error);
        return None;
    }
    let mut chosen = Vec::with_capacity(list.value.items.len());
    for name in &list.value.items {
        match named(name) {
            Some(word) if chosen.contains(&word) => {
                let error = SpecError::new(Class::Invalid, name.span, format!("this {what} is listed twice"));
                problems.push(error.help("remove one of the two"));
            }
            Some(word) => chosen.push(word),
            None => {
                let error = SpecError::value(name.span, what, format!("unknown {what} `{}`", name.value))
                    .class(Class::Unknown)
                    .maybe_help(suggest(name, &format!("{what}s"), all));
                problems.push(error);
            }
        }
    }
    (chosen.len() == list.value.written).then_some(chosen)
}

/// Whether each version between the oldest and the newest has a suite and a group.
fn speaks_every_version(
    policy: &Policy,
    (whole, spec): (Span, &ListenerTlsSpec),
    problems: &mut Problems,
) -> bool {
    let mut speaks = true;
    let mut lacks = |what: &str, version: Version, list: &Option<Spanned<ListSpec<String>>>| {
        let (number, key) = match version {
            Version::Tls12 => ("1.2", "min_version: \"1.3\""),
            Version::Tls13 => ("1.3", "max_version: \"1.2\""),
        };
        let span = list.as_ref().map_or(whole, |list| list.span);
        let message = format!("this list has no {what} of TLS {number}, which is enabled too");
        let error = SpecError::new(Class::Invalid, span, message);
        problems.push(error.help(format!("add one, or write `{key}`")));
        speaks = false;
    };
    for version in [Version::Tls12, Version::Tls13] {
        if version < policy.min_version || version > policy.max_version {
            continue;
        }
        let (suites, groups) = (&policy.suites, &policy.groups);
        if !suites.is_empty() && !suites.iter().any(|suite| suite.version() == version) {
            lacks("cipher suite", version, &spec.suites);
        }
        if !groups.is_empty() && !groups.iter().any(|group| group.is_of(version)) {
            lacks("group", version, &spec.groups);
        }
    }
    speaks
}
