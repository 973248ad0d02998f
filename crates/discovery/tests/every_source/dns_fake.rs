//! A name server, over UDP and TCP on one port.

use hickory_resolver::proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::{CNAME, NS, SOA, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How it stands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Mood {
    #[default]
    Well,
    /// What it asks itself is gone: SERVFAIL, and no records.
    Failing,
    Silent,
    /// It answers what nobody can understand.
    Mad,
    Over,
}

/// What it knows, and how it says it.
#[derive(Debug, Default)]
pub(crate) struct Zone {
    pub(crate) mood: Mood,
    pub(crate) records: Vec<Record>,
    /// Beside the answer.
    pub(crate) additionals: Vec<Record>,
    /// Answers with more records are cut short over UDP.
    pub(crate) longest: usize,
    /// What it does not know it leaves to another server, without an answer of its own.
    pub(crate) refers: bool,
    /// Of the SOA, in seconds.
    pub(crate) negative_ttl: u32,
    /// The questions, in order, with `tcp` or `udp`.
    pub(crate) asked: Vec<(String, RecordType, &'static str)>,
}

/// The server. Dropping it ends it.
pub(crate) struct DnsFake {
    address: SocketAddr,
    pub(crate) zone: Arc<Mutex<Zone>>,
}

pub(crate) fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

/// An address record with this TTL.
pub(crate) fn address(owner: &str, address: [u8; 4], ttl: u32) -> Record {
    Record::from_rdata(name(owner), ttl, RData::from(IpAddr::from(address)))
}

/// An SRV record with TTL 1.
pub(crate) fn srv(owner: &str, priority: u16, weight: u16, port: u16, target: &str) -> Record {
    Record::from_rdata(name(owner), 1, RData::SRV(SRV::new(priority, weight, port, name(target))))
}

/// An alias with TTL 1.
pub(crate) fn alias(owner: &str, target: &str) -> Record {
    Record::from_rdata(name(owner), 1, RData::CNAME(CNAME(name(target))))
}

impl DnsFake {
    pub(crate) fn start() -> Self {
        // Both on one port, which somebody else may have for the other protocol.
        let (listener, socket) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()) {
                break (listener, socket);
            }
        };
        let zone = Arc::new(Mutex::new(Zone { longest: 100, negative_ttl: 1, ..Zone::default() }));
        let address = listener.local_addr().unwrap();
        let over = zone.clone();
        std::thread::spawn(move || by_udp(&socket, &over));
        let over = zone.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.lock().unwrap().mood == Mood::Over {
                    return;
                }
                let zone = over.clone();
                std::thread::spawn(move || by_tcp(&stream, &zone));
            }
        });
        Self { address, zone }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set(&self, records: Vec<Record>) {
        self.zone.lock().unwrap().records = records;
    }
}

impl Drop for DnsFake {
    fn drop(&mut self) {
        self.zone.lock().unwrap().mood = Mood::Over;
        // Those that wait see it.
        let _ = TcpStream::connect(self.address);
        let _ = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(b"", self.address));
    }
}

fn by_udp(socket: &UdpSocket, zone: &Mutex<Zone>) {
    let mut bytes = [0; 4096];
    while let Ok((count, client)) = socket.recv_from(&mut bytes) {
        if zone.lock().unwrap().mood == Mood::Over {
            return;
        }
        if let Some(answer) = answer(&bytes[..count], zone, "udp") {
            let _ = socket.send_to(&answer, client);
        }
    }
}

fn by_tcp(mut stream: &TcpStream, zone: &Mutex<Zone>) {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        let Some(answer) = answer(&query, zone, "tcp") else { return };
        let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
        if stream.write_all(&[&length, &answer[..]].concat()).is_err() {
            return;
        }
    }
}

fn answer(query: &[u8], zone: &Mutex<Zone>, by: &'static str) -> Option<Vec<u8>> {
    let mut zone = zone.lock().unwrap();
    let asked = Message::from_vec(query).ok()?;
    let question = asked.queries.first()?.clone();
    zone.asked.push((question.name().to_string(), question.query_type(), by));
    let mut answer = Message::response(asked.metadata.id, OpCode::Query);
    answer.add_query(question.clone());
    match zone.mood {
        Mood::Silent | Mood::Over => return None,
        // The right id, then nonsense: records that are announced and are not there.
        Mood::Mad => {
            return Some([&query[..2], &b"\x81\x80\0\x01\xff\xff\xff\xff\xff\xffnonsense"[..]].concat());
        }
        Mood::Failing => answer.metadata.response_code = ResponseCode::ServFail,
        Mood::Well => fill(&mut answer, &question, &zone, by),
    }
    Some(answer.to_vec().unwrap())
}

fn fill(answer: &mut Message, question: &Query, zone: &Zone, by: &str) {
    let own: Vec<_> = zone.records.iter().filter(|record| record.name == *question.name()).collect();
    let wanted = [question.query_type(), RecordType::CNAME];
    let records: Vec<_> =
        own.iter().filter(|record| wanted.contains(&record.record_type())).copied().collect();
    if records.is_empty() && zone.refers {
        let ns = RData::NS(NS(name("ns.elsewhere.")));
        answer.add_authority(Record::from_rdata(name("internal."), 1, ns));
    } else if records.is_empty() {
        if own.is_empty() {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        let soa = SOA::new(name("ns.internal."), name("root.internal."), 1, 60, 60, 60, zone.negative_ttl);
        answer.add_authority(Record::from_rdata(name("internal."), zone.negative_ttl, RData::SOA(soa)));
    } else if by == "udp" && records.len() > zone.longest {
        answer.metadata.truncation = true;
    } else {
        answer.add_answers(records.into_iter().cloned());
        answer.add_additionals(zone.additionals.iter().cloned());
    }
}
