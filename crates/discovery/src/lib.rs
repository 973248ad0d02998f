//! Where endpoints come from, and what host names among them stand for.
//!
//! One file per source and one entry per source in the list below: the list makes `discover:` of the configuration
//! ([`SourceSpec`]), `thalweg list sources`, the reference page and the property suite (`tests/every_source.rs`). A
//! [`Source`] says whom to ask for what; [`Watches`] keep them going. What is found out ([`Update`]) the control thread
//! takes over without a new plan, and workers only ever get the result. Runs on the control thread.
#![forbid(unsafe_code)]

mod addresses;
mod document;
mod entry;
mod feed;
mod flaw;
mod follower;
mod found;
mod http_servers;
mod kept;
mod resolver;
mod source;
mod static_list;

mod consul;
mod dns;
mod docker;
mod etcd;
mod eureka;
mod file;
mod http;
mod kubernetes;
mod nacos;
mod redis;
pub mod zookeeper;

mod registrations;

use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use thalweg_filter::ConfigFiles;

pub use addresses::look_up;
pub use eureka::registration::{EurekaRegistration, EurekaRegistrationSpec, Heartbeat};
pub use feed::{Content, Feed, News, PAUSE, Watches};
pub use follower::{Followed, Followers, Update, names_in};
pub use found::{Found, scale_weights};
pub use kept::Document;
pub use registrations::{Registered, RegistrationSpec, Registrations};
pub use source::{Source, SourceStatus, Sources, Watching, id, question, words};

/// A source as people see it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The key in the configuration.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// An argument that works, in YAML.
    pub example: &'static str,
}

/// Declares every source of one kind of thing: the key in the configuration, its Spec, one sentence, and an example.
macro_rules! sources {
    ($(#[doc = $about:literal])+ $all:ident: $spec_name:ident, $content:ty, $build:ident;
     $( $(#[doc = $doc:literal])+ $key:ident: $spec:ty = $example:literal, )*) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[expect(non_camel_case_types, reason = "the variant is the key that users write")]
        pub enum $spec_name { $( $(#[doc = $doc])+ $key($spec), )* }

        impl $spec_name {
            /// Checks the arguments and makes the source. Nothing is opened.
            ///
            /// # Errors
            /// A sentence that names the wrong argument and the remedy.
            pub fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source<$content>>, String> {
                match self { $( Self::$key(spec) => spec.$build(files), )* }
            }
        }

        /// Every one of these sources, in the order of the documentation.
        pub const $all: &[Entry] = &[ $( Entry {
            name: stringify!($key),
            about: concat!($($doc),+),
            example: $example,
        }, )* ];
    };
}

sources! {
    /// `discover:` of a service, keyed by the source's name.
    ALL: SourceSpec, [Found], build;
    /// Endpoints in a YAML or JSON file, read again when it changes
    file: file::FileSourceSpec = "{ path: endpoints.yaml }",
    /// The addresses of a name in the DNS, or its SRV records
    dns: dns::DnsSourceSpec = "{ name: checkout.internal, port: 8080 }",
    /// Endpoints in a JSON or YAML document that a server gives, by polling or long polling
    http: http::HttpSourceSpec = "{ url: \"https://registry.internal/checkout.json\" }",
    /// Instances of a service that Consul holds to be healthy, by blocking queries
    consul: consul::ConsulSourceSpec = "{ service: checkout }",
    /// Instances that are registered with Eureka (Spring Cloud Netflix) and up
    eureka: eureka::EurekaSourceSpec = "{ app: CHECKOUT }",
    /// Healthy instances of a service that is registered with Nacos
    nacos: nacos::NacosSourceSpec = "{ service: checkout }",
    /// The endpoints of a Service of Kubernetes, from its EndpointSlices
    kubernetes: kubernetes::KubernetesSourceSpec = "{ service: checkout }",
    /// Keys under a prefix of etcd, each one instance
    etcd: etcd::EtcdSourceSpec = "{ prefix: /services/checkout/ }",
    /// A hash, or keys under a prefix, of Redis or Valkey
    redis: redis::RedisSourceSpec = "{ key: services:checkout }",
    /// Children of a node of ZooKeeper, as Curator and Spring Cloud register them
    zookeeper: zookeeper::ZookeeperSourceSpec = "{ path: /services/checkout }",
    /// Containers of Docker with a label or a service of Docker Compose, by its socket
    docker: docker::DockerSourceSpec = "{ service: checkout }",
}

sources! {
    /// One of `route_sources:`, keyed by the source's name.
    ROUTE_SOURCES: RouteSourceSpec, [Document], documents;
    /// One document in a file, or a directory of them, read again when they change
    file: file::FileSourceSpec = "{ path: routes.d }",
    /// One document that a server gives, by polling or long polling
    http: http::HttpSourceSpec = "{ url: \"https://registry.internal/routes.yaml\" }",
    /// Keys under a prefix of Consul's key-value store, each one document
    consul: consul::routes::ConsulRoutesSpec = "{ prefix: thalweg/routes/ }",
    /// ConfigMaps of Kubernetes with a label: each entry of their data is one document
    kubernetes: kubernetes::maps::KubernetesRoutesSpec = "{ namespace: shop }",
    /// Keys under a prefix of etcd, each one document
    etcd: etcd::EtcdSourceSpec = "{ prefix: /thalweg/routes/ }",
    /// A hash, or keys under a prefix, of Redis or Valkey: each field or key is one document
    redis: redis::RedisSourceSpec = "{ key: \"thalweg:routes\" }",
    /// Children of a node of ZooKeeper, each one document
    zookeeper: zookeeper::ZookeeperSourceSpec = "{ path: /thalweg/routes }",
    /// Labels of containers of Docker, by its socket: one document for each service
    docker: docker::routes::DockerRoutesSpec = "{ network: front }",
}
