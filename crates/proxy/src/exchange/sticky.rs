//! Keeping a client at one endpoint: a cookie names it, signed so that nobody can choose one.
//!
//! The value is the endpoint's number and the first half of HMAC-SHA256 over it and the service's name, in hex.
//! It names no address. A cookie that is not ours, or not of this service, is as none.

use crate::exchange::hash_key::cookie;
use crate::state::exchange::Exchange;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::Write;
use std::num::NonZeroU64;
use thalweg_upstream::{AttemptGuard, SameSite, Service, StickyPolicy};

/// Hexadecimal digits of the number, and of the signature.
const NUMBER: usize = 16;
const SIGNATURE: usize = 32;

/// The endpoint that the request's cookie names, by [`thalweg_upstream::EndpointState::id`].
pub(crate) fn kept_at(policy: &StickyPolicy, service: &str, x: &Exchange) -> Option<u64> {
    let value = cookie(x, &policy.cookie)?;
    let (number, signature) = value.split_at_checked(NUMBER)?;
    if signature.len() != SIGNATURE {
        return None;
    }
    let id = u64::from_str_radix(std::str::from_utf8(number).ok()?, 16).ok()?;
    let mut given = [0; SIGNATURE / 2];
    for (byte, digits) in given.iter_mut().zip(signature.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    signer(policy, service, id).verify_truncated_left(&given).ok()?;
    Some(id)
}

/// Notes whether the client is to get a cookie for the endpoint that is about to be asked.
pub(crate) fn note_kept(x: &mut Exchange, service: &Service, attempt_guard: &AttemptGuard) {
    let Some(policy) = service.sticky.as_ref().filter(|_| !x.is_fill) else { return };
    let id = attempt_guard.standing.id;
    x.keep_at = NonZeroU64::new(id).filter(|_| kept_at(policy, &service.name, x) != Some(id));
}

/// Writes the cookie, if the client is to get one.
pub(crate) fn write_kept(out: &mut Vec<u8>, x: &Exchange) {
    let Some((id, service)) = x.keep_at.zip(x.service().map(|local| &local.state.service)) else { return };
    let Some(policy) = &service.sticky else { return };
    let signature = signer(policy, &service.name, id.get()).finalize().into_bytes();
    // Into a vector: it cannot fail.
    let _ = write!(out, "Set-Cookie: {}={id:016x}", policy.cookie);
    for byte in &signature[..SIGNATURE / 2] {
        let _ = write!(out, "{byte:02x}");
    }
    let _ = write!(
        out,
        "; Path=/; HttpOnly; SameSite={}",
        match policy.same_site {
            SameSite::Lax => "Lax",
            SameSite::Strict => "Strict",
            SameSite::None => "None",
        }
    );
    if policy.secure {
        out.extend_from_slice(b"; Secure");
    }
    if let Some(age) = policy.max_age {
        let _ = write!(out, "; Max-Age={}", age.as_secs());
    }
    out.extend_from_slice(b"\r\n");
}

fn signer(policy: &StickyPolicy, service: &str, id: u64) -> Hmac<Sha256> {
    let mut signer = Hmac::<Sha256>::new_from_slice(&policy.key).expect("HMAC takes keys of any length");
    signer.update(&id.to_be_bytes());
    signer.update(service.as_bytes());
    signer
}
