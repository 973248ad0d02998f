//! `sticky:` the cookie that keeps a client at one endpoint.

use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use crate::spec::{SameSiteSpec, Spanned, StickySpec, SwitchSpec};
use crate::validate::duration;
use crate::validate::key::token;
use crate::validate::secret::Secrets;
use sha2::{Digest, Sha256};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_upstream::{SameSite, StickyPolicy};

/// The cookie's name where none is written.
const COOKIE: &str = "thalweg_endpoint";
/// Longest `max_age`: what RFC 6265bis §5.5 lets browsers keep a cookie.
const MAX_AGE: Duration = Duration::from_secs(400 * 86_400);
/// In front of the secret, so that nothing else signs with the same key.
const PURPOSE: &[u8] = b"thalweg sticky cookie\0";

/// Whether and how clients stay at one endpoint.
pub(super) fn sticky(
    spec: Option<&Spanned<SwitchSpec<StickySpec>>>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<StickyPolicy> {
    let (span, spec) = spec.and_then(|spec| Some((spec.span, spec.settings()?)))?;
    let secure = spec.secure.unwrap_or_default();
    let cookie = spec.cookie.as_ref().map_or(COOKIE, |name| name.value.as_str());
    if let Some(name) = &spec.cookie {
        let prefixed = ["__secure-", "__host-"].iter().any(|p| name.to_ascii_lowercase().starts_with(p));
        if token(name, "cookie", problems) && prefixed && !secure {
            let error = SpecError::new(Class::Invalid, name.span, "browsers refuse a cookie of this name")
                .help("add `secure: true`, which its prefix promises");
            problems.push(error);
        }
    }
    let same_site = spec.same_site.as_ref().map_or(SameSite::default(), |word| match word.value {
        SameSiteSpec::Lax => SameSite::Lax,
        SameSiteSpec::Strict => SameSite::Strict,
        SameSiteSpec::None => SameSite::None,
    });
    if let (SameSite::None, false, Some(word)) = (same_site, secure, &spec.same_site) {
        let error =
            SpecError::new(Class::Invalid, word.span, "browsers refuse `same_site: none` without `secure`")
                .help("add `secure: true`, or write `same_site: lax`");
        problems.push(error);
    }
    let max_age = duration(spec.max_age.as_ref(), Duration::from_secs(1), MAX_AGE, problems);
    let key = match &spec.secret {
        Some(written) => derived(&secrets.read(written, problems)?),
        None => for_this_run(span, problems)?,
    };
    Some(StickyPolicy { cookie: Arc::from(cookie), key, max_age, secure, same_site })
}

/// 32 bytes that follow from the secret: the same for every proxy that has it.
fn derived(secret: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(PURPOSE).chain_update(secret).finalize().into()
}

/// The key of this process: drawn once, so that a reload, which reads the configuration again, does not
/// make the cookies void that are out there.
fn for_this_run(span: Span, problems: &mut Problems) -> Option<[u8; 32]> {
    static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    let key = *KEY.get_or_init(|| {
        let mut key = [0; 32];
        getrandom::fill(&mut key).ok().map(|()| key)
    });
    let (class, message) = match key {
        Some(_) => (Class::Warning, "without a secret, cookies hold only for this proxy and until it stops"),
        None => (Class::Invalid, "the system gives no random bytes to make a secret of"),
    };
    problems.push(
        SpecError::new(class, span, message).help("add `secret: { file: … }`, the same for all proxies"),
    );
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::Inputs;

    fn policy() -> StickyPolicy {
        let on = Spanned::new(Span::default(), SwitchSpec::On);
        let secrets = Secrets::new(&|_| None, Inputs::default(), &crate::Sources::default());
        sticky(Some(&on), &secrets, &mut Problems::default()).unwrap()
    }

    #[test]
    fn a_key_without_a_secret_stays_for_the_run() {
        assert_eq!(policy(), policy());
        assert_ne!(policy().key, [0; 32]);
    }

    /// Frozen: proxies of different versions that share a secret must understand each other.
    #[test]
    fn a_key_from_a_secret_never_changes() {
        let hex: String = derived(b"0123456789abcdef").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "cb83ed6b277f636c5c8de6cb2ba9ff716006c2dc18821a259e0c833f33742dbb");
    }
}
