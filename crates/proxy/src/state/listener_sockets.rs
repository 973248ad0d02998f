//! Listeners and their sockets, as all workers share them.
//!
//! A listener is known by its name and its address: while both stay, so do its sockets and its number, whatever
//! else a reload changes. Sockets belong to an address: when another name takes an address over, it takes the
//! sockets along, and no connection is lost in between. The control thread binds sockets, one for each worker,
//! and each worker takes its own when the plan reaches it (`listener/acceptors.rs`).

use crate::plan::{ListenAddress, Listener, Plan};
use crate::state::start_error::StartError;
use rustix::fd::OwnedFd;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use thalweg_net::connect::ConnectOptions;
use thalweg_net::inherited::{Inherited, Local};
use thalweg_net::{datagram, listen};
use thalweg_observe::{ListenerMeters, Registry};

/// The number of a listener. Never used again, so that it can be trusted on connections of any age.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ListenerId(pub(crate) u32);

/// A listener while it runs, and until its last connection has ended.
#[derive(Debug)]
pub(crate) struct ListenerState {
    pub(crate) id: ListenerId,
    pub(crate) name: Arc<str>,
    /// Client connections open.
    pub(crate) open: AtomicUsize,
    /// By worker.
    pub(crate) meters: Vec<Arc<ListenerMeters>>,
}

impl ListenerState {
    /// A listener without connections.
    pub(crate) fn new(id: ListenerId, name: &Arc<str>, registry: &Registry) -> Arc<Self> {
        let meters = (0..registry.workers().len()).map(|worker| registry.listener(worker, name)).collect();
        Arc::new(Self { id, name: name.clone(), open: AtomicUsize::new(0), meters })
    }

    /// Counts a connection, unless there are `most` already.
    pub(crate) fn take_place(&self, most: Option<usize>) -> bool {
        let before = self.open.fetch_add(1, Relaxed);
        let has_room = most.is_none_or(|most| before < most);
        if !has_room {
            self.leave_place();
        }
        has_room
    }

    /// A connection that was counted has closed.
    pub(crate) fn leave_place(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// Whether there are as many connections as may be.
    pub(crate) fn is_crowded(&self, most: Option<usize>) -> bool {
        most.is_some_and(|most| self.open.load(Relaxed) >= most)
    }
}

/// A listener of a plan with its sockets.
#[derive(Clone, Debug)]
pub(crate) struct OpenListener {
    pub(crate) state: Arc<ListenerState>,
    pub(crate) sockets: Arc<Sockets>,
}

/// The listening sockets of one address. They are open while a worker or a plan holds this.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// As written.
    pub(crate) address: ListenAddress,
    /// With the port that the kernel has chosen, where it has.
    pub(crate) bound: String,
    /// Where it is bound, unless to a path.
    ip: Option<SocketAddr>,
    /// Device and number of the socket's file.
    file: Option<(u64, u64)>,
    /// All workers wait on one socket, or some do: wake one of them, not all.
    is_shared: bool,
    /// Each with its copy; those of one worker are as many places apart as there are workers.
    all: Mutex<Vec<SocketSlot>>,
    workers: usize,
}

/// A socket that a worker has or takes.
#[derive(Debug)]
struct SocketSlot {
    /// Until its worker has taken it.
    waiting: Option<OwnedFd>,
    /// For the process that comes after this one, as long as the worker listens.
    copy: Option<OwnedFd>,
}

/// A socket's place among those of its address. Dropped with the socket, so that nobody is left with a copy of what
/// nobody accepts from.
#[derive(Debug)]
pub(crate) struct SocketSeat {
    pub(crate) sockets: Arc<Sockets>,
    at: usize,
}

impl Drop for SocketSeat {
    fn drop(&mut self) {
        if let Some(slot) = self.sockets.all().get_mut(self.at) {
            slot.copy = None;
        }
    }
}

impl Sockets {
    /// Whether several workers wait on one socket: wake one of them, not all.
    pub(crate) fn are_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether it is bound to a path.
    pub(crate) fn is_unix(&self) -> bool {
        self.ip.is_none()
    }

    /// Where it is bound, unless to a path, or for datagrams.
    pub(crate) fn tcp(&self) -> Option<SocketAddr> {
        self.ip.filter(|_| !matches!(self.address, ListenAddress::Udp { .. }))
    }

