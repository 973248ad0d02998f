//! The one budget of the process: what it may use of descriptors and memory, and what follows from that.
//!
//! Computed once, before the listeners are bound, because the buffers of their sockets follow from it.
//! Pure: numbers in, numbers out. `pressure.rs` holds it against what workers use; `doors.rs` and
//! `serve.rs` ask before they take something on. Invariant: with bounded socket buffers
//! ([`Budget::socket_buffers`]), all places taken and all exchanges under way with every buffer full
//! together stay within the memory. The reasons of the shares: `docs/decisions/0013-budget.md`.

use crate::plan::Limits;
use thalweg_core::limits::{DESCRIPTOR_RESERVE, REFUSALS};
use thalweg_net::machine::Memory;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Memory of the process before anybody has connected: program, allocator, control and admin threads.
const PROCESS: u64 = 10 * MIB;
/// Memory of a worker before anybody has connected, with the buffers and seats that it keeps warm.
const WORKER: u64 = 3 * MIB;
/// Least memory that is shared out, however little is left beside the two above.
const SHARED_MIN: u64 = 2 * MIB;
/// What a silent connection costs: the kernel's socket, file and epoll entry, and our own place for it.
const SOCKET: u64 = 6 * KIB;
/// What an exchange costs besides its bodies: its seat, its heads, the allocator's slack.
const EXCHANGE: u64 = 20 * KIB;
/// What an exchange is taken to have in its sockets where the kernel sizes their buffers.
const KERNEL_BUFFERS: u64 = 64 * KIB;
/// Buffers of an exchange's two sockets, counted in socket options: the kernel takes each of the four twice.
const BUFFERS_OF_SOCKET: u64 = 4;
/// Socket buffers are bounded when there is less memory than this for an exchange …
const PLENTY: u64 = 2 * MIB;
/// … if so many are under way, or fewer where fewer can be.
const TYPICAL_EXCHANGES: u64 = 256;
/// The part of an exchange's memory that one socket option gets: four of them count twice, two flows once,
/// and there is the rest of the exchange.
const PARTS: u64 = 12;
/// Least and most bytes of a bounded socket buffer.
const BUFFER_MIN: u64 = 16 * KIB;
const BUFFER_MAX: u64 = 256 * KIB;

/// Bytes that one direction of an exchange may hold, by state.
const HIGH_MARKS: [usize; 3] = [256 * 1024, 64 * 1024, 16 * 1024];

/// What the machine gives.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Descriptors that the process may open.
    pub descriptors: usize,
    /// Memory that it may use at most.
    pub memory: Memory,
    /// Workers, at least 1.
    pub workers: usize,
}

/// What the process may use, and what it may take on because of that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Workers that share it.
    pub workers: usize,
    /// Descriptors that may be open.
    pub descriptors: usize,
    /// Descriptors that are for neither clients nor upstreams: listeners, refusals, logs, admin.
    pub own_descriptors: usize,
    /// Bytes that the process and its sockets may use.
    pub memory: u64,
    /// Bytes of those that are shared out among connections and exchanges.
    pub shared: u64,
    /// Client connections at once; as many per worker.
    pub connections: usize,
    /// Upstream connections at once; idle ones give way beyond it.
    pub upstream_connections: usize,
    /// Exchanges at once.
    pub in_flight: usize,
    /// Bytes for SO_SNDBUF and SO_RCVBUF of client and upstream sockets; `None`: the kernel sizes them.
    pub socket_buffers: Option<u32>,
}

/// What is used of a budget.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Used {
    /// Client connections.
    pub(crate) clients: usize,
    /// Upstream connections, idle ones included.
    pub(crate) upstream: usize,
    /// Exchanges and tunnels under way.
    pub(crate) active: usize,
    /// Bytes that exchanges hold of bodies.
    pub(crate) held: usize,
}

impl Budget {
    /// The budget of a process with this many listeners.
    pub fn new(limits: &Limits, listeners: usize, allowance: Allowance) -> Self {
        let workers = allowance.workers.max(1);
        let memory = limits.memory.unwrap_or(match allowance.memory {
            Memory::Cgroup(bytes) => bytes / 4 * 3,
            Memory::Machine(bytes) => bytes / 2,
        });
        let own_descriptors = DESCRIPTOR_RESERVE + workers * (REFUSALS + 8 + listeners);
        let possible = allowance.descriptors.saturating_sub(own_descriptors) / 2;
        let wanted = limits.max_connections.unwrap_or(possible).min(possible).max(workers);
        let exchanges = limits.max_in_flight.unwrap_or(wanted).min(wanted);
        let shared = memory.saturating_sub(PROCESS + WORKER * workers as u64).max(SHARED_MIN);
        let mut budget = Self {
            workers,
            descriptors: allowance.descriptors,
            own_descriptors,
            memory,
            shared,
            connections: 0,
            upstream_connections: 0,
            in_flight: 0,
            socket_buffers: socket_buffers(shared / 2, exchanges as u64),
        };
        // Half of the memory is for connections, so that many silent ones leave room for exchanges;
        // what they cannot use goes to exchanges too.
        let affordable = saturating(shared / 2 / budget.connection_cost());
        budget.connections = (wanted.min(affordable) / workers).max(1) * workers;
        let rest = shared.saturating_sub(budget.connections as u64 * budget.connection_cost());
        let affordable = saturating(rest / budget.exchange_cost());
        budget.in_flight = exchanges.min(affordable).clamp(1, budget.connections);
        budget.upstream_connections = budget.in_flight.max(workers);
        budget
    }

