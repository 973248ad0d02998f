//! Calls of modules to services: what becomes of them on their way to the proxy's own requests, and back.

use crate::{Fetched, FieldView, Subrequest};
use std::time::{Duration, Instant};
use thalweg_core::Fault;
use thalweg_http::h1::encode::write_field;
use thalweg_wasm::{CallResponse, HttpCall};

/// Largest answer of a service that a module calls, in bytes.
const ANSWER: usize = 1024 * 1024;
/// The longest that all calls about a request take, or about a response, from the first one on; and one, where the
/// module says nothing.
const LONGEST: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(5);

/// When the calls about a request must be over, or those about a response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallsEnd(Option<Instant>);

impl CallsEnd {
    /// The request that is made for a call; `None`: the time for all of them is over.
    pub(super) fn begin(&mut self, now: Instant, call: HttpCall) -> Option<Subrequest> {
        let left = self.0.get_or_insert(now + LONGEST).saturating_duration_since(now);
        let wanted = Duration::from_millis(call.timeout_ms.into());
        let timeout = if wanted.is_zero() { TIMEOUT } else { wanted }.min(left);
        (!left.is_zero()).then(|| subrequest(call, timeout))
    }
}

fn subrequest(call: HttpCall, timeout: Duration) -> Subrequest {
    let special = |name: &[u8]| {
        let found = call.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let mut fields = Vec::new();
    for (name, value) in call.fields.iter().filter(|(name, _)| name.first() != Some(&b':')) {
        write_field(&mut fields, name, value);
    }
    let mut host = special(b":authority");
    if host.is_empty() {
        host = call.service.clone().into_bytes();
    }
    Subrequest {
        method: special(b":method"),
        host,
        target: special(b":path"),
        service: call.service.as_str().into(),
        fields,
        body: call.body,
        max_response: ANSWER,
        timeout,
    }
}

/// What the module is told of the answer; nothing: there was none.
pub(super) fn answer(got: Result<Fetched, Fault>) -> CallResponse {
    let Ok(fetched) = got else { return CallResponse::default() };
    let status = (b":status".to_vec(), fetched.status.to_string().into_bytes());
    let fields = FieldView::new(&[], &[], &fetched.fields);
    let fields = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    CallResponse { fields: std::iter::once(status).chain(fields).collect(), body: fetched.body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_calls_about_one_message_are_over_after_a_minute() {
        let (mut end, now) = (CallsEnd::default(), Instant::now());
        let call = |timeout_ms| HttpCall { service: "judge".into(), timeout_ms, ..HttpCall::default() };
        let mut timeout = |seconds, timeout_ms| {
            let begun = end.begin(now + Duration::from_secs(seconds), call(timeout_ms));
            begun.map(|request| request.timeout.as_secs())
        };
        assert_eq!([timeout(0, 0), timeout(0, 70_000), timeout(50, 20_000)], [Some(5), Some(60), Some(10)]);
        assert_eq!([timeout(59, 1_000), timeout(60, 1_000)], [Some(1), None]);
        let request = CallsEnd::default().begin(now, call(0)).unwrap();
        assert_eq!(request.host, b"judge", "who names no host means the service's name");
    }
}
