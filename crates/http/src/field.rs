//! Fields: where they stand in the buffer, and which known name they carry.
//!
//! Names are classified once, while the head is read; everything after works on ids and bit sets
//! instead of comparing text. The hash table behind [`FieldId::classify`] is built by the compiler,
//! which refuses to build it when two known names collide.

use crate::octet;
use crate::span::Span;

macro_rules! field_ids {
    ($( $variant:ident $name:literal, )*) => {
        /// A field name this proxy treats in some way, or [`FieldId::Other`].
        #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum FieldId {
            /// Any other name.
            #[default]
            Other,
            /// An unknown name that collapses onto a protected one when a gateway turns all that is
            /// not a letter or digit into `_`: `X_Forwarded_For`, `Content.Length`.
            Alias,
            /// `X-Forwarded-` and something that has no id of its own.
            XForwardedOther,
            /// What a proxy says of the certificate that a client has shown it: `Client-Cert` and `Client-Cert-Chain`
            /// of RFC 9440, `X-Client-Cert` and all that begins with `X-Client-Cert-`.
            ClientCert,
            $( #[doc = concat!("`", $name, "`")] $variant, )*
        }

        impl FieldId {
            /// Every known name, in the order of their ids.
            pub const KNOWN: &'static [Self] = &[ $( Self::$variant, )* ];

            /// The usual spelling; empty for the ids that stand for many names.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::Other | Self::Alias | Self::XForwardedOther | Self::ClientCert => "",
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

field_ids! {
    Host "Host",
    Connection "Connection",
    ContentLength "Content-Length",
    TransferEncoding "Transfer-Encoding",
    Te "TE",
    Trailer "Trailer",
    Upgrade "Upgrade",
    Expect "Expect",
    KeepAlive "Keep-Alive",
    ProxyConnection "Proxy-Connection",
    Proxy "Proxy",
    ProxyAuthorization "Proxy-Authorization",
    ProxyAuthenticate "Proxy-Authenticate",
    Http2Settings "HTTP2-Settings",
    Via "Via",
    XForwardedFor "X-Forwarded-For",
    XForwardedProto "X-Forwarded-Proto",
    XForwardedHost "X-Forwarded-Host",
    XForwardedPort "X-Forwarded-Port",
    Forwarded "Forwarded",
    XRealIp "X-Real-IP",
    TrueClientIp "True-Client-IP",
    XRequestId "X-Request-Id",
    XOriginalUrl "X-Original-URL",
    XRewriteUrl "X-Rewrite-URL",
    Traceparent "Traceparent",
    Tracestate "Tracestate",
    Authorization "Authorization",
    WwwAuthenticate "WWW-Authenticate",
    Cookie "Cookie",
    SetCookie "Set-Cookie",
    Accept "Accept",
    AcceptEncoding "Accept-Encoding",
    UserAgent "User-Agent",
    Referer "Referer",
    Origin "Origin",
    Date "Date",
    Server "Server",
    Location "Location",
    RetryAfter "Retry-After",
    ProxyStatus "Proxy-Status",
    CacheControl "Cache-Control",
    Age "Age",
    Expires "Expires",
    Vary "Vary",
    ETag "ETag",
    LastModified "Last-Modified",
    IfNoneMatch "If-None-Match",
    IfModifiedSince "If-Modified-Since",
    IfMatch "If-Match",
    IfRange "If-Range",
    Range "Range",
    ContentRange "Content-Range",
    ContentType "Content-Type",
    ContentEncoding "Content-Encoding",
    SecWebSocketKey "Sec-WebSocket-Key",
    SecWebSocketAccept "Sec-WebSocket-Accept",
}

const TABLE_LEN: usize = 256;
/// Every known name at its hash; a collision stops the build.
static TABLE: [FieldId; TABLE_LEN] = table();
const MAX_NAME: usize = 32;
const X_FORWARDED: &[u8] = b"x-forwarded-";
const X_CLIENT_CERT: &[u8] = b"x-client-cert-";
/// Names of [`FieldId::ClientCert`] that are not the beginning of others.
const CLIENT_CERT: [&[u8]; 3] = [b"client-cert", b"client-cert-chain", b"x-client-cert"];
/// Ids fit the bits of a [`FieldSet`].
const _: () = assert!(FieldId::KNOWN.len() + 4 <= 64);

/// The first byte, the last two and the length tell all known names apart. The case bit is set on
/// the bytes, so that case does not matter. `name` is not empty.
#[inline]
const fn hash(name: &[u8]) -> usize {
    let len = name.len();
    let mixed = ((name[0] | 0x20) as u32)
        .wrapping_mul(MIX[0])
        .wrapping_add(((name[len - 1] | 0x20) as u32).wrapping_mul(MIX[1]))
        .wrapping_add(((name[len.saturating_sub(2)] | 0x20) as u32).wrapping_mul(MIX[2]))
        .wrapping_add((len as u32).wrapping_mul(MIX[3]));
    (mixed >> 16) as usize % TABLE_LEN
}

/// Random odd numbers, one in about 500 draws of which gives every known name a place of its own.
/// When a new name stops the build, draw again.
const MIX: [u32; 4] = [0x547d_9b71, 0x1e4f_ed4d, 0x20bf_8361, 0xe323_1fe9];

const fn table() -> [FieldId; TABLE_LEN] {
    let mut table = [FieldId::Other; TABLE_LEN];
    let mut i = 0;
    while i < FieldId::KNOWN.len() {
        let id = FieldId::KNOWN[i];
        let name = id.name().as_bytes();
        assert!(name.len() <= MAX_NAME);
        let place = hash(name);
        assert!(matches!(table[place], FieldId::Other), "two known field names collide: change MIX");
        table[place] = id;
        i += 1;
    }
    table
}

/// The known names with the case bit set, and their lengths, by id.
static FOLDED: [([u8; MAX_NAME], usize); 64] = folded();

const fn folded() -> [([u8; MAX_NAME], usize); 64] {
    let mut names = [([0; MAX_NAME], 0); 64];
    let mut i = 0;
    while i < FieldId::KNOWN.len() {
        let id = FieldId::KNOWN[i];
        let name = id.name().as_bytes();
        let mut at = 0;
        while at < name.len() {
            names[id as usize].0[at] = name[at] | 0x20;
            at += 1;
        }
        names[id as usize].1 = name.len();
        i += 1;
    }
    names
}

/// Whether the first `len` of `bytes` are the name of `id` in some case: eight bytes at a time, the last
/// eight over again where the length is odd. Known names are letters, digits and `-`; the case bit
/// is free only where a letter stands.
#[inline]
fn is_name(bytes: &[u8], len: usize, id: FieldId) -> bool {
    let (known, known_len) = &FOLDED[id as usize & 63];
    if len != *known_len {
        return false;
    }
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(|chunk| u64::from_le_bytes(*chunk))
    };
    let differ = |at: usize| match (word(bytes, at), word(known, at)) {
        (Some(given), Some(known)) => (given ^ known) & !((known & LETTERS) >> 1),
        _ => !0,
    };
    if len < 8 {
        return match bytes.len() {
            8.. => differ(0) << (64 - 8 * len) == 0,
            _ => bytes[..len].eq_ignore_ascii_case(id.name().as_bytes()),
        };
    }
    let last = len - 8;
    let mut at = 0;
    while at < last {
        if differ(at) != 0 {
            return false;
        }
        at += 8;
    }
    differ(last) == 0
}

/// The bit that letters have, and neither digits nor `-`, in every byte of a word.
const LETTERS: u64 = 0x4040_4040_4040_4040;

impl FieldId {
    /// The id of a name, whatever its case. Looks at each byte at most a few times, allocates nothing.
    #[inline]
    pub fn classify(name: &[u8]) -> Self {
        match Self::known(name, name.len()) {
            Self::Other => Self::unknown(name),
            id => id,
        }
    }

    /// The id of the name that the first `len` of `bytes` are, if it is a known one, else
    /// [`FieldId::Other`]. What follows the name may be anything.
    #[inline]
    pub(crate) fn known(bytes: &[u8], len: usize) -> Self {
        let name = &bytes[..len];
        if name.is_empty() {
            return Self::Other;
        }
        let id = TABLE[hash(name)];
        if id != Self::Other && is_name(bytes, len, id) { id } else { Self::Other }
    }

    /// The id of a name that is not a known one.
    #[inline]
    pub(crate) fn unknown(name: &[u8]) -> Self {
        let family = Self::family(name);
        if family != Self::Other {
            return family;
        }
        if name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            return Self::Other;
        }
        Self::collapsed(name)
    }

    /// The id that stands for many names, this one among them.
    #[inline]
    fn family(name: &[u8]) -> Self {
        let begins = |with: &[u8]| name.get(..with.len()).is_some_and(|s| s.eq_ignore_ascii_case(with));
        match name {
            [b'x' | b'X', ..] if begins(X_FORWARDED) => Self::XForwardedOther,
            [b'x' | b'X', ..] if begins(X_CLIENT_CERT) => Self::ClientCert,
            [b'c' | b'C' | b'x' | b'X', ..]
                if CLIENT_CERT.iter().any(|known| name.eq_ignore_ascii_case(known)) =>
            {
                Self::ClientCert
            }
            _ => Self::Other,
        }
    }

    /// [`FieldId::Alias`] when the name means a protected one after everything that is not a letter
    /// or digit became `-` (hostile input A24).
    #[cold]
    fn collapsed(name: &[u8]) -> Self {
        let mut buffer = [0; MAX_NAME];
        let part = &name[..name.len().min(MAX_NAME)];
        for (to, from) in buffer.iter_mut().zip(part) {
            *to = if from.is_ascii_alphanumeric() { *from } else { b'-' };
        }
        let plain = &buffer[..part.len()];
        let id = match Self::family(plain) {
            family if family != Self::Other => family,
            _ if name.len() > MAX_NAME => Self::Other,
            _ => match TABLE[hash(plain)] {
                id if plain.eq_ignore_ascii_case(id.name().as_bytes()) => id,
                _ => Self::Other,
            },
        };
        if FieldSet::PROTECTED.contains(id) { Self::Alias } else { Self::Other }
    }
}

/// Whether `name` is another spelling that a CGI-like gateway could take for `of`: letters and
/// digits agree whatever their case, and where `of` has `-` anything else may stand.
pub fn is_alias(name: &[u8], of: &[u8]) -> bool {
    let collapse = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    !name.eq_ignore_ascii_case(of)
        && name.len() == of.len()
        && name.iter().map(collapse).eq(of.iter().map(collapse))
}

/// A set of ids.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FieldSet(u64);

impl FieldSet {
    /// No id.
    pub const EMPTY: Self = Self(0);

    /// Fields that another hop may never remove or fake: framing, routing, credentials, and what
    /// proxies say about the client. Not removable by `Connection` (A20); their aliases are removed (A24).
    pub const PROTECTED: Self = Self::of(&[
        FieldId::Host,
        FieldId::Connection,
        FieldId::ContentLength,
        FieldId::TransferEncoding,
        FieldId::Te,
        FieldId::Trailer,
        FieldId::Upgrade,
        FieldId::Expect,
        FieldId::KeepAlive,
        FieldId::Proxy,
        FieldId::ProxyConnection,
        FieldId::ProxyAuthorization,
        FieldId::ProxyAuthenticate,
        FieldId::Http2Settings,
        FieldId::Via,
        FieldId::XForwardedFor,
        FieldId::XForwardedProto,
        FieldId::XForwardedHost,
        FieldId::XForwardedPort,
        FieldId::XForwardedOther,
        FieldId::ClientCert,
        FieldId::Forwarded,
        FieldId::XRealIp,
        FieldId::TrueClientIp,
        FieldId::XRequestId,
        FieldId::XOriginalUrl,
        FieldId::XRewriteUrl,
        FieldId::Traceparent,
        FieldId::Tracestate,
        FieldId::Authorization,
        FieldId::WwwAuthenticate,
        FieldId::Cookie,
        FieldId::SetCookie,
        FieldId::Origin,
        FieldId::ProxyStatus,
        FieldId::CacheControl,
        FieldId::Vary,
        FieldId::Range,
        FieldId::ContentRange,
        FieldId::ContentType,
        FieldId::ContentEncoding,
        FieldId::SecWebSocketKey,
        FieldId::SecWebSocketAccept,
    ]);

    /// The set of the given ids.
    pub const fn of(ids: &[FieldId]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < ids.len() {
            bits |= 1 << ids[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether the id is in the set.
    #[inline]
    pub const fn contains(self, id: FieldId) -> bool {
        self.0 >> (id as u8) & 1 != 0
    }

    /// Adds an id.
    #[inline]
    pub const fn insert(&mut self, id: FieldId) {
        self.0 |= 1 << id as u8;
    }

    /// Takes an id out.
    #[inline]
    pub const fn remove(&mut self, id: FieldId) {
        self.0 &= !(1 << id as u8);
    }

    /// Both sets together.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the two sets share an id.
    #[inline]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// One field line of a head.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Field {
    /// The name, never empty, a token.
    pub name: Span,
    /// The value without whitespace around it; may be empty.
    pub value: Span,
    /// The known name, if it is one.
    pub id: FieldId,
    /// Whether it is passed on: true until a rule or filter takes it out.
    pub keep: bool,
}

/// The first value of a field, kept or not.
#[inline]
pub(crate) fn first(fields: &[Field], id: FieldId) -> Option<Span> {
    fields.iter().find(|field| field.id == id).map(|field| field.value)
}

/// All values of a field in order, kept or not.
pub(crate) fn all<'f, 'b>(
    fields: &'f [Field],
    bytes: &'b [u8],
    id: FieldId,
) -> impl Iterator<Item = &'b [u8]> + use<'f, 'b> {
    fields.iter().filter(move |field| field.id == id).map(move |field| field.value.of(bytes))
}

/// Whether one of the comma-separated values of a field has this element, whatever its case.
pub(crate) fn lists(fields: &[Field], bytes: &[u8], id: FieldId, element: &[u8]) -> bool {
    all(fields, bytes, id).any(|value| match memchr::memchr(b',', value) {
        None => value.eq_ignore_ascii_case(element),
        Some(_) => octet::list(value).any(|item| item.eq_ignore_ascii_case(element)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_comparison_agrees_with_the_plain_one() {
        for id in FieldId::KNOWN {
            let name = id.name().as_bytes();
            for other in FieldId::KNOWN {
                assert_eq!(is_name(name, name.len(), *other), id == other, "{id:?} {other:?}");
            }
            for at in 0..name.len() {
                for byte in 0..=0xff_u8 {
                    let mut changed = name.to_vec();
                    changed[at] = byte;
                    let same = changed.eq_ignore_ascii_case(name);
                    assert_eq!(is_name(&changed, name.len(), *id), same, "{id:?} {at} {byte}");
                    changed.extend_from_slice(b": some value");
                    assert_eq!(is_name(&changed, name.len(), *id), same, "{id:?} {at} {byte} in a line");
                }
            }
        }
    }

    #[test]
    fn knows_every_name_in_any_case_and_nothing_near_it() {
        for id in FieldId::KNOWN {
            let name = id.name();
            for spelling in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
                assert_eq!(FieldId::classify(spelling.as_bytes()), *id, "{spelling}");
            }
            for near in [format!("{name}x"), format!("x{name}"), name[1..].to_owned()] {
                assert_eq!(FieldId::classify(near.as_bytes()).name(), "", "{near}");
            }
        }
        assert_eq!(FieldId::classify(b""), FieldId::Other);
        assert_eq!(FieldId::classify(b"x-forwarded-prefix"), FieldId::XForwardedOther);
    }

    #[test]
    fn what_is_said_of_certificates_is_one_family() {
        for name in [
            "Client-Cert",
            "client-cert-chain",
            "X-Client-Cert",
            "X-Client-Cert-Subject",
            "x-client-cert-VERIFIED",
            "X-Client-Cert-",
            "X-Client-Cert-Anything-However-Long-The-Name-May-Become",
        ] {
            assert_eq!(FieldId::classify(name.as_bytes()), FieldId::ClientCert, "{name}");
        }
        for alias in [
            "Client_Cert",
            "client.cert-chain",
            "X_Client_Cert_Subject",
            "x-client-cert_verified",
            "X_Client_Cert_Anything_However_Long_The_Name_May_Become",
        ] {
            assert_eq!(FieldId::classify(alias.as_bytes()), FieldId::Alias, "{alias}");
        }
        for other in
            ["Client-Certificate", "X-Client-Certificate", "X-Client", "Client-Cert-", "c", "x", "X-"]
        {
            assert_eq!(FieldId::classify(other.as_bytes()), FieldId::Other, "{other}");
        }
    }

    /// Hostile input A24.
    #[test]
    fn finds_names_that_collapse_onto_a_protected_one() {
        for alias in
            ["X_Forwarded_For", "x_forwarded-for", "Content_Length", "content.length", "Transfer~Encoding"]
        {
            assert_eq!(FieldId::classify(alias.as_bytes()), FieldId::Alias, "{alias}");
        }
        for alias in ["X_Forwarded_Anything_However_Long_The_Name_May_Become", "X_REAL_IP", "x-real_ip"] {
            assert_eq!(FieldId::classify(alias.as_bytes()), FieldId::Alias, "{alias}");
        }
        for plain in ["my_field", "user_agent", "_", "a.b.c", "content_lengths"] {
            assert_eq!(FieldId::classify(plain.as_bytes()), FieldId::Other, "{plain}");
        }
        assert!(
            is_alias(b"X_User", b"X-User")
                && !is_alias(b"x-user", b"X-User")
                && !is_alias(b"XUser", b"X-User")
        );
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let mut set = FieldSet::EMPTY;
        set.insert(FieldId::SecWebSocketAccept);
        assert!(set.contains(FieldId::SecWebSocketAccept) && !set.contains(FieldId::Host));
        assert!(set.intersects(FieldSet::PROTECTED) && !set.intersects(FieldSet::of(&[FieldId::Via])));
        assert!(set.union(FieldSet::of(&[FieldId::Via])).contains(FieldId::Via));
    }
}
