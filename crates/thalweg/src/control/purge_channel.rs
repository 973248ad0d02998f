//! Purges that replicas tell each other: a channel of Redis or Valkey (`cache.purge`).
//!
//! A purge that came through the admin API is published; every other replica does it too. Messages reach those who are
//! connected, at most once: what is missed while the connection is lost is not told again, which `after_loss` is for.
//! Purges of this process wait in a bounded queue until the server has them.

use super::admin::Shared;
use super::config_events::event;
use crate::operator_log::{info, warn};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use thalweg_admin::{PurgeChannelStatus, ReplicasTold, Telling, purge_of};
use thalweg_client::HttpClient;
use thalweg_client::redis::{Answers, Commands, Connection, RedisServer, Reply, late, refusal};
use thalweg_config::settings::{AfterLoss, PurgeChannel};
use thalweg_core::EventKind;
use thalweg_proxy::{Purge, PurgeWhat};
use thalweg_tls::Trust;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// For a connection, with its authentication, and for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Between pings of both connections.
const PING: Duration = Duration::from_secs(5);
/// Pauses between attempts to connect: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Purges that wait to be sent.
const WAITING: usize = 256;
/// How long one who asks for a purge waits for the server to have it.
const SEND_TIME: Duration = Duration::from_secs(2);
/// How long a purge of another replica waits for those before it.
const TURN_TIME: Duration = Duration::from_secs(3600);
/// Longest message, in bytes.
const MESSAGE: usize = 64 * 1024;
/// How many characters of the name of another replica are told.
const NAME: usize = 32;

/// What follows the configuration; the control thread has it.
#[derive(Debug, Default)]
pub(crate) struct PurgeChannelTask {
    policy: Option<PurgeChannel>,
    task: Option<JoinHandle<()>>,
}

impl PurgeChannelTask {
    /// Uses the channel of the configuration in force, from now on.
    pub(crate) fn follow(&mut self, shared: &Arc<Shared>) {
        let wanted = shared.origin().settings.purge_channel.clone();
        if wanted == self.policy {
            return;
        }
        if let Some(task) = self.task.take() {
            task.abort();
        }
        let channel = wanted.clone().map(|policy| {
            let (orders, waiting) = mpsc::channel(WAITING);
            let channel = Arc::new(Channel::new(policy, orders));
            self.task = Some(tokio::spawn(channel.clone().keep(shared.clone(), waiting)));
            channel
        });
        self.policy = wanted;
        shared.set_purge_channel(channel);
    }
}

impl Drop for PurgeChannelTask {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// A purge of this process that is to be sent.
struct Order {
    message: Vec<u8>,
    /// How many the server has passed it to.
    sent: oneshot::Sender<u64>,
}

/// The channel in use.
#[derive(Debug)]
pub(crate) struct Channel {
    policy: PurgeChannel,
    server: RedisServer,
    instance: String,
    orders: mpsc::Sender<Order>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    is_up: bool,
    since: SystemTime,
    problem: Option<String>,
    sent: u64,
    received: u64,
    refused: u64,
    losses: u64,
}

impl Channel {
    fn new(policy: PurgeChannel, orders: mpsc::Sender<Order>) -> Self {
        let trust = policy.ca.as_ref().map_or(Trust::System, |pem| Trust::Only(pem.clone()));
        let server = RedisServer {
            client: HttpClient::new(trust),
            to: policy.to.clone(),
            user: policy.user.clone(),
            password: policy.password.as_ref().map(|secret| secret.reveal().to_vec()),
            database: 0,
        };
        // Another one for each process, and after a reload that changes the channel.
        let instance = format!("{:016x}", RandomState::new().build_hasher().finish());
        let state = State {
            is_up: false,
            since: SystemTime::now(),
            problem: None,
            sent: 0,
            received: 0,
            refused: 0,
            losses: 0,
        };
        Self { policy, server, instance, orders, state: Mutex::new(state) }
    }

    /// How it stands.
    pub(super) fn status(&self) -> PurgeChannelStatus {
        let waiting = WAITING - self.orders.capacity();
        self.change(|state| PurgeChannelStatus {
            server: self.policy.server.clone(),
            channel: self.policy.channel.clone(),
            instance: self.instance.clone(),
            connected: state.is_up,
            since: state.since,
            problem: state.problem.clone(),
            sent: state.sent,
            received: state.received,
            refused: state.refused,
            waiting: waiting as u64,
            losses: state.losses,
        })
    }

