//! The addresses of a host: hosts file, then DNS. The system's files are read for each request, since they change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_resolver::TokioResolver;

use crate::error::ClientError;

/// Addresses of a name that are tried.
const ADDRESSES: usize = 8;

/// Resolves `host`, a name or an address. Cancel-safe.
///
/// # Errors
/// The name has no address.
pub(crate) async fn resolve(host: &str) -> Result<Vec<IpAddr>, ClientError> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    // RFC 6761 §6.3: `localhost` and what is below it are this machine, whatever a server says.
    if host == "localhost" || host.ends_with(".localhost") {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let failed = |error: &dyn std::fmt::Display| ClientError::Name(error.to_string());
    let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
    let found = resolver.map_err(|error| failed(&error))?.lookup_ip(host).await;
    Ok(found.map_err(|error| failed(&error))?.iter().take(ADDRESSES).collect())
}
