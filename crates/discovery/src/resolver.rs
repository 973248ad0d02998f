//! What all who ask name servers share.

use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use std::net::IpAddr;
use std::sync::Arc;

/// A resolver as the system says: hosts file, then the name servers of resolv.conf.
///
/// # Errors
/// What the resolver says: resolv.conf cannot be read, or names no server.
pub(crate) fn system() -> Result<Arc<TokioResolver>, String> {
    let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
    resolver.map(Arc::new).map_err(|error| error.to_string())
}

/// The addresses of names that are this machine, whatever a server says: `localhost` and what is below it (RFC 6761
/// §6.3).
pub(crate) fn loopback(name: &str) -> Option<Vec<IpAddr>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_local = name == "localhost" || name.ends_with(".localhost");
    is_local.then(|| vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])])
}

/// What a resolver says, without the types of its library; follows the name in a sentence.
pub(crate) fn words(error: &NetError) -> String {
    match () {
        () if error.is_nx_domain() => "does not exist".to_owned(),
        () if error.is_no_records_found() => "has no address".to_owned(),
        () if matches!(error, NetError::Timeout) => {
            "is not known: no name server answered in time".to_owned()
        }
        () => format!("cannot be resolved: {error}"),
    }
}
