//! Phase 2: which route takes the request.

use crate::exchange::{Client, Exchange};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::RequestHead;
use thalweg_route::{FieldLookup, Query};

/// Finds the route by host, path, method, fields, query and client address.
pub(crate) fn find_route(client: &Client, x: &mut Exchange) -> Result<(), Fault> {
    let fields = Fields { head: &x.request, bytes: &x.received };
    let query = Query {
        listener: client.listener,
        host: x.host(),
        path: x.path.of(&x.received),
        query: x.query.map(|span| span.of(&x.received)).unwrap_or_default(),
        method: x.request.method_text.of(&x.received),
        client: x.client_ip,
        fields: &fields,
    };
    let found = x.view().plan.table.find(&query);
    x.route = found;
    match found {
        Some(_) => Ok(()),
        None => Err(Fault::new(FaultKind::DestinationNotFound, "no route matches the request")),
    }
}

/// The request's fields as the router asks for them.
struct Fields<'a> {
    head: &'a RequestHead,
    bytes: &'a [u8],
}

impl FieldLookup for Fields<'_> {
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut named = self
            .head
            .fields
            .iter()
            .filter(|field| field.name.of(self.bytes).eq_ignore_ascii_case(name.as_bytes()));
        named.any(|field| test(field.value.of(self.bytes)))
    }
}
