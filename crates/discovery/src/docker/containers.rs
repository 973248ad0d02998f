//! Containers as Docker lists them, and what their labels say: which are a service, and where each is reached. Pure, so
//! that whatever else is read from labels reads the same containers.

use crate::flaw;
use crate::found::{Found, scale_weights};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use thalweg_upstream::Labels;

/// Labels of Docker Compose.
const COMPOSE_SERVICE: &str = "com.docker.compose.service";
const COMPOSE_PROJECT: &str = "com.docker.compose.project";
const COMPOSE_ONE_OFF: &str = "com.docker.compose.oneoff";
/// The label of images with their version (OCI).
const IMAGE_VERSION: &str = "org.opencontainers.image.version";
/// The label of an endpoint with the name of its container.
const CONTAINER: &str = "container";
/// In the place of a service, where all are meant.
const ALL: &str = "labels of containers";

/// A container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct DockerContainerSpec {
    pub(crate) id: String,
    names: Vec<String>,
    labels: Option<BTreeMap<String, String>>,
    /// Such as `running`.
    state: String,
    /// For people, such as `Up 3 minutes (healthy)`.
    status: String,
    /// Newer servers only.
    health: Option<DockerHealthSpec>,
    ports: Option<Vec<DockerPortSpec>>,
    host_config: DockerHostConfigSpec,
    network_settings: DockerNetworkSettingsSpec,
    /// It has been told to stop. Docker does not list that.
    #[serde(skip)]
    pub(crate) is_stopping: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerHealthSpec {
    status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerPortSpec {
    #[serde(rename = "IP")]
    ip: Option<String>,
    private_port: u16,
    public_port: Option<u16>,
    #[serde(rename = "Type")]
    protocol: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerHostConfigSpec {
    network_mode: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerNetworkSettingsSpec {
    networks: Option<BTreeMap<String, DockerNetworkSpec>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DockerNetworkSpec {
    #[serde(rename = "IPAddress")]
    v4: String,
    #[serde(rename = "GlobalIPv6Address")]
    v6: String,
}

impl DockerNetworkSpec {
    fn address(&self) -> Option<&str> {
        [&*self.v4, &*self.v6].into_iter().find(|address| !address.is_empty())
    }
}

/// The containers of an answer to `GET /containers/json`, and what was left out.
///
/// # Errors
/// A sentence: it is no list.
pub(crate) fn containers(answer: &[u8]) -> Result<(Vec<DockerContainerSpec>, Option<String>), String> {
    let entries: Vec<serde_json::Value> = serde_json::from_slice(answer)
        .map_err(|error| format!("the answer is no list of containers: {}", flaw::json(&error)))?;
    let (mut containers, mut flaw) = (Vec::new(), None);
    for entry in entries {
        match serde_json::from_value::<DockerContainerSpec>(entry) {
            Ok(container) if !container.id.is_empty() => containers.push(container),
            Ok(_) => flaw = Some("a container has no ID".to_owned()),
            Err(error) => flaw = Some(format!("a container cannot be read: {}", flaw::json(&error))),
        }
    }
    Ok((containers, flaw))
}

impl DockerContainerSpec {
    /// One of its labels.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// All labels that begin with this, without it.
    pub(crate) fn labels_below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.labels.iter().flatten();
        all.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// The service that it belongs to: by `thalweg.service`, else by that of Docker Compose.
    pub(crate) fn service(&self) -> Option<&str> {
        let compose = self.label(COMPOSE_SERVICE).filter(|_| !self.is_one_off());
        self.label("thalweg.service").or(compose)
    }

    /// Whether `docker compose run` has started it: a command beside the instances of a service.
    pub(crate) fn is_one_off(&self) -> bool {
        self.label(COMPOSE_ONE_OFF).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// The project of Docker Compose.
    pub(crate) fn project(&self) -> Option<&str> {
        self.label(COMPOSE_PROJECT)
    }

    /// Whether it runs and goes on, and its health check, if it has one, says that it is well.
    pub(crate) fn is_well(&self) -> bool {
        let health = match &self.health {
            Some(health) => &*health.status,
            None => self.status.rsplit_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')')),
        };
        self.state == "running"
            && !self.is_stopping
            && !matches!(health, "unhealthy" | "starting" | "health: starting")
    }

    /// Its name, for people.
    pub(crate) fn name(&self) -> &str {
        let first = self.names.iter().map(|name| name.trim_start_matches('/')).min_by_key(|name| name.len());
        first.unwrap_or_else(|| self.id.get(..12).unwrap_or(&self.id))
    }
}

/// Which containers are meant, and how they are reached.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Choice {
    /// `None`: all.
    pub(crate) service: Option<String>,
    /// Of Docker Compose.
    pub(crate) project: Option<String>,
    pub(crate) network: Option<String>,
    /// That a container must have.
    pub(crate) labels: BTreeMap<String, String>,
    /// By the ports that are published on the host.
    pub(crate) is_published: bool,
    /// Of the names that are made for them.
    pub(crate) prefix: String,
}

impl Choice {
    /// What [`fmt::Display`] has written.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = text.split(", ");
        let service = parts.next().filter(|service| *service != ALL).map(ToOwned::to_owned);
        let mut choice = Self { service, ..Self::default() };
        for part in parts {
            match part.split_once(' ') {
                Some(("project", name)) => choice.project = Some(name.to_owned()),
                Some(("prefix", text)) => text.clone_into(&mut choice.prefix),
                Some(("network", name)) => choice.network = Some(name.to_owned()),
                Some(("label", label)) => {
                    let (name, value) = label.split_once('=').unwrap_or((label, ""));
                    choice.labels.insert(name.to_owned(), value.to_owned());
                }
                _ => choice.is_published = true,
            }
        }
        choice
    }

    /// Whether [`Self::parse`] reads what is written of it.
    pub(crate) fn is_plain(&self) -> bool {
        Self::parse(&self.to_string()) == *self
    }

    pub(crate) fn takes(&self, container: &DockerContainerSpec) -> bool {
        self.service.as_ref().is_none_or(|service| container.service() == Some(service))
            && self.project.as_ref().is_none_or(|project| container.project() == Some(project))
            && self.labels.iter().all(|(name, value)| container.label(name) == Some(value))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.service.as_deref().unwrap_or(ALL))?;
        if !self.prefix.is_empty() {
            write!(f, ", prefix {}", self.prefix)?;
        }
        if let Some(project) = &self.project {
            write!(f, ", project {project}")?;
        }
        if let Some(network) = &self.network {
            write!(f, ", network {network}")?;
        }
        for (name, value) in &self.labels {
            write!(f, ", label {name}={value}")?;
        }
        if self.is_published { f.write_str(", published ports") } else { Ok(()) }
    }
}

