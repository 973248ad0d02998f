//! Scenarios: real clients, real servers, bad days and the life of the process.

mod addresses;
mod clients;
mod command_line;
mod control;
mod descriptors;
mod drain;
mod failure;
mod servers;

use std::time::Duration;

use thalweg_tests::{Proxy, Watchdog};

/// Most that a scenario may take.
const LIMIT: Duration = Duration::from_secs(60);

fn watchdog(name: &str) -> Watchdog {
    Watchdog::new(name, LIMIT)
}

/// A configuration with one service of these endpoints; `more` are further top-level keys.
fn config(endpoints: &[&str], more: &str) -> String {
    let endpoints = endpoints.iter().map(|url| format!("\"{url}\"")).collect::<Vec<_>>().join(", ");
    let shutdown = if more.contains("shutdown:") { "" } else { "shutdown: { delay: 0s, grace: 5s }\n" };
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ s: {{ endpoints: [ {endpoints} ] }} }}\n\
         routes: [ {{ to: s }} ]\n\
         {shutdown}{more}\n"
    )
}

/// A proxy before these endpoints.
fn proxy(endpoints: &[&str]) -> Proxy {
    Proxy::start(&config(endpoints, ""))
}
