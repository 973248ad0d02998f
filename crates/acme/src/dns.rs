//! Records in the DNS, set and taken away by somebody else: a program, or a service that is called.
//!
//! The program gets `set` or `unset`, the record's name and its value behind its own arguments, and says by its exit
//! code whether it was done. The service gets the same as JSON, signed like webhooks, and says so by its status. A
//! record may have several values at a time: `example.com` and `*.example.com` share one.

use std::io;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::Request;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use serde::Serialize;
use thalweg_client::{Bounds, HttpClient, signature};
use thalweg_core::SigningKey;
use thalweg_http::HttpUrl;
use thalweg_tls::{DnsHook, DnsHookBy};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use crate::failure::{Failure, tame};

pub(crate) const SET: &str = "set";
pub(crate) const UNSET: &str = "unset";
/// Bytes of what a program says that are kept.
const OUTPUT: u64 = 64 * 1024;

/// What a service is told.
#[derive(Serialize)]
struct Change<'a> {
    action: &'a str,
    record: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    value: &'a str,
}

/// Has a TXT record set or taken away: what to do, its name, its value.
pub(crate) async fn call(
    client: &HttpClient,
    hook: &DnsHook,
    what: (&str, &str, &str),
) -> Result<(), Failure> {
    match &hook.by {
        DnsHookBy::Exec(command) => run(command, what, hook.timeout).await,
        DnsHookBy::Webhook { url, secret } => tell(client, (url, secret.as_ref()), what, hook.timeout).await,
    }
}

async fn run(command: &[String], what: (&str, &str, &str), time: Duration) -> Result<(), Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::Other("the hook for the DNS names no program".to_owned()));
    };
    let failed = |why: String| Failure::Other(format!("the hook `{program} … {} {}` {why}", what.0, what.1));
    let mut process = Command::new(program);
    process.args(arguments).args([what.0, what.1, what.2]);
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let ended = async {
        let mut child = process.spawn()?;
        let said = child.stderr.take();
        let (said, status) = tokio::join!(gather(said), child.wait());
        Ok::<_, io::Error>((said, status?))
    };
    match timeout(time, ended).await {
        Err(_) => Err(failed(format!("was not done within {time:?}"))),
        Ok(Err(error)) => Err(failed(format!("cannot be run: {error}"))),
        Ok(Ok((_, status))) if status.success() => Ok(()),
        Ok(Ok((said, status))) => {
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
            Err(failed(format!("failed ({status}): {}", tame(last))))
        }
    }
}

/// The beginning of what a program says; the rest is read and let go, so that it need not wait.
async fn gather(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut bytes = Vec::new();
    let _ = (&mut from).take(OUTPUT).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn tell(
    client: &HttpClient,
    (url, secret): (&HttpUrl, Option<&SigningKey>),
    (action, record, value): (&str, &str, &str),
    time: Duration,
) -> Result<(), Failure> {
    let failed = |why: String| Failure::Other(format!("the hook {url} ({action} {record}): {why}"));
    let change = Change { action, record, kind: "TXT", value };
    let body = serde_json::to_vec(&change).map_err(|error| failed(error.to_string()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut request = Request::post(url.target()).header(CONTENT_TYPE, "application/json");
    request = request.header("x-thalweg-timestamp", now);
    if let Some(secret) = secret {
        request = request.header("x-thalweg-signature", signature(secret, now, &body));
    }
    let request = request.body(Bytes::from(body)).map_err(|error| failed(error.to_string()))?;
    let answer = client
        .send(&url.into(), request, Bounds::new(time, 0))
        .await
        .map_err(|error| failed(tame(&error.to_string())))?;
    match answer.status().is_success() {
        true => Ok(()),
        false => Err(failed(format!("it answers {}", answer.status()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(script: &str, time: Duration) -> Result<(), String> {
        let command = ["sh", "-c", script, "hook"].map(str::to_owned).to_vec();
        let hook = DnsHook { by: DnsHookBy::Exec(command), timeout: time, propagation: Duration::ZERO };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = HttpClient::new(thalweg_tls::Trust::System);
        let done = runtime.block_on(call(&client, &hook, (SET, "_acme-challenge.a.test", "v")));
        done.map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_program_is_told_what_to_do_and_says_whether_it_did() {
        let long = Duration::from_secs(30);
        exec("test \"$1 $2 $3\" = 'set _acme-challenge.a.test v'", long).unwrap();
        let why = exec("echo one >&2; echo 'no such zone.' >&2; exit 3", long).unwrap_err();
        assert!(why.ends_with("failed (exit status: 3): no such zone"), "{why}");
        assert!(exec("kill -9 $$", long).unwrap_err().contains("signal: 9"));
        let why = exec("yes x | head -c 1000000 >&2; exit 1", long).unwrap_err();
        assert!(why.ends_with("): x"), "{why}");
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let why = exec("exec sleep 600", Duration::from_millis(50)).unwrap_err();
        assert!(why.ends_with("was not done within 50ms"), "{why}");
    }
}
