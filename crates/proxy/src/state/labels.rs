//! What services, endpoints and listeners are called, for records that outlive them.
//!
//! A record points at the names and not at the objects: so it keeps no connection and no plan alive, and costs no
//! atomic step. A route is small, and pointed at itself.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_upstream::Service;

/// A name, pointed at by many records of one worker.
pub(crate) type Label = Rc<Arc<str>>;

/// The names of a service on one worker.
#[derive(Debug)]
pub(crate) struct ServiceLabels {
    pub(crate) name: Label,
    /// Made when an endpoint is recorded first.
    endpoints: Box<[OnceCell<Label>]>,
}

impl ServiceLabels {
    pub(crate) fn of(service: &Service) -> Self {
        let endpoints = service.endpoints.iter().map(|_| OnceCell::new());
        Self { name: Rc::new(service.name.clone()), endpoints: endpoints.collect() }
    }

    /// The endpoint at this position of the service that they were made of.
    pub(crate) fn endpoint(&self, service: &Service, at: u32) -> Option<Label> {
        let cell = self.endpoints.get(at as usize)?;
        match cell.get() {
            Some(label) => Some(label.clone()),
            None => first(cell, service, at),
        }
    }
}

#[cold]
fn first(cell: &OnceCell<Label>, service: &Service, at: u32) -> Option<Label> {
    let endpoint = service.endpoints.get(at as usize)?;
    Some(cell.get_or_init(|| Rc::new(endpoint.url.clone())).clone())
}
