//! Downloads over the long link: directly, through a proxy near the server, through one near the client.
//!
//! Every download is on fresh connections on both sides: the origin closes, so that no proxy has a warm one. In a
//! round all see the same drop pattern, packet by packet; each round has another.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::entrant::{Entrant, Peer};
use super::line::{FAR, Line, Packets};
use super::{Part, Programs, Stream};
use crate::bench::contestant::{Place, Running};
use crate::bench::load::bodies::{Load, origin};

/// Rounds with loss for each round without: its noise is larger.
const LOSSY_ROUNDS: usize = 2;
/// Most rounds beside the published loop, which takes half a minute for each.
const PUBLISHED_ROUNDS: usize = 3;

/// Where the proxy stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Position {
    /// The long link is towards the client.
    NearServer,
    /// The long link is towards the upstream.
    NearClient,
}

impl Position {
    /// Both, in the order of tables.
    pub(crate) const ALL: [Self; 2] = [Self::NearServer, Self::NearClient];

    /// The words in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NearServer => "near the server",
            Self::NearClient => "near the client",
        }
    }
}

/// Seconds of downloads, by round; infinite for one that failed.
pub(crate) struct Seconds {
    pub(crate) peer: Peer,
    pub(crate) position: Position,
    pub(crate) rounds: Vec<f64>,
}

/// Everything measured with one share of lost packets.
pub(crate) struct Link {
    /// [`Part::Link`] or [`Part::Published`].
    pub(crate) part: Part,
    /// Percent.
    pub(crate) drop: f64,
    pub(crate) direct: Vec<f64>,
    pub(crate) proxied: Vec<Seconds>,
    pub(crate) packets: Packets,
}

impl Link {
    /// Ratios to the direct download of the same round.
    pub(crate) fn ratios(&self, seconds: &Seconds) -> Vec<f64> {
        seconds.rounds.iter().zip(&self.direct).map(|(proxied, direct)| proxied / direct).collect()
    }
}

/// A download that is measured: where to, and who is in between.
struct Case {
    /// `None` for the direct one.
    by: Option<(Peer, Position)>,
    address: SocketAddr,
    /// Keeps it running.
    _running: Option<Running>,
}

/// Where proxies of a part stand: the published one stands near the server, and is slow there.
fn positions(part: Part) -> &'static [Position] {
    if part == Part::Published { &[Position::NearServer] } else { &Position::ALL }
}

/// Measures a part with one share of lost packets, in percent.
pub(crate) fn measure(
    args: &Stream,
    programs: &Programs,
    entrants: &[Entrant],
    (part, drop): (Part, f64),
    folder: &Path,
) -> Result<Link> {
    let folder = folder.join(format!("{part:?}-{drop}"));
    let mut line = Line::new(args, &programs.delay_line, drop, &folder)?;
    let mut far = Place::within(folder.join("far"), line.far.clone())?;
    let mut near = Place::within(folder.join("near"), line.near.clone())?;
    let origin = origin(&programs.ends, &mut far)?;
    far.backend = origin.address;
    near.backend = SocketAddr::from((FAR, origin.address.port()));
    let mut cases = vec![Case { by: None, address: near.backend, _running: None }];
    for &position in positions(part) {
        for entrant in entrants.iter().filter(|entrant| entrant.peer.is_in(part)) {
            let place = if position == Position::NearServer { &mut far } else { &mut near };
            let running = entrant.start(place)?;
            let port = running.address.port();
            let address = match position {
                Position::NearServer => SocketAddr::from((FAR, port)),
                Position::NearClient => running.address,
            };
            cases.push(Case { by: Some((entrant.peer, position)), address, _running: Some(running) });
        }
    }
    let load = Load {
        ends: &programs.ends,
        verb: "get",
        framing: "length",
        bytes: args.bytes,
        close: true,
        connections: 1,
        time: Duration::ZERO,
    };
    let mut link = Link { part, drop, direct: Vec::new(), proxied: Vec::new(), packets: Packets::default() };
    let by = cases.iter().filter_map(|case| case.by);
    link.proxied = by.map(|(peer, position)| Seconds { peer, position, rounds: Vec::new() }).collect();
    let rounds = match part {
        Part::Published => args.rounds.min(PUBLISHED_ROUNDS),
        _ if drop > 0.0 => args.rounds * LOSSY_ROUNDS,
        _ => args.rounds,
    };
    for round in 0..=rounds {
        for (i, case) in cases.iter().enumerate() {
            line.seed(round as u64)?;
            let seconds = download(&load, &near, case.address);
            let packets = line.seed(round as u64)?;
            print(drop, round, case, seconds);
            if round == 0 {
                continue;
            }
            link.packets.passed += packets.passed;
            link.packets.dropped += packets.dropped;
            link.packets.overflowed += packets.overflowed;
            let times = if i == 0 { &mut link.direct } else { &mut link.proxied[i - 1].rounds };
            times.push(seconds);
        }
    }
    Ok(link)
}

/// Seconds of one download, infinite when it failed: others go on.
fn download(load: &Load<'_>, near: &Place, address: SocketAddr) -> f64 {
    match load.run(near, address) {
        Ok(outcome) if outcome.bad == 0 && outcome.exchanges == 1 => outcome.time.as_secs_f64(),
        Ok(_) => f64::INFINITY,
        Err(error) => {
            println!("bench: {error:#}");
            f64::INFINITY
        }
    }
}

fn print(drop: f64, round: usize, case: &Case, seconds: f64) {
    let by = case.by.map_or("direct".to_owned(), |(peer, at)| format!("{}, {}", peer.name(), at.name()));
    println!("bench: link, {drop} % lost, round {round}: {by:<38} {seconds:6.2} s");
}
