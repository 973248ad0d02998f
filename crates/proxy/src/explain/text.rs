//! An [`Explanation`] as text: the outcome first, then how it came to be. Legible without colour.

use super::explanation::{
    CacheSeen, EndpointSeen, Explanation, Outcome, ServicePart, TakenRoute, TimeoutsSeen, ValueOrigin,
};
use std::fmt::{self, Write as _};
use std::time::Duration;
use thalweg_core::units::duration_text;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = &self.request;
        let query = seen.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        match seen.path.is_empty() {
            true => write!(f, "{} {}", seen.method, seen.url)?,
            false => write!(f, "{} {}{}{query}", seen.method, seen.host, seen.path)?,
        }
        writeln!(f, "  (listener {}, client {})", seen.listener, seen.client)?;
        writeln!(f, "{}", self.summary())?;
        if let Some(route) = &self.route {
            write_route(f, route)?;
        }
        write_others(f, self)?;
        write_origins(f, &self.origins)
    }
}

impl Explanation {
    /// What becomes of the request, in one line.
    pub fn summary(&self) -> String {
        match &self.outcome {
            Outcome::Forwarded { service, target, host } => {
                let to = match service {
                    Some(service) => format!("`{service}`"),
                    None => "one of its services, by weight,".to_owned(),
                };
                let host = host.as_ref().map(|host| format!(" with Host: {host}")).unwrap_or_default();
                format!("goes to {to} as {} {target}{host}", self.request.method)
            }
            Outcome::Answered { status, fault, detail } => {
                format!("is answered {status} by the proxy: {detail} ({fault})")
            }
            Outcome::Replied { status, filter, location } => {
                let to = location.as_ref().map(|place| format!(": sent to {place}")).unwrap_or_default();
                format!("is answered {status} by the filter `{filter}`{to}")
            }
            Outcome::Redirected { status, location } => {
                format!("is answered {status} by the proxy: sent to {location} (redirect_https)")
            }
        }
    }
}

fn write_route(f: &mut fmt::Formatter<'_>, route: &TakenRoute) -> fmt::Result {
    let origin = route.origin.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
    writeln!(f, "\nroute `{}`{origin}: {}", route.name, route.matches)?;
    for filter in &route.filters {
        match filter.before == filter.after {
            true if filter.changed => writeln!(f, "  {}: changes fields", filter.name)?,
            true => writeln!(f, "  {}: changes nothing of the request", filter.name)?,
            false => writeln!(f, "  {}: {} -> {}", filter.name, filter.before, filter.after)?,
        }
    }
    route.cache.iter().try_for_each(|cache| write_cache(f, cache))?;
    write_timeouts(f, &route.timeouts)?;
    if let Some(bytes) = route.limits.max_body {
        writeln!(f, "  body: at most {bytes} bytes")?;
    }
    if let Some(most) = route.limits.max_in_flight {
        writeln!(f, "  exchanges under way: at most {most}")?;
    }
    if !route.allow_encoded.is_empty() {
        writeln!(f, "  the path may have: {}", route.allow_encoded.join(", "))?;
    }
    if let Some(key) = &route.split_by {
        writeln!(f, "  split by {key}")?;
    }
    if let Some(sealed) = &route.sealed {
        let destination = sealed.destination.as_deref().unwrap_or("a service");
        writeln!(f, "  the label leads to {destination}, until Unix time {}", sealed.expires)?;
    }
    route.services.iter().try_for_each(|part| write_service(f, part))
}

fn write_cache(f: &mut fmt::Formatter<'_>, cache: &CacheSeen) -> fmt::Result {
    match (&cache.because, &cache.key) {
        (Some(because), _) => writeln!(f, "  cache: passed by, since {because}")?,
        (None, Some(key)) => {
            let parts = cache.key_parts.iter().map(|part| format!(", {part}")).collect::<String>();
            writeln!(f, "  cache: looked up as {key}{parts}")?;
        }
        (None, None) => {}
    }
    cache.remarks.iter().try_for_each(|remark| writeln!(f, "  cache: {remark}"))
}

