//! Taps: what workers tell becomes the documents of the admin API.

use super::admin::Shared;
use super::requests::record;
use thalweg_admin::{NextTapEvent, OpenTap, Refusal, TapEvent, TapOptions, TapRecord};
use thalweg_proxy::{TAPS, Tap, TapHeard, TapQuery, Tapped};

impl Shared {
    /// Begins to watch. What is not there now is more likely misspelt than to come.
    pub(super) fn begin_tap(&self, options: TapOptions) -> Result<Box<dyn OpenTap>, Refusal> {
        let TapOptions { route, service, condition, sample, headers, time } = options;
        let plan = self.worker_pool().plan();
        let has_route = |name: &String| plan.routes.iter().any(|route| *route.name == **name);
        if let Some(name) = route.as_ref().filter(|name| !has_route(name)) {
            return Err(unknown("route", name, "routes"));
        }
        let has_service = |name: &String| plan.services.iter().any(|service| *service.name == **name);
        if let Some(name) = service.as_ref().filter(|name| !has_service(name)) {
            return Err(unknown("service", name, "services"));
        }
        let query = TapQuery { route, service, condition, sample, headers, time };
        match self.worker_pool().tap(query) {
            Some(tap) => Ok(Box::new(Exchanges(tap))),
            None => Err(Refusal::Conflict(format!("there are {TAPS} taps already; close one"))),
        }
    }
}

fn unknown(kind: &str, name: &str, operation: &str) -> Refusal {
    Refusal::Unknown(format!("there is no {kind} `{name}`; `thalweg api {operation}` lists them"))
}

/// What a tap tells.
struct Exchanges(Tap);

impl OpenTap for Exchanges {
    fn next(&mut self) -> NextTapEvent<'_> {
        Box::pin(async {
            Some(match self.0.next().await? {
                TapHeard::Exchange(tapped) => TapEvent::Exchange(Box::new(document(*tapped))),
                TapHeard::Dropped(count) => TapEvent::Dropped(count),
            })
        })
    }
}

fn document(tapped: Tapped) -> TapRecord {
    let Tapped { decision, scheme, proto, headers } = tapped;
    let headers_cut = headers.as_ref().is_some_and(|headers| headers.is_cut);
    let (request_headers, response_headers) =
        headers.map(|headers| (headers.request, headers.response)).unzip();
    TapRecord {
        record: record(decision),
        scheme,
        proto: Some(proto).filter(|proto| !proto.is_empty()),
        request_headers,
        response_headers,
        headers_cut,
    }
}
