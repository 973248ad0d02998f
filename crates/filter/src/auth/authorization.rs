//! The field `Authorization` (RFC 9110 §11.6.2), which several methods read.

use super::Finding;
use crate::{FieldView, RequestCx};

/// Bytes that a credential may have.
const LENGTH: usize = 16 * 1024;

/// The credential of a scheme; `None`: there is none of this scheme.
///
/// # Errors
/// Two fields, of which each could mean something else to somebody; or a credential that is empty, too long, or none of
/// HTTP.
pub(crate) fn credential<'a>(fields: FieldView<'a>, scheme: &str) -> Result<Option<&'a [u8]>, Finding> {
    let mut values = fields.values("authorization");
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Finding::refused(
            400,
            "a request with more than one Authorization",
            "more than one Authorization",
        ));
    }
    let value = value.trim_ascii();
    let end = value.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"-_.~+".contains(byte));
    let (known, rest) = value.split_at(end.unwrap_or(value.len()));
    if !known.eq_ignore_ascii_case(scheme.as_bytes()) {
        return Ok(None);
    }
    // One space or more, and no tab (RFC 9110 §11.4).
    let credential = rest.trim_ascii_start();
    let gap = &rest[..rest.len() - credential.len()];
    let is_right = !gap.is_empty()
        && gap.iter().all(|byte| *byte == b' ')
        && (1..=LENGTH).contains(&credential.len())
        && credential.iter().all(u8::is_ascii_graphic);
    if is_right {
        return Ok(Some(credential));
    }
    Err(Finding::refused(401, "the credential is malformed", "a malformed Authorization"))
}

/// Removes it where it has this scheme.
pub(crate) fn strip(cx: &mut RequestCx<'_>, scheme: &str) {
    let is_it = |value: &[u8]| {
        let value = value.trim_ascii_start();
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    if cx.fields.view().values("authorization").any(is_it) {
        cx.fields.remove("authorization");
    }
}
