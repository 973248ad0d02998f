//! What the objects of a plan are called, for records that outlive it.
//!
//! A record points at the names and not at the plan: so it keeps no old plan alive, and costs no atomic step. A name is
//! made when it is recorded first: one allocation in the life of a plan, and a name that was never used costs a pointer.

use crate::plan::{Plan, ServiceId};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_filter::Filter;
use thalweg_route::RouteId;

/// A name, pointed at by many records of one worker.
pub(crate) type Label = Rc<Arc<str>>;

/// A route's name, and those of its filters in their order.
#[derive(Debug)]
pub(crate) struct RouteLabel {
    pub(super) name: Arc<str>,
    pub(super) filters: Box<[&'static str]>,
}

/// The names of a plan on one worker, by position.
#[derive(Debug)]
pub(crate) struct Labels {
    listeners: Box<[OnceCell<Label>]>,
    routes: Box<[OnceCell<Rc<RouteLabel>>]>,
    services: Box<[Service]>,
}

#[derive(Debug)]
struct Service {
    name: OnceCell<Label>,
    endpoints: Box<[OnceCell<Label>]>,
}

impl Labels {
    /// Room for the names of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let service = |endpoints: usize| Service { name: OnceCell::new(), endpoints: cells(endpoints) };
        Self {
            listeners: cells(plan.listeners.len()),
            routes: cells(plan.routes.len()),
            services: plan.services.iter().map(|of| service(of.endpoints.len())).collect(),
        }
    }

    /// The listener at this position.
    pub(super) fn listener(&self, plan: &Plan, at: u16) -> Option<Label> {
        let at = usize::from(at);
        label(self.listeners.get(at)?, || Some(Rc::new(plan.listeners.get(at)?.name.clone())))
    }

    /// The route, once it is found.
    pub(super) fn route(&self, plan: &Plan, found: Option<RouteId>) -> Option<Rc<RouteLabel>> {
        let at = found?.0 as usize;
        label(self.routes.get(at)?, || {
            let route = plan.routes.get(at)?;
            let filters = route.filters.iter().map(|filter| Filter::name(&**filter)).collect();
            Some(Rc::new(RouteLabel { name: route.name.clone(), filters }))
        })
    }

    /// The service, once it is found.
    pub(super) fn service(&self, plan: &Plan, found: Option<ServiceId>) -> Option<Label> {
        let at = found?.0 as usize;
        label(&self.services.get(at)?.name, || Some(Rc::new(plan.services.get(at)?.name.clone())))
    }

    /// The endpoint at this position of the service.
    pub(super) fn endpoint(&self, plan: &Plan, found: Option<ServiceId>, at: u32) -> Option<Label> {
        let (service, at) = (found?.0 as usize, at as usize);
        let cell = self.services.get(service)?.endpoints.get(at)?;
        label(cell, || Some(Rc::new(plan.services.get(service)?.endpoints.get(at)?.url.clone())))
    }
}

/// What is in the cell; where nothing is yet, it is made.
fn label<T>(cell: &OnceCell<Rc<T>>, make: impl FnOnce() -> Option<Rc<T>>) -> Option<Rc<T>> {
    match cell.get() {
        Some(label) => Some(label.clone()),
        None => first(cell, make),
    }
}

#[cold]
fn first<T>(cell: &OnceCell<Rc<T>>, make: impl FnOnce() -> Option<Rc<T>>) -> Option<Rc<T>> {
    let made = make()?;
    Some(cell.get_or_init(|| made).clone())
}

fn cells<T>(count: usize) -> Box<[OnceCell<T>]> {
    std::iter::repeat_with(OnceCell::new).take(count).collect()
}
