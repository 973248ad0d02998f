//! What a source of endpoints is, and all of them together.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use thalweg_upstream::{Address, Endpoint, Names, Service};

/// What a source has found out. It concerns one service or one host name: whoever takes it over touches nothing else.
#[derive(Debug)]
pub enum Update {
    /// A service has these endpoints now, and no others.
    Endpoints {
        /// Its name.
        service: Arc<str>,
        /// In the order in which they are shown.
        endpoints: Vec<Endpoint>,
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
}

/// An update that is on its way.
pub type Next<'a> = Pin<Box<dyn Future<Output = Update> + Send + 'a>>;

/// The services, as sources see them.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// As the configuration says.
    pub configured: &'a [Arc<Service>],
    /// As they run: with what sources have found, and what the admin API has changed.
    pub running: &'a [Arc<Service>],
}

/// Where endpoints of services, or their addresses, come from. Runs on the control thread, within a tokio runtime.
pub trait Source: Send {
    /// These are the services from now on. What the source does for those that stay as they are goes on.
    fn follow(&mut self, services: Followed<'_>);

    /// The next update. Waits for ever when none can come. Cancel-safe.
    fn next(&mut self) -> Next<'_>;

    /// Whether all that it was asked for is known, so that a start need not wait for it any longer.
    fn is_complete(&self) -> bool {
        true
    }
}

/// An entry of the list of sources.
#[derive(Clone, Copy)]
pub struct SourceKind {
    /// Its name.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Makes one, which knows already what these host names stand for.
    pub new: fn(&Names) -> Box<dyn Source>,
}

impl std::fmt::Debug for SourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceKind").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The list: one line gives a module its name and its constructor.
macro_rules! sources {
    ($( $name:ident $summary:literal; )*) => {
        /// Every source.
        pub const SOURCES: &[SourceKind] = &[ $( SourceKind {
            name: stringify!($name),
            summary: $summary,
            new: |known| Box::new($name::new(known)),
        }, )* ];
    };
}
pub(crate) use sources;

/// All sources together.
pub struct Sources {
    all: Vec<Box<dyn Source>>,
    /// Who is asked first, in turn: a busy source keeps none of the others waiting.
    first: usize,
}

impl Sources {
    /// One of each kind, which follow these services.
    pub fn start(services: Followed<'_>, known: &Names) -> Self {
        let all = crate::SOURCES.iter().map(|kind| (kind.new)(known));
        let mut sources = Self::of(all.collect());
        sources.follow(services);
        sources
    }

    fn of(all: Vec<Box<dyn Source>>) -> Self {
        Self { all, first: 0 }
    }

    /// These are the services from now on.
    pub fn follow(&mut self, services: Followed<'_>) {
        self.all.iter_mut().for_each(|source| source.follow(services));
    }

    /// Whether all that was asked for is known.
    pub fn is_complete(&self) -> bool {
        self.all.iter().all(|source| source.is_complete())
    }

    /// The next update of any of them. Waits for ever when none can come. Cancel-safe.
    pub async fn next(&mut self) -> Update {
        let count = self.all.len().max(1);
        self.first = (self.first + 1) % count;
        let first = self.first;
        let mut waiting: Vec<_> = self.all.iter_mut().map(|source| source.next()).collect();
        poll_fn(|context| {
            for at in (0..waiting.len()).map(|at| (first + at) % count) {
                if let Poll::Ready(update) = waiting[at].as_mut().poll(context) {
                    return Poll::Ready(update);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").field("count", &self.all.len()).finish_non_exhaustive()
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
