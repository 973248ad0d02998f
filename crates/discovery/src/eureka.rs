//! `discover: { eureka: { app: CHECKOUT } }`: instances that are registered with Eureka (Netflix, Spring Cloud).
//!
//! Eureka gives out its whole registry and what has changed in it lately, so that all services of one server share one
//! watch: the whole first, then the changes every few seconds; whenever these do not lead to the server's own count of
//! instances (`apps__hashcode`), the whole again. What a server that has lost its registry owes its clients stands at
//! [`Known`].

mod answer;
mod known;
mod loose;
pub(crate) mod registration;

use crate::feed::Feed;
use crate::found::{Found, scale_weights};
use crate::http_servers::{HttpServers, refused, time, trust};
use crate::source::{Source, Watching};
use answer::{Answer, Instance};
use base64::Engine as _;
use known::Known;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};

/// Where Spring Cloud expects a server.
const URL: &str = "http://127.0.0.1:8761/eureka";
/// Between two looks, where nothing is written.
const INTERVAL: Duration = Duration::from_secs(5);
/// The longest that one server may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// So many looks ask for changes only; then the whole is asked for again, for counts may agree by chance.
const CHANGES_ONLY: u32 = 60;
/// The longest name.
const NAME: usize = 256;

/// A service that is registered with Eureka: `app` or `vip`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `app` or `vip`")]
pub struct EurekaSourceSpec {
    /// The name of the application; upper and lower case are the same.
    #[schemars(extend("x-default-words" = "none"))]
    app: Option<String>,
    /// The virtual address (`vipAddress`, and `secureVipAddress` for secure ports), instead of `app`.
    #[schemars(extend("x-default-words" = "none"))]
    vip: Option<String>,
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
    /// Between two looks.
    #[schemars(extend("x-range" = ["1s", "5m"], "x-default" = "5s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5s"]))]
    interval: Option<String>,
    /// Which address of an instance is used, `ip` (`ipAddr`, default) or `host` (`hostName`).
    #[schemars(extend("x-default" = "ip"))]
    prefer: Option<EurekaAddressSpec>,
    /// Which port of an instance is used: `auto`, the secure one where it is enabled (default, as Spring Cloud does);
    /// `always`, only the secure one; `never`, only the other. A secure port is spoken to with TLS.
    #[schemars(extend("x-default" = "auto"))]
    secure: Option<EurekaPortSpec>,
    /// Certificates in PEM: only a server with a certificate that these vouch for is trusted. Default: those of the
    /// system.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
}

/// Which address of an instance is used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EurekaAddressSpec {
    /// `ipAddr`.
    #[default]
    Ip,
    /// `hostName`.
    Host,
}

/// Which port of an instance is used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EurekaPortSpec {
    /// The secure one where it is enabled.
    #[default]
    Auto,
    /// Only the secure one.
    Always,
    /// Only the other.
    Never,
}

impl EurekaSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        let name = match (&self.app, &self.vip) {
            (Some(app), None) => Name::App(app.to_ascii_uppercase()),
            (None, Some(vip)) => Name::Vip(vip.clone()),
            _ => return Err("write `app` or `vip`, and one of them only".to_owned()),
        };
        let (Name::App(text) | Name::Vip(text)) = &name;
        if text.is_empty() || text.len() > NAME || text.contains(',') {
            return Err(format!("`app` and `vip` must have 1 to {NAME} bytes and no comma"));
        }
        let wanted =
            Wanted { name, address: self.prefer.unwrap_or_default(), port: self.secure.unwrap_or_default() };
        let fields = credentials(self.username.as_deref(), self.password.as_ref(), files)?;
        let usual = OneOrManySpec::One(URL.to_owned());
        let urls = self.url.as_ref().unwrap_or(&usual).as_slice();
        let servers = HttpServers::new(urls, fields, trust(self.ca.as_deref(), files)?)?;
        let range = (Duration::from_secs(1), Duration::from_secs(300));
        let interval = time(("interval", self.interval.as_deref()), INTERVAL, range)?;
        let asks = u32::try_from(urls.len()).unwrap_or(1) + 1;
        Ok(Arc::new(Eureka { servers, interval, wanted, asks, known: Mutex::default() }))
    }
}

