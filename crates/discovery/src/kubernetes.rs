//! `discover: { kubernetes: { service: checkout } }`: the endpoints of a Service, from its EndpointSlices.
//!
//! All services of a namespace share two watches: one of the EndpointSlices (`discovery.k8s.io/v1`) of those that are
//! asked for, one of the Services, which say what their ports are called and which family of addresses is theirs.
//! `api.rs` is the client, `kubeconfig.rs` reads whom it asks, `resources.rs` lists and watches objects of any kind,
//! `objects.rs` are those kinds, `known.rs` keeps them, `endpoints.rs` are the rules. Decision 0086 says why it is not
//! the crate `kube`. `maps.rs` is a source of documents: ConfigMaps.
//!
//! **Ingress and the Gateway API** begin at [`resources::follow`]: a kind of object is one type with
//! [`objects::Resource`] (group, plural, what is read of it). A source of routes is a `Source` of another content than
//! `[Found]`, beside this one, with the same [`Access`], whose watch follows `ingresses` or `httproutes` and the
//! Services that they name in place of [`Known`]; what it writes back (`status`, `Lease`) is to be added to `api.rs`.

mod api;
mod endpoints;
mod known;
mod kubeconfig;
pub(crate) mod maps;
mod objects;
mod resources;

use crate::feed::Feed;
use crate::http_servers::{encoded, time};
use crate::source::{Source, Watching};
use api::{ACCOUNT, Api};
use endpoints::{PortOf, Wanted};
use known::Known;
use objects::SERVICE_NAME;
use resources::{Scope, follow};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thalweg_filter::ConfigFiles;

/// How long a watch lasts, where nothing is written.
const WAIT: Duration = Duration::from_secs(30);
/// How much longer it may take, at most as long as the watch itself.
const GRACE: Duration = Duration::from_secs(5);
/// The most services that one selector names; of more, all of the namespace are watched.
const NAMED: usize = 50;
/// The longest name of a Service, a namespace or a port (RFC 1123).
const NAME: usize = 63;

/// A Service of Kubernetes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `service`")]
#[schemars(extend("x-api" = "whole"))]
pub struct KubernetesSourceSpec {
    /// Its name.
    #[schemars(extend("x-shown" = true))]
    service: String,
    /// Its namespace. Default: that of the pod, or of the context of `kubeconfig`; else `default`.
    #[schemars(extend("x-default-words" = "the usual one"))]
    namespace: Option<String>,
    /// The port of the Service, by its name or number. Needed where the Service has several.
    #[schemars(extend("x-default-words" = "none"))]
    port: Option<KubernetesPortSpec>,
    /// A file as `kubectl` has it, which says where the API server is and how to log in. Default: the cluster that
    /// Thalweg runs in as a pod, by its service account.
    #[schemars(extend("x-default-words" = "the cluster of the pod"))]
    #[schemars(extend("x-api" = "reference"))]
    kubeconfig: Option<String>,
    /// The context of `kubeconfig`; default: its current one.
    #[schemars(extend("x-default-words" = "the current one"))]
    context: Option<String>,
    /// How long one watch lasts before it is begun again. What is known is at most this old, and a little more.
    #[schemars(extend("x-range" = ["1s", "10m"], "x-default" = "30s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["30s"]))]
    wait: Option<String>,
}

/// The name or the number of a port.
#[derive(Clone, Debug)]
pub(crate) struct KubernetesPortSpec(PortOf);

impl<'de> Deserialize<'de> for KubernetesPortSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByShape;

        impl Visitor<'_> for ByShape {
            type Value = KubernetesPortSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a port, such as `http`, or a number from 1 to 65535")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<KubernetesPortSpec, E> {
                PortOf::parse(text)
                    .map(KubernetesPortSpec)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<KubernetesPortSpec, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(ByShape)
    }
}

impl JsonSchema for KubernetesPortSpec {
    fn schema_name() -> Cow<'static, str> {
        "KubernetesPortSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The name or the number of a port.",
            "oneOf": [
                { "type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" },
                { "type": "integer", "minimum": 1, "maximum": 65535 },
            ],
        })
    }
}

impl PortOf {
    fn parse(text: &str) -> Option<Self> {
        match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().ok().filter(|number| *number != 0).map(Self::Number),
            false => is_name(text).then(|| Self::Name(text.to_owned())),
        }
    }
}

/// A label of RFC 1123.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME).contains(&text.len())
        && text.bytes().all(is_plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl KubernetesSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        check_name("service", &self.service)?;
        let login = (self.kubeconfig.as_deref(), self.context.as_deref());
        let (access, namespace) = access(login, self.namespace.as_deref(), files)?;
        let range = (Duration::from_secs(1), Duration::from_secs(600));
        let wait = time(("wait", self.wait.as_deref()), WAIT, range)?;
        let port = self.port.as_ref().map(|port| port.0.clone());
        Ok(Arc::new(Kubernetes {
            access,
            namespace,
            wanted: Wanted { service: self.service.clone(), port },
            wait,
        }))
    }
}

fn check_name(key: &str, name: &str) -> Result<(), String> {
    if is_name(name) {
        return Ok(());
    }
    let rule = format!("at most {NAME} of a-z, 0-9 and `-`, with neither end `-`");
    Err(format!("`{key}` is `{name}`; write a name of Kubernetes: {rule}"))
}