    /// Tells others of a purge. Cancel-safe: it is sent in any case.
    pub(super) async fn tell(&self, purge: &Purge) -> ReplicasTold {
        let message = json!({ "from": self.instance, "purge": purge }).to_string().into_bytes();
        let (sent, answer) = oneshot::channel();
        if self.orders.try_send(Order { message, sent }).is_err() {
            return ReplicasTold { state: Telling::Lost, subscribers: None };
        }
        match timeout(SEND_TIME, answer).await {
            Ok(Ok(subscribers)) => ReplicasTold { state: Telling::Sent, subscribers: Some(subscribers) },
            _ => ReplicasTold { state: Telling::Waiting, subscribers: None },
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Connects, again and again. Runs as long as it is polled.
    async fn keep(self: Arc<Self>, shared: Arc<Shared>, mut waiting: mpsc::Receiver<Order>) {
        let (mut pause, mut current) = (PAUSES.0, None);
        loop {
            let why = match self.connect().await {
                Ok((publisher, subscriber)) => {
                    pause = PAUSES.0;
                    self.turn_up(&shared).await;
                    let ended = tokio::select! {
                        ended = self.publish(publisher, (&mut waiting, &mut current)) => ended,
                        ended = self.listen(subscriber, &shared) => ended,
                    };
                    let Err(why) = ended;
                    why
                }
                Err(why) => why,
            };
            self.turn_down(&shared, why);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// A connection to publish on, and one that is subscribed.
    async fn connect(&self) -> Result<(Connection, Connection), String> {
        let publisher = self.server.connect(ANSWER_TIME).await?;
        let mut subscriber = self.server.connect(ANSWER_TIME).await?;
        let channel = self.policy.channel.as_bytes();
        let subscribed = timeout(ANSWER_TIME, subscriber.ask(&[b"SUBSCRIBE", channel])).await;
        subscribed.unwrap_or_else(|_| Err(late(ANSWER_TIME)))?;
        Ok((publisher, subscriber))
    }

    /// It can be used. What may have been missed before is made up for.
    async fn turn_up(&self, shared: &Shared) {
        let (place, channel) = (&self.policy.server, &self.policy.channel);
        let was_lost = self.change(|state| {
            (state.is_up, state.since) = (true, SystemTime::now());
            state.problem.take().is_some()
        });
        let text = format!("purges are told through the channel `{channel}` of {place}");
        info(&text);
        if !was_lost {
            return;
        }
        shared.publish(event(EventKind::PurgeChannelUp, text));
        if self.policy.after_loss == AfterLoss::MakeStale {
            let all = Purge { what: PurgeWhat::All, space: None, route: None, is_soft: true };
            self.purge(shared, &all, ", since purges of other replicas may have been missed").await;
        }
    }

    /// It cannot be used.
    fn turn_down(&self, shared: &Shared, why: String) {
        let place = &self.policy.server;
        let is_news = self.change(|state| {
            let is_news = state.problem.is_none();
            if is_news {
                state.losses += u64::from(state.is_up);
                (state.is_up, state.since) = (false, SystemTime::now());
            }
            state.problem = Some(why.clone());
            is_news
        });
        if is_news {
            let text = format!("{place}: {why}; purges of other replicas may be missed");
            warn(format_args!("the channel of purges cannot be used: {text}"));
            shared.publish(event(EventKind::PurgeChannelLost, text));
        }
    }

    /// Sends what waits, and asks now and then whether the server is there. `current`: what it does not have for sure.
    async fn publish(
        &self,
        mut connection: Connection,
        (waiting, current): (&mut mpsc::Receiver<Order>, &mut Option<Order>),
    ) -> Result<Infallible, String> {
        loop {
            if current.is_none() {
                *current = timeout(PING, waiting.recv()).await.ok().flatten();
            }
            let channel = self.policy.channel.as_bytes();
            let words: &[&[u8]] = match current {
                Some(order) => &[b"PUBLISH", channel, &order.message],
                None => &[b"PING"],
            };
            let asked = timeout(ANSWER_TIME, connection.ask(words)).await;
            let answer = asked.unwrap_or_else(|_| Err(late(ANSWER_TIME)))?;
            if let Some(order) = current.take() {
                self.change(|state| state.sent += 1);
                let count = if let Reply::Number(count) = answer { count } else { 0 };
                // Who has asked may not wait any more.
                let _ = order.sent.send(u64::try_from(count).unwrap_or(0));
            }
        }
    }

    /// Does what others tell of.
    async fn listen(&self, subscriber: Connection, shared: &Shared) -> Result<Infallible, String> {
        let Connection { answers, commands } = subscriber;
        tokio::select! {
            ended = self.read(answers, shared) => ended,
            ended = ping(commands) => ended,
        }
    }

    async fn read<R: AsyncRead + Unpin>(
        &self,
        mut answers: Answers<R>,
        shared: &Shared,
    ) -> Result<Infallible, String> {
        loop {
            let longest = PING + ANSWER_TIME;
            let answer = timeout(longest, answers.next()).await.unwrap_or_else(|_| Err(late(longest)))?;
            match answer {
                Reply::Error(why) => return Err(refusal(&why)),
                Reply::Array(words) => {
                    if let [Reply::Text(kind), _, Reply::Text(message)] = words.as_slice()
                        && kind == b"message"
                    {
                        self.take_in(shared, message).await;
                    }
                }
                _ => {}
            }
        }
    }

    /// Does what a message says, unless it is this process's own.
    async fn take_in(&self, shared: &Shared, message: &[u8]) {
        match read_message(message) {
            Ok((from, _)) if from == self.instance => {}
            Ok((from, purge)) => {
                self.change(|state| state.received += 1);
                let name: String = from.chars().filter(char::is_ascii_graphic).take(NAME).collect();
                let by = if name.is_empty() { String::new() } else { format!(" by `{name}`") };
                self.purge(shared, &purge, &format!(", told{by}")).await;
            }
            Err(why) => {
                let count = self.change(|state| {
                    state.refused += 1;
                    state.refused
                });
                // Whoever floods the channel does not flood the log.
                if count.is_power_of_two() {
                    let channel = &self.policy.channel;
                    warn(format_args!(
                        "a message on the channel `{channel}` is no purge: {why} (the {count}. one)"
                    ));
                }
            }
        }
    }

    async fn purge(&self, shared: &Shared, purge: &Purge, why: &str) {
        let work = shared.worker_pool().purge(purge.clone());
        let done = shared.purges.run(work, (purge, why), (shared.all_events(), TURN_TIME)).await;
        if let Err(why) = done {
            warn(format_args!("purge of {purge}: {why}"));
        }
    }
}

async fn ping(mut commands: Commands) -> Result<Infallible, String> {
    loop {
        sleep(PING).await;
        commands.send(&[b"PING"]).await?;
    }
}

/// Who has sent a message, and what is to be purged: `{"from": …, "purge": {…}}`, or the body of a purge alone.
fn read_message(message: &[u8]) -> Result<(String, Purge), String> {
    if message.len() > MESSAGE {
        return Err(format!("it has more than {} KiB", MESSAGE / 1024));
    }
    let value: Value = serde_json::from_slice(message).map_err(|_| "it is not JSON".to_owned())?;
    let from = value["from"].as_str().unwrap_or_default().to_owned();
    let purge = match value.get("purge") {
        Some(purge) => purge_of(purge.to_string().as_bytes())?,
        None => purge_of(message)?,
    };
    Ok((from, purge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_replicas_and_of_applications_are_read() {
        let read = |text: &str| read_message(text.as_bytes()).map(|(from, purge)| (from, purge.to_string()));
        let of_replica = read(r#"{"from":"a1","purge":{"tag":"news","soft":true}}"#).unwrap();
        assert_eq!(of_replica, ("a1".into(), "tag news, softly".into()));
        assert_eq!(read(r#"{"url":"http://a/b"}"#).unwrap(), (String::new(), "http://a/b".into()));
        for bad in ["", "purge", "{}", "[]", r#"{"from":"a1"}"#, r#"{"purge":{}}"#, r#"{"urls":"http://a/"}"#]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&format!("{{\"tag\":\"{}\"}}", "x".repeat(MESSAGE))).unwrap_err().contains("64 KiB"));
    }
}
