//! Readiness of many sockets, told once for each change (edge-triggered epoll).

use std::io;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// Events taken at once.
const EVENTS: usize = 512;
/// What every socket is registered for, once.
const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
/// Flags after which a read tells that the other side has ended.
const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// What became of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The mark with which it was added.
    pub(crate) mark: u64,
    /// Whether the other side has ended: a short read is not the last one then.
    pub(crate) ended: bool,
}

/// The sockets.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: vec![none; EVENTS] })
    }

    /// Adds a socket; it leaves when it is closed.
    pub(crate) fn add(&self, socket: impl AsFd, mark: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(mark), INTEREST)?)
    }

    /// Waits until something is ready, or for `patience` at the longest, and puts it into `ready`.
    pub(crate) fn wait(&mut self, patience: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let limit = patience.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        ready.clear();
        let count = match epoll::wait(&self.epoll, self.events.as_mut_slice(), limit.as_ref()) {
            // Counts as a change: whoever waits looks again.
            Err(Errno::INTR) => return Ok(()),
            other => other?,
        };
        let of = |event: &Event| {
            let (flags, data) = (event.flags, event.data);
            Ready { mark: data.u64(), ended: flags.intersects(ENDED) }
        };
        ready.extend(self.events[..count].iter().map(of));
        Ok(())
    }
}