/// The API server of a kubeconfig and its context, or of the pod; and the namespace.
///
/// # Errors
/// A sentence that names the wrong key.
fn access(
    (kubeconfig, context): (Option<&str>, Option<&str>),
    namespace: Option<&str>,
    files: &dyn ConfigFiles,
) -> Result<(Access, String), String> {
    let (access, usual) = match (kubeconfig, context) {
        (None, Some(_)) => {
            return Err("`context` names a context of `kubeconfig`; write that too".to_owned());
        }
        (None, None) => Access::of_pod(files),
        (Some(path), context) => {
            let login = kubeconfig::read(path, context, files)?;
            (Access::Login(login.api), login.namespace)
        }
    };
    let namespace = namespace.map(ToOwned::to_owned).or(usual).unwrap_or_else(|| "default".to_owned());
    check_name("namespace", &namespace)?;
    Ok((access, namespace))
}

/// Where the API server is, and who asks it.
#[derive(Debug)]
enum Access {
    /// By the environment of a pod; `None`: the proxy does not run in one.
    Pod(Option<(String, u16)>),
    Login(Api),
}

impl Access {
    /// By the environment of a pod, with its namespace. What is not there is told when it is needed: a configuration
    /// may be checked elsewhere.
    fn of_pod(files: &dyn ConfigFiles) -> (Self, Option<String>) {
        let port =
            files.variable("KUBERNETES_SERVICE_PORT").and_then(|port| port.parse().ok()).unwrap_or(443);
        let server = files.variable("KUBERNETES_SERVICE_HOST").map(|host| (host, port));
        let namespace = std::fs::read_to_string(Path::new(ACCOUNT).join("namespace")).ok();
        let namespace = namespace.filter(|_| server.is_some()).map(|name| name.trim().to_owned());
        (Self::Pod(server), namespace)
    }

    fn place(&self) -> String {
        match self {
            Self::Pod(_) => "the cluster it runs in".to_owned(),
            Self::Login(api) => api.place().to_owned(),
        }
    }

    /// All that connections depend on.
    fn group(&self) -> String {
        match self {
            Self::Pod(server) => format!("{server:?}"),
            Self::Login(api) => api.group().to_owned(),
        }
    }

    /// # Errors
    /// A sentence: there is no way to the server.
    async fn api(&self) -> Result<Api, String> {
        match self {
            Self::Login(api) => Ok(api.clone()),
            Self::Pod(Some((host, port))) => Api::of_pod((host, *port), Path::new(ACCOUNT)).await,
            Self::Pod(None) => {
                let why = "the proxy does not run in a pod (KUBERNETES_SERVICE_HOST is not set)";
                Err(format!("{why}; help: write `kubeconfig`: the path of a file as kubectl has it"))
            }
        }
    }
}

#[derive(Debug)]
struct Kubernetes {
    access: Access,
    namespace: String,
    wanted: Wanted,
    wait: Duration,
}

impl Kubernetes {
    fn grace(&self) -> Duration {
        GRACE.min(self.wait)
    }
}

impl Source for Kubernetes {
    fn kind(&self) -> &'static str {
        "kubernetes"
    }

    fn place(&self) -> String {
        self.access.place()
    }

    fn query(&self) -> String {
        self.wanted.query(&self.namespace)
    }

    fn group(&self) -> String {
        format!("{} {} {:?}", self.access.group(), self.namespace, self.wait)
    }

    fn silence(&self) -> Duration {
        self.wait + self.grace()
    }

    fn watch<'a>(&'a self, members: &'a [Arc<dyn Source>], feed: Feed) -> Watching<'a> {
        Box::pin(async move {
            let api = match self.access.api().await {
                Ok(api) => api,
                Err(why) => return why,
            };
            let wanted: Vec<_> = members.iter().filter_map(|member| Wanted::parse(&member.query())).collect();
            let (slices, services) = selectors(&wanted);
            let known = Known::new(self.namespace.clone(), wanted, feed);
            let scope = |selector| Scope {
                namespace: &self.namespace,
                selector,
                wait: self.wait,
                grace: self.grace(),
            };
            tokio::select! {
                why = follow(&api, scope(&services), |news| known.services(news)) => why,
                why = follow(&api, scope(&slices), |news| known.slices(news)) => why,
                why = known.tell() => why,
            }
        })
    }
}

impl Wanted {
    /// `namespace/service` or `namespace/service:port`.
    fn query(&self, namespace: &str) -> String {
        match &self.port {
            None => format!("{namespace}/{}", self.service),
            Some(port) => format!("{namespace}/{}:{port}", self.service),
        }
    }

    fn parse(query: &str) -> Option<Self> {
        let (_, rest) = query.split_once('/')?;
        let (service, port) = match rest.split_once(':') {
            None => (rest, None),
            Some((service, port)) => (service, Some(PortOf::parse(port)?)),
        };
        Some(Self { service: service.to_owned(), port })
    }
}

/// Of the slices, and of the Services.
fn selectors(wanted: &[Wanted]) -> (String, String) {
    let names: BTreeSet<_> = wanted.iter().map(|wanted| wanted.service.as_str()).collect();
    let names: Vec<_> = names.into_iter().collect();
    let slices = match names.len() {
        0..=NAMED => format!("{SERVICE_NAME} in ({})", names.join(",")),
        _ => SERVICE_NAME.to_owned(),
    };
    let services = match names[..] {
        [only] => format!("fieldSelector={}", encoded(&format!("metadata.name={only}"))),
        _ => String::new(),
    };
    (format!("labelSelector={}", encoded(&slices)), services)
}

#[cfg(test)]
mod tests;
