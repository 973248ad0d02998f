//! Reloads: what they change and what they leave alone.

mod certificates;
mod gone;
mod listeners;
mod long_lived;
mod size;
mod state;
mod watch;

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::{Proxy, STEP};

/// How often it is looked whether something has been said: seldom enough not to be felt beside what is measured.
const PACE: Duration = Duration::from_millis(1);

/// A configuration with these listeners, routes and services, each as the text of a map or list.
fn plan(listeners: &str, routes: &str, services: &str) -> String {
    format!(
        "workers: 2\nmetrics: {{ address: \"127.0.0.1:0\" }}\n\
         listeners: {{ {listeners} }}\nroutes: [ {routes} ]\nservices: {{ {services} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    )
}

/// Writes the configuration that a reload is to bring. The disk may take its time.
fn write(proxy: &Proxy, text: &str) {
    fs::write(proxy.directory().join("thalweg.yaml"), text).unwrap();
}

/// Asks for a reload; gives what the proxy has written by then.
fn ask(proxy: &Proxy) -> usize {
    let said = proxy.process().stderr().len();
    proxy.process().signal(Signal::HUP);
    said
}

/// Waits until the proxy has written this, behind `said` bytes of something else; gives the line's end.
fn wait_said(proxy: &Proxy, said: usize, wanted: &str) -> String {
    let end = Instant::now() + STEP;
    loop {
        let stderr = proxy.process().stderr();
        if let Some((_, rest)) = stderr.get(said..).unwrap_or_default().split_once(wanted) {
            return rest.lines().next().unwrap_or_default().to_owned();
        }
        assert!(Instant::now() < end, "no `{wanted}` in\n{stderr}");
        thread::park_timeout(PACE);
    }
}

/// Reloads what has been written and waits until it is done; gives where to look for what was said about it.
fn take_over(proxy: &Proxy) -> usize {
    let said = ask(proxy);
    wait_said(proxy, said, "thalweg: reloaded ");
    said
}

/// Writes a configuration and reloads; gives where to look for what was said about it.
fn reload(proxy: &Proxy, text: &str) -> usize {
    write(proxy, text);
    take_over(proxy)
}

/// The address that a listener got by the reload that began at `said`.
fn opened(proxy: &Proxy, said: usize, name: &str) -> SocketAddr {
    let suffix = format!(" ({name})");
    let end = Instant::now() + STEP;
    loop {
        let stderr = proxy.process().stderr();
        let mut lines = stderr.get(said..).unwrap_or_default().lines();
        let found = lines.find_map(|line| {
            line.strip_prefix("thalweg: listening on ")?.strip_suffix(&suffix)?.parse().ok()
        });
        if let Some(address) = found {
            return address;
        }
        assert!(Instant::now() < end, "`{name}` is not told in\n{stderr}");
        thread::park_timeout(PACE);
    }
}

/// The sum of the samples of a metric whose labels have this text.
fn metric(proxy: &Proxy, name: &str, label: &str) -> f64 {
    let text = get(proxy.metrics(), "/metrics").unwrap().text();
    let of_metric = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(label))
    };
    let values =
        text.lines().filter(of_metric).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}
