//! `tracing:` traces of requests.

use super::key::token;
use super::secret::Secrets;
use super::{duration, percent};
use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{ParentsSpec, Spanned, TraceProtocolSpec, TracingSpec};
use std::time::Duration;
use thalweg_http::HttpUrl;
use thalweg_observe::trace::{
    Parents, SecretText, TIMEOUT, TraceExport, TraceProtocol, Tracing, TracingPolicy,
};

/// Most fields, and most attributes.
const ENTRIES: usize = 32;
/// Longest text of one, in bytes.
const TEXT: usize = 4096;
/// Where OTLP over HTTP is taken.
const PATH: &str = "/v1/traces";
/// Default for the share of traces that are recorded, in percent.
const SHARE: u32 = 1;
/// Default for the time from which on an exchange is slow.
const SLOW: Duration = Duration::from_secs(1);
/// The attribute of the process's name, and of its version.
const NAME: &str = "service.name";
const VERSION: &str = "service.version";
/// Fields that the proxy writes itself.
const OWN: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "te",
    "user-agent",
    "grpc-timeout",
];

/// Checks it. `None` when the URL is wrong; the rest is checked all the same.
pub(crate) fn tracing(spec: &TracingSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<Tracing> {
    let (least, most) = (Duration::from_millis(1), Duration::from_secs(24 * 3600));
    let slower_than = duration(spec.slower_than.as_ref(), least, most, problems);
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(60));
    let timeout = duration(spec.timeout.as_ref(), least, most, problems);
    let share = percent(spec.sample.as_ref(), 0, 100, problems).unwrap_or(SHARE);
    let policy = TracingPolicy {
        parents: match spec.parents {
            ParentsSpec::All => Parents::All,
            ParentsSpec::Trusted => Parents::Trusted,
            ParentsSpec::None => Parents::None,
        },
        share,
        errors: spec.errors.unwrap_or(true),
        slower_than: slower_than.unwrap_or(SLOW),
    };
    let protocol = match spec.protocol {
        TraceProtocolSpec::Http => TraceProtocol::Http,
        TraceProtocolSpec::Grpc => TraceProtocol::Grpc,
    };
    let (headers, attributes) = (headers(spec, secrets, problems), attributes(spec, problems));
    let endpoint = endpoint(&spec.endpoint, protocol, problems)?;
    let timeout = timeout.unwrap_or(TIMEOUT);
    Some(Tracing { policy, export: TraceExport { endpoint, protocol, headers, attributes, timeout } })
}

/// The URL. A collector listens at one path for OTLP over HTTP, and at none for gRPC.
fn endpoint(written: &Spanned<String>, protocol: TraceProtocol, problems: &mut Problems) -> Option<HttpUrl> {
    let url = HttpUrl::parse(written).and_then(|url| match (protocol, url.target()) {
        (TraceProtocol::Http, "/") => HttpUrl::parse(&format!("{}{PATH}", written.trim_end_matches('/'))),
        (TraceProtocol::Grpc, target) if target != "/" => {
            Err("a collector has no path for gRPC; leave it out")
        }
        _ => Ok(url),
    });
    let refused = |message: &'static str| {
        let error = SpecError::new(Class::Invalid, written.span, message);
        problems.push(error.help("write for example `http://127.0.0.1:4318`"));
    };
    url.map_err(refused).ok()
}

fn headers(spec: &TracingSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Vec<(String, SecretText)> {
    let mut headers: Vec<(String, SecretText)> = Vec::new();
    for (name, value) in &spec.headers.0 {
        if !token(name, "header", problems) {
            continue;
        }
        let plain = name.value.to_ascii_lowercase();
        let message = match () {
            () if OWN.contains(&&*plain) => Some(format!("the proxy writes `{plain}` itself")),
            () if headers.iter().any(|(known, _)| *known == plain) => {
                Some(format!("`{plain}` is there already, in other letters"))
            }
            () if headers.len() == ENTRIES => Some(format!("there are at most {ENTRIES} headers")),
            () => None,
        };
        if let Some(message) = message {
            problems.push(SpecError::value(name.span, "header", message));
            continue;
        }
        let Some((bytes, span)) = secrets.bytes(&value.value, problems) else { continue };
        let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        match String::from_utf8(bytes) {
            Ok(text)
                if !text.is_empty() && text.len() <= TEXT && text.bytes().all(|byte| is_plain(&byte)) =>
            {
                headers.push((plain, SecretText(text)));
            }
            _ => {
                let message =
                    format!("the value of a header has 1 to {TEXT} visible characters of ASCII and spaces");
                problems.push(SpecError::new(Class::Invalid, span, message));
            }
        }
    }
    headers
}

fn attributes(spec: &TracingSpec, problems: &mut Problems) -> Vec<(String, String)> {
    let mut attributes: Vec<(String, String)> = Vec::new();
    let name = spec.service_name.as_ref();
    if let Some(name) = name {
        check(name, "`service_name`", problems);
    }
    attributes.push((NAME.to_owned(), name.map_or("thalweg", |name| &name.value).to_owned()));
    for (key, value) in &spec.attributes.0 {
        check(key, "the name of an attribute", problems);
        check(value, "an attribute", problems);
        if key.value == NAME {
            let error = SpecError::value(key.span, "attribute", "`service.name` has a key of its own");
            problems.push(error.help("write it as `service_name`"));
        } else if attributes.len() == ENTRIES {
            let message = format!("there are at most {} attributes", ENTRIES - 1);
            problems.push(SpecError::value(key.span, "attribute", message));
            break;
        } else {
            attributes.push((key.value.clone(), value.value.clone()));
        }
    }
    if spec.attributes.0.iter().all(|(key, _)| key.value != VERSION) {
        attributes.push((VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    }
    attributes
}

fn check(text: &Spanned<String>, what: &str, problems: &mut Problems) {
    if text.value.trim().is_empty() || text.value.len() > TEXT || text.value.chars().any(char::is_control) {
        let message = format!("{what} has 1 to {TEXT} bytes and no control characters");
        problems.push(SpecError::new(Class::Invalid, text.span, message));
    }
}
