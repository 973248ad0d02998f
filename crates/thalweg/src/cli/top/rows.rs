//! Two samples become tables: rates between them, and how things stand now.

use super::sample::{Buckets, EndpointNow, ListenerNow, Process, RouteTotals, Sample, ServiceNow};
use std::cmp::Ordering;
use std::collections::HashMap;

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum View {
    #[default]
    Routes,
    Services,
    Endpoints,
    Connections,
}

impl View {
    /// In the order of their keys.
    pub(super) const ALL: [Self; 4] = [Self::Routes, Self::Services, Self::Endpoints, Self::Connections];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Services => "services",
            Self::Endpoints => "endpoints",
            Self::Connections => "connections",
        }
    }

    /// Its columns, the name first.
    pub(super) fn columns(self) -> &'static [Column] {
        const fn wide(title: &'static str, width: usize, rank: u8) -> Column {
            Column { title, width, rank, is_text: false }
        }
        const fn text(title: &'static str, width: usize, rank: u8) -> Column {
            Column { title, width, rank, is_text: true }
        }
        match self {
            Self::Routes => {
                const {
                    &[
                        text("ROUTE", 12, 0),
                        wide("REQ/S", 8, 0),
                        wide("5XX", 6, 1),
                        wide("4XX", 6, 4),
                        wide("P50", 8, 3),
                        wide("P99", 8, 2),
                        wide("IN/S", 9, 6),
                        wide("OUT/S", 9, 5),
                        wide("TOTAL", 12, 7),
                    ]
                }
            }
            Self::Services => {
                const {
                    &[
                        text("SERVICE", 12, 0),
                        text("STATE", 8, 1),
                        wide("REQ/S", 8, 0),
                        wide("FAIL", 6, 2),
                        wide("P50", 8, 5),
                        wide("P99", 8, 3),
                        wide("ACTIVE", 7, 4),
                        wide("QUEUED", 7, 6),
                        wide("READY", 7, 7),
                    ]
                }
            }
            Self::Endpoints => {
                const {
                    &[
                        text("ENDPOINT", 22, 0),
                        text("SERVICE", 12, 6),
                        text("STATE", 11, 1),
                        wide("REQ/S", 8, 0),
                        wide("FAIL", 6, 2),
                        wide("P50", 8, 5),
                        wide("P99", 8, 3),
                        wide("ACTIVE", 7, 4),
                        wide("WEIGHT", 7, 7),
                        text("WHY", 24, 8),
                    ]
                }
            }
            Self::Connections => {
                const {
                    &[
                        text("LISTENER", 12, 0),
                        text("ADDRESS", 22, 2),
                        text("PROTOCOL", 9, 4),
                        wide("OPEN", 8, 0),
                        wide("NEW/S", 8, 1),
                        wide("REFUSED/S", 10, 3),
                        wide("TLS/S", 8, 5),
                        wide("TOTAL", 12, 6),
                    ]
                }
            }
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Its width in characters; the first column takes what is left, and has at least this.
    pub(super) width: usize,
    /// Where there is no room for all, those with the highest go.
    pub(super) rank: u8,
    /// Text stands left, numbers right.
    pub(super) is_text: bool,
}

/// A cell: what is shown, and what it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    /// Nothing is known yet.
    Unknown,
    Count(u64),
    /// For each second.
    Rate(f64),
    /// Bytes for each second.
    Bytes(f64),
    /// Of one.
    Share(f64),
    /// In seconds.
    Time(f64),
    /// So many of so many.
    Of(u64, u64),
}

/// How a row is to be seen.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Mood {
    #[default]
    Well,
    /// Somebody may want to look.
    Odd,
    Bad,
}

/// A row, a cell for each column of the view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) mood: Mood,
}

/// The rates of the whole process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Whole {
    /// For each second; `None`: not known yet.
    pub(super) requests: Option<f64>,
    /// The share of answers with a status from 500 on.
    pub(super) errors: Option<f64>,
}

/// The sample before, where both are of the same process, and the seconds between them.
#[derive(Clone, Copy, Debug)]
struct Since<'a> {
    before: Option<&'a Sample>,
    seconds: f64,
}

impl<'a> Since<'a> {
    fn new(now: &Sample, before: Option<&'a Sample>) -> Self {
        let is_same = |process: &Process| process.pid == now.process.pid;
        let before = before.filter(|before| is_same(&before.process));
        let seconds = before.map_or(0.0, |before| now.at.saturating_duration_since(before.at).as_secs_f64());
        Self { before: before.filter(|_| seconds > 0.0), seconds }
    }

    /// How much came in each second, with this total before.
    fn rate(&self, total: u64, former: u64) -> Option<f64> {
        self.before?;
        Some(total.saturating_sub(former) as f64 / self.seconds)
    }
}

/// What there was before, to be found by name; what was not there had served nothing.
#[derive(Debug, Default)]
struct Former<'a> {
    services: HashMap<&'a str, &'a ServiceNow>,
    endpoints: HashMap<(&'a str, &'a str), &'a EndpointNow>,
}

