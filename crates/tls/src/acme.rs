//! The policy of certificates that an authority issues (ACME, RFC 8555), beside that of certificates from files.
//!
//! The configuration writes it, a listener's plan carries it, and the acme crate orders certificates by it.

use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thalweg_core::{SigningKey, written};
use thalweg_http::HttpUrl;

/// Default for the directory: the authority of Let's Encrypt.
pub const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Default for the time of one call of a DNS hook.
pub const DNS_TIMEOUT: Duration = Duration::from_secs(120);
/// Default for the time that a record gets to reach all name servers.
pub const DNS_PROPAGATION: Duration = Duration::from_secs(60);
/// Default for the certificates that may be asked for on demand within an hour.
pub const PER_HOUR: u32 = 20;

/// The authority of this machine's own (`listeners.<name>.tls.local`).
pub mod local {
    /// What tells its store from those of other authorities.
    pub const MARK: &str = "local";
    /// What listeners show of it, also to clients that name nobody.
    pub const NAME: &str = "localhost";
    /// What they show when a client comes with it.
    pub const BELOW: &str = "*.localhost";
}

/// Certificates of a listener that an authority issues (`listeners.<name>.tls.acme`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct AcmePolicy {
    /// Whom the authority may write to.
    pub email: String,
    /// How it is shown that a name is ours.
    pub challenge: AcmeChallenge,
    /// The names, each with a certificate of its own: in lower case, `*.example.com` for a wildcard.
    pub domains: Vec<String>,
    /// Where the authority says what it offers; `https`.
    pub directory: HttpUrl,
    /// PEM of the roots that the authority itself is trusted by; `None`: those of the system.
    #[serde(serialize_with = "written::maybe_hidden")]
    pub directory_ca: Option<Arc<[u8]>>,
    /// The kind of the certificates' keys.
    pub key_type: AcmeKeyType,
    /// An account elsewhere that this one is bound to (RFC 8555 §7.3.4).
    pub eab: Option<AcmeBinding>,
    /// How records are set, for [`AcmeChallenge::Dns`].
    pub dns: Option<DnsHook>,
    /// Names that are asked for when the first client comes with them.
    pub on_demand: Option<OnDemandPolicy>,
    /// The profile that certificates are ordered with, one of those that the directory names.
    pub profile: Option<String>,
}

impl AcmePolicy {
    /// What certificates of the same kind from the same authority have in common: policies with the same mark share
    /// them.
    pub fn mark(&self) -> String {
        let profile = self.profile.as_deref().unwrap_or_default();
        format!("{} {} {profile}", self.directory.text(), self.key_type.name())
    }
}

/// How it is shown that a name is ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AcmeChallenge {
    /// By an answer over plain HTTP on port 80 (http-01, RFC 8555 §8.3).
    Http,
    /// By a certificate in a handshake on port 443 (tls-alpn-01, RFC 8737).
    TlsAlpn,
    /// By a record in the DNS (dns-01, RFC 8555 §8.4).
    Dns,
}

/// Kinds of keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AcmeKeyType {
    /// ECDSA with P-256.
    P256,
    /// ECDSA with P-384.
    P384,
    /// RSA with 2048 bits.
    Rsa2048,
}

impl AcmeKeyType {
    /// As the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::P256 => "p256",
            Self::P384 => "p384",
            Self::Rsa2048 => "rsa2048",
        }
    }
}

/// An account elsewhere. `Debug` does not show its key.
#[derive(Clone, Eq, PartialEq, Serialize)]
pub struct AcmeBinding {
    /// Its name there.
    pub key_id: String,
    /// The key that both sides know, decoded.
    #[serde(serialize_with = "written::hidden")]
    pub hmac: Arc<[u8]>,
}

