//! Host names of endpoints: whether they resolve now.

use super::Subject;
use std::time::Duration;
use thalweg_config::{SpecError, endpoint_address};
use thalweg_discovery::{look_up, names_in};
use thalweg_upstream::Address;

/// How long all names together may take.
const TIME: Duration = Duration::from_secs(3);

pub(super) fn check(subject: &Subject<'_>) -> Vec<SpecError> {
    let names = names_in(subject.loaded.plan.services.iter());
    if names.is_empty() {
        return Vec::new();
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let failures = runtime.block_on(look_up(&names, TIME));
    // A name server that never answers must not hold up the end.
    runtime.shutdown_background();
    let mut found = Vec::new();
    for (url, span) in &subject.places.endpoints {
        let Ok((_, Address::Name { host, .. })) = endpoint_address(url) else { continue };
        if let Some(why) = failures.get(&host) {
            // What was asked for is said already.
            let why = why.split(" for Query").next().unwrap_or(why);
            let message = match span.filled {
                true => format!("the host name here does not resolve on this machine: {why}"),
                false => format!("`{host}` does not resolve here: {why}"),
            };
            let warning = SpecError::warning("names", *span, message);
            found.push(warning.help("a start does not wait for it: it is asked for again and again"));
        }
    }
    found
}