impl<'a> Former<'a> {
    fn of(since: Since<'a>) -> Self {
        let services = since.before.map(|before| &before.services[..]).unwrap_or_default();
        let of = |service: &'a ServiceNow| {
            service.endpoints.iter().map(|endpoint| ((&*service.name, &*endpoint.url), endpoint))
        };
        Self {
            services: services.iter().map(|service| (&*service.name, service)).collect(),
            endpoints: services.iter().flat_map(of).collect(),
        }
    }
}

/// The rows of a view, in no order.
pub(super) fn rows(view: View, now: &Sample, before: Option<&Sample>) -> Vec<Row> {
    let since = Since::new(now, before);
    match view {
        View::Routes => now.routes.iter().filter_map(|(name, route)| route_row(name, route, since)).collect(),
        View::Services => {
            let former = Former::of(since);
            now.services.iter().map(|service| service_row(service, since, &former)).collect()
        }
        View::Endpoints => {
            let former = Former::of(since);
            let endpoints = now.services.iter().flat_map(|service| {
                service.endpoints.iter().map(|endpoint| (service.name.as_str(), endpoint))
            });
            endpoints.map(|(service, endpoint)| endpoint_row(service, endpoint, since, &former)).collect()
        }
        View::Connections => now.listeners.iter().map(|(name, at)| listener_row(name, at, since)).collect(),
    }
}

/// Requests and the share of 5xx among them, of all routes.
pub(super) fn whole(now: &Sample, before: Option<&Sample>) -> Whole {
    let since = Since::new(now, before);
    let all = |sample: &Sample| sample.routes.values().map(RouteTotals::total).sum::<u64>();
    let failed = |sample: &Sample| sample.routes.values().map(|route| route.classes[5]).sum::<u64>();
    let requests = since.rate(all(now), since.before.map_or(0, all));
    let errors = since.rate(failed(now), since.before.map_or(0, failed));
    Whole { requests, errors: share(errors, requests) }
}

fn route_row(name: &str, route: &RouteTotals, since: Since<'_>) -> Option<Row> {
    let nothing = RouteTotals::default();
    let former = since.before.and_then(|before| before.routes.get(name)).unwrap_or(&nothing);
    if name.is_empty() && route.total() == 0 {
        return None;
    }
    let requests = since.rate(route.total(), former.total());
    let of_class = |class: usize| share(since.rate(route.classes[class], former.classes[class]), requests);
    let failed = of_class(5);
    let [half, most] = quantiles(&route.duration, since, &former.duration);
    let cells = vec![
        Cell::Text(if name.is_empty() { "(no route)".into() } else { name.to_owned() }),
        Cell::of(requests, Cell::Rate),
        Cell::of(failed, Cell::Share),
        Cell::of(of_class(4), Cell::Share),
        half,
        most,
        Cell::of(since.rate(route.bytes_in, former.bytes_in), Cell::Bytes),
        Cell::of(since.rate(route.bytes_out, former.bytes_out), Cell::Bytes),
        Cell::Count(route.total()),
    ];
    Some(Row { cells, mood: mood_of_errors(failed) })
}

fn service_row(service: &ServiceNow, since: Since<'_>, former: &Former<'_>) -> Row {
    let nothing = ServiceNow::default();
    let former = former.services.get(&*service.name).copied().unwrap_or(&nothing);
    let requests = since.rate(service.requests(), former.requests());
    let failures = since.rate(service.failures(), former.failures());
    let [half, most] = quantiles(&service.response(), since, &former.response());
    let is_ready = |endpoint: &&EndpointNow| endpoint.state == "ready";
    let ready = service.endpoints.iter().filter(is_ready).count() as u64;
    let failed = share(failures, requests);
    let cells = vec![
        Cell::Text(service.name.clone()),
        Cell::Text(service.state.clone()),
        Cell::of(requests, Cell::Rate),
        Cell::of(failed, Cell::Share),
        half,
        most,
        Cell::Count(service.active),
        Cell::Count(service.queued),
        Cell::Of(ready, service.endpoints.len() as u64),
    ];
    let mood = match service.state.as_str() {
        "down" => Mood::Bad,
        "degraded" => Mood::Odd.worse(mood_of_errors(failed)),
        _ => mood_of_errors(failed),
    };
    Row { cells, mood }
}

