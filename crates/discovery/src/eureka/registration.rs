//! Thalweg as an instance that others find: it registers, renews its lease, and takes itself off when it drains.
//!
//! ```yaml
//! { url: "http://127.0.0.1:8761/eureka", app: gateway, host: 10.0.0.5, port: 8080 }
//! ```

use super::{TIMEOUT, URL, credentials};
use crate::http_servers::{ANSWER, HttpServers, encoded, refused, time, trust};
use crate::source::digest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use thalweg_client::{Bounds, Bytes, Response};
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};
use tokio::time::sleep;

/// Between two heartbeats, where nothing is written.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Before what failed is tried again; then it doubles, up to the time between two heartbeats.
const PAUSE: Duration = Duration::from_secs(1);
/// The most entries of metadata.
const METADATA: usize = 64;

/// Thalweg as an instance that is registered with Eureka.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `app`, `host` and `port`")]
pub struct EurekaRegistrationSpec {
    /// The server with the path of its API, or several that know the same: the next is asked when one does not answer.
    /// Default `http://127.0.0.1:8761/eureka`.
    #[schemars(extend("x-default" = "http://127.0.0.1:8761/eureka"))]
    #[schemars(extend("x-api" = "destination"))]
    url: Option<OneOrManySpec<String>>,
    /// The user for basic authentication.
    #[schemars(extend("x-default-words" = "none"))]
    username: Option<String>,
    /// Its password.
    #[schemars(extend("x-default-words" = "none"))]
    password: Option<SecretSpec>,
    /// Certificates in PEM: only a server with a certificate that these vouch for is trusted. Default: those of the
    /// system.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// The name under which others find it.
    app: String,
    /// The name or address under which others reach it.
    host: String,
    /// The address, where `host` is a name. Default: `host`.
    #[schemars(extend("x-default-words" = "`host`"))]
    ip: Option<String>,
    /// The port at which others reach it.
    #[schemars(range(min = 1))]
    port: u16,
    /// Whether that port takes TLS.
    #[serde(default)]
    #[schemars(extend("x-default" = false))]
    secure: bool,
    /// What tells this instance from the others of `app`. Default `HOST:APP:PORT`.
    #[schemars(extend("x-default-words" = "HOST:APP:PORT"))]
    instance_id: Option<String>,
    /// The virtual address. Default: `app` in lower case.
    #[schemars(extend("x-default-words" = "`app` in lower case"))]
    vip: Option<String>,
    /// The path at which others see whether it is well.
    #[schemars(extend("x-default-words" = "none"))]
    health_path: Option<String>,
    /// Between two heartbeats. The lease lasts for three of them: then a proxy that died is given up.
    #[schemars(extend("x-range" = ["1s", "5m"], "x-default" = "30s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["30s"]))]
    interval: Option<String>,
    /// What is said of it beside, such as `zone`.
    #[serde(default)]
    #[schemars(extend("x-named" = true))]
    metadata: BTreeMap<String, String>,
}

impl EurekaRegistrationSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub fn build(&self, files: &dyn ConfigFiles) -> Result<EurekaRegistration, String> {
        let is_word =
            |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '/');
        if !is_word(&self.app) || !is_word(&self.host) || self.port == 0 {
            return Err(
                "`app` and `host` must be names without spaces and slashes, and `port` not 0".to_owned()
            );
        }
        if self.metadata.len() > METADATA {
            return Err(format!("`metadata` has more than {METADATA} entries"));
        }
        let fields = credentials(self.username.as_deref(), self.password.as_ref(), files)?;
        let usual = OneOrManySpec::One(URL.to_owned());
        let urls = self.url.as_ref().unwrap_or(&usual).as_slice();
        let servers = HttpServers::new(urls, fields, trust(self.ca.as_deref(), files)?)?;
        let app = self.app.to_uppercase();
        let id = self
            .instance_id
            .clone()
            .unwrap_or_else(|| format!("{}:{}:{}", self.host, self.app.to_lowercase(), self.port));
        let path = format!("/apps/{}", encoded(&app));
        let own_path = format!("{path}/{}", encoded(&id));
        let range = (Duration::from_secs(1), Duration::from_secs(300));
        let heartbeat = time(("interval", self.interval.as_deref()), HEARTBEAT, range)?;
        let mut body = self.instance(&app, &id);
        body["leaseInfo"] = json!({
            "renewalIntervalInSecs": heartbeat.as_secs(),
            "durationInSecs": heartbeat.as_secs() * 3,
        });
        let body = json!({ "instance": body }).to_string().into();
        Ok(EurekaRegistration { servers, heartbeat, path, own_path, body })
    }

    fn instance(&self, app: &str, id: &str) -> serde_json::Value {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let root = format!("{}://{host}:{}", if self.secure { "https" } else { "http" }, self.port);
        let vip = self.vip.clone().unwrap_or_else(|| self.app.to_lowercase());
        let mut instance = json!({
            "instanceId": id,
            "app": app,
            "hostName": self.host,
            "ipAddr": self.ip.as_ref().unwrap_or(&self.host),
            "status": "UP",
            "port": { "$": if self.secure { 80 } else { self.port }, "@enabled": (!self.secure).to_string() },
            "securePort": { "$": if self.secure { self.port } else { 443 }, "@enabled": self.secure.to_string() },
            "vipAddress": vip,
            "secureVipAddress": vip,
            "homePageUrl": format!("{root}/"),
            "dataCenterInfo": {
                "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo",
                "name": "MyOwn",
            },
            "metadata": self.metadata,
        });
        if let Some(path) = &self.health_path {
            let key = if self.secure { "secureHealthCheckUrl" } else { "healthCheckUrl" };
            instance[key] = format!("{root}/{}", path.trim_start_matches('/')).into();
        }
        instance
    }
}

