//! Questions to name servers, and what their answers mean.
//!
//! The library does what one question needs: several servers, repetition, TCP for answers that are cut short, aliases.
//! Its cache and its search are not used: a failure in one of several lookups must never look like an answer with less.

use super::targets::{Target, endpoints, is_usable};
use super::{Asked, DnsFamilySpec};
use crate::found::Found;
use crate::resolver::words;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinSet;

/// For one question to one server; the system may say less.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often a question is asked again that nobody answered.
const ATTEMPTS: usize = 2;
/// The longest chain of aliases before SRV records.
const ALIASES: usize = 8;
/// Targets of SRV records that are asked for at the same time.
const AT_ONCE: usize = 16;
/// The most targets of SRV records.
const TARGETS: usize = 1024;

/// What there is.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) found: Vec<Found>,
    /// By the TTL of its records.
    pub(super) valid: Duration,
    /// What was left out.
    pub(super) flaw: Option<String>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// A server says that there are no such records.
    Absent {
        /// In a sentence.
        why: String,
        /// For how long that may be believed (RFC 2308 §5).
        valid: Duration,
    },
    /// Nobody knows.
    Other(String),
}

impl Failure {
    fn of(name: &Name, records: &str, error: &NetError) -> Self {
        let name = shown(name);
        let why = match () {
            () if error.is_no_records_found() && !error.is_nx_domain() => {
                format!("`{name}` has no {records}")
            }
            () => format!("`{name}` {}", words(error)),
        };
        match error {
            NetError::Dns(DnsError::NoRecordsFound(none)) if is_negative(none) => {
                let valid = Duration::from_secs(none.negative_ttl.unwrap_or(0).into());
                Self::Absent { why, valid }
            }
            _ => Self::Other(why),
        }
    }
}

/// As people write it.
fn shown(name: &Name) -> String {
    name.to_utf8().trim_end_matches('.').to_owned()
}

/// Whether a server that says so knows that there are no records. One that refuses, fails, or only names others that
/// may know (RFC 2308 §2.2) does not.
fn is_negative(none: &NoRecords) -> bool {
    let is_referral = none.ns.is_some() && none.soa.is_none();
    matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain) && !is_referral
}

/// Those that are asked, and where names without dots are looked up.
#[derive(Debug)]
pub(super) struct NameServers {
    resolver: TokioResolver,
    search: Vec<Name>,
    /// A name with as many dots is not searched for.
    dots: usize,
}

impl NameServers {
    /// These, or those of the system.
    ///
    /// # Errors
    /// The system names none.
    pub(super) fn new(servers: &[SocketAddr], search: Option<&[Name]>) -> Result<Self, String> {
        let (mut config, mut options) = if servers.is_empty() {
            read_system_conf().map_err(|error| error.to_string())?
        } else {
            let servers = servers.iter().map(|server| configured(*server)).collect();
            (ResolverConfig::from_parts(None, Vec::new(), servers), ResolverOpts::default())
        };
        if let Some(search) = search {
            config.search = search.to_vec();
            config.domain = None;
            options.ndots = 1;
        }
        let own =
            if config.search.is_empty() { config.domain.iter().cloned().collect() } else { config.search };
        let (search, dots) = (own, options.ndots);
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        options.timeout = options.timeout.min(TIMEOUT);
        options.attempts = options.attempts.min(ATTEMPTS);
        let config = ResolverConfig::from_parts(None, Vec::new(), config.name_servers);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let resolver = builder.with_options(options).build().map_err(|error| error.to_string())?;
        Ok(Self { resolver, search, dots })
    }

    /// What there is for this name, or for the first of those that it stands for in search domains.
    pub(super) async fn ask(
        &self,
        name: &Name,
        asked: Asked,
        family: DnsFamilySpec,
    ) -> Result<Answer, Failure> {
        let mut absent: Option<(String, Duration)> = None;
        for name in searched(name, &self.search, self.dots) {
            let answer = match asked {
                Asked::Addresses(port) => self.addresses(&name, port, family).await,
                Asked::Services => self.services(&name, family).await,
            };
            match answer {
                // What is said of the name as it stands comes last.
                Err(Failure::Absent { why, valid }) => {
                    let valid = absent.map_or(valid, |(_, before)| before.min(valid));
                    absent = Some((why, valid));
                }
                other => return other,
            }
        }
        let (why, valid) = absent.unwrap_or_else(|| ("there is no such name".to_owned(), Duration::ZERO));
        Err(Failure::Absent { why, valid })
    }

    /// The endpoints at the addresses of a name.
    async fn addresses(&self, name: &Name, port: u16, family: DnsFamilySpec) -> Result<Answer, Failure> {
        let (addresses, valid) = addresses_of(&self.resolver, name, family).await?;
        let (usable, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_usable);
        let flaw = others.first().map(|address| format!("{address} is no address of a server"));
        let found: Vec<_> = usable.iter().map(|address| Found::at(address.to_string(), port)).collect();
        match flaw {
            Some(flaw) if found.is_empty() => Err(Failure::Other(format!("`{}`: {flaw}", shown(name)))),
            flaw => Ok(Answer { found, valid, flaw }),
        }
    }

