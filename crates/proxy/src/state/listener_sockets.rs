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
use std::sync::{Arc, Mutex, PoisonError, Weak};
use thalweg_net::connect::ConnectOptions;
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
    /// By worker, until that has taken its own.
    waiting: Mutex<Vec<Option<OwnedFd>>>,
}

impl Sockets {
    /// All workers wait on one socket: wake one of them, not all.
    pub(crate) fn are_one(&self) -> bool {
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

    /// The socket of a worker, at the first call.
    pub(crate) fn take(&self, worker: usize) -> Option<OwnedFd> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get_mut(worker)?.take()
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

    /// Finds sockets for all listeners of a plan, in their order: those that `kept` has for one, or else new ones.
    ///
    /// # Errors
    /// When an address cannot be bound; nothing is left open then.
    pub(crate) fn open(
        &self,
        plan: &Plan,
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
            match bind(listener, options) {
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

fn bind(listener: &Listener, options: listen::Options) -> io::Result<Arc<Sockets>> {
    let address = listener.address.clone();
    let (bound, ip, file, fds) = match &address {
        ListenAddress::Tcp { address: wanted, dual_stack } => {
            let tcp = |address, dual_stack| listen::tcp(address, dual_stack, options);
            let (bound, fds) = bind_ip(*wanted, *dual_stack, tcp)?;
            (bound.to_string(), Some(bound), None, fds)
        }
        ListenAddress::Udp { address: wanted, dual_stack } => {
            let places = (options.count, options.beside_ours);
            let udp = |address, dual_stack| datagram::bind(address, dual_stack, places);
            let (bound, fds) = bind_ip(*wanted, *dual_stack, udp)?;
            (bound.to_string(), Some(bound), None, fds)
        }
        ListenAddress::Unix(path) => {
            let fds = listen::unix(path, options.count)?;
            (address.to_string(), None, identity(path), fds)
        }
    };
    let waiting = Mutex::new(fds.into_iter().map(Some).collect());
    Ok(Arc::new(Sockets { address, bound, ip, file, waiting }))
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
