//! The one budget of the process: what it may use of descriptors and memory, and what follows from that.
//!
//! Computed once, before the listeners are bound, because the buffers of their sockets follow from it.
//! Pure: numbers in, numbers out. `overload/admission.rs` holds it against what workers use; `listener/acceptors.rs`
//! and `serve.rs` ask before they take something on. A third of the memory is for connections, a third for exchanges, a
//! third for request bodies. Invariant: with bounded socket buffers ([`Budget::socket_buffers`]), as many as are taken
//! on of each, with the buffers of their requests full, together stay within the memory. The reasons:
//! `docs/decisions/0013-budget.md`.

use crate::buffers::chunk_queue::{CHUNK, LIMIT};
use crate::plan::{Limits, Plan};
use thalweg_core::limits::{DESCRIPTOR_RESERVE, PIPES, REFUSALS};
use thalweg_net::machine::Memory;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Memory of the process before anybody has connected: program, allocator, control and admin threads.
const PROCESS: u64 = 10 * MIB;
/// Memory of a worker before anybody has connected, with the buffers and tasks that it keeps warm.
const WORKER: u64 = 3 * MIB;
/// Least memory that is shared out, however little is left beside the two above.
const SHARED_MIN: u64 = 2 * MIB;
/// What a silent connection costs: the kernel's socket, file and epoll entry, and our own place for it.
const SOCKET: u64 = 6 * KIB;
/// A TLS session at rest.
const SESSION: u64 = 5 * KIB;
/// What a connection of HTTP/2 costs beside that: its engine, tables of field compression and queues.
const MULTIPLEXED: u64 = 48 * KIB;
/// What an exchange costs on top of its client's connection: the upstream's, its task, its heads.
const EXCHANGE: u64 = SOCKET + 20 * KIB;
/// What a request body is taken to have in the kernel where it sizes the buffers of sockets.
const KERNEL_BUFFERS: u64 = 64 * KIB;
/// What a request body has of bounded socket buffers: a receive queue and a send queue, each of which the
/// kernel takes twice, and as much held between the two.
const BUFFERS_OF_BODY: u64 = 5;
/// Socket buffers are bounded when so many request bodies (or fewer, where fewer can be) would not have
/// [`BUFFER_MAX`] for each of them.
const TYPICAL_BODIES: u64 = 512;
/// Least bytes of a bounded socket buffer; and most, from which on the kernel sizes them.
const BUFFER_MIN: u64 = 16 * KIB;
const BUFFER_MAX: u64 = 256 * KIB;

/// A request body of known length up to this is part of what an exchange costs anyway, in bytes.
pub(crate) const SMALL_BODY: u64 = 16 * KIB;

/// Pipes have at most this part of the descriptors.
const PART_FOR_PIPES: usize = 64;

/// The decoders of bodies may hold this part of what there is for request bodies.
const PART_FOR_DECODERS: u64 = 4;

/// The part of what flows may hold that is left to them under pressure.
const PART_UNDER_PRESSURE: usize = 4;

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
    /// Descriptors that are for neither clients nor upstreams: listeners, refusals, pipes, logs, admin.
    pub own_descriptors: usize,
    /// Pipes that a worker may have for large bodies.
    pub pipes: usize,
    /// Bytes that the process and its sockets may use.
    pub memory: u64,
    /// Bytes of those that are for stored responses; 0 where no route caches any.
    pub cache: u64,
    /// Bytes of [`Self::memory`] that are shared out among connections and exchanges.
    pub shared: u64,
    /// Client connections at once; as many per worker.
    pub connections: usize,
    /// Upstream connections at once; idle ones give way beyond it.
    pub upstream_connections: usize,
    /// Exchanges at once.
    pub in_flight: usize,
    /// Exchanges at once whose request has a large body.
    pub bodies: usize,
    /// Bytes for SO_SNDBUF and SO_RCVBUF of client and upstream sockets; `None`: the kernel sizes them.
    pub socket_buffers: Option<u32>,
}

/// What is used of a budget.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Used {
    /// Client connections.
    pub(crate) clients: usize,
    /// Those of them that have not spoken yet: their first request may be waiting in the kernel.
    pub(crate) fresh: usize,
    /// TLS sessions.
    pub(crate) sessions: usize,
    /// Connections that speak HTTP/2.
    pub(crate) multiplexed: usize,
    /// Upstream connections, idle ones included.
    pub(crate) upstream: usize,
    /// Exchanges and tunnels under way.
    pub(crate) active: usize,
    /// Those whose request has a large body.
    pub(crate) bodies: usize,
    /// Bytes that exchanges hold of bodies.
    pub(crate) held: usize,
    /// Bytes of other buffers that peers fill: incomplete heads, HTTP/2 streams, TLS records.
    pub(crate) buffers: usize,
}

impl Budget {
    /// The budget of a process that begins with this plan.
    pub fn of(plan: &Plan, allowance: Allowance) -> Self {
        let cache = |memory| if plan.has_cache() { plan.cache.bytes(memory) } else { 0 };
        Self::with_cache((&plan.limits, plan.listeners.len()), allowance, cache)
    }

    /// The budget of a process with this many listeners, which caches nothing.
    pub fn new(limits: &Limits, listeners: usize, allowance: Allowance) -> Self {
        Self::with_cache((limits, listeners), allowance, |_| 0)
    }

