//! Files of revoked labels while the proxy runs: what is added to one holds at once, without a reload.
//!
//! Called by control twice a second, and whenever another plan is in force. A file that is only added to is taken over
//! as it is; where labels are missing it may be in the middle of being written, and is taken over when it is the same
//! at two looks. Invariant: a file that cannot be read, or holds what is no label, changes nothing; what was revoked
//! stays so.

use super::files::{Print, print};
use crate::operator_log::{info, warn};
use std::sync::Arc;
use thalweg_config::refresh_files;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{RevokedFile, SealedRoute, To};

/// What is looked at.
#[derive(Debug, Default)]
pub(crate) struct Revocations(Vec<Watched>);

/// The file of a route.
#[derive(Debug)]
struct Watched {
    route: Arc<SealedRoute>,
    /// How it was when it was dealt with; `None`: it has not been.
    done: Option<Print>,
    /// How it was at the last look.
    seen: Option<Print>,
}

impl Revocations {
    /// Whether there is nothing to look at.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Another plan is in force, or the first one. A change between the reading of the configuration and now is not
    /// lost.
    pub(crate) fn follow(&mut self, plan: &Plan) {
        let sealed = plan.routes.iter().filter_map(|route| match &route.to {
            To::Sealed(sealed) if sealed.revoked.is_some() => Some(sealed.clone()),
            _ => None,
        });
        self.0 = sealed.map(|route| Watched { route, done: None, seen: None }).collect();
    }

    /// Looks at the files. What has changed and can be read takes over.
    pub(crate) fn look(&mut self) {
        self.0.iter_mut().for_each(Watched::look);
    }
}

impl Watched {
    fn look(&mut self) {
        let Some(file) = &self.route.revoked else { return };
        let now = print(&file.path);
        let is_settled = self.seen == Some(now);
        self.seen = Some(now);
        if self.done != Some(now) && take_over(file, is_settled) {
            self.done = Some(now);
        }
    }
}

/// Says whether it has been dealt with.
fn take_over(file: &RevokedFile, is_settled: bool) -> bool {
    let path = file.path.display();
    match refresh_files::revoked(&file.path) {
        Ok(list) if is_settled || file.is_within(&list) => {
            let labels = list.len();
            if file.replace(list) {
                info(format_args!("{path}: {labels} labels are revoked now"));
            }
            true
        }
        Err(why) if is_settled => {
            warn(format_args!("{path}: {why}; what was revoked before stays so"));
            true
        }
        Ok(_) | Err(_) => false,
    }
}
