//! `discover: { dns: { name: checkout.internal, port: 8080 } }`: the addresses of a name, or its SRV records.
//!
//! A name is asked for again when its records are too old, by their TTL. That it does not exist, or has no records, is
//! a failure, so that a zone that was lost or a name that is misspelt takes no service down; `when_empty: apply` takes
//! it for an empty set. One SRV record whose target is `.` says that there is no service (RFC 2782), and is an empty
//! set always.

mod lookup;
mod targets;

use crate::feed::Feed;
use crate::http_servers::time;
use crate::source::{Source, Watching};
use hickory_resolver::proto::rr::Name;
use lookup::{Answer, Failure, NameServers};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thalweg_filter::{ConfigFiles, OneOrManySpec};
use tokio::time::{sleep, timeout};

/// The shortest time between two questions, whatever the TTL says.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest, where nothing is written.
const LONGEST: Duration = Duration::from_secs(300);
/// How long it is believed at most that a name does not exist: one that has just come is wanted soon.
const LONGEST_ABSENCE: Duration = Duration::from_secs(30);
/// For all that one look needs.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the operator can do where a name is not there.
const REMEDY: &str = "if that means that there are no endpoints, write `when_empty: apply`";
/// The most name servers, and the most search domains.
const SERVERS: usize = 8;

/// A name in the DNS.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `name` and `port`")]
pub struct DnsSourceSpec {
    /// The name; one that ends with a dot is looked up as it stands, without search domains.
    #[schemars(extend("x-shown" = true))]
    name: String,
    /// The port of the endpoints, where records of addresses are asked for; SRV records tell it.
    #[schemars(extend("x-range" = [1, 65535], "x-default-words" = "must be written for `type: address`"))]
    port: Option<u32>,
    /// What is asked for: `address`, A and AAAA records; `srv`, SRV records, whose priority becomes the tier. Default:
    /// `srv` for a name that begins with `_`, else `address`.
    #[schemars(extend("x-default-words" = "`srv` for a name that begins with `_`, else `address`"))]
    #[serde(rename = "type")]
    records: Option<DnsRecordsSpec>,
    /// Which addresses are used: `any`, IPv4 and IPv6 (default); `ipv4` or `ipv6`, these only.
    #[schemars(extend("x-default" = "any"))]
    family: Option<DnsFamilySpec>,
    /// The name servers, as `10.0.0.1` or `10.0.0.1:53`. Default: those of the system (resolv.conf).
    #[schemars(extend("x-default-words" = "those of the system"))]
    #[schemars(extend("x-api" = "address"))]
    resolvers: Option<OneOrManySpec<String>>,
    /// Domains in which a name without a dot (after `_http._tcp.`) is looked up before it is as it stands. Default:
    /// with `resolvers` none, else those of the system.
    #[schemars(extend("x-default-words" = "none with `resolvers`, else those of the system"))]
    search: Option<OneOrManySpec<String>>,
    /// What it means that there are no records: `keep`, a failure, and the endpoints that are known stay (default);
    /// `apply`, that there are no endpoints.
    #[schemars(extend("x-default" = "keep"))]
    when_empty: Option<DnsEmptySpec>,
    /// The longest time between two questions, where the TTL is longer.
    #[schemars(extend("x-range" = ["1s", "1h"], "x-default" = "5m"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5m"]))]
    max_ttl: Option<String>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DnsRecordsSpec {
    /// A and AAAA.
    Address,
    /// SRV.
    Srv,
}

/// Which addresses are used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DnsFamilySpec {
    /// IPv4 and IPv6.
    #[default]
    Any,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What it means that there are no records.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DnsEmptySpec {
    /// A failure.
    #[default]
    Keep,
    /// No endpoints.
    Apply,
}

impl DnsSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, _files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        let name = name(&self.name).ok_or_else(|| format!("`name`: `{}` is no host name", self.name))?;
        let by_name = if self.name.starts_with('_') { DnsRecordsSpec::Srv } else { DnsRecordsSpec::Address };
        let port = self.port.map(|port| u16::try_from(port).ok().filter(|port| *port > 0));
        let port = port.map(|port| port.ok_or("`port` must be from 1 to 65535")).transpose()?;
        let asked = match (self.records.unwrap_or(by_name), port) {
            (DnsRecordsSpec::Srv, None) => Asked::Services,
            (DnsRecordsSpec::Srv, Some(_)) => {
                return Err("SRV records tell the port; write no `port`, or `type: address`".to_owned());
            }
            (DnsRecordsSpec::Address, None) => {
                return Err("write the `port` of the endpoints, or `type: srv`".to_owned());
            }
            (DnsRecordsSpec::Address, Some(port)) => Asked::Addresses(port),
        };
        let servers = listed(self.resolvers.as_ref()).iter().map(|text| server(text));
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        if servers.len() > SERVERS || (servers.is_empty() && self.resolvers.is_some()) {
            return Err(format!("`resolvers` must be 1 to {SERVERS} addresses of name servers"));
        }
        let search = self.search.as_ref().map(|search| domains(search.as_slice())).transpose()?;
        let range = (SHORTEST, Duration::from_secs(3600));
        let max_ttl = time(("max_ttl", self.max_ttl.as_deref()), LONGEST, range)?;
        let (family, when_empty) = (self.family.unwrap_or_default(), self.when_empty.unwrap_or_default());
        Ok(Arc::new(Dns { name, asked, family, servers, search, when_empty, max_ttl }))
    }
}

