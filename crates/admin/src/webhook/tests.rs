//! Webhooks against a receiver in this process.

use std::collections::VecDeque;
use std::sync::Mutex;

use thalweg_core::{EventKind, SigningKey};
use thalweg_http::HttpUrl;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::*;
use crate::events::tests::event;

/// Longest that anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// One request as it came.
#[derive(Debug)]
struct Got {
    fields: Vec<(String, String)>,
    body: String,
}

impl Got {
    fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn cause(&self) -> String {
        self.json()["cause"].as_str().unwrap_or_default().to_owned()
    }
}

/// A receiver that answers with the given statuses, then with 200.
struct Receiver {
    listener: TcpListener,
    statuses: Mutex<VecDeque<u16>>,
}

impl Receiver {
    async fn new(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, statuses: Mutex::new(statuses.iter().copied().collect()) }
    }

    /// A policy for it that loses no time.
    fn policy(&self) -> WebhookPolicy {
        let url = format!("http://{}/hook", self.listener.local_addr().unwrap());
        let backoff = Duration::from_millis(1);
        WebhookPolicy { backoff, timeout: LONG, ..WebhookPolicy::new(HttpUrl::parse(&url).unwrap()) }
    }

    /// The next request, not answered yet.
    async fn accept(&self) -> (Got, TcpStream) {
        let accepted = timeout(LONG, self.listener.accept()).await.expect("no request came");
        let mut stream = BufReader::new(accepted.unwrap().0);
        let (mut fields, mut line) = (Vec::new(), String::new());
        stream.read_line(&mut line).await.unwrap();
        assert_eq!(line, "POST /hook HTTP/1.1\r\n");
        loop {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            fields.push((name.to_owned(), value.to_owned()));
        }
        let mut got = Got { fields, body: String::new() };
        let mut body = vec![0; got.field("content-length").parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        got.body = String::from_utf8(body).unwrap();
        (got, stream.into_inner())
    }

    /// The next request, answered.
    async fn next(&self) -> Got {
        let (got, stream) = self.accept().await;
        let status = self.statuses.lock().unwrap().pop_front().unwrap_or(200);
        reply(stream, status).await;
        got
    }
}

