//! The addresses of this machine's interfaces.
//!
//! Needed to recognise connections to the process itself when it listens on the unspecified address. The list is
//! cached for one second (`KEPT`), so that thousands of endpoints cost one read. If the system call fails, each
//! address is tested with a bind.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lifetime of the cached list: a new address of this machine is known after this time.
const KEPT: Duration = Duration::from_secs(1);

/// The list with the time of its read; `None`: the system call failed.
type Read = (Instant, Option<Arc<HashSet<IpAddr>>>);

static LAST: Mutex<Option<Read>> = Mutex::new(None);

/// Whether an address currently belongs to this machine, the loopback included.
pub fn is_machines(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        return true;
    }
    match addresses() {
        Some(known) => known.contains(&address),
        None => may_bind(address),
    }
}

fn addresses() -> Option<Arc<HashSet<IpAddr>>> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((at, known)) if at.elapsed() < KEPT => known.clone(),
        _ => {
            let known = read().map(Arc::new);
            *last = Some((Instant::now(), known.clone()));
            known
        }
    }
}

/// Reads the list (getifaddrs(3)).
#[expect(unsafe_code, reason = "no library in use has a safe form of this call (decision 0105)")]
fn read() -> Option<HashSet<IpAddr>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call writes one pointer, to memory that outlives it.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut found = HashSet::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: an element of the list, which no other code changes and which stays valid until `freeifaddrs`
        // below.
        let entry = unsafe { &*next };
        if !entry.ifa_addr.is_null() {
            // SAFETY: an address of any family begins with its family.
            let family = unsafe { ptr::read_unaligned(entry.ifa_addr) }.sa_family;
            match i32::from(family) {
                libc::AF_INET => {
                    // SAFETY: the family says that it is of this type.
                    let address = unsafe { ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in>()) };
                    found.insert(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into());
                }
                libc::AF_INET6 => {
                    // SAFETY: the family says that it is of this type.
                    let address = unsafe { ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in6>()) };
                    found.insert(Ipv6Addr::from(address.sin6_addr.s6_addr).into());
                }
                _ => {}
            }
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list that `getifaddrs` made, which is not used any more.
    unsafe { libc::freeifaddrs(first) };
    Some(found)
}

/// Whether a socket can be bound to this address. If the test itself fails, the answer is true, which is safe: the
/// caller avoids such addresses.
fn may_bind(address: IpAddr) -> bool {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let bound = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .and_then(|fd| rustix::net::bind(&fd, &SocketAddr::new(address, 0)));
    !matches!(bound, Err(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_the_machine_are_known() {
        for here in ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"] {
            assert!(is_machines(here.parse().unwrap()), "{here}");
        }
        for elsewhere in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!is_machines(elsewhere.parse().unwrap()), "{elsewhere}");
        }
    }

    #[test]
    fn a_socket_may_come_from_every_address_of_the_list() {
        let known = read().unwrap();
        assert!(known.contains(&IpAddr::from([127, 0, 0, 1])), "{known:?}");
        known
            .iter()
            .filter(|address| address.is_ipv4())
            .for_each(|address| assert!(may_bind(*address), "{address}"));
        assert!(!may_bind(IpAddr::from([192, 0, 2, 1])));
    }
}
