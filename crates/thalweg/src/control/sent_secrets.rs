//! Services that receive secrets of the configuration: only the configuration may define their endpoints.
//!
//! The plan names these services ([`thalweg_proxy::plan::PlanSecrets`]). The endpoints API adds no endpoint to them.
//! The [`overlay`](super::overlay) leaves out endpoints that were added before the service received secrets: after a
//! reload, a rollback, a change by API, or a restart.

use super::added_endpoints;
use super::admin::Shared;
use super::base::Base;
use super::on_disk::other_on_disk;
use super::overlay::OverlaySpec;
use thalweg_admin::{Refusal, Via};

impl Shared {
    /// Whether requests to this service carry secrets in the file on disk, where that is not the configuration in
    /// force. Takes the configuration lock: do not call it while holding the runtime lock.
    ///
    /// # Errors
    /// The file has mistakes.
    pub(super) fn is_sent_secrets_on_disk(&self, service: &str) -> Result<bool, Refusal> {
        let origin = self.origin();
        let other = other_on_disk(&origin, &origin.on_disk(), Via::Token)?;
        Ok(other.is_some_and(|loaded| loaded.plan.secrets.are_sent_to(service)))
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

/// Lines about added endpoints that are left out, for secrets or for guards.
pub(super) fn left_out(overlay: &OverlaySpec, base: &Base) -> Vec<String> {
    let services = overlay.services.iter().filter(|(name, of)| {
        let is_there = || base.services.iter().any(|service| *service.name == **name);
        !of.added.is_empty() && base.secrets.are_sent_to(name) && is_there()
    });
    let line = |name: &str, urls: Vec<&str>| {
        format!(
            "service `{name}`: endpoints that the admin API has added are left out ({}), because requests to the \
             service carry secrets of the configuration; write them in the file",
            urls.join(", ")
        )
    };
    let of_secrets =
        services.map(|(name, of)| line(name, of.added.iter().map(|added| &*added.url).collect()));
    of_secrets.chain(added_endpoints::lines(overlay, base)).collect()
}