    /// The endpoints that SRV records tell of.
    async fn services(&self, name: &Name, family: DnsFamilySpec) -> Result<Answer, Failure> {
        let (records, others, mut valid) = self.srv(name).await?;
        // RFC 2782: "A Target of "." means that the service is decidedly not available at this domain."
        if records.iter().all(|srv| srv.target.is_root()) {
            return Ok(Answer { found: Vec::new(), valid, flaw: None });
        }
        let (mut known, missing) = sorted_by_target(&records, &others, family);
        let mut flaw = None;
        for (target, result) in self.ask_all(missing, family).await? {
            match result {
                Ok((addresses, ttl)) => drop(known.insert(target, (addresses, ttl))),
                Err(Failure::Absent { why, valid: until }) => {
                    valid = valid.min(until);
                    flaw = Some(format!("the target {why}"));
                }
                Err(other) => return Err(other),
            }
        }
        valid = known.values().map(|(_, ttl)| *ttl).fold(valid, Duration::min);
        let targets: Vec<_> = records
            .iter()
            .take(TARGETS)
            .filter_map(|srv| {
                let (addresses, _) = known.get(&srv.target.to_lowercase())?;
                Some(Target { srv, addresses })
            })
            .collect();
        let (found, unusable) = endpoints(&targets);
        match flaw.or(unusable) {
            Some(why) if found.is_empty() && targets.is_empty() => Err(Failure::Absent { why, valid }),
            Some(why) if found.is_empty() => Err(Failure::Other(why)),
            flaw => Ok(Answer { found, valid, flaw }),
        }
    }

    /// The SRV records of this name, the other records that came with them, and for how long they are valid.
    async fn srv(&self, name: &Name) -> Result<(Vec<SRV>, Vec<Record>, Duration), Failure> {
        let mut owner = name.clone();
        for _ in 0..ALIASES {
            let none = match self.resolver.lookup(owner.clone(), RecordType::SRV).await {
                Ok(answer) => {
                    let srv = |record: &Record| match &record.data {
                        RData::SRV(srv) => Some(srv.clone()),
                        _ => None,
                    };
                    let records: Vec<_> = answer.answers().iter().filter_map(srv).collect();
                    if !records.is_empty() {
                        return Ok((records, answer.additionals().to_vec(), ttl(&answer)));
                    }
                    Failure::Absent {
                        why: format!("`{}` has no SRV record", shown(&owner)),
                        valid: Duration::ZERO,
                    }
                }
                Err(error) => Failure::of(name, "SRV record", &error),
            };
            // The library follows no alias for SRV records.
            owner = match (&none, self.resolver.lookup(owner, RecordType::CNAME).await) {
                (Failure::Absent { .. }, Ok(answer)) => match alias(&answer) {
                    Some(alias) => alias,
                    None => return Err(none),
                },
                _ => return Err(none),
            };
        }
        Err(Failure::Other(format!("`{}` has more than {ALIASES} aliases", shown(name))))
    }

    /// The addresses of all of these, in the order in which answers come.
    async fn ask_all(
        &self,
        targets: Vec<Name>,
        family: DnsFamilySpec,
    ) -> Result<Vec<(Name, Result<(Vec<IpAddr>, Duration), Failure>)>, Failure> {
        let (mut rest, mut asked, mut answers) = (targets.into_iter(), JoinSet::new(), Vec::new());
        loop {
            while asked.len() < AT_ONCE {
                let Some(target) = rest.next() else { break };
                let resolver = self.resolver.clone();
                asked.spawn(async move {
                    let answer = addresses_of(&resolver, &target, family).await;
                    (target, answer)
                });
            }
            match asked.join_next().await {
                Some(Ok(answer)) => answers.push(answer),
                Some(Err(_)) => return Err(Failure::Other("a lookup was ended".to_owned())),
                None => return Ok(answers),
            }
        }
    }
}

/// UDP, and TCP for answers that are cut short.
fn configured(server: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    NameServerConfig::new(server.ip(), true, connections.into())
}

/// The addresses of exactly this name. One family that has none is as it is; one that cannot be had is a failure.
async fn addresses_of(
    resolver: &TokioResolver,
    name: &Name,
    family: DnsFamilySpec,
) -> Result<(Vec<IpAddr>, Duration), Failure> {
    let ask = async |wanted: bool, records| match wanted {
        true => Some(resolver.lookup(name.clone(), records).await),
        false => None,
    };
    let (v4, v6) = tokio::join!(
        ask(family != DnsFamilySpec::Ipv6, RecordType::A),
        ask(family != DnsFamilySpec::Ipv4, RecordType::AAAA)
    );
    let (mut addresses, mut valid, mut absent) = (Vec::new(), Duration::MAX, None);
    for answer in [v4, v6].into_iter().flatten() {
        match answer {
            Ok(answer) => {
                addresses.extend(answer.answers().iter().filter_map(address));
                valid = valid.min(ttl(&answer));
            }
            Err(error) => match Failure::of(name, "address", &error) {
                none @ Failure::Absent { .. } => absent = Some(none),
                other => return Err(other),
            },
        }
    }
    if addresses.is_empty() {
        let why = format!("`{}` has no address", shown(name));
        return Err(absent.unwrap_or(Failure::Absent { why, valid: Duration::ZERO }));
    }
    addresses.sort();
    addresses.dedup();
    Ok((addresses, valid))
}