    /// Client connections that one worker may hold.
    pub(crate) fn places(&self) -> usize {
        self.connections / self.workers
    }

    /// Upstream connections that one worker may hold before idle ones give way.
    pub(crate) fn upstream_places(&self) -> usize {
        (self.upstream_connections / self.workers).max(1)
    }

    /// Whether exchanges have a bound that connections do not give them already.
    pub(crate) fn bounds_exchanges(&self) -> bool {
        self.in_flight < self.connections
    }

    /// Bytes that one direction of an exchange may hold now.
    pub(crate) fn high_mark(&self, state: State) -> usize {
        let most = self.socket_buffers.map_or(usize::MAX, |bytes| bytes as usize);
        HIGH_MARKS[state as usize].min(most)
    }

    /// Bytes that may be in buffers of exchanges.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.shared.saturating_sub(self.connections as u64 * self.connection_cost())
    }

    /// Bytes of the shared part that are in use, as far as counting tells.
    pub(crate) fn memory_used(&self, used: &Used) -> u64 {
        // Bodies are counted as they are held, not as they might be.
        let exchange = self.exchange_cost() - 2 * self.flow_cost();
        used.clients as u64 * self.connection_cost()
            + used.active as u64 * exchange
            + used.upstream.saturating_sub(used.active) as u64 * SOCKET
            + used.held as u64
    }

    /// The largest of the shares in use, 0–1: connections, descriptors, memory, exchanges.
    pub(crate) fn saturation(&self, used: &Used) -> f64 {
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let descriptors = self.own_descriptors + used.clients + used.upstream;
        let memory = self.memory_used(used) as f64 / self.shared as f64;
        [
            share(used.clients, self.connections),
            share(descriptors, self.descriptors),
            share(used.active, self.in_flight),
            memory,
        ]
        .into_iter()
        .fold(0.0, f64::max)
        .min(1.0)
    }

    /// A connection with a full receive queue.
    fn connection_cost(&self) -> u64 {
        SOCKET + self.socket_buffers.map_or(0, |bytes| 2 * u64::from(bytes))
    }

    /// What comes on top when an exchange is under way: the other three queues and both flows.
    fn exchange_cost(&self) -> u64 {
        let queues = self
            .socket_buffers
            .map_or(KERNEL_BUFFERS, |bytes| 2 * (BUFFERS_OF_SOCKET - 1) * u64::from(bytes));
        SOCKET + EXCHANGE + queues + 2 * self.flow_cost()
    }

    /// What one direction of an exchange holds at most while it can be relied upon: where sockets are
    /// bounded, the normal mark; else the lowest, to which marks go down under pressure.
    fn flow_cost(&self) -> u64 {
        let state = if self.socket_buffers.is_some() { State::Normal } else { State::Full };
        self.high_mark(state) as u64
    }
}

/// The socket option for buffers, when so many bytes are for so many exchanges.
fn socket_buffers(bytes: u64, exchanges: u64) -> Option<u32> {
    let each = bytes / exchanges.clamp(1, TYPICAL_EXCHANGES);
    let buffer = (each / PARTS / KIB * KIB).clamp(BUFFER_MIN, BUFFER_MAX);
    (each < PLENTY).then_some(buffer as u32)
}

fn saturating(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// How much of the memory is in use. Each state is left lower than it was entered, so that it does not
/// flutter.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum State {
    /// Below 80 %.
    #[default]
    Normal,
    /// From 80 % until below 70 %: what only makes things faster gives way.
    Pressure,
    /// From 95 % until below 90 %: nothing more is taken on.
    Full,
}

impl State {
    /// The state that follows when `used` of `whole` bytes are in use.
    pub(crate) fn next(self, used: u64, whole: u64) -> Self {
        let percent = |n: u64| used.saturating_mul(100) >= whole.saturating_mul(n);
        match self {
            _ if percent(95) => Self::Full,
            Self::Full if percent(90) => Self::Full,
            _ if percent(80) => Self::Pressure,
            Self::Full | Self::Pressure if percent(70) => Self::Pressure,
            _ => Self::Normal,
        }
    }
}

#[cfg(test)]
mod tests;