    /// Where it is bound, if for datagrams.
    pub(crate) fn udp(&self) -> Option<SocketAddr> {
        self.ip.filter(|_| matches!(self.address, ListenAddress::Udp { .. }))
    }

    /// The port that it is bound to, unless to a path.
    pub(crate) fn port(&self) -> Option<u16> {
        self.ip.map(|address| address.port())
    }

    /// A socket of a worker that it has not taken yet. One that was taken over from a process with more workers has
    /// several.
    pub(crate) fn take(self: &Arc<Self>, worker: usize) -> Option<(SocketSeat, OwnedFd)> {
        let mut all = self.all();
        let mut own = all.iter_mut().enumerate().skip(worker).step_by(self.workers.max(1));
        let (at, fd) = own.find_map(|(at, slot)| slot.waiting.take().map(|fd| (at, fd)))?;
        Some((SocketSeat { sockets: self.clone(), at }, fd))
    }

    /// Copies of the sockets on which workers listen; of one that they share, one.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(crate) fn copies(&self) -> io::Result<Vec<OwnedFd>> {
        let all = self.all();
        let copies = all.iter().filter_map(|slot| slot.copy.as_ref());
        copies.take(if self.is_shared { 1 } else { usize::MAX }).map(OwnedFd::try_clone).collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<SocketSlot>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the socket's file, if there is one and it is still this socket's.
    pub(crate) fn remove_file(&self) {
        if let ListenAddress::Unix(path) = &self.address
            && self.file.is_some()
            && identity(path) == self.file
        {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Whether sockets of this address could not be bound beside these without sharing the port.
    fn are_in_the_way_of(&self, address: &ListenAddress) -> bool {
        let (Some(ours), Some((wanted, is_udp))) = (self.ip, ip(address)) else { return false };
        let is_any = |ip: IpAddr| ip.is_unspecified();
        is_udp == matches!(self.address, ListenAddress::Udp { .. })
            && ours.port() == wanted.port()
            && (ours.ip() == wanted.ip() || is_any(ours.ip()) || is_any(wanted.ip()))
    }
}

/// The sockets that this process has opened, and how it opens more.
#[derive(Debug)]
pub(crate) struct Binder {
    workers: usize,
    /// What the budget says of the buffers of connections.
    buffers: Option<u32>,
    opened: Mutex<Vec<Weak<Sockets>>>,
    last_id: AtomicU32,
}

impl Binder {
    /// Nothing is open yet.
    pub(crate) fn new(workers: usize, buffers: Option<u32>) -> Self {
        Self { workers, buffers, opened: Mutex::default(), last_id: AtomicU32::new(0) }
    }

    /// A number that no listener has had.
    pub(crate) fn next_id(&self) -> ListenerId {
        ListenerId(self.last_id.fetch_add(1, Relaxed) + 1)
    }

    /// Finds sockets for all listeners of a plan, in their order: those that `kept` has for one, or else those that
    /// were inherited, or else new ones.
    ///
    /// # Errors
    /// When an address cannot be bound; nothing is left open then.
    pub(crate) fn open(
        &self,
        plan: &Plan,
        inherited: &Inherited,
        kept: impl Fn(&Listener) -> Option<Arc<Sockets>>,
    ) -> Result<Vec<Arc<Sockets>>, StartError> {
        let silence = plan.silence();
        let stay: Vec<_> = plan.listeners.iter().map(kept).collect();
        let (mut all, mut new) = (Vec::with_capacity(stay.len()), Vec::new());
        for (listener, kept) in plan.listeners.iter().zip(&stay) {
            if let Some(sockets) = kept {
                all.push(sockets.clone());
                continue;
            }
            let options = listen::Options {
                count: self.workers,
                manner: ConnectOptions {
                    silence: silence.longest,
                    keepalive: silence.has_keepalive(listener),
                    narrow: false,
                    buffers: self.buffers,
                },
                defer: listener.defer_accept,
                beside_ours: self.is_about_to_be_free(&listener.address, &stay),
            };
            match bind(listener, options, inherited) {
                Ok(sockets) => {
                    new.push(Arc::downgrade(&sockets));
                    all.push(sockets);
                }
                Err(source) => {
                    new.iter().filter_map(Weak::upgrade).for_each(|sockets| sockets.remove_file());
                    let address = listener.address.to_string();
                    return Err(StartError { listener: Some(listener.name.clone()), address, source });
                }
            }
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|sockets| sockets.strong_count() > 0);
        opened.extend(new);
        Ok(all)
    }

    /// Whether only sockets of this process have the address, and all of them are about to be closed.
    fn is_about_to_be_free(&self, address: &ListenAddress, stay: &[Option<Arc<Sockets>>]) -> bool {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let open = opened.iter().filter_map(Weak::upgrade);
        let in_the_way: Vec<_> = open.filter(|sockets| sockets.are_in_the_way_of(address)).collect();
        let stays = |one: &Arc<Sockets>| stay.iter().flatten().any(|kept| Arc::ptr_eq(kept, one));
        !in_the_way.is_empty() && !in_the_way.iter().any(stays)
    }
}

fn bind(listener: &Listener, options: listen::Options, inherited: &Inherited) -> io::Result<Arc<Sockets>> {
    let (address, workers) = (listener.address.clone(), options.count);
    let take = |is_place: &dyn Fn(&Local) -> bool| {
        let taken = inherited.take(&listener.name, &address.to_string(), is_place);
        (!taken.is_empty()).then_some(taken)
    };
    let (bound, ip, file, (fds, is_shared)) = match &address {
        ListenAddress::Tcp { address: wanted, dual_stack } => {
            let (bound, fds, is_shared) = match take(&|place| place.is_tcp(*wanted, *dual_stack)) {
                Some(taken) => listen::adopt_tcp(taken, *dual_stack, options)?,
                None => {
                    let tcp = |address, dual_stack| listen::tcp(address, dual_stack, options);
                    let (bound, fds) = bind_ip(*wanted, *dual_stack, tcp)?;
                    (bound, fds, false)
                }
            };
            (bound.to_string(), Some(bound), None, (fds, is_shared))
        }
        ListenAddress::Udp { address: wanted, dual_stack } => {
            let (bound, fds, is_shared) = match take(&|place| place.is_udp(*wanted, *dual_stack)) {
                Some(taken) => datagram::adopt(taken, *dual_stack, options.count)?,
                None => {
                    let places = (options.count, options.beside_ours);
                    let udp = |address, dual_stack| datagram::bind(address, dual_stack, places);
                    let (bound, fds) = bind_ip(*wanted, *dual_stack, udp)?;
                    (bound, fds, false)
                }
            };
            (bound.to_string(), Some(bound), None, (fds, is_shared))
        }
        ListenAddress::Unix(path) => {
            let fds = match take(&|place| *place == Local::Unix(path.clone())) {
                Some(taken) => listen::adopt_unix(taken, options.count)?,
                None => listen::unix(path, options.count)?,
            };
            (address.to_string(), None, identity(path), (fds, true))
        }
    };
    let all: io::Result<Vec<_>> = fds.into_iter().map(SocketSlot::new).collect();
    Ok(Arc::new(Sockets { address, bound, ip, file, is_shared, all: Mutex::new(all?), workers }))
}

impl SocketSlot {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { copy: Some(fd.try_clone()?), waiting: Some(fd) })
    }
}

