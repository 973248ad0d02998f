//! Phase 3: the filters of the route, in order.

use crate::exchange::grpc::begin_bridge;
use crate::state::exchange::Exchange;
use crate::state::worker::Worker;
use thalweg_core::Fault;
use thalweg_filter::{Filter, RequestEdit};

/// Runs every filter of the route on the request, and notes which of them changed or refused it.
pub(crate) fn filter_request(worker: &Worker, x: &mut Exchange) -> Result<(), Fault> {
    let Some(found) = x.route.clone() else { return Ok(()) };
    let route = found.route();
    if route.filters.is_empty() {
        return Ok(());
    }
    let mut scratch = worker.scratch.borrow_mut();
    let mut before = keep(x.path.of(&x.received), &mut scratch);
    let (mut filters_acted, mut bit) = (0, 1_u32);
    let done = apply(&route.filters, x, |_, path| {
        if *path != scratch[..before] {
            filters_acted |= bit;
            before = keep(path, &mut scratch);
        }
        bit = bit.wrapping_shl(1);
    });
    let bridge = route.filters.iter().position(|filter| filter.bridges_grpc_web());
    if let Some(at) = bridge.filter(|_| done.is_ok() && begin_bridge(x)) {
        filters_acted |= u32::try_from(at).ok().and_then(|at| 1_u32.checked_shl(at)).unwrap_or(0);
    }
    x.filters_acted = filters_acted | if done.is_err() { bit >> 1 } else { 0 };
    done
}

/// Keeps a path, which is far shorter than what a socket is asked for at once; says how long it is.
fn keep(path: &[u8], scratch: &mut [u8]) -> usize {
    let length = path.len().min(scratch.len());
    scratch[..length].copy_from_slice(&path[..length]);
    length
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
