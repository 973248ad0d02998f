//! Endpoints that stand in the configuration. A plan takes over with those that it has: what comes here is what has
//! changed of a service since.

use crate::follower::{Followed, Follower, Next, Update};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use thalweg_upstream::{Endpoint, Service};

/// The lists as they are written.
#[derive(Debug, Default)]
pub(crate) struct StaticList {
    known: HashMap<Arc<str>, Arc<Service>>,
    changed: VecDeque<(Arc<str>, Vec<Endpoint>)>,
}

pub(crate) fn new() -> StaticList {
    StaticList::default()
}

impl Follower for StaticList {
    fn follow(&mut self, services: Followed<'_>) {
        let before = std::mem::take(&mut self.known);
        for service in services.configured {
            let was = before.get(&service.name);
            let has_changed =
                was.is_some_and(|was| !Arc::ptr_eq(was, service) && was.endpoints != service.endpoints);
            if has_changed {
                self.changed.retain(|(name, _)| *name != service.name);
                self.changed.push_back((service.name.clone(), service.endpoints.clone()));
            }
            self.known.insert(service.name.clone(), service.clone());
        }
        self.changed.retain(|(name, _)| self.known.contains_key(name));
    }

    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            match self.changed.pop_front() {
                Some((service, endpoints)) => Update::Endpoints { service, endpoints },
                None => std::future::pending().await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};
    use thalweg_upstream::{Address, EndpointLimits, Labels, Mode};

    fn service(ports: &[u16]) -> Arc<Service> {
        let endpoint = |port: &u16| Endpoint {
            url: format!("http://127.0.0.1:{port}").into(),
            address: Address::Socket(([127, 0, 0, 1], *port).into()),
            weight: 1,
            tier: 0,
            mode: Mode::Ready,
            labels: Labels::default(),
            limits: EndpointLimits::default(),
            is_added: false,
        };
        let endpoints = ports.iter().map(endpoint).collect();
        Arc::new(Service { name: "s".into(), endpoints, ..Service::default() })
    }

    /// How many endpoints the next update has, if there is one.
    fn next(list: &mut StaticList) -> Option<usize> {
        match list.next().as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Update::Endpoints { endpoints, .. }) => Some(endpoints.len()),
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => None,
        }
    }

    #[test]
    fn it_tells_of_lists_that_have_changed_once() {
        let mut list = StaticList::default();
        let follow = |list: &mut StaticList, ports: &[u16]| {
            let configured = &[service(ports)];
            list.follow(Followed { configured, running: configured, sources: &[] });
        };
        follow(&mut list, &[1]);
        assert_eq!(next(&mut list), None, "the plan has taken over with it");
        follow(&mut list, &[1]);
        assert_eq!(next(&mut list), None);
        follow(&mut list, &[1, 2]);
        follow(&mut list, &[1, 2, 3]);
        assert_eq!((next(&mut list), next(&mut list)), (Some(3), None), "the last one alone");
        follow(&mut list, &[1]);
        list.follow(Followed { configured: &[], running: &[], sources: &[] });
        assert_eq!(next(&mut list), None, "the service is gone");
    }
}