/// An address and a port, and whether they are those of datagrams.
fn ip(address: &ListenAddress) -> Option<(SocketAddr, bool)> {
    match address {
        ListenAddress::Tcp { address, .. } => Some((*address, false)),
        ListenAddress::Udp { address, .. } => Some((*address, true)),
        ListenAddress::Unix(_) => None,
    }
}

/// Device and number of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

/// `:8080` means every address; where the kernel has no IPv6, every IPv4 address.
fn bind_ip(
    address: SocketAddr,
    dual_stack: bool,
    bind: impl Fn(SocketAddr, bool) -> io::Result<(SocketAddr, Vec<OwnedFd>)>,
) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    match bind(address, dual_stack) {
        Err(error) if dual_stack && is_no_ipv6(&error) => {
            bind(SocketAddr::from(([0, 0, 0, 0], address.port())), false)
        }
        other => other,
    }
}

fn is_no_ipv6(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_has_as_many_connections_as_it_may() {
        let listener = ListenerState::new(ListenerId(1), &"web".into(), &Registry::new(1));
        assert!(listener.take_place(Some(1)) && listener.is_crowded(Some(1)));
        assert!(!listener.take_place(Some(1)));
        assert!(listener.take_place(None) && !listener.is_crowded(None));
        assert_eq!(listener.open.load(Relaxed), 2, "who was refused is not counted");
    }
}
