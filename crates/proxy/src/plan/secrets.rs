//! What a plan knows of the secrets of its configuration: names of services and values to hide, for control and for
//! displays. Workers do not use it.

use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_core::Concealed;

/// The secrets of a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanSecrets {
    /// Services to which requests carry secrets of the configuration, by name: their endpoints are those of the
    /// configuration, and no others (decision 0078).
    pub carriers: Arc<BTreeSet<Arc<str>>>,
    /// Values that no display of the plan shows.
    pub concealed: Concealed,
}

impl PlanSecrets {
    /// Whether requests to this service carry secrets of the configuration.
    pub fn are_sent_to(&self, service: &str) -> bool {
        self.carriers.contains(service)
    }
}