/// The fields of every request.
///
/// # Errors
/// A sentence: a user without a password, or a password that cannot be read.
fn credentials(
    username: Option<&str>,
    password: Option<&SecretSpec>,
    files: &dyn ConfigFiles,
) -> Result<Vec<(&'static str, String)>, String> {
    let mut fields = vec![("accept", "application/json".to_owned())];
    match (username, password) {
        (None, None) => {}
        (Some(username), Some(password)) => {
            let mut text = format!("{username}:").into_bytes();
            text.extend(password.read(files)?);
            let text = base64::engine::general_purpose::STANDARD.encode(text);
            fields.push(("authorization", format!("Basic {text}")));
        }
        _ => return Err("`username` and `password` belong together; write both".to_owned()),
    }
    Ok(fields)
}

/// By what instances are chosen.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Name {
    /// Upper case.
    App(String),
    Vip(String),
}

/// What one service wants of a registry.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Wanted {
    name: Name,
    address: EurekaAddressSpec,
    port: EurekaPortSpec,
}

impl Wanted {
    fn query(&self) -> String {
        let mut query = match &self.name {
            Name::App(app) => format!("app {app}"),
            Name::Vip(vip) => format!("vip {vip}"),
        };
        if self.address == EurekaAddressSpec::Host {
            query.push_str(", by host name");
        }
        query.push_str(match self.port {
            EurekaPortSpec::Auto => "",
            EurekaPortSpec::Always => ", secure ports only",
            EurekaPortSpec::Never => ", no secure ports",
        });
        query
    }

    /// From what [`Self::query`] says.
    fn parse(query: &str) -> Option<Self> {
        let mut parts = query.split(", ");
        let name = match parts.next()?.split_once(' ')? {
            ("app", app) => Name::App(app.to_owned()),
            ("vip", vip) => Name::Vip(vip.to_owned()),
            _ => return None,
        };
        let (mut address, mut port) = (EurekaAddressSpec::Ip, EurekaPortSpec::Auto);
        for part in parts {
            match part {
                "by host name" => address = EurekaAddressSpec::Host,
                "secure ports only" => port = EurekaPortSpec::Always,
                "no secure ports" => port = EurekaPortSpec::Never,
                _ => return None,
            }
        }
        Some(Self { name, address, port })
    }

    /// Whether the instance is one of the service.
    fn fits(&self, instance: &Instance) -> bool {
        match &self.name {
            Name::App(app) => *app == instance.app,
            Name::Vip(vip) => {
                let names = |list: &str| list.split(',').any(|name| name.trim() == vip);
                (self.port != EurekaPortSpec::Always && names(&instance.vip))
                    || (self.port != EurekaPortSpec::Never && names(&instance.secure_vip))
            }
        }
    }

    /// Where the instance is.
    ///
    /// # Errors
    /// A sentence: it has no such port or address.
    fn endpoint(&self, instance: &Instance) -> Result<Found, String> {
        let (scheme, port) = match (self.port, instance.secure_port, instance.port) {
            (EurekaPortSpec::Auto | EurekaPortSpec::Always, Some(secure), _) => (Some("https"), Some(secure)),
            (EurekaPortSpec::Auto | EurekaPortSpec::Never, _, plain) => (None, plain),
            (EurekaPortSpec::Always, None, _) => (None, None),
        };
        let (first, second) = match self.address {
            EurekaAddressSpec::Ip => (&instance.ip, &instance.host),
            EurekaAddressSpec::Host => (&instance.host, &instance.ip),
        };
        let host = if first.is_empty() { second } else { first };
        match port {
            Some(port) if !host.is_empty() => {
                let (weight, labels) = (instance.weight, instance.labels.clone());
                Ok(Found { scheme, weight, labels, ..Found::at(host, port) })
            }
            _ => Err("an instance has no address, or no such port is enabled".to_owned()),
        }
    }
}