fn listed(written: Option<&OneOrManySpec<String>>) -> &[String] {
    written.map_or(&[], OneOrManySpec::as_slice)
}

fn name(text: &str) -> Option<Name> {
    Name::from_str_relaxed(text).ok().filter(|name| name.num_labels() > 0 && !text.contains([' ', '/', ':']))
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let flaw = || format!("`resolvers`: `{text}` is no address of a name server; write `10.0.0.1:53`");
    let server = text
        .parse()
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53)))
        .map_err(|_| flaw())?;
    if server.port() == 0 { Err(flaw()) } else { Ok(server) }
}

fn domains(texts: &[String]) -> Result<Vec<Name>, String> {
    if texts.len() > SERVERS {
        return Err(format!("`search` must be at most {SERVERS} domains"));
    }
    texts.iter().map(|text| name(text).ok_or_else(|| format!("`search`: `{text}` is no domain"))).collect()
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// Addresses; this is the port of the endpoints.
    Addresses(u16),
    /// SRV records.
    Services,
}

#[derive(Debug)]
struct Dns {
    name: Name,
    asked: Asked,
    family: DnsFamilySpec,
    /// None: those of the system.
    servers: Vec<SocketAddr>,
    search: Option<Vec<Name>>,
    when_empty: DnsEmptySpec,
    max_ttl: Duration,
}