/// What a heartbeat was answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heartbeat {
    /// The lease is renewed.
    Renewed,
    /// The server does not know the instance: it must register again.
    Unknown,
}

/// An instance to register. Nothing is opened before it is asked to.
#[derive(Debug)]
pub struct EurekaRegistration {
    servers: HttpServers,
    heartbeat: Duration,
    path: String,
    own_path: String,
    body: Bytes,
}

impl EurekaRegistration {
    /// Where it registers, for people; without secrets.
    pub fn place(&self) -> String {
        self.servers.place()
    }

    /// Under which name it is there, and where.
    pub(crate) fn entry(&self) -> String {
        format!("{} {}", self.place(), self.own_path)
    }

    /// All that it depends on: two with one id are the same. Never shown.
    pub fn id(&self) -> String {
        format!("{} {} {} {:?}", self.servers.group(), self.own_path, digest(&self.body), self.heartbeat)
    }

    /// Keeps the instance registered until `drain` is over, then takes it off. Says what becomes of it each time that
    /// it changes: `Ok` when it is registered, else why it is not. Dropping it leaves the instance to its lease.
    pub async fn keep(&self, drain: impl Future<Output = ()>, mut tell: impl FnMut(Result<(), String>)) {
        let mut drain = pin!(drain);
        tokio::select! {
            () = self.renew(&mut tell) => {}
            () = &mut drain => {}
        }
        if let Err(why) = self.deregister().await {
            tell(Err(why));
        }
    }

    /// Registers, and renews the lease, for ever.
    async fn renew(&self, tell: &mut impl FnMut(Result<(), String>)) {
        let (mut is_registered, mut was_told) = (false, None);
        let mut pause = PAUSE;
        loop {
            let done = if is_registered { self.heartbeat().await } else { self.register().await };
            let wait = match done {
                Ok(Heartbeat::Unknown) => {
                    is_registered = false;
                    continue;
                }
                Ok(Heartbeat::Renewed) => {
                    is_registered = true;
                    pause = PAUSE;
                    if was_told != Some(true) {
                        was_told = Some(true);
                        tell(Ok(()));
                    }
                    self.heartbeat
                }
                Err(why) => {
                    if was_told != Some(false) {
                        was_told = Some(false);
                        tell(Err(why));
                    }
                    let next = (pause * 2).min(self.heartbeat);
                    std::mem::replace(&mut pause, next)
                }
            };
            sleep(wait).await;
        }
    }

    /// Registers the instance; again, if it is registered.
    ///
    /// # Errors
    /// A sentence: no server takes it.
    pub async fn register(&self) -> Result<Heartbeat, String> {
        let response = self.ask("POST", &self.path, self.body.clone()).await?;
        if response.status().is_success() { Ok(Heartbeat::Renewed) } else { Err(refused(&response)) }
    }

    /// Renews the lease.
    ///
    /// # Errors
    /// A sentence: no server answers.
    pub async fn heartbeat(&self) -> Result<Heartbeat, String> {
        let response = self.ask("PUT", &format!("{}?status=UP", self.own_path), Bytes::new()).await?;
        match response.status().as_u16() {
            404 => Ok(Heartbeat::Unknown),
            200..=299 => Ok(Heartbeat::Renewed),
            _ => Err(refused(&response)),
        }
    }

    /// Takes the instance off. One that is not there is off.
    ///
    /// # Errors
    /// A sentence: no server answers. The instance is given up when its lease is over.
    pub async fn deregister(&self) -> Result<(), String> {
        let response = self.ask("DELETE", &self.own_path, Bytes::new()).await?;
        match response.status().as_u16() {
            404 | 200..=299 => Ok(()),
            _ => Err(refused(&response)),
        }
    }

    async fn ask(&self, method: &str, target: &str, body: Bytes) -> Result<Response<Bytes>, String> {
        let fields: &[_] = if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
        self.servers.send(method, target, fields, body, Bounds::new(TIMEOUT, ANSWER)).await
    }
}
