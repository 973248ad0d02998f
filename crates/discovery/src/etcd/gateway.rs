//! etcd's API through its JSON gateway: keys and values in Base64, 64-bit numbers as text.

use crate::feed::Content;
use crate::flaw;
use crate::http_servers::{ANSWER, HttpServers};
use crate::kept::{Item, KEYS, Kept};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::time::Duration;
use thalweg_client::{BodyStream, Bounds, Bytes, Response};
use tokio::time::timeout;

/// Phrases of etcd that a message shows; it shows nothing else of an answer.
const PHRASES: &[&str] = &[
    "no leader",
    "authentication failed, invalid user ID or password",
    "user name is empty",
    "permission denied",
    "invalid auth token",
    "too many requests",
    "request timed out",
];

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// One logs in and reads all again: the token is over.
    Stale,
    /// A sentence.
    Failed(String),
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Stale => "etcd does not know the token that it has just given".to_owned(),
            Trouble::Failed(why) => why,
        }
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// The servers, and who asks.
pub(super) struct Gateway<'a> {
    servers: &'a HttpServers,
    token: Option<String>,
    /// For one answer.
    time: Duration,
}

/// A small answer.
#[derive(Debug)]
pub(super) struct Beat {
    /// The identifier of the cluster.
    pub cluster: u64,
    /// Its revision.
    pub revision: i64,
    /// Keys under the prefix.
    pub count: u64,
    /// The revision of the key that changed last; 0: there is none.
    pub newest: i64,
}

impl<'a> Gateway<'a> {
    /// Logs in, where there is a user and etcd has users.
    pub(super) async fn open(
        servers: &'a HttpServers,
        login: Option<(&str, &str)>,
        time: Duration,
    ) -> Result<Self, String> {
        let mut gateway = Self { servers, token: None, time };
        let Some((user, password)) = login else { return Ok(gateway) };
        let question = json!({ "name": user, "password": password });
        let response = gateway.send("/v3/auth/authenticate", &question).await?;
        if response.status() != 200 {
            let said = said(response.body());
            if said.contains("authentication is not enabled") {
                return Ok(gateway);
            }
            let known = flaw::known(&said, PHRASES);
            return Err(format!("etcd does not let `{user}` in: it answers {}{known}", response.status()));
        }
        let answer = read(response.body())?;
        let token = answer["token"].as_str().filter(|token| !token.is_empty());
        gateway.token = Some(token.ok_or_else(|| strange("the login has no token"))?.to_owned());
        Ok(gateway)
    }

    /// Reads every key under the prefix. The cluster and its revision then.
    pub(super) async fn read_all<I: Item>(
        &self,
        prefix: &str,
        kept: &mut Kept<I>,
    ) -> Result<(u64, i64), Trouble>
    where
        [I]: Content,
    {
        let mut question = range(prefix);
        question["limit"] = (KEYS + 1).to_string().into();
        let answer = self.call("/v3/kv/range", &question).await?;
        let position = position(&answer)?;
        for pair in answer["kvs"].as_array().into_iter().flatten() {
            let name = name(pair, prefix)?;
            kept.put(&name, &bytes(pair, "value")?)?;
        }
        Ok(position)
    }

    /// Asks how many keys there are, and which changed last.
    pub(super) async fn beat(&self, prefix: &str) -> Result<Beat, Trouble> {
        let mut question = range(prefix);
        question["limit"] = "1".into();
        question["keys_only"] = true.into();
        question["sort_target"] = "MOD".into();
        question["sort_order"] = "DESCEND".into();
        let answer = self.call("/v3/kv/range", &question).await?;
        let (cluster, revision) = position(&answer)?;
        let newest = number(&answer["kvs"][0]["mod_revision"]).unwrap_or(0);
        let count = number(&answer["count"]).unwrap_or(0).unsigned_abs();
        Ok(Beat { cluster, revision, count, newest })
    }