async fn reply(mut stream: TcpStream, status: u16) {
    let elsewhere = "Location: http://127.0.0.1:9/\r\n";
    let answer = format!("HTTP/1.1 {status} X\r\n{elsewhere}Content-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

/// Webhooks with everything that they talk to.
struct Running {
    events: Events,
    meters: Arc<WebhookMeters>,
    notices: mpsc::Receiver<Notice>,
    webhooks: Webhooks,
}

impl Running {
    fn start(policies: Vec<WebhookPolicy>) -> Self {
        let (events, meters) = (Events::new(), Arc::<WebhookMeters>::default());
        let (notices_in, notices) = mpsc::channel(16);
        let webhooks = Webhooks::start(policies, &events, Arc::clone(&meters), notices_in);
        Self { events, meters, notices, webhooks }
    }

    fn publish(&self, cause: &str) {
        self.events.publish(event(cause));
    }

    async fn notice(&mut self) -> String {
        timeout(LONG, self.notices.recv()).await.expect("no notice came").expect("webhooks run").text
    }

    /// Ends the webhooks once everything is delivered, and gives delivered, given up, dropped, retried.
    async fn finish(self) -> [u64; 4] {
        let begun = Instant::now();
        self.webhooks.finish(LONG).await;
        assert!(begun.elapsed() < LONG, "webhooks did not end");
        let meters = self.meters;
        [&meters.delivered, &meters.given_up, &meters.dropped, &meters.retries].map(|meter| meter.value())
    }
}

#[tokio::test]
async fn an_event_is_delivered_with_its_signature() {
    let receiver = Receiver::new(&[]).await;
    let secret = Some(SigningKey::new(b"hush").unwrap());
    let running = Running::start(vec![WebhookPolicy { secret, ..receiver.policy() }]);
    running.publish("health check");
    let got = receiver.next().await;
    assert_eq!(running.finish().await, [1, 0, 0, 0]);
    assert_eq!(
        (got.field("content-type"), got.field("x-thalweg-event")),
        ("application/json", "endpoint_down")
    );
    assert_eq!(got.field("user-agent"), concat!("thalweg/", env!("CARGO_PKG_VERSION")));
    let json = got.json();
    assert_eq!((&json["id"], &json["event"]), (&1.into(), &"endpoint_down".into()));
    assert_eq!((&json["cause"], &json["missed"]), (&"health check".into(), &0.into()));
    let timestamp: u64 = got.field("x-thalweg-timestamp").parse().unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(timestamp <= now && now - timestamp < 60, "{timestamp} is not now");
    let mut signed = format!("{timestamp}.").into_bytes();
    signed.extend_from_slice(got.body.as_bytes());
    // Another implementation than the one that signs.
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, b"hush");
    let hex: String =
        aws_lc_rs::hmac::sign(&key, &signed).as_ref().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(got.field("x-thalweg-signature"), format!("sha256={hex}"));
}

#[tokio::test]
async fn what_fails_is_sent_again_as_the_same_delivery() {
    let receiver = Receiver::new(&[500, 404, 302]).await;
    let running = Running::start(vec![receiver.policy()]);
    running.publish("a");
    let mut ids = Vec::new();
    for _ in 0..4 {
        let got = receiver.next().await;
        assert_eq!(got.cause(), "a");
        ids.push(got.field("x-thalweg-delivery").to_owned());
    }
    assert!(ids[0].len() == 36 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(running.finish().await, [1, 0, 0, 3]);
}

#[tokio::test]
async fn what_fails_too_often_is_given_up_with_one_line_and_told_as_missed() {
    let receiver = Receiver::new(&[503, 503]).await;
    let mut running = Running::start(vec![WebhookPolicy { attempts: 2, ..receiver.policy() }]);
    running.publish("a");
    running.publish("b");
    running.publish("c");
    let mut got = Vec::new();
    for _ in 0..4 {
        let request = receiver.next().await;
        got.push((request.cause(), request.json()["missed"].as_u64().unwrap()));
    }
    assert_eq!(got, [("a".into(), 0), ("a".into(), 0), ("b".into(), 1), ("c".into(), 0)]);
    let line = running.notice().await;
    assert!(line.ends_with(": endpoint_down given up after 2 attempts: it answered 503"), "{line}");
    assert!(line.starts_with("webhook http://127.0.0.1:") && !line.contains("/hook"), "{line}");
    assert!(running.notices.try_recv().is_err());
    assert_eq!(running.finish().await, [2, 1, 0, 1]);
}

#[tokio::test]
async fn events_come_in_order_and_only_those_that_are_wanted() {
    let receiver = Receiver::new(&[200, 500, 500]).await;
    let events = vec![EventKind::EndpointDown, EventKind::ReloadFailed];
    let running = Running::start(vec![WebhookPolicy { events, ..receiver.policy() }]);
    for number in 0..20 {
        let kind = if number % 3 == 0 { EventKind::EndpointUp } else { EventKind::EndpointDown };
        running.events.publish(thalweg_core::Event { kind, ..event(&number.to_string()) });
    }
    let mut causes = Vec::new();
    for _ in 0..15 {
        causes.push(receiver.next().await.cause());
    }
    causes.dedup();
    let wanted: Vec<_> = (0..20).filter(|number| number % 3 != 0).map(|number| number.to_string()).collect();
    assert_eq!(causes, wanted);
    assert_eq!(running.finish().await, [13, 0, 0, 2]);
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_costs_its_oldest_events_and_nobody_else_anything() {
    let (slow, fast) = (Receiver::new(&[]).await, Receiver::new(&[]).await);
    let running = Running::start(vec![WebhookPolicy { queue: 3, ..slow.policy() }, fast.policy()]);
    running.publish("0");
    let (first, unanswered) = slow.accept().await;
    assert_eq!(first.cause(), "0");
    for number in 1..=8 {
        running.publish(&number.to_string());
    }
    // Whoever has seen the last of them knows that the other webhook has, too: both are woken together
    // and hear before they send.
    for number in 0..=8 {
        assert_eq!(fast.next().await.cause(), number.to_string());
    }
    reply(unanswered, 200).await;
    let mut got = Vec::new();
    for _ in 0..3 {
        let request = slow.next().await;
        got.push((request.cause(), request.json()["missed"].as_u64().unwrap()));
    }
    assert_eq!(got, [("6".into(), 5), ("7".into(), 0), ("8".into(), 0)]);
    assert_eq!(running.finish().await, [13, 0, 5, 0]);
}

#[tokio::test]
async fn an_attempt_without_an_answer_ends_with_its_time() {
    let receiver = Receiver::new(&[]).await;
    let policy = WebhookPolicy { timeout: Duration::from_millis(50), attempts: 2, ..receiver.policy() };
    let mut running = Running::start(vec![policy]);
    running.publish("a");
    let held = [receiver.accept().await, receiver.accept().await];
    let line = running.notice().await;
    assert!(line.ends_with("given up after 2 attempts: no answer within 50ms"), "{line}");
    drop(held);
    assert_eq!(running.finish().await, [0, 1, 0, 1]);
}

#[tokio::test]
async fn a_receiver_that_is_gone_gets_nothing_more() {
    let receiver = Receiver::new(&[410]).await;
    let mut running = Running::start(vec![receiver.policy()]);
    running.publish("a");
    receiver.next().await;
    let line = running.notice().await;
    assert!(line.contains("answers 410 (gone)"), "{line}");
    running.publish("b");
    // Its task has ended: nothing is left that could send.
    assert_eq!(running.finish().await, [0, 0, 1, 0]);
    tokio::select! {
        biased;
        _ = receiver.listener.accept() => panic!("something was sent"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn a_webhook_that_stays_keeps_what_waits_and_one_that_goes_sends_nothing_more() {
    let (stays, goes) = (Receiver::new(&[]).await, Receiver::new(&[]).await);
    let mut running = Running::start(vec![stays.policy(), goes.policy()]);
    running.publish("a");
    running.publish("b");
    let (_, unanswered) = stays.accept().await;
    let (_, cut) = goes.accept().await;
    let new = Receiver::new(&[]).await;
    running.webhooks.replace(vec![new.policy(), stays.policy()]);
    running.publish("c");
    assert_eq!(new.next().await.cause(), "c");
    reply(unanswered, 200).await;
    assert_eq!((stays.next().await.cause(), stays.next().await.cause()), ("b".into(), "c".into()));
    // Its call was cut off, so the connection ends without an answer being asked for.
    let mut rest = Vec::new();
    let mut cut = cut;
    timeout(LONG, cut.read_to_end(&mut rest)).await.expect("the call goes on").unwrap();
    assert_eq!(running.finish().await, [4, 0, 0, 0]);
}

#[tokio::test]
async fn the_end_does_not_wait_longer_than_it_may() {
    let receiver = Receiver::new(&[]).await;
    let running = Running::start(vec![receiver.policy()]);
    running.publish("a");
    let held = receiver.accept().await;
    running.webhooks.finish(Duration::from_millis(10)).await;
    assert_eq!(running.meters.delivered.value(), 0);
    drop(held);
}
