//! What a service may choose its response by although no key has it.
//!
//! What clients say so is not sent on where a response is fetched for all: the response is not to be chosen by one of
//! them. What trusted proxies say is part of the key ([`said_by_proxies`]): they stand before this one because the
//! service listens to them. What filters write is the configuration's own.

use crate::state::exchange::Exchange;
use thalweg_filter::{CacheRule, FieldView};
use thalweg_http::{FieldId, octet};

/// Fields by which some services choose what they answer, in lower case; those that end in `-` stand for all that begin
/// so. Of strangers nothing that begins with `X-Forwarded-` is sent on in any case. `X-Middleware-`, `X-Invoke-` and
/// `X-Now-Route-` are how parts of Next.js and its hosts talk to each other.
const UNKEYED: [&str; 13] = [
    "x-original-",
    "x-rewrite-",
    "x-http-host-",
    "x-host",
    "x-scheme",
    "x-url-scheme",
    "x-forwarded",
    "x-forwarded-",
    "x-envoy-original-",
    "x-invoke-",
    "x-middleware-",
    "x-now-route-",
    "front-end-https",
];
/// Those among them by which a POST is another method to some services.
const METHODS: [&str; 3] = ["x-http-method", "x-http-method-", "x-method-override"];

/// Whether services may choose what they answer by a field, and its value is not part of the key, which has the fields
/// of these names.
pub(super) fn is_unkeyed(name: &[u8], keyed: &[Box<str>]) -> bool {
    let is_keyed = || keyed.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    // To a gateway `X_Tenant` is what `X-Tenant` is, and the key has that one only.
    let is_alias = || keyed.iter().any(|known| is(name, known));
    let is_first = matches!(name.first(), Some(b'x' | b'X' | b'f' | b'F'));
    let is_chosen_by = is_first && UNKEYED.into_iter().chain(METHODS).any(|known| is(name, known));
    (is_chosen_by || is_alias()) && !is_keyed()
}

/// Whether this is the name of a field, or begins as the list says, to a service that takes all that is no letter or
/// digit for the same.
fn is(name: &[u8], known: &str) -> bool {
    let begins = name.get(..known.len()).is_some_and(|start| {
        let same = |(one, other): (&u8, u8)| {
            one.eq_ignore_ascii_case(&other) || !one.is_ascii_alphanumeric() && !other.is_ascii_alphanumeric()
        };
        start.iter().zip(known.bytes()).all(same)
    });
    begins && (known.ends_with('-') || name.len() == known.len())
}

/// Whether a client has sent such a field.
pub(super) fn has_unkeyed(x: &Exchange, rule: &CacheRule) -> bool {
    let mut sent = FieldView::new(&x.request.fields, &x.received, &[]).iter();
    !x.trusted_peer && sent.any(|(name, _)| is_unkeyed(name, &rule.key.fields))
}

/// Whether the request has a field that makes another method of it, whoever has sent that.
pub(super) fn has_other_method(x: &Exchange) -> bool {
    let mut sent = FieldView::new(&x.request.fields, &x.received, &[]).iter();
    sent.any(|(name, _)| METHODS.into_iter().any(|known| is(name, known)))
}

/// What trusted proxies say of a request to the service, where that is not what its key has anyway, as names and
/// values. The addresses of clients are none of it: no response is chosen by them that is for all.
pub(super) fn said_by_proxies(x: &Exchange) -> impl Iterator<Item = (&[u8], &[u8])> {
    let is_trusted = x.trusted_peer;
    let bytes = &x.received[..];
    let said = |id: FieldId| x.request.value(bytes, id).map(|value| (id.name().as_bytes(), value));
    let proto = said(FieldId::XForwardedProto).filter(|(_, value)| *value != x.scheme().as_bytes());
    let host = said(FieldId::XForwardedHost).filter(|(_, value)| *value != x.authority());
    let fields = x.request.fields.iter().filter(|field| field.keep);
    let others = fields.flat_map(move |field| {
        let (name, value) = (field.name.of(bytes), field.value.of(bytes));
        let is_other = match field.id {
            FieldId::XForwardedPort | FieldId::XForwardedOther => true,
            FieldId::Forwarded => false,
            _ => is_unkeyed(name, &[]),
        };
        let of_chain = (field.id == FieldId::Forwarded).then_some(value);
        let of_chain = of_chain.into_iter().flat_map(chosen_by);
        is_other.then_some(value).into_iter().chain(of_chain).map(move |value| (name, value))
    });
    proto.into_iter().chain(host).chain(others).filter(move |_| is_trusted)
}

/// The elements of `Forwarded` (RFC 7239) without the addresses of clients and proxies.
fn chosen_by(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_address = |pair: &[u8]| {
        pair.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"for="))
            || pair.get(..3).is_some_and(|name| name.eq_ignore_ascii_case(b"by="))
    };
    split(value, b',').flat_map(move |element| {
        let pairs = split(element, b';').map(octet::trim_ows).filter(move |pair| !is_address(pair));
        // An element is one, whatever is left of it.
        std::iter::once(&b","[..]).chain(pairs)
    })
}

/// The parts between separators that are not in quoted strings.
fn split(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |byte| {
        let is_end = *byte == separator && !quoted;
        quoted ^= *byte == b'"' && !escaped;
        escaped = quoted && *byte == b'\\' && !escaped;
        is_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_which_services_choose_are_known() {
        for name in ["X-Original-URL", "x-original-uri", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Host"]
        {
            assert!(is_unkeyed(name.as_bytes(), &[]), "{name}");
            assert!(!is_unkeyed(name.as_bytes(), &[name.to_ascii_lowercase().into()]), "{name}");
        }
        for name in ["X-Hostile", "Accept", "X-Api-Key", "From", "Host", "X-HTTP-Methods", "X-Forwarder", ""]
        {
            assert!(!is_unkeyed(name.as_bytes(), &[]), "{name}");
        }
    }

    #[test]
    fn names_that_gateways_take_for_the_same_are_known() {
        for name in ["X_HTTP_Method_Override", "x.host", "X_Middleware-Prefetch", "X-Invoke_Status"] {
            assert!(is_unkeyed(name.as_bytes(), &[]), "{name}");
        }
        let keyed = ["x-tenant".into(), "api_key".into()];
        for name in ["X_Tenant", "x.TENANT", "Api-Key"] {
            assert!(is_unkeyed(name.as_bytes(), &keyed) && !is_unkeyed(name.as_bytes(), &[]), "{name}");
        }
        for name in ["X-Tenant", "api_key", "X-Tenants", "XTenant"] {
            assert!(!is_unkeyed(name.as_bytes(), &keyed), "{name}");
        }
    }

    #[test]
    fn of_a_chain_everything_counts_but_addresses() {
        let of = |value: &'static str| {
            let parts: Vec<_> = chosen_by(value.as_bytes()).map(String::from_utf8_lossy).collect();
            parts.concat()
        };
        assert_eq!(
            of("for=192.0.2.1;proto=https;By=x , For=\"[::1]\"; host=\"a;for=b,c\""),
            ",proto=https,host=\"a;for=b,c\""
        );
        assert_ne!(of("for=a;proto=http, for=b"), of("for=a, for=b;proto=http"));
        assert_eq!(of("for=\"a;proto=https"), ",");
    }
}