impl AcmeBinding {
    /// The bytes of a key in base64url (RFC 4648 §5), with or without padding; `None`: it is something else, or
    /// nothing.
    pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
        let text = text.trim_ascii();
        let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
        if text.len() - end > 2 || end == 0 || end % 4 == 1 {
            return None;
        }
        let (mut bytes, mut bits, mut count) = (Vec::with_capacity(end), 0u32, 0);
        for byte in &text[..end] {
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'-' | b'+' => 62,
                b'_' | b'/' => 63,
                _ => return None,
            };
            bits = (bits << 6) | u32::from(digit);
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push(((bits >> count) & 0xff) as u8);
            }
        }
        Some(bytes)
    }
}

impl fmt::Debug for AcmeBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcmeBinding").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// How TXT records are set and taken away.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct DnsHook {
    /// Who does it.
    #[serde(flatten)]
    pub by: DnsHookBy,
    /// Time of one call, 5 s to 30 min. Default [`DNS_TIMEOUT`].
    #[serde(serialize_with = "written::duration")]
    pub timeout: Duration,
    /// How long a record gets to reach all name servers, up to 1 h. Default [`DNS_PROPAGATION`].
    #[serde(serialize_with = "written::duration")]
    pub propagation: Duration,
}

/// Who sets TXT records.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DnsHookBy {
    /// A program and its arguments; `set` or `unset`, the record's name and its value are added.
    #[serde(serialize_with = "program")]
    Exec(Vec<String>),
    /// A service that is called.
    Webhook {
        /// Where.
        url: HttpUrl,
        /// The key of the signature; without one there is no signature.
        #[serde(serialize_with = "written::maybe_hidden")]
        secret: Option<SigningKey>,
    },
}

/// Arguments of a program are often secret, as paths of URLs are.
fn program<S: Serializer>(command: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    written::Partly::of(program, command).serialize(serializer)
}

/// Names that are asked for when the first client comes with them.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct OnDemandPolicy {
    /// Names, and `*.example.com` for whatever ends so, that may be asked for.
    pub allow: Vec<String>,
    /// Who is asked, with `?domain=`, whether a further name may be; 200 says yes.
    pub ask: Option<HttpUrl>,
    /// Certificates asked for within an hour, 1–1000. Default [`PER_HOUR`].
    pub per_hour: u32,
}

impl OnDemandPolicy {
    /// Whether the name, which is in lower case, may be asked for: it is allowed, or somebody is asked about it.
    pub fn covers(&self, name: &str) -> bool {
        self.ask.is_some() || self.allows(name)
    }

    /// Whether `allow` has the name, which is in lower case.
    pub fn allows(&self, name: &str) -> bool {
        self.allow.iter().any(|allowed| match allowed.strip_prefix("*.") {
            Some(suffix) => name
                .strip_suffix(suffix)
                .and_then(|front| front.strip_suffix('.'))
                .is_some_and(|labels| !labels.is_empty()),
            None => name == allowed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_allowed_by_itself_or_by_what_it_ends_in() {
        let allow = vec!["a.test".to_owned(), "*.b.test".to_owned()];
        let policy = OnDemandPolicy { allow, ask: None, per_hour: PER_HOUR };
        for name in ["a.test", "x.b.test", "x.y.b.test"] {
            assert!(policy.allows(name), "{name}");
        }
        for name in ["b.test", ".b.test", "xb.test", "x.a.test", "", "test"] {
            assert!(!policy.allows(name), "{name}");
        }
    }

    #[test]
    fn keys_of_accounts_are_decoded() {
        for (text, bytes) in [
            ("Zg", &b"f"[..]),
            ("Zg==", b"f"),
            ("Zm8", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg\n", b"foob"),
            ("-_-_", b"\xfb\xff\xbf"),
            ("+/+/", b"\xfb\xff\xbf"),
        ] {
            assert_eq!(AcmeBinding::decode(text.as_bytes()).as_deref(), Some(bytes), "{text:?}");
        }
        for text in ["", "=", "Z", "Zm9vY", "Zm 9", "Zm9v===", "Zm9v!"] {
            assert_eq!(AcmeBinding::decode(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn the_default_directory_is_a_url() {
        let directory = HttpUrl::parse(DIRECTORY).unwrap();
        assert!(directory.tls());
        assert_eq!(directory.text(), DIRECTORY);
    }
}
