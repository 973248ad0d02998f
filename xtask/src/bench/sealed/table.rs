//! The tables: seconds over the number of servers, and over the number of clients, in interleaved rounds.

use anyhow::{Context, Result};

use super::Sealed;
use super::ends::{Ends, Load, Mode, Sample, Servers};
use super::entrant::Started;
use crate::bench::entrant::Peer as _;
use crate::bench::order::order;

/// What grows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Growing {
    /// N servers with the same number of clients each.
    Servers,
    /// The same number of servers with N clients each.
    Clients,
}

impl Growing {
    const ALL: [Self; 2] = [Self::Servers, Self::Clients];

    /// The word in headings and file names.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Clients => "clients",
        }
    }
}

/// A table: what is the same in all its rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Table {
    pub(super) mode: Mode,
    pub(super) bytes: usize,
    pub(super) growing: Growing,
}

/// All rounds of a row.
pub(super) struct Rounds {
    pub(super) table: Table,
    /// What stands in the first column: servers, or clients of each.
    pub(super) count: usize,
    /// By entrant, then by round.
    pub(super) samples: Vec<Vec<Sample>>,
}

/// All tables of a run, each with its rows.
fn tables(args: &Sealed) -> Vec<(Table, &[usize])> {
    let mut tables = Vec::new();
    for &mode in &args.modes {
        for &bytes in args.sizes.iter().rev() {
            let published = Some(&mode) == args.modes.first() && Some(&bytes) == args.sizes.last();
            let counts = if published { &args.servers } else { &args.others };
            for growing in Growing::ALL {
                tables.push((Table { mode, bytes, growing }, counts.as_slice()));
            }
        }
    }
    tables
}

impl Table {
    /// The load of a row.
    fn load(self, count: usize, args: &Sealed) -> Load {
        let (servers, clients) = match self.growing {
            Growing::Servers => (count, args.clients),
            Growing::Clients => (args.clients, count),
        };
        let Self { mode, bytes, .. } = self;
        Load { mode, servers: Servers::Ports(servers), clients, messages: args.messages, bytes }
    }
}

/// Runs everything in turn, each round in another order; all entrants stay up between their turns.
pub(super) fn measure(args: &Sealed, ends: &Ends, started: &[Started]) -> Result<Vec<Rounds>> {
    let mut all = Vec::new();
    for (table, counts) in tables(args) {
        // The first row has a round more, in which everything warms up.
        for (row, &count) in counts.iter().enumerate() {
            let load = table.load(count, args);
            let mut samples = vec![Vec::new(); started.len()];
            for round in usize::from(row > 0)..=args.rounds {
                for i in order(round, started.len()) {
                    let name = started[i].peer.name();
                    let sample = ends.drive(&started[i], &load).with_context(|| name.to_owned())?;
                    println!(
                        "bench: {}, {} B, {count} {}, round {round}: {name:<8} {:7.3} s, CPU {:6.2} s, {} lost",
                        table.mode.word(),
                        table.bytes,
                        table.growing.word(),
                        sample.outcome.seconds,
                        sample.cpu,
                        sample.outcome.losses()
                    );
                    if round > 0 {
                        samples[i].push(sample);
                    }
                }
            }
            all.push(Rounds { table, count, samples });
        }
    }
    Ok(all)
}
