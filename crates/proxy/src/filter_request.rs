//! Phase 3: the filters of the route, in order.

use crate::exchange::Exchange;
use thalweg_core::Fault;
use thalweg_filter::{Filter, RequestEdit};

/// Runs every filter of the route on the request.
pub(crate) fn filter_request(x: &mut Exchange) -> Result<(), Fault> {
    let view = x.view().clone();
    let Some(route) = view.route(x.route) else { return Ok(()) };
    apply(&route.filters, x, |_, _| {})
}

/// Runs these filters; after each of them `seen` is told its name and the path as it is then.
pub(crate) fn apply(
    filters: &[Box<dyn Filter>],
    x: &mut Exchange,
    mut seen: impl FnMut(&'static str, &[u8]),
) -> Result<(), Fault> {
    if filters.is_empty() {
        return Ok(());
    }
    x.is_filtered = true;
    x.filtered_path.clear();
    x.filtered_path.extend_from_slice(x.path.of(&x.received));
    for filter in filters {
        let done = filter.on_request(&mut RequestEdit { path: &mut x.filtered_path });
        seen(filter.name(), &x.filtered_path);
        done?;
    }
    if x.filtered_path.starts_with(b"//") {
        // As in a request target: who reads it next could take it for an authority.
        return Err(Fault::request(400, "a path that begins with two slashes after the filters"));
    }
    Ok(())
}