/// The endpoints of a service, and what was left out. `host` is where ports of the host are reached.
pub(crate) fn endpoints(
    containers: &[DockerContainerSpec],
    choice: &Choice,
    host: &str,
) -> (Vec<Found>, Option<String>) {
    let (mut found, mut flaw) = (Vec::new(), None);
    for container in containers.iter().filter(|container| choice.takes(container) && container.is_well()) {
        match endpoint(container, choice, host) {
            Ok(one) => found.push(one),
            Err(why) => flaw = Some(format!("container `{}`: {why}", container.name())),
        }
    }
    found.sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port)));
    found.dedup_by(|a, b| (&a.host, a.port) == (&b.host, b.port));
    scale_weights(&mut found);
    (found, flaw)
}

/// Where a container is reached.
///
/// # Errors
/// A sentence.
pub(crate) fn endpoint(
    container: &DockerContainerSpec,
    choice: &Choice,
    host: &str,
) -> Result<Found, String> {
    let port = port(container)?;
    let (host, port) = match () {
        () if choice.is_published => published(container, port, host)?,
        // Its ports are those of the host.
        () if container.host_config.network_mode == "host" => (host.to_owned(), port),
        () => (address(container, choice.network.as_deref())?, port),
    };
    let mut found = Found::at(host, port);
    found.weight = number(container, "thalweg.weight", u32::MAX)?.unwrap_or(1);
    found.tier = number(container, "thalweg.tier", 9)?.and_then(|tier| u8::try_from(tier).ok()).unwrap_or(0);
    found.scheme =
        match container.label("thalweg.scheme") {
            None => None,
            Some(scheme) => {
                let known = ["http", "https", "tcp", "udp"].into_iter().find(|known| *known == scheme);
                Some(known.ok_or_else(|| {
                    format!("`thalweg.scheme` is `{scheme}`; write http, https, tcp or udp")
                })?)
            }
        };
    let version = container.label(IMAGE_VERSION).map(|version| (Labels::VERSION, version));
    let own = container.labels_below("thalweg.label.");
    let all: BTreeMap<_, _> = [(CONTAINER, container.name())].into_iter().chain(version).chain(own).collect();
    found.labels = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(found)
}

