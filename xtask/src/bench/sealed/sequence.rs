//! Many addresses, one after the other: a table of routes would have to hold them all.

use anyhow::{Context, Result};

use super::Sealed;
use super::ends::{Ends, Mode, Outcome};
use super::entrant::{Peer, Started};
use crate::bench::entrant::Peer as _;

/// Sessions at once.
pub(super) const AT_ONCE: usize = 8;

/// What became of a sequence.
pub(super) struct Sequence {
    pub(super) peer: Peer,
    pub(super) mode: Mode,
    pub(super) outcome: Outcome,
}

/// Runs it for each entrant and mode.
pub(super) fn measure(args: &Sealed, ends: &Ends, started: &[Started]) -> Result<Vec<Sequence>> {
    let mut all = Vec::new();
    for &mode in &args.modes {
        for on in started {
            let (peer, name) = (on.peer, on.peer.name());
            let outcome =
                ends.sequence(on, mode, args.addresses, AT_ONCE).with_context(|| name.to_owned())?;
            let (word, seconds, losses) = (mode.word(), outcome.seconds, outcome.losses());
            println!("bench: {word}, sequence: {name:<8} {seconds:7.3} s, {losses} lost");
            all.push(Sequence { peer, mode, outcome });
        }
    }
    Ok(all)
}