    /// `cache`: bytes of the cache in a process that may use so many.
    fn with_cache(
        (limits, listeners): (&Limits, usize),
        allowance: Allowance,
        cache: impl Fn(u64) -> u64,
    ) -> Self {
        let workers = allowance.workers.max(1);
        let memory = limits.memory.unwrap_or(match allowance.memory {
            Memory::Cgroup(bytes) => bytes / 4 * 3,
            Memory::Machine(bytes) => bytes / 2,
        });
        // A listener's socket has a copy for whoever runs after this process.
        let without_pipes = DESCRIPTOR_RESERVE + workers * (REFUSALS + 8 + 2 * listeners);
        let left = allowance.descriptors.saturating_sub(without_pipes);
        let pipes = (left / PART_FOR_PIPES / workers / 2).min(PIPES);
        let own_descriptors = without_pipes + workers * pipes * 2;
        let possible = allowance.descriptors.saturating_sub(own_descriptors) / 2;
        let wanted = limits.max_connections.unwrap_or(possible).min(possible).max(workers);
        let exchanges = limits.max_in_flight.unwrap_or(wanted).min(wanted);
        let cache = cache(memory);
        let shared = memory.saturating_sub(PROCESS + WORKER * workers as u64 + cache).max(SHARED_MIN);
        let third = shared / 3;
        let connections = (wanted.min(saturating(third / SOCKET)) / workers).max(1) * workers;
        let in_flight = exchanges.min(saturating(third / EXCHANGE)).clamp(1, connections);
        let socket_buffers = socket_buffers(third, in_flight as u64);
        let mut budget = Self {
            workers,
            descriptors: allowance.descriptors,
            own_descriptors,
            pipes,
            memory,
            cache,
            shared,
            connections,
            upstream_connections: in_flight.max(workers),
            in_flight,
            bodies: 0,
            socket_buffers,
        };
        budget.bodies = in_flight.min(saturating(third / budget.body_cost())).max(1);
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

    /// Whether there is memory for one more connection that has not spoken yet.
    pub(crate) fn has_room_for_a_client(&self, used: &Used) -> bool {
        let more = Used { clients: used.clients + 1, fresh: used.fresh + 1, ..*used };
        self.memory_of_connections(&more) <= self.shared / 3
    }

    /// Bytes that the flows of one worker may hold together in this state, but for a chunk each.
    pub(crate) fn held_limit(&self, state: State) -> usize {
        let most = saturating(self.buffer_bytes() / self.workers as u64).min(LIMIT);
        match state {
            State::Normal => most,
            State::AdmissionControl => most / PART_UNDER_PRESSURE,
            State::Full => 0,
        }
    }

    /// Bytes that the decoders of one worker may hold together. They count as held, as bodies do.
    pub(crate) fn decoder_bytes(&self) -> usize {
        saturating(self.shared / 3 / PART_FOR_DECODERS / self.workers as u64)
    }

    /// Bytes that one flow may hold at most: where sockets have bounded buffers, as much as one of these.
    pub(crate) fn held_by_one(&self) -> usize {
        self.socket_buffers.map_or(usize::MAX, |bytes| bytes as usize)
    }

    /// Bytes that may be held of bodies.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.shared / 3 / self.kernel_factor()
    }

    /// For each byte that is held, so many are in use: it was received faster than it is taken, so the
    /// queues on both sides of it are full.
    fn kernel_factor(&self) -> u64 {
        if self.socket_buffers.is_some() { BUFFERS_OF_BODY } else { 1 }
    }

    /// Bytes of the shared part that are in use, as far as counting tells.
    pub(crate) fn memory_used(&self, used: &Used) -> u64 {
        let in_kernel = self.socket_buffers.map_or(KERNEL_BUFFERS, |bytes| 2 * u64::from(bytes));
        self.memory_of_connections(used)
            + used.active as u64 * EXCHANGE
            + used.upstream.saturating_sub(used.active) as u64 * SOCKET
            + (used.bodies as u64 * in_kernel).max(used.held as u64 * self.kernel_factor())
            + used.buffers as u64
    }

    fn memory_of_connections(&self, used: &Used) -> u64 {
        let queue = self.socket_buffers.map_or(0, |bytes| 2 * u64::from(bytes));
        used.clients as u64 * SOCKET
            + used.sessions as u64 * SESSION
            + used.multiplexed as u64 * MULTIPLEXED
            + used.fresh as u64 * queue
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
            share(used.bodies, self.bodies),
            memory,
        ]
        .into_iter()
        .fold(0.0, f64::max)
        .min(1.0)
    }

    /// A large request body on its way, with every buffer full.
    fn body_cost(&self) -> u64 {
        let least = KERNEL_BUFFERS + CHUNK as u64;
        self.socket_buffers.map_or(least, |bytes| BUFFERS_OF_BODY * u64::from(bytes))
    }
}

/// The socket option for buffers, when so many bytes are for the bodies of so many exchanges.
fn socket_buffers(bytes: u64, exchanges: u64) -> Option<u32> {
    let buffer = bytes / exchanges.clamp(1, TYPICAL_BODIES) / BUFFERS_OF_BODY / KIB * KIB;
    (buffer < BUFFER_MAX).then_some(buffer.max(BUFFER_MIN) as u32)
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
    AdmissionControl,
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
            _ if percent(80) => Self::AdmissionControl,
            Self::Full | Self::AdmissionControl if percent(70) => Self::AdmissionControl,
            _ => Self::Normal,
        }
    }
}

#[cfg(test)]
mod tests;
