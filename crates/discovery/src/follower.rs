//! What follows the services, and tells what has become of their endpoints.

use crate::feed::Watches;
use crate::source::{Source, Sources};
use crate::{addresses, static_list};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use thalweg_upstream::{Address, Endpoint, Names, Service};

use crate::found::Found;

/// What has been found out. It concerns one service, one host name or one source: whoever takes it over touches
/// nothing else.
#[derive(Debug)]
pub enum Update {
    /// A service has these endpoints now, and no others.
    Endpoints {
        /// Its name.
        service: Arc<str>,
        /// In the order in which they are shown.
        endpoints: Vec<Endpoint>,
    },
    /// What a source has found now, and nothing else.
    Found {
        /// The [`id`](crate::id) of the source.
        source: Arc<str>,
        /// In the order in which they are shown; at most [`ENDPOINTS`](thalweg_core::limits::ENDPOINTS).
        found: Arc<[Found]>,
    },
    /// A host name stands for these addresses now, in every service that has it.
    Addresses {
        /// Lower case, without a trailing dot.
        host: Arc<str>,
        /// Sorted, each once.
        addresses: Vec<IpAddr>,
    },
    /// Something could not be found out; what is known stays. A sentence for the operator.
    Failed(String),
    /// A source has begun to fail, or works again.
    Turned {
        /// The [`id`](crate::id) of the source.
        source: Arc<str>,
        /// Why it fails; `None`: it works again.
        failure: Option<String>,
    },
}

/// An update that is on its way.
pub(crate) type Next<'a> = Pin<Box<dyn Future<Output = Update> + Send + 'a>>;

/// The services, as followers see them.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// As the configuration says.
    pub configured: &'a [Arc<Service>],
    /// As they run: with what sources have found, and what the admin API has changed.
    pub running: &'a [Arc<Service>],
    /// The sources of those that say `discover`.
    pub sources: &'a [Arc<dyn Source>],
}

/// Where endpoints of services, or their addresses, come from. Runs on the control thread, within a tokio runtime.
pub(crate) trait Follower: Send {
    /// These are the services from now on. What is done for those that stay as they are goes on.
    fn follow(&mut self, services: Followed<'_>);

    /// The next update. Waits for ever when none can come. Cancel-safe.
    fn next(&mut self) -> Next<'_>;

    /// Whether all that it was asked for is known, so that a start need not wait for it any longer.
    fn is_complete(&self) -> bool {
        true
    }
}

/// The lists of the configuration, the addresses of host names, and every source.
pub struct Followers {
    all: [Box<dyn Follower>; 3],
    board: Sources,
    /// Who is asked first, in turn: a busy one keeps none of the others waiting.
    first: usize,
}

impl Followers {
    /// They follow these services, and know already what these host names stand for.
    pub fn start(services: Followed<'_>, known: &Names) -> Self {
        let watches = Watches::default();
        let board = watches.sources();
        let all: [Box<dyn Follower>; 3] =
            [Box::new(static_list::new()), Box::new(addresses::new(known)), Box::new(watches)];
        let mut followers = Self { all, board, first: 0 };
        followers.follow(services);
        followers
    }

    /// How the sources stand; may be asked on any thread.
    pub fn sources(&self) -> Sources {
        self.board.clone()
    }

    /// These are the services from now on.
    pub fn follow(&mut self, services: Followed<'_>) {
        self.all.iter_mut().for_each(|follower| follower.follow(services));
    }

    /// Whether all that was asked for is known.
    pub fn is_complete(&self) -> bool {
        self.all.iter().all(|follower| follower.is_complete())
    }

    /// The next update of any of them. Waits for ever when none can come. Cancel-safe.
    pub async fn next(&mut self) -> Update {
        let count = self.all.len();
        self.first = (self.first + 1) % count;
        let first = self.first;
        let mut waiting: Vec<_> = self.all.iter_mut().map(|follower| follower.next()).collect();
        poll_fn(|context| {
            for at in (0..count).map(|at| (first + at) % count) {
                if let Poll::Ready(update) = waiting[at].as_mut().poll(context) {
                    return Poll::Ready(update);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followers").finish_non_exhaustive()
    }
}

/// The host names that the services' endpoints use.
pub fn names_in<'a>(services: impl Iterator<Item = &'a Arc<Service>>) -> BTreeSet<Arc<str>> {
    let endpoints = services.flat_map(|service| &service.endpoints);
    let names = endpoints.filter_map(|endpoint| match &endpoint.address {
        Address::Name { host, .. } => Some(host.clone()),
        Address::Socket(_) | Address::Unix(_) => None,
    });
    names.collect()
}
