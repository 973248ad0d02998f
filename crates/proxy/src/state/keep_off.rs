//! Notices to the operator about endpoints that are left out because they lead to the process itself.
//!
//! [`OwnAddresses`] decides, when endpoint sets are built on the control thread.

use crate::plan::OwnAddresses;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_core::Notice;
use thalweg_upstream::{Endpoint, EndpointSets, PeerAddress};
use tokio::sync::mpsc;

/// Most endpoints whose notice is remembered; beyond that, notices are repeated.
const TOLD: usize = 1024;

/// Services with the addresses that were reported for them.
type Reported = HashSet<(Arc<str>, PeerAddress)>;

/// Sends each notice once.
pub(crate) struct KeepOff {
    notices: mpsc::Sender<Notice>,
    told: Arc<Mutex<Reported>>,
}

impl fmt::Debug for KeepOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeepOff")
    }
}

impl KeepOff {
    /// Sends notices to this channel.
    pub(crate) fn new(notices: mpsc::Sender<Notice>) -> Self {
        Self { notices, told: Arc::default() }
    }

    /// From now on, endpoint sets are built without members that these addresses bar.
    pub(crate) fn guard(&self, endpoint_sets: &EndpointSets, own: OwnAddresses) {
        let (notices, told) = (self.notices.clone(), self.told.clone());
        endpoint_sets.keep_off(move |endpoint: &Endpoint, to: &PeerAddress| {
            let Some(barred) = own.bars_member(endpoint, to) else { return false };
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() >= TOLD {
                told.clear();
            }
            if told.insert((endpoint.url.clone(), to.clone())) {
                let url = &endpoint.url;
                let text = match to {
                    PeerAddress::Tcp(address) => format!(
                        "endpoint `{url}` is not used at {address}: that is {barred}, and only the file may name it"
                    ),
                    PeerAddress::Unix(_) => {
                        format!("endpoint `{url}` is not used: it is {barred}, and only the file may name it")
                    }
                };
                // A full channel loses the notice; the endpoint is left out all the same.
                let _ = notices.try_send(Notice::warn(text));
            }
            true
        });
    }
}