fn write_timeouts(f: &mut fmt::Formatter<'_>, times: &TimeoutsSeen) -> fmt::Result {
    let request = times.request_ms.map(|ms| format!(", in all {}", time(ms))).unwrap_or_default();
    writeln!(
        f,
        "  timeouts: connect {}, first byte {}, idle {}{request}",
        time(times.connect_ms),
        time(times.first_byte_ms),
        time(times.idle_ms)
    )
}

fn write_service(f: &mut fmt::Formatter<'_>, part: &ServicePart) -> fmt::Result {
    write!(f, "\nservice `{}`", part.name)?;
    if let Some(weight) = part.weight {
        write!(f, " (weight {weight}, {} %)", part.share)?;
    }
    match part.chosen {
        Some(false) => return writeln!(f, ": not this request"),
        _ => write!(f, ": {}", part.balance)?,
    }
    if let Some(key) = &part.key {
        write!(f, " by {key}")?;
    }
    let retry = &part.retry;
    match retry.attempts {
        1 => write!(f, ", 1 attempt")?,
        n => write!(f, ", up to {n} attempts (budget {} %)", retry.budget_percent)?,
    }
    if let Some(ms) = retry.per_try_timeout_ms {
        write!(f, " of {} each", time(ms))?;
    }
    if let Some(ms) = retry.hedge_after_ms {
        write!(f, ", a copy after {}", time(ms))?;
    }
    if let Some(most) = part.max_in_flight {
        write!(f, ", at most {most} under way")?;
    }
    f.write_char('\n')?;
    part.timeouts.iter().try_for_each(|own| write_timeouts(f, own))?;
    match &part.host {
        Some(host) => writeln!(f, "  gets Host: {host}")?,
        None => writeln!(f, "  gets the endpoint's own Host")?,
    }
    if let Some(url) = &part.sticky_to {
        writeln!(f, "  the cookie names {url}")?;
    }
    if let Some(source) = &part.source {
        writeln!(f, "  endpoints come from {source}")?;
    }
    let width = part.endpoints.iter().map(|endpoint| endpoint.url.len()).max().unwrap_or(0);
    part.endpoints.iter().try_for_each(|endpoint| write_endpoint(f, endpoint, width))?;
    match part.more_endpoints {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more endpoints"),
    }
}

fn write_endpoint(f: &mut fmt::Formatter<'_>, endpoint: &EndpointSeen, width: usize) -> fmt::Result {
    write!(f, "  {:width$}  weight {}", endpoint.url, endpoint.weight)?;
    if endpoint.tier > 0 {
        write!(f, ", tier {}", endpoint.tier)?;
    }
    if let Some(state) = &endpoint.state {
        write!(f, ", {state}")?;
    }
    if let Some(cause) = &endpoint.cause {
        write!(f, " ({cause})")?;
    }
    if let Some(number) = endpoint.in_flight {
        write!(f, ", {number} under way")?;
    }
    if let Some(origin) = &endpoint.origin {
        write!(f, "; {origin}")?;
    }
    f.write_char('\n')
}

fn write_others(f: &mut fmt::Formatter<'_>, explanation: &Explanation) -> fmt::Result {
    if explanation.other_routes.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nroutes that do not take it")?;
    for other in &explanation.other_routes {
        writeln!(f, "  `{}`: {}", other.name, other.because)?;
    }
    match explanation.more_routes {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more (--all lists them)"),
    }
}

fn write_origins(f: &mut fmt::Formatter<'_>, origins: &[ValueOrigin]) -> fmt::Result {
    let said = |origin: &ValueOrigin| match &origin.value {
        Some(value) => format!("{} {value}", origin.field),
        None => origin.field.clone(),
    };
    let width = origins.iter().map(|origin| said(origin).len()).max().unwrap_or(0);
    let mut object = "";
    for origin in origins {
        if origin.object != object {
            object = &origin.object;
            writeln!(f, "\nwhere {object} is written")?;
        }
        writeln!(f, "  {:width$}  {}", said(origin), origin.origin)?;
    }
    Ok(())
}

/// As a configuration has it.
fn time(ms: u64) -> String {
    duration_text(Duration::from_millis(ms))
}