fn number(container: &DockerContainerSpec, label: &str, most: u32) -> Result<Option<u32>, String> {
    let Some(text) = container.label(label) else { return Ok(None) };
    let number = text.trim().parse().ok().filter(|number| *number <= most);
    number.map(Some).ok_or_else(|| format!("`{label}` is `{text}`, which is no number from 0 to {most}"))
}

/// By `thalweg.port`, else the only TCP port that the image exposes.
fn port(container: &DockerContainerSpec) -> Result<u16, String> {
    if let Some(text) = container.label("thalweg.port") {
        let port = text.trim().parse().ok().filter(|port| *port != 0);
        return port.ok_or_else(|| format!("`thalweg.port` is `{text}`, which is no port"));
    }
    let exposed = container.ports.iter().flatten().filter(|port| port.protocol != "udp");
    let ports: BTreeSet<_> = exposed.map(|port| port.private_port).filter(|port| *port != 0).collect();
    match (ports.len(), ports.first()) {
        (1, Some(port)) => Ok(*port),
        (0, _) => Err("it exposes no port; give it the label `thalweg.port`".to_owned()),
        (count, _) => Err(format!("it exposes {count} ports; give it the label `thalweg.port`")),
    }
}

/// Where a port of the container is reached on the host.
fn published(container: &DockerContainerSpec, port: u16, host: &str) -> Result<(String, u16), String> {
    let all = container.ports.iter().flatten().filter(|one| one.private_port == port);
    let first = all.filter_map(|one| Some((one.ip.as_deref(), one.public_port?))).next();
    let (ip, port) = first.ok_or_else(|| format!("its port {port} is not published"))?;
    let is_any = matches!(ip, None | Some("" | "0.0.0.0" | "::"));
    Ok((if is_any { host } else { ip.unwrap_or(host) }.to_owned(), port))
}