    /// Watches from this revision on.
    pub(super) async fn watch<'p>(&self, prefix: &'p str, from: i64) -> Result<Watch<'p>, Trouble> {
        let mut create = range(prefix);
        create["start_revision"] = from.to_string().into();
        create["progress_notify"] = true.into();
        let body = json!({ "create_request": create }).to_string();
        let opened =
            self.servers.endless(("POST", "/v3/watch"), &self.fields(), body.into(), self.time).await?;
        let status = opened.status();
        let mut watch = Watch { prefix, body: opened.into_body(), buffer: Vec::new(), scanned: 0 };
        if status == 200 {
            return Ok(watch);
        }
        // The reason is short, and nobody waits for one that is not.
        while watch.buffer.len() < ANSWER {
            match timeout(self.time, watch.body.next()).await {
                Ok(Ok(Some(piece))) => watch.buffer.extend_from_slice(&piece),
                _ => break,
            }
        }
        Err(refused(status.as_u16(), &watch.buffer))
    }

    async fn call(&self, target: &str, question: &Value) -> Result<Value, Trouble> {
        let response = self.send(target, question).await?;
        if response.status() == 200 {
            Ok(read(response.body())?)
        } else {
            Err(refused(response.status().as_u16(), response.body()))
        }
    }

    async fn send(&self, target: &str, question: &Value) -> Result<Response<Bytes>, String> {
        let bounds = Bounds::new(self.time, ANSWER);
        self.servers.send("POST", target, &self.fields(), question.to_string().into(), bounds).await
    }

    fn fields(&self) -> Vec<(&str, &str)> {
        let mut fields = vec![("content-type", "application/json")];
        fields.extend(self.token.iter().map(|token| ("authorization", token.as_str())));
        fields
    }
}

/// One key that changed.
#[derive(Debug)]
pub(super) struct Change {
    /// The revision that made it.
    pub revision: i64,
    name: String,
    /// `None`: it is deleted, or its lease is over.
    value: Option<Vec<u8>>,
}

impl Change {
    /// Takes it over.
    pub(super) fn apply<I: Item>(&self, kept: &mut Kept<I>) -> Result<(), String>
    where
        [I]: Content,
    {
        match &self.value {
            Some(value) => kept.put(&self.name, value),
            None => {
                kept.remove(&self.name);
                Ok(())
            }
        }
    }
}

/// What a watch says.
#[derive(Debug)]
pub(super) enum Line {
    /// It has begun, in this cluster.
    Created(u64),
    /// These keys have changed.
    Changes(Vec<Change>),
    /// There is no change up to this revision.
    Progress(i64),
    /// It cannot begin so early.
    Compacted,
    /// The connection is over.
    End,
}

/// A watch that is under way.
pub(super) struct Watch<'a> {
    prefix: &'a str,
    body: BodyStream,
    buffer: Vec<u8>,
    /// So much of the buffer has no end of a line.
    scanned: usize,
}

impl Watch<'_> {
    /// The next line. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Line, Trouble> {
        loop {
            if let Some(end) = self.end() {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                self.scanned = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return understood(&line, self.prefix);
            }
            self.scanned = self.buffer.len();
            if self.buffer.len() > ANSWER {
                return Err(Trouble::Failed(format!(
                    "one line of the watch has more than {} MiB",
                    ANSWER >> 20
                )));
            }
            match self.body.next().await {
                Ok(Some(piece)) => self.buffer.extend_from_slice(&piece),
                Ok(None) => return Ok(Line::End),
                // One that broke off.
                Err(_) => return Ok(Line::End),
            }
        }
    }

    /// Whether another line is there already.
    pub(super) fn has_more(&self) -> bool {
        self.end().is_some()
    }

    fn end(&self) -> Option<usize> {
        self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n').map(|at| self.scanned + at)
    }
}

