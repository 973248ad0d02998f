//! Phase 3: the filters of the route, in order.

use crate::exchange::Exchange;
use thalweg_core::Fault;
use thalweg_filter::RequestEdit;

/// Runs every filter of the route on the request.
pub(crate) fn filter_request(x: &mut Exchange) -> Result<(), Fault> {
    let Some(found) = x.route.clone() else { return Ok(()) };
    let route = found.route();
    if route.filters.is_empty() {
        return Ok(());
    }
    x.is_filtered = true;
    x.filtered_path.clear();
    x.filtered_path.extend_from_slice(x.path.of(&x.received));
    for filter in route.filters.iter() {
        filter.on_request(&mut RequestEdit { path: &mut x.filtered_path })?;
    }
    if x.filtered_path.starts_with(b"//") {
        // As in a request target: who reads it next could take it for an authority.
        return Err(Fault::request(400, "a path that begins with two slashes after the filters"));
    }
    Ok(())
}
