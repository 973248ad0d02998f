//! Host names as certificates have them and clients ask for them.

use rustls::pki_types::DnsName;

/// A host name, or one with `*.` before it, as it is filed: in lower case, without the dot of the root. `None`: it is
/// neither.
pub(crate) fn filed(name: &str) -> Option<String> {
    let host = name.strip_prefix("*.").unwrap_or(name);
    DnsName::try_from(host).ok()?;
    Some(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())
}