/// Reads a line of a watch.
pub(super) fn understood(line: &[u8], prefix: &str) -> Result<Line, Trouble> {
    let line = read(line)?;
    if line.get("error").is_some() {
        let known = flaw::known(&message(&line), PHRASES);
        return Err(Trouble::Failed(format!("etcd ends the watch with an error{known}")));
    }
    let result = &line["result"];
    if number(&result["compact_revision"]).is_some_and(|revision| revision > 0) {
        return Ok(Line::Compacted);
    }
    if result["canceled"] == true {
        let known = flaw::known(result["cancel_reason"].as_str().unwrap_or_default(), PHRASES);
        return Err(Trouble::Failed(format!("etcd cancels the watch{known}")));
    }
    let (cluster, revision) = position(result)?;
    if result["created"] == true {
        return Ok(Line::Created(cluster));
    }
    let events = result["events"].as_array().filter(|events| !events.is_empty());
    let Some(events) = events else { return Ok(Line::Progress(revision)) };
    let change = |event: &Value| {
        let pair = &event["kv"];
        let value = match event["type"].as_str() {
            Some("DELETE") => None,
            None | Some("PUT") => Some(bytes(pair, "value")?),
            Some(_) => return Err(strange("it has an event of no known kind")),
        };
        let revision = number(&pair["mod_revision"]).ok_or_else(|| strange("it has no revision"))?;
        Ok(Change { revision, name: name(pair, prefix)?, value })
    };
    Ok(Line::Changes(events.iter().map(change).collect::<Result<_, String>>()?))
}

/// `key` and `range_end` for all that begins with the prefix.
fn range(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            break;
        }
    }
    // A prefix of UTF-8 has no byte of 0xff, so that there is an end.
    debug_assert!(!end.is_empty());
    json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end) })
}

/// The cluster and its revision, of the head of an answer.
fn position(answer: &Value) -> Result<(u64, i64), String> {
    let header = &answer["header"];
    let cluster = match &header["cluster_id"] {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let revision = number(&header["revision"]);
    // A member that ends a watch says no revision.
    match (cluster, revision) {
        (Some(cluster), revision) => Ok((cluster, revision.unwrap_or(0))),
        _ => Err(strange("it has no `header`")),
    }
}

/// The key of a pair, behind the prefix.
fn name(pair: &Value, prefix: &str) -> Result<String, String> {
    let key = bytes(pair, "key")?;
    let name = key.strip_prefix(prefix.as_bytes());
    let name = name.ok_or_else(|| strange("it has a key that was not asked for"))?;
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Bytes in Base64; what is empty is left out by the gateway.
fn bytes(pair: &Value, field: &str) -> Result<Vec<u8>, String> {
    match &pair[field] {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => STANDARD.decode(text).map_err(|_| strange("it is not in Base64")),
        _ => Err(strange("it is not in Base64")),
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

fn read(answer: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(answer)
        .map_err(|error| format!("etcd's answer cannot be understood: {}", flaw::json(&error)))
}

fn strange(what: &str) -> String {
    format!("etcd's answer cannot be understood: {what}")
}

/// An answer that is not 200.
fn refused(status: u16, body: &[u8]) -> Trouble {
    let said = said(body);
    if said.contains("invalid auth token") || said.contains("revision of auth store is old") {
        return Trouble::Stale;
    }
    let help = match status {
        403 => "; give the user a role that may read the prefix",
        400 if said.contains("user name is empty") => "; write `username` and `password`",
        404 => "; etcd 3.4 or later is needed, with its JSON gateway (`enable-grpc-gateway`)",
        _ => "",
    };
    Trouble::Failed(format!("etcd answers {status}{}{help}", flaw::known(&said, PHRASES)))
}

/// The words of an answer, which are not shown.
fn said(body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(answer) => message(&answer),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

fn message(answer: &Value) -> String {
    let words = [&answer["error"]["message"], &answer["message"], &answer["error"]];
    let words = words.into_iter().find_map(Value::as_str);
    words.unwrap_or_default().to_owned()
}