/// By target: the addresses that came with the SRV records and for how long they are valid; and the targets without.
type ByTarget = BTreeMap<Name, (Vec<IpAddr>, Duration)>;

fn sorted_by_target(records: &[SRV], others: &[Record], family: DnsFamilySpec) -> (ByTarget, Vec<Name>) {
    let mut known = ByTarget::new();
    for record in others {
        let Some(address) = address(record).filter(|address| match family {
            DnsFamilySpec::Any => true,
            DnsFamilySpec::Ipv4 => address.is_ipv4(),
            DnsFamilySpec::Ipv6 => address.is_ipv6(),
        }) else {
            continue;
        };
        let (addresses, valid) =
            known.entry(record.name.to_lowercase()).or_insert_with(|| (Vec::new(), Duration::MAX));
        addresses.push(address);
        *valid = (*valid).min(Duration::from_secs(record.ttl.into()));
    }
    let targets = records.iter().take(TARGETS).map(|srv| srv.target.to_lowercase());
    let mut targets: Vec<_> = targets.filter(|target| !target.is_root()).collect();
    targets.sort();
    targets.dedup();
    known.retain(|name, _| targets.binary_search(name).is_ok());
    for (addresses, _) in known.values_mut() {
        addresses.sort();
        addresses.dedup();
    }
    targets.retain(|target| !known.contains_key(target));
    (known, targets)
}

fn address(record: &Record) -> Option<IpAddr> {
    match &record.data {
        RData::A(address) => Some(address.0.into()),
        RData::AAAA(address) => Some(address.0.into()),
        _ => None,
    }
}

fn alias(answer: &Lookup) -> Option<Name> {
    answer.answers().iter().find_map(|record| match &record.data {
        RData::CNAME(alias) => Some(alias.0.clone()),
        _ => None,
    })
}

/// For how long all records of an answer are valid, aliases too.
fn ttl(answer: &Lookup) -> Duration {
    let shortest = answer.answers().iter().map(|record| record.ttl).min();
    Duration::from_secs(shortest.unwrap_or(0).into())
}

/// The names to ask for, one after the other: with fewer dots than `dots`, below each search domain first. The dots
/// of `_http._tcp.` before a name do not count.
fn searched(name: &Name, search: &[Name], dots: usize) -> Vec<Name> {
    let mut names = Vec::new();
    if !name.is_fqdn() && name.iter().filter(|label| !label.starts_with(b"_")).count() <= dots {
        // One that becomes too long is none.
        names.extend(search.iter().filter_map(|domain| name.clone().append_domain(domain).ok()));
    }
    names.push(name.clone());
    for name in &mut names {
        name.set_fqdn(true);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_fewer_dots_are_searched_for_and_those_that_end_with_one_are_not() {
        let search = ["a.example", "b.example."].map(|name| Name::from_ascii(name).unwrap());
        let names = |name: &str, dots| {
            let names = searched(&Name::from_ascii(name).unwrap(), &search, dots);
            names.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names("checkout", 1), ["checkout.a.example.", "checkout.b.example.", "checkout."]);
        assert_eq!(names("checkout.", 1), ["checkout."]);
        assert_eq!(names("_x._tcp.c", 1), ["_x._tcp.c.a.example.", "_x._tcp.c.b.example.", "_x._tcp.c."]);
        assert_eq!(names("checkout.prod", 1), ["checkout.prod."]);
        assert_eq!(names("c.p", 5), ["c.p.a.example.", "c.p.b.example.", "c.p."]);
    }

    #[test]
    fn addresses_that_came_with_srv_records_are_those_of_their_targets_and_of_the_family() {
        let name = |name: &str| Name::from_ascii(name).unwrap();
        let srv = |target: &str| SRV::new(0, 0, 80, name(target));
        let record = |owner: &str, address: IpAddr| Record::from_rdata(name(owner), 7, RData::from(address));
        let v4 = IpAddr::from([10, 0, 0, 1]);
        let v6: IpAddr = "fd00::1".parse().unwrap();
        let others = [record("a.", v6), record("A.", v4), record("a.", v4), record("other.", v4)];
        let (known, missing) =
            sorted_by_target(&[srv("a."), srv("B."), srv("b.")], &others, DnsFamilySpec::Any);
        assert_eq!(known, ByTarget::from([(name("a."), (vec![v4, v6], Duration::from_secs(7)))]));
        assert_eq!(missing, [name("b.")]);
        let (known, _) = sorted_by_target(&[srv("a.")], &others, DnsFamilySpec::Ipv6);
        assert_eq!(known[&name("a.")].0, [v6]);
    }
}