#[derive(Debug)]
struct Eureka {
    servers: HttpServers,
    interval: Duration,
    wanted: Wanted,
    /// How many timeouts one look may take.
    asks: u32,
    /// What the last watch knew: it outlives the watch.
    known: Mutex<Known>,
}

impl Source for Eureka {
    fn kind(&self) -> &'static str {
        "eureka"
    }

    fn place(&self) -> String {
        self.servers.place()
    }

    fn query(&self) -> String {
        self.wanted.query()
    }

    fn group(&self) -> String {
        format!("{} {:?}", self.servers.group(), self.interval)
    }

    fn silence(&self) -> Duration {
        self.interval + TIMEOUT * self.asks
    }

    fn watch<'a>(&'a self, members: &'a [Arc<dyn Source>], feed: Feed) -> Watching<'a> {
        Box::pin(async move {
            let wanted: Vec<_> = members
                .iter()
                .filter_map(|member| Wanted::parse(&member.query()).map(|wanted| (member.query(), wanted)))
                .collect();
            let mut look = Look::default();
            loop {
                if let Err(why) = self.look(&mut look).await {
                    return why;
                }
                let is_new = self.known().takes_effect(Instant::now()) || !look.has_told;
                if is_new {
                    self.tell(&wanted, &feed);
                    look.has_told = true;
                } else {
                    feed.alive();
                }
                tokio::time::sleep(self.interval).await;
            }
        })
    }
}

/// Where a watch is.
#[derive(Debug, Default)]
struct Look {
    /// So many looks ask for changes only.
    changes_only: u32,
    /// The server that answered last.
    server: usize,
    /// The server gives out no changes.
    has_no_changes: bool,
    has_told: bool,
}

impl Eureka {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings what is known up to date.
    async fn look(&self, look: &mut Look) -> Result<(), String> {
        let is_routine = look.has_told && look.has_no_changes;
        if look.has_no_changes || look.changes_only == 0 || look.server != self.servers.current() {
            let whole = self.whole().await?;
            self.known().replace(whole, is_routine, Instant::now());
            look.changes_only = CHANGES_ONLY;
            look.server = self.servers.current();
        }
        look.changes_only -= 1;
        if look.has_no_changes {
            return Ok(());
        }
        let Some(changes) = self.changes().await? else {
            look.has_no_changes = true;
            return Ok(());
        };
        if !self.known().change(changes) {
            let whole = self.whole().await?;
            self.known().replace(whole, false, Instant::now());
        }
        Ok(())
    }

    async fn whole(&self) -> Result<Answer, String> {
        let response = self.servers.get("/apps", TIMEOUT).await?;
        match response.status().as_u16() {
            200 => answer::read(response.body()),
            401 => Err(format!("{}; check `username` and `password`", refused(&response))),
            404 => Err(format!("{}; the path of `url` is usually /eureka", refused(&response))),
            _ => Err(refused(&response)),
        }
    }

    /// `None`: the server gives out no changes.
    async fn changes(&self) -> Result<Option<Answer>, String> {
        let response = self.servers.get("/apps/delta", TIMEOUT).await?;
        match response.status().as_u16() {
            200 => answer::read(response.body()).map(Some),
            403..=405 => Ok(None),
            _ => Err(refused(&response)),
        }
    }

    fn tell(&self, wanted: &[(String, Wanted)], feed: &Feed) {
        let known = self.known();
        for (query, wanted) in wanted {
            let (mut found, mut flaw) = (Vec::new(), None);
            for instance in known.up(wanted) {
                match wanted.endpoint(instance) {
                    Ok(endpoint) => found.push(endpoint),
                    Err(why) => drop(flaw.get_or_insert(why)),
                }
            }
            scale_weights(&mut found);
            feed.found(query, found);
            if let Some(flaw) = flaw {
                feed.flawed(query, flaw);
            }
        }
    }
}

#[cfg(test)]
mod tests;
