//! Services that receive secrets of the file from filters: the admin API may not add endpoints to them.

use super::admin::Shared;
use super::configuration::tree;
use thalweg_admin::Refusal;
use thalweg_config::api_restrictions::services_with_secrets;

impl Shared {
    /// Whether requests to this service carry secrets of the configuration, as `Authorization: "${TOKEN}"`. Takes the
    /// configuration lock: do not call it while holding the runtime lock.
    pub(super) fn is_sent_secrets(&self, service: &str) -> bool {
        let origin = self.origin();
        let tree = tree(&origin.name(), &origin.text);
        tree.is_some_and(|tree| services_with_secrets(&tree).contains(service))
    }
}

/// The refusal: a new endpoint would receive the secrets too.
pub(super) fn keeps_its_endpoints(service: &str) -> Refusal {
    let detail = format!(
        "requests to the service `{service}` carry secrets of the configuration: only the file on disk may give it \
         another endpoint"
    );
    Refusal::Unprotected { keys: vec![format!("services.{service}.endpoints")], detail }
}