impl Source for Dns {
    fn kind(&self) -> &'static str {
        "dns"
    }

    fn place(&self) -> String {
        if self.servers.is_empty() {
            return "the name servers of the system".to_owned();
        }
        self.servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    fn query(&self) -> String {
        let name = self.name.to_utf8();
        let mut query = match self.asked {
            Asked::Addresses(port) => format!("{name}, port {port}"),
            Asked::Services => format!("{name}, SRV"),
        };
        query.push_str(match self.family {
            DnsFamilySpec::Any => "",
            DnsFamilySpec::Ipv4 => ", IPv4",
            DnsFamilySpec::Ipv6 => ", IPv6",
        });
        query
    }

    fn question(&self) -> String {
        format!("{} {:?}", self.query(), self.search)
    }

    fn group(&self) -> String {
        let own = (&self.search, self.when_empty, self.max_ttl);
        format!("{} {} {own:?}", self.place(), self.query())
    }

    fn silence(&self) -> Duration {
        self.max_ttl + PATIENCE
    }

    fn watch<'a>(&'a self, _members: &'a [Arc<dyn Source>], feed: Feed) -> Watching<'a> {
        Box::pin(async move {
            let query = self.query();
            let servers = match NameServers::new(&self.servers, self.search.as_deref()) {
                Ok(servers) => servers,
                Err(why) => return format!("the name servers are not known: {why}"),
            };
            loop {
                let valid = match self.look(&servers).await {
                    Ok(Answer { found, valid, flaw }) => {
                        feed.found(&query, found);
                        if let Some(flaw) = flaw {
                            feed.flawed(&query, flaw);
                        }
                        valid.clamp(SHORTEST, self.max_ttl)
                    }
                    Err(Failure::Absent { why, valid }) => {
                        match self.when_empty {
                            DnsEmptySpec::Apply => feed.found(&query, Vec::new()),
                            DnsEmptySpec::Keep => feed.refused(&query, format!("{why}; {REMEDY}")),
                        }
                        valid.clamp(SHORTEST, LONGEST_ABSENCE)
                    }
                    Err(Failure::Other(why)) => return why,
                };
                sleep(valid).await;
            }
        })
    }
}

impl Dns {
    /// What there is now.
    async fn look(&self, servers: &NameServers) -> Result<Answer, Failure> {
        let look = servers.ask(&self.name, self.asked, self.family);
        timeout(PATIENCE, look).await.unwrap_or_else(|_| {
            Err(Failure::Other(format!("no whole answer within {} s", PATIENCE.as_secs())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(yaml: &str) -> Result<Arc<dyn Source>, String> {
        struct Nothing;
        impl ConfigFiles for Nothing {
            fn path(&self, written: &str) -> std::path::PathBuf {
                written.into()
            }
            fn read(&self, _: &str, _: usize) -> Result<Vec<u8>, String> {
                Err("no file".to_owned())
            }
            fn variable(&self, _: &str) -> Option<String> {
                None
            }
        }
        serde_saphyr::from_str::<DnsSourceSpec>(yaml).unwrap().build(&Nothing)
    }

    #[test]
    fn a_name_that_begins_with_an_underscore_has_srv_records() {
        let query = |yaml| built(yaml).unwrap().query();
        assert_eq!(query("{ name: checkout.internal, port: 80 }"), "checkout.internal, port 80");
        assert_eq!(query("{ name: _http._tcp.checkout }"), "_http._tcp.checkout, SRV");
        assert_eq!(query("{ name: checkout, type: srv, family: ipv4 }"), "checkout, SRV, IPv4");
        assert_eq!(query("{ name: _a.b, type: address, port: 80 }"), "_a.b, port 80");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            "{ name: checkout }",
            "{ name: checkout, port: 0 }",
            "{ name: _http._tcp.checkout, port: 80 }",
            "{ name: '', port: 80 }",
            "{ name: 'a:80', port: 80 }",
            "{ name: 'http://a', port: 80 }",
            "{ name: a..b, port: 80 }",
            "{ name: a, port: 80, resolvers: ns.example }",
            "{ name: a, port: 80, resolvers: '10.0.0.1:0' }",
            "{ name: a, port: 80, resolvers: [] }",
            "{ name: a, port: 80, search: ['b c'] }",
            "{ name: a, port: 80, max_ttl: 2h }",
        ] {
            assert!(built(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn name_servers_are_addresses_with_port_53_where_none_is_written() {
        let source =
            built("{ name: a, port: 80, resolvers: [10.0.0.1, '10.0.0.2:5353', '[::1]:53', '::1'] }")
                .unwrap();
        assert_eq!(source.place(), "10.0.0.1:53, 10.0.0.2:5353, [::1]:53, [::1]:53");
        assert_ne!(source.group(), built("{ name: a, port: 80, resolvers: 10.0.0.1 }").unwrap().group());
    }
}
