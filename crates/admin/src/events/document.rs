//! The JSON of an event. Stable: members are added, never renamed or removed.

use std::fs;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::Serialize;
use thalweg_core::EndpointSnapshot;

use super::published::Published;

/// Which proxy speaks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Origin {
    version: &'static str,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    id: u64,
    time: String,
    event: &'static str,
    service: Option<&'a str>,
    endpoint: Option<&'a str>,
    cause: &'a str,
    endpoints: Vec<Endpoint<'a>>,
    proxy: &'a Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
}

#[derive(Serialize)]
struct Endpoint<'a> {
    url: &'a str,
    weight: u32,
    state: &'static str,
}

impl Origin {
    pub(super) fn of_this_process() -> Self {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let host = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        Self { version: env!("CARGO_PKG_VERSION"), pid: std::process::id(), host }
    }

    pub(super) fn json(&self, published: &Published, missed: Option<u64>) -> String {
        let Published { id, event } = published;
        let document = Document {
            id: *id,
            time: time(event.at),
            event: event.kind.name(),
            service: event.service.as_deref(),
            endpoint: event.endpoint.as_deref(),
            cause: &event.cause,
            endpoints: event.endpoints.iter().map(Endpoint::of).collect(),
            proxy: self,
            missed,
        };
        // Cannot fail: no map with other keys than text, nothing that refuses to be written.
        serde_json::to_string(&document).unwrap_or_default()
    }
}

impl<'a> Endpoint<'a> {
    fn of(snapshot: &'a EndpointSnapshot) -> Self {
        Self { url: &snapshot.url, weight: snapshot.weight, state: snapshot.state.name() }
    }
}

/// RFC 3339, UTC, milliseconds.
fn time(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thalweg_core::{EndpointCondition, Event, EventKind};

    use super::*;

    fn origin() -> Origin {
        Origin { version: "1.2.3", pid: 7, host: Some("edge-1".into()) }
    }

    #[test]
    fn has_its_documented_form() {
        let event = Event {
            at: SystemTime::UNIX_EPOCH + Duration::new(1_795_330_800, 7_999_999),
            kind: EventKind::EndpointDown,
            service: Some("shop".into()),
            endpoint: Some("http://10.0.0.1:80".into()),
            cause: "health check: \"status\" 503".into(),
            endpoints: std::sync::Arc::new([
                EndpointSnapshot {
                    url: "http://10.0.0.1:80".into(),
                    weight: 1,
                    state: EndpointCondition::Unhealthy,
                },
                EndpointSnapshot {
                    url: "http://10.0.0.2:80".into(),
                    weight: 3,
                    state: EndpointCondition::Ready,
                },
            ]),
        };
        let json = origin().json(&Published { id: 12, event }, Some(2));
        assert_eq!(
            json,
            "{\"id\":12,\"time\":\"2026-11-22T07:00:00.007Z\",\"event\":\"endpoint_down\",\"service\":\"shop\",\
             \"endpoint\":\"http://10.0.0.1:80\",\"cause\":\"health check: \\\"status\\\" 503\",\
             \"endpoints\":[{\"url\":\"http://10.0.0.1:80\",\"weight\":1,\"state\":\"unhealthy\"},\
             {\"url\":\"http://10.0.0.2:80\",\"weight\":3,\"state\":\"ready\"}],\
             \"proxy\":{\"version\":\"1.2.3\",\"pid\":7,\"host\":\"edge-1\"},\"missed\":2}"
        );
    }

    #[test]
    fn what_an_event_is_not_about_is_null() {
        let event = Event {
            at: SystemTime::UNIX_EPOCH,
            kind: EventKind::ReloadFailed,
            service: None,
            endpoint: None,
            cause: "line 3".into(),
            endpoints: Default::default(),
        };
        let json = Origin { host: None, ..origin() }.json(&Published { id: 1, event }, None);
        assert_eq!(
            json,
            "{\"id\":1,\"time\":\"1970-01-01T00:00:00.000Z\",\"event\":\"reload_failed\",\"service\":null,\
             \"endpoint\":null,\"cause\":\"line 3\",\"endpoints\":[],\"proxy\":{\"version\":\"1.2.3\",\"pid\":7}}"
        );
    }
}
