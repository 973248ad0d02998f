//! How webhooks report.

use std::sync::Arc;

use thalweg_core::Notice;
use thalweg_observe::WebhookMeters;
use tokio::sync::mpsc;

/// Where webhooks report: meters, and lines for the operator.
#[derive(Clone)]
pub(super) struct Reporter {
    pub(super) meters: Arc<WebhookMeters>,
    /// Lines for the operator.
    pub(super) notices: mpsc::Sender<Notice>,
}

impl Reporter {
    pub(super) fn notice(&self, line: String) {
        // Full: the operator has many lines to read already.
        let _ = self.notices.try_send(Notice::warn(line));
    }
}
