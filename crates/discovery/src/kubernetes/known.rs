//! The objects of a namespace that are asked for, and what they say of endpoints.

use super::endpoints::{Wanted, endpoints};
use super::objects::{EndpointSliceSpec, KubeServiceSpec, Resource, SERVICE_NAME};
use super::resources::{Change, MOST, News};
use crate::feed::{Feed, PAUSE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What is known of the Services of a namespace that are asked for.
pub(super) struct Known {
    namespace: String,
    wanted: Vec<Wanted>,
    names: BTreeSet<String>,
    feed: Feed,
    objects: Mutex<Objects>,
    bell: Notify,
    is_too_much: AtomicBool,
}

/// `None`: not listed yet.
#[derive(Default)]
struct Objects {
    services: Option<BTreeMap<String, KubeServiceSpec>>,
    slices: Option<BTreeMap<String, EndpointSliceSpec>>,
    /// Services of which something has changed.
    changed: BTreeSet<String>,
}

impl Known {
    pub(super) fn new(namespace: String, wanted: Vec<Wanted>, feed: Feed) -> Self {
        let names = wanted.iter().map(|wanted| wanted.service.clone()).collect();
        Self {
            namespace,
            wanted,
            names,
            feed,
            objects: Mutex::default(),
            bell: Notify::new(),
            is_too_much: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn services(&self, news: News<KubeServiceSpec>) {
        let objects = &mut *self.lock();
        let of = |service: &KubeServiceSpec| Some(service.metadata().name.clone());
        self.take(news, &mut objects.services, of, &mut objects.changed);
    }

    pub(super) fn slices(&self, news: News<EndpointSliceSpec>) {
        let objects = &mut *self.lock();
        let of = |slice: &EndpointSliceSpec| slice.metadata().label(SERVICE_NAME).map(str::to_owned);
        self.take(news, &mut objects.slices, of, &mut objects.changed);
    }

    /// Takes over what has become of objects; `of` names the Service that one belongs to.
    fn take<R: Resource>(
        &self,
        news: News<R>,
        known: &mut Option<BTreeMap<String, R>>,
        of: impl Fn(&R) -> Option<String>,
        changed: &mut BTreeSet<String>,
    ) {
        let is_wanted = |object: &R| of(object).is_some_and(|service| self.names.contains(&service));
        match news {
            News::All(objects) => {
                let objects = objects.into_iter().filter(is_wanted);
                *known = Some(objects.map(|object| (object.metadata().name.clone(), object)).collect());
                changed.extend(self.names.iter().cloned());
            }
            News::Changes(changes) => {
                let known = known.get_or_insert_default();
                self.feed.alive();
                for change in changes {
                    let (name, new) = match change {
                        Change::Is(object) => {
                            (object.metadata().name.clone(), Some(object).filter(|object| is_wanted(object)))
                        }
                        Change::Gone(object) => (object.metadata().name.clone(), None),
                    };
                    changed.extend(new.as_ref().and_then(&of));
                    let old = match new {
                        Some(object) => known.insert(name, object),
                        None => known.remove(&name),
                    };
                    changed.extend(old.as_ref().and_then(&of));
                }
            }
        }
        let size = known.iter().flat_map(BTreeMap::values).map(Resource::size).sum::<usize>();
        if size > MOST {
            self.is_too_much.store(true, Ordering::Relaxed);
        }
        if !changed.is_empty() {
            self.bell.notify_one();
        }
    }

    /// Tells of what has changed, at most once in [`PAUSE`]. Ends when it is too much to be kept; then why.
    pub(super) async fn tell(&self) -> String {
        loop {
            self.bell.notified().await;
            if self.is_too_much.load(Ordering::Relaxed) {
                return format!("there are more than {MOST} endpoints in the namespace `{}`", self.namespace);
            }
            self.tell_changed();
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn tell_changed(&self) {
        let objects = &mut *self.lock();
        let (Some(services), Some(slices)) = (&objects.services, &objects.slices) else { return };
        let changed = std::mem::take(&mut objects.changed);
        for wanted in self.wanted.iter().filter(|wanted| changed.contains(&wanted.service)) {
            let is_own =
                |slice: &&EndpointSliceSpec| slice.metadata().label(SERVICE_NAME) == Some(&*wanted.service);
            let own: Vec<_> = slices.values().filter(is_own).collect();
            let query = wanted.query(&self.namespace);
            match endpoints(wanted, services.get(&wanted.service), &own) {
                Ok(answer) => {
                    self.feed.found(&query, answer.found);
                    if let Some(flaw) = answer.flaw {
                        self.feed.flawed(&query, flaw);
                    }
                }
                Err(why) => self.feed.refused(&query, why),
            }
        }
    }
}