fn endpoint_row(service: &str, endpoint: &EndpointNow, since: Since<'_>, former: &Former<'_>) -> Row {
    let nothing = EndpointNow::default();
    let former = former.endpoints.get(&(service, &*endpoint.url)).copied().unwrap_or(&nothing);
    let requests = since.rate(endpoint.requests, former.requests);
    let failed = share(since.rate(endpoint.failures, former.failures), requests);
    let [half, most] = quantiles(&endpoint.response, since, &former.response);
    let cells = vec![
        Cell::Text(endpoint.url.clone()),
        Cell::Text(service.to_owned()),
        Cell::Text(endpoint.state.clone()),
        Cell::of(requests, Cell::Rate),
        Cell::of(failed, Cell::Share),
        half,
        most,
        Cell::Count(endpoint.active),
        Cell::Count(endpoint.weight),
        Cell::Text(endpoint.cause.clone()),
    ];
    let mood = match endpoint.state.as_str() {
        "ready" => mood_of_errors(failed),
        "unhealthy" | "ejected" => Mood::Bad,
        _ => Mood::Odd,
    };
    Row { cells, mood }
}

fn listener_row(name: &str, listener: &ListenerNow, since: Since<'_>) -> Row {
    let nothing = ListenerNow::default();
    let former = since.before.and_then(|before| before.listeners.get(name)).unwrap_or(&nothing);
    let refused = since.rate(listener.refused, former.refused);
    let cells = vec![
        Cell::Text(name.to_owned()),
        Cell::Text(listener.address.clone()),
        Cell::Text(listener.protocol.clone()),
        Cell::Count(listener.active),
        Cell::of(since.rate(listener.accepted, former.accepted), Cell::Rate),
        Cell::of(refused, Cell::Rate),
        Cell::of(since.rate(listener.handshakes, former.handshakes), Cell::Rate),
        Cell::Count(listener.accepted),
    ];
    Row { cells, mood: if refused.is_some_and(|rate| rate > 0.0) { Mood::Odd } else { Mood::Well } }
}

fn quantiles(now: &Buckets, since: Since<'_>, former: &Buckets) -> [Cell; 2] {
    [0.5, 0.99].map(|share| {
        let found = since.before.and_then(|_| now.quantile(former, share));
        Cell::of(found, Cell::Time)
    })
}

fn share(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    let (part, whole) = part.zip(whole)?;
    Some(if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 })
}

fn mood_of_errors(share: Option<f64>) -> Mood {
    match share {
        Some(share) if share >= 0.05 => Mood::Bad,
        Some(share) if share >= 0.01 => Mood::Odd,
        _ => Mood::Well,
    }
}

impl Mood {
    fn worse(self, other: Self) -> Self {
        if other == Self::Bad { other } else { self }
    }
}

impl RouteTotals {
    fn total(&self) -> u64 {
        self.classes.iter().sum()
    }
}

impl ServiceNow {
    fn requests(&self) -> u64 {
        self.endpoints.iter().map(|endpoint| endpoint.requests).sum()
    }

    fn failures(&self) -> u64 {
        self.endpoints.iter().map(|endpoint| endpoint.failures).sum()
    }

    fn response(&self) -> Buckets {
        let mut all = Buckets::default();
        self.endpoints.iter().for_each(|endpoint| all.add(&endpoint.response));
        all
    }
}

impl Cell {
    fn of(number: Option<f64>, cell: impl Fn(f64) -> Self) -> Self {
        number.map_or(Self::Unknown, cell)
    }

    fn number(&self) -> f64 {
        match self {
            Self::Text(_) | Self::Unknown => -1.0,
            Self::Count(count) | Self::Of(count, _) => *count as f64,
            Self::Rate(number) | Self::Bytes(number) | Self::Share(number) | Self::Time(number) => *number,
        }
    }

    /// The order of two cells of a column.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            _ => self.number().total_cmp(&other.number()),
        }
    }

    /// What is shown of it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Unknown => "-".into(),
            Self::Count(count) => count.to_string(),
            Self::Of(part, whole) => format!("{part}/{whole}"),
            Self::Rate(rate) => scaled(*rate, 1000.0, ["", "k", "M", "G"]),
            Self::Bytes(rate) => scaled(*rate, 1024.0, ["B", "KiB", "MiB", "GiB"]),
            Self::Share(share) if *share == 0.0 => "0%".into(),
            Self::Share(share) if *share < 0.001 => "<0.1%".into(),
            Self::Share(share) if *share < 0.1 => format!("{:.1}%", share * 100.0),
            Self::Share(share) => format!("{:.0}%", share * 100.0),
            Self::Time(seconds) if seconds.is_infinite() => ">1m".into(),
            Self::Time(seconds) if *seconds < 0.001 => format!("{:.0}us", seconds * 1e6),
            Self::Time(seconds) if *seconds < 0.1 => format!("{:.1}ms", seconds * 1e3),
            Self::Time(seconds) if *seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
            Self::Time(seconds) => format!("{seconds:.1}s"),
        }
    }
}

/// A number with at most one digit behind the point, in the unit that suits it.
fn scaled(number: f64, step: f64, units: [&str; 4]) -> String {
    let mut number = number;
    for (at, unit) in units.iter().enumerate() {
        if number < step || at == units.len() - 1 {
            let digits = usize::from(number < 100.0 && (at > 0 || number.fract() > 0.0));
            return format!("{number:.digits$}{unit}");
        }
        number /= step;
    }
    String::new()
}
