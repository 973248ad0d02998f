//! `mtls:` clients by the certificate that they have shown. The listener asks for it and has verified it
//! (`tls.client_auth`); here it is said which of them may pass.

use super::{Finding, Method};
use crate::{ConfigFiles, Identity, OneOrManySpec, RequestCx};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use thalweg_access::ClientCertificate;
use thalweg_route::value::Regex;

/// Values that a rule may list.
const VALUES: usize = 1024;
/// The kinds of names of a certificate.
const KINDS: &[&str] = &["DNS:", "URI:", "email:", "IP:"];

/// Rules for certificates; all that are written must fit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `subject`, `san`, `issuer` or `fingerprint`")]
pub(crate) struct MtlsSpec {
    /// Subjects as RFC 4514 writes them, `CN=ada,O=Example`; a `*` at the end stands for anything, and `~` begins a
    /// regular expression over the whole subject. One must fit.
    #[schemars(extend("x-default-words" = "all"))]
    subject: Option<OneOrManySpec<String>>,
    /// Alternative names with their kind, `DNS:a.example.com`, `URI:spiffe://example.com/shop`,
    /// `email:ada@example.com`, `IP:192.0.2.7`; a `*` at the end stands for anything, and `~` begins a regular
    /// expression over the whole name. One of the certificate's must fit one of them.
    #[schemars(extend("x-default-words" = "all"))]
    san: Option<OneOrManySpec<String>>,
    /// Subjects of authorities, as `subject`; one must fit.
    #[schemars(extend("x-default-words" = "all"))]
    issuer: Option<OneOrManySpec<String>>,
    /// SHA-256 of certificates, 64 hexadecimal digits, with or without colons; one must be that of the client's.
    #[schemars(extend("x-default-words" = "all"))]
    fingerprint: Option<OneOrManySpec<String>>,
}

impl MtlsSpec {
    pub(crate) fn build(&self, _files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
        let kind = |text: &str| {
            let is_known = text.starts_with('~') || KINDS.iter().any(|kind| text.starts_with(kind));
            match is_known {
                true => Rule::new(text),
                false => Err(format!(
                    "`san: {text}` does not say its kind; write `DNS:{text}`, `URI:…`, `email:…` or `IP:…`"
                )),
            }
        };
        let mut words = Vec::new();
        let subject = rules("subject", self.subject.as_ref(), &mut words, Rule::new)?;
        let san = rules("san", self.san.as_ref(), &mut words, kind)?;
        let issuer = rules("issuer", self.issuer.as_ref(), &mut words, Rule::new)?;
        let fingerprint = rules("fingerprint", self.fingerprint.as_ref(), &mut words, fingerprint)?;
        let text = if words.is_empty() { "every certificate".to_owned() } else { words.join(", ") };
        Ok(Arc::new(Mtls { subject, san, issuer, fingerprint, text }))
    }
}

fn rules<T>(
    name: &str,
    spec: Option<&OneOrManySpec<String>>,
    words: &mut Vec<String>,
    build: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<Box<[T]>>, String> {
    let Some(spec) = spec else { return Ok(None) };
    let values = spec.as_slice();
    if values.is_empty() || values.len() > VALUES || values.iter().any(String::is_empty) {
        return Err(format!("`{name}` of `mtls` takes from 1 to {VALUES} values that are not empty"));
    }
    words.push(format!("{name} {}", values.join(" | ")));
    Ok(Some(values.iter().map(|value| build(value)).collect::<Result<_, _>>()?))
}

fn fingerprint(text: &str) -> Result<[u8; 32], String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    let mut bytes = [0; 32];
    let is_right = digits.len() == 64
        && digits.iter().all(u8::is_ascii_hexdigit)
        && bytes.iter_mut().zip(digits.chunks_exact(2)).all(|(place, pair)| {
            let read = str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
            read.map(|byte| *place = byte).is_some()
        });
    match is_right {
        true => Ok(bytes),
        false => Err(
            "a `fingerprint` of `mtls` has 64 hexadecimal digits: the SHA-256 of the certificate in DER, as \
                      `openssl x509 -noout -fingerprint -sha256` prints it"
                .into(),
        ),
    }
}

#[derive(Debug)]
enum Rule {
    Exact(Box<str>),
    Prefix(Box<str>),
    Regex(Regex),
}

impl Rule {
    fn new(text: &str) -> Result<Self, String> {
        Ok(match (text.strip_prefix('~'), text.strip_suffix('*')) {
            (Some(regex), _) => Self::Regex(Regex::parse(regex)?),
            (None, Some(prefix)) => Self::Prefix(prefix.into()),
            (None, None) => Self::Exact(text.into()),
        })
    }

    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Exact(known) => **known == *text,
            Self::Prefix(known) => text.starts_with(&**known),
            Self::Regex(regex) => regex.matches(text.as_bytes()),
        }
    }
}

#[derive(Debug)]
struct Mtls {
    subject: Option<Box<[Rule]>>,
    san: Option<Box<[Rule]>>,
    issuer: Option<Box<[Rule]>>,
    fingerprint: Option<Box<[[u8; 32]]>>,
    /// For people.
    text: String,
}

impl Mtls {
    /// The rule that a certificate breaks.
    fn broken(&self, shown: &ClientCertificate) -> Option<&'static str> {
        let fits = |rules: &Option<Box<[Rule]>>, is_it: &dyn Fn(&Rule) -> bool| {
            rules.as_ref().is_none_or(|rules| rules.iter().any(is_it))
        };
        if !fits(&self.subject, &|rule| rule.fits(shown.subject())) {
            return Some("subject");
        }
        if !fits(&self.san, &|rule| shown.names().iter().any(|name| rule.fits(name))) {
            return Some("san");
        }
        if !fits(&self.issuer, &|rule| rule.fits(shown.issuer())) {
            return Some("issuer");
        }
        let is_it = |known: &[u8; 32]| known == shown.fingerprint();
        (!self.fingerprint.as_ref().is_none_or(|known| known.iter().any(is_it))).then_some("fingerprint")
    }
}

impl Method for Mtls {
    fn name(&self) -> &'static str {
        "mtls"
    }

    fn argument(&self) -> String {
        self.text.clone()
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        let Some(shown) = cx.facts.connection.client_certificate() else { return Finding::Absent };
        if let Some(rule) = self.broken(&shown) {
            let reason = format!("no `{rule}` fits the certificate of `{}`", shown.subject());
            return Finding::refused(403, "the certificate of the client may not do this", reason);
        }
        let user = if shown.subject().is_empty() {
            shown.names().first().map_or("", String::as_str)
        } else {
            shown.subject()
        };
        let mut identity = Identity::new("mtls", user);
        let digits: String = shown.fingerprint().iter().map(|byte| format!("{byte:02x}")).collect();
        let names = shown.names().iter().map(|name| Value::String(name.clone())).collect();
        for (name, value) in [
            ("subject", Value::String(shown.subject().into())),
            ("issuer", Value::String(shown.issuer().into())),
            ("san", Value::Array(names)),
            ("fingerprint", Value::String(digits)),
        ] {
            identity.claims.insert(name.into(), value);
        }
        Finding::Verified(identity)
    }

    fn strip(&self, _cx: &mut RequestCx<'_>) {}
}
