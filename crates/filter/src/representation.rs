//! What the filters that change bodies of responses have in common: which responses may be changed at all, and what
//! their fields say afterwards.

use crate::{HeadFields, ResponseCx};
use thalweg_http::octet;

/// Codings of a content that are looked at; a list of more is taken for one that is not known.
pub(crate) const CODINGS: usize = 2;

/// Text, and what is text in all but name: types that are changed where nothing is written.
pub(crate) const TEXT: &[&str] = &[
    "text/*",
    "application/json",
    "application/javascript",
    "application/xml",
    "application/manifest+json",
    "application/problem+json",
    "application/ld+json",
    "application/graphql-response+json",
    "application/x-ndjson",
    "application/rss+xml",
    "application/atom+xml",
    "application/xhtml+xml",
    "image/svg+xml",
];

/// Whether the response has, or would have for another method, a whole representation that may be changed: no part of
/// one (206), no answer without a body (204, 304), nothing that says `Cache-Control: no-transform` (RFC 9110 §7.7).
pub(crate) fn may_change(cx: &ResponseCx<'_>) -> bool {
    !matches!(cx.status, 100..200 | 204 | 205 | 206 | 304)
        && cx.fields.get("Content-Range").is_none()
        && !is_kept(cx)
}

/// Whether nobody is to change it: `Cache-Control: no-transform`.
pub(crate) fn is_kept(cx: &ResponseCx<'_>) -> bool {
    let fields = cx.fields.view();
    let mut words = fields.values("Cache-Control").flat_map(octet::list);
    words.any(|word| word.eq_ignore_ascii_case(b"no-transform"))
}

/// The body becomes another representation: its tag is weak (RFC 9110 §8.8.1), its bytes cannot be counted off in
/// ranges, and what was said of them as digests is no longer true (RFC 9530; `Content-MD5`, `Digest`).
pub(crate) fn becomes_another(fields: &mut HeadFields<'_>) {
    loses_digests(fields);
    fields.remove("Accept-Ranges");
    weaken(fields);
}

/// Its tag is weak.
pub(crate) fn weaken(fields: &mut HeadFields<'_>) {
    let tag = fields.get("ETag").filter(|tag| tag.starts_with(b"\"")).map(|tag| [b"W/", tag].concat());
    if let Some(tag) = tag {
        fields.set("ETag", &tag);
    }
}

/// Removes what is said of a body's bytes.
pub(crate) fn loses_digests(fields: &mut HeadFields<'_>) {
    for name in ["Content-MD5", "Digest", "Content-Digest", "Repr-Digest"] {
        fields.remove(name);
    }
}

/// Whether the body is coded: there is a coding other than `identity`.
pub(crate) fn is_coded(fields: &HeadFields<'_>) -> bool {
    let view = fields.view();
    let mut codings = view.values("Content-Encoding").flat_map(octet::list);
    codings.any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}