/// Its address in the network that is asked for, by `thalweg.network`, or in the only one.
fn address(container: &DockerContainerSpec, network: Option<&str>) -> Result<String, String> {
    let all = container.network_settings.networks.iter().flatten();
    let mut networks: Vec<_> =
        all.filter_map(|(name, network)| Some((name.as_str(), network.address()?))).collect();
    if let Some(wanted) = container.label("thalweg.network").or(network) {
        // Compose puts the project before the names of its networks.
        let project = container.project().map(|project| format!("{project}_{wanted}"));
        networks.retain(|(name, _)| *name == wanted || Some(*name) == project.as_deref());
        let first = networks.first().map(|(_, address)| (*address).to_owned());
        return first.ok_or_else(|| format!("it has no address in the network `{wanted}`"));
    }
    match networks[..] {
        [(_, address)] => Ok(address.to_owned()),
        [] => Err("it has no address; it must be in a network".to_owned()),
        _ => {
            let names: Vec<_> = networks.iter().map(|(name, _)| *name).collect();
            Err(format!("it is in several networks ({}); write `network`", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Vec<DockerContainerSpec> {
        let (containers, flaw) = containers(json.as_bytes()).unwrap();
        assert_eq!(flaw, None);
        containers
    }

    /// A container of the service `shop`, with more labels and other fields.
    fn shop(labels: &str, fields: &str) -> Vec<DockerContainerSpec> {
        read(&format!(
            r#"[{{"Id":"0123456789abcdef","Names":["/shop-1"],"State":"running","Status":"Up 3 minutes",
                "Labels":{{"com.docker.compose.service":"shop","com.docker.compose.project":"p"{labels}}},
                "Ports":[{{"PrivatePort":80,"Type":"tcp"}}],
                "NetworkSettings":{{"Networks":{{"p_front":{{"IPAddress":"172.18.0.2"}}}}}}{fields}}}]"#
        ))
    }

    fn of(service: &str) -> Choice {
        Choice { service: Some(service.to_owned()), ..Choice::default() }
    }

    fn urls(containers: &[DockerContainerSpec], choice: &Choice) -> Vec<String> {
        endpoints(containers, choice, "127.0.0.1").0.iter().map(|found| found.url("http")).collect()
    }

    fn flaw(containers: &[DockerContainerSpec]) -> String {
        let (found, flaw) = endpoints(containers, &of("shop"), "127.0.0.1");
        assert_eq!(found, []);
        flaw.unwrap()
    }

    #[test]
    fn containers_of_compose_are_a_service_without_any_label_of_ours() {
        let all = shop("", "");
        let (found, flaw) = endpoints(&all, &of("shop"), "127.0.0.1");
        assert_eq!(flaw, None);
        assert_eq!(found[0].url("http"), "http://172.18.0.2:80");
        assert_eq!(found[0].labels.get("container"), Some("shop-1"));
        assert!(urls(&all, &of("other")).is_empty());
        let project = |name: &str| Choice { project: Some(name.to_owned()), ..of("shop") };
        assert_eq!(urls(&all, &project("p")).len(), 1);
        assert_eq!(urls(&all, &project("q")).len(), 0);
        assert!(urls(&shop(r#","com.docker.compose.oneoff":"True""#, ""), &of("shop")).is_empty());
    }

    #[test]
    fn labels_say_service_port_scheme_weight_tier_and_labels() {
        let all = shop(
            r#","thalweg.service":"pay","thalweg.port":"8443","thalweg.scheme":"https","thalweg.weight":"3",
               "thalweg.tier":"1","thalweg.label.zone":"a","org.opencontainers.image.version":"1.2""#,
            "",
        );
        assert!(urls(&all, &of("shop")).is_empty(), "its own label wins");
        let (found, _) = endpoints(&all, &of("pay"), "127.0.0.1");
        assert_eq!(
            (found[0].url("http").as_str(), found[0].weight, found[0].tier),
            ("https://172.18.0.2:8443", 3, 1)
        );
        assert_eq!((found[0].labels.get("zone"), found[0].labels.get("version")), (Some("a"), Some("1.2")));
    }

    #[test]
    fn what_is_not_well_gets_no_requests() {
        for (fields, is_well) in [
            (r#","Status":"Up 3 minutes (healthy)""#, true),
            (r#","Status":"Up 3 minutes (unhealthy)""#, false),
            (r#","Status":"Up 3 seconds (health: starting)""#, false),
            (r#","State":"paused","Status":"Up 3 minutes (Paused)""#, false),
            (r#","State":"exited","Status":"Exited (0) 3 minutes ago""#, false),
            (r#","Health":{"Status":"unhealthy"}"#, false),
            (r#","Health":{"Status":"none"}"#, true),
        ] {
            let json = format!(
                r#"[{{"Id":"a","Labels":{{"thalweg.service":"shop","thalweg.port":"80"}},
                   "NetworkSettings":{{"Networks":{{"n":{{"IPAddress":"10.0.0.1"}}}}}}{fields}{}}}]"#,
                if fields.contains("State") { "" } else { r#","State":"running""# }
            );
            assert_eq!(!urls(&read(&json), &of("shop")).is_empty(), is_well, "{fields}");
        }
    }

    #[test]
    fn networks_are_chosen_by_the_source_or_by_the_container() {
        let several = r#","NetworkSettings":{"Networks":{"p_back":{"IPAddress":"10.1.0.2"},
            "p_front":{"IPAddress":"","GlobalIPv6Address":"fd00::2"},"none":{"IPAddress":""}}}"#;
        let json = |labels: &str| {
            read(&format!(
                r#"[{{"Id":"a","State":"running","Labels":{{"thalweg.service":"shop","thalweg.port":"80",
                    "com.docker.compose.project":"p"{labels}}}{several}}}]"#
            ))
        };
        assert_eq!(
            flaw(&json("")),
            "container `a`: it is in several networks (p_back, p_front); write `network`"
        );
        let network = |name: &str| Choice { network: Some(name.to_owned()), ..of("shop") };
        assert_eq!(urls(&json(""), &network("p_back")), ["http://10.1.0.2:80"]);
        assert_eq!(urls(&json(""), &network("front")), ["http://[fd00::2]:80"], "without the project");
        assert_eq!(urls(&json(r#","thalweg.network":"back""#), &network("front")), ["http://10.1.0.2:80"]);
        assert!(urls(&json(""), &network("none")).is_empty());
    }

    #[test]
    fn published_ports_are_reached_on_the_host() {
        let published = Choice { is_published: true, ..of("shop") };
        let json = |ip: &str| {
            read(&format!(
                r#"[{{"Id":"a","State":"running","Labels":{{"thalweg.service":"shop"}},
                    "Ports":[{{"IP":"{ip}","PrivatePort":80,"PublicPort":32768,"Type":"tcp"}},
                             {{"IP":"::","PrivatePort":80,"PublicPort":32768,"Type":"tcp"}}]}}]"#
            ))
        };
        assert_eq!(urls(&json("0.0.0.0"), &published), ["http://127.0.0.1:32768"]);
        assert_eq!(urls(&json("10.0.0.9"), &published), ["http://10.0.0.9:32768"]);
        let host = shop("", r#","HostConfig":{"NetworkMode":"host"}"#);
        assert_eq!(urls(&host, &of("shop")), ["http://127.0.0.1:80"]);
        assert!(urls(&shop("", ""), &published).is_empty());
    }

    #[test]
    fn what_cannot_be_used_is_told_of_and_takes_nothing_else_away() {
        assert!(flaw(&shop(r#","thalweg.port":"x""#, "")).contains("`thalweg.port` is `x`"));
        assert!(flaw(&shop(r#","thalweg.weight":"-1""#, "")).contains("`thalweg.weight`"));
        assert!(flaw(&shop(r#","thalweg.tier":"10""#, "")).contains("from 0 to 9"));
        assert!(flaw(&shop(r#","thalweg.scheme":"ftp""#, "")).contains("`thalweg.scheme` is `ftp`"));
        let (some, flaw) = containers(br#"[{"Id":"a"},{"Id":3},{}]"#).unwrap();
        assert!(some.len() == 1 && flaw.is_some());
        for bad in [&b""[..], b"{}", b"[", br#"{"message":"page not found"}"#] {
            assert!(containers(bad).is_err());
        }
    }

    #[test]
    fn a_choice_is_read_as_it_was_written() {
        let labels = BTreeMap::from([("a".to_owned(), "b=c".to_owned()), ("tier".to_owned(), String::new())]);
        let (project, network) = (Some("p".to_owned()), Some("n".to_owned()));
        let choice =
            Choice { project, network, labels, is_published: true, prefix: "d/".to_owned(), ..of("shop") };
        assert_eq!(
            choice.to_string(),
            "shop, prefix d/, project p, network n, label a=b=c, label tier=, published ports"
        );
        assert!(Choice::default().is_plain() && !of(ALL).is_plain());
        assert!(choice.is_plain() && of("shop").is_plain());
        assert!(!of("a, network b").is_plain());
    }
}
