//! Several datagrams in one system call: received into places of a buffer, and sent on from there without a copy.

use super::Datagrams;
use super::message::{Control, Name, Way};
use rustix::fd::{AsFd, AsRawFd};
use std::io;
use std::ops::Range;
use std::ptr;

/// Datagrams received at once.
pub(super) const PLACES: usize = 32;
/// Bytes of a place. No datagram of IPv4 or IPv6 is longer, jumbograms aside.
pub(super) const PLACE: usize = 65_536;

/// Bytes that go as one at most: what is made of them has to have the length of a datagram.
const JOINED: usize = 65_000;

/// Places for datagrams. The memory of those, and of those parts of them, that have never been received into is not in
/// use.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    names: [Name; PLACES],
    controls: [Control; PLACES],
    received: [Head; PLACES],
}

/// What is known of a received datagram beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    len: usize,
    name: usize,
    is_cut: bool,
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// All of it, unless [`Self::is_cut`].
    pub bytes: &'a [u8],
    /// Where it comes from; `None`: from nowhere that could be answered.
    pub way: Option<Way>,
    /// It was longer than any datagram can be: the rest is lost.
    pub is_cut: bool,
}

/// What came of sending.
#[derive(Debug)]
pub struct Sent {
    /// How many datagrams the kernel has taken, from the first one on.
    pub count: usize,
    /// Why it did not take the next one.
    pub error: Option<io::Error>,
}

/// As the kernel has it (`struct mmsghdr`), whatever a C library makes of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Message {
    head: MessageHead,
    len: u32,
}

/// The same of `struct msghdr`.
#[derive(Clone, Copy)]
#[repr(C)]
struct MessageHead {
    name: *mut Name,
    name_len: u32,
    slices: *mut libc::iovec,
    slices_len: usize,
    control: *mut u8,
    control_len: usize,
    flags: u32,
}

const _: () = assert!(size_of::<Message>() == size_of::<libc::mmsghdr>(), "it is what the kernel expects");

const NO_SLICE: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
const NO_MESSAGE: Message = Message {
    head: MessageHead {
        name: ptr::null_mut(),
        name_len: 0,
        slices: ptr::null_mut(),
        slices_len: 0,
        control: ptr::null_mut(),
        control_len: 0,
        flags: 0,
    },
    len: 0,
};

impl Default for Batch {
    fn default() -> Self {
        Self {
            bytes: vec![0; PLACES * PLACE],
            names: [Name::EMPTY; PLACES],
            controls: [Control::EMPTY; PLACES],
            received: [Head::default(); PLACES],
        }
    }
}

impl Batch {
    /// Datagrams that it receives at once. Where fewer came there were no more.
    pub const PLACES: usize = PLACES;

    /// Receives what is there, from the first place on; how many. `has_names`: with the ways of datagrams.
    ///
    /// # Errors
    /// What has become of datagrams that were sent before: `ConnectionRefused` where nobody takes them.
    pub fn receive(&mut self, socket: impl AsFd, has_names: bool) -> io::Result<usize> {
        let mut slices = [NO_SLICE; PLACES];
        let mut messages = [NO_MESSAGE; PLACES];
        let places = self.bytes.chunks_exact_mut(PLACE).zip(&mut self.names).zip(&mut self.controls);
        for (((place, name), control), (slice, Message { head, .. })) in
            places.zip(slices.iter_mut().zip(&mut messages))
        {
            *slice = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: PLACE };
            (head.slices, head.slices_len) = (slice, 1);
            if has_names {
                (head.name, head.name_len) = (name, size_of::<Name>() as u32);
                (head.control, head.control_len) = (control.bytes.as_mut_ptr(), control.bytes.len());
            }
        }
        let count = match call(socket, &mut messages, Call::Receive) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        for (at, message) in messages[..count].iter().enumerate() {
            let is_cut = message.head.flags & (libc::MSG_TRUNC as u32) != 0;
            self.received[at] =
                Head { len: message.len as usize, name: message.head.name_len as usize, is_cut };
            self.controls[at].len = message.head.control_len.min(self.controls[at].bytes.len());
        }
        Ok(count)
    }

    /// What has been received last at a place.
    pub fn at(&self, place: usize) -> Received<'_> {
        let head = self.received.get(place).copied().unwrap_or_default();
        let bytes = self.bytes.get(place * PLACE..).and_then(|rest| rest.get(..head.len.min(PLACE)));
        let peer = self.names.get(place).and_then(|name| name.read(head.name));
        let local = || self.controls.get(place).and_then(Control::destination);
        Received {
            bytes: bytes.unwrap_or_default(),
            way: peer.map(|peer| Way { peer, local: local() }),
            is_cut: head.is_cut,
        }
    }

    /// Sends on what has been received last at some places; `to`: to a client, from the address that it spoke to; else
    /// to whom the socket is connected. Several of one length go as one, which the kernel takes apart again, as late as
    /// it can.
    pub fn send(&mut self, socket: &Datagrams, places: Range<usize>, to: Option<Way>) -> Sent {
        let count = places.len().min(PLACES);
        if let Some(segment) = self.segment(places.clone()).filter(|_| socket.joins()) {
            match self.send_messages(socket, places.clone(), (to, Some(segment))) {
                Ok(_) => return Sent { count, error: None },
                Err(error) => match error.raw_os_error() {
                    // The device or the kernel cannot.
                    Some(libc::EIO | libc::ENOPROTOOPT | libc::EOPNOTSUPP) => socket.never_join(),
                    // It is too long for this way: one by one, they are cut into packets.
                    Some(libc::EINVAL | libc::EMSGSIZE) => {}
                    _ => return Sent { count: 0, error: Some(error) },
                },
            }
        }
        match self.send_messages(socket, places, (to, None)) {
            Ok(count) => Sent { count, error: None },
            Err(error) => Sent { count: 0, error: Some(error) },
        }
    }

    /// Sends datagrams each for itself, or as one that is made of segments of this length.
    fn send_messages(
        &mut self,
        socket: &Datagrams,
        places: Range<usize>,
        (to, segment): (Option<Way>, Option<u16>),
    ) -> io::Result<usize> {
        let mut slices = [NO_SLICE; PLACES];
        let mut messages = [NO_MESSAGE; PLACES];
        let (mut name, mut control) = (Name::EMPTY, Control::EMPTY);
        let name_len = to.map_or(0, |way| name.write(way.peer));
        if let Some(Way { peer, local: Some(local) }) = to {
            control.add_source(local, peer.is_ipv6());
        }
        segment.inspect(|segment| control.add_segment(*segment));
        let count = places.len().min(PLACES);
        for (place, (slice, Message { head, .. })) in places.zip(slices.iter_mut().zip(&mut messages)) {
            let Received { bytes, .. } = self.at(place);
            // The kernel only reads it.
            *slice = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            (head.slices, head.slices_len) = (slice, 1);
            if name_len > 0 {
                (head.name, head.name_len) = (&raw mut name, name_len as u32);
            }
            if control.len > 0 {
                (head.control, head.control_len) = (control.bytes.as_mut_ptr(), control.len);
            }
        }
        if segment.is_none() {
            return call(socket, &mut messages[..count], Call::Send);
        }
        (messages[0].head.slices, messages[0].head.slices_len) = (slices.as_mut_ptr(), count);
        call(socket, &mut messages[..1], Call::Send)
    }

    /// The length of several datagrams that can go as one: only the last of them may be shorter.
    pub(super) fn segment(&self, places: Range<usize>) -> Option<u16> {
        let length = |place| self.at(place).bytes.len();
        let (first, last) = (length(places.start), length(places.end.checked_sub(1)?));
        let is_one = places.len() > 1
            && (1..=JOINED / places.len()).contains(&first)
            && last <= first
            && last > 0
            && (places.start..places.end - 1).all(|place| length(place) == first);
        u16::try_from(first).ok().filter(|_| is_one)
    }
}

/// Sends one datagram to whom the socket is connected.
///
/// # Errors
/// Why the kernel did not take it, or what has become of one before it.
pub(super) fn send_one(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, bytes, rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL)?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Call {
    Receive,
    Send,
}

/// Has the kernel receive or send messages, without waiting; how many.
#[expect(unsafe_code, reason = "no library in use moves several datagrams in one call (decision 0061)")]
fn call(socket: impl AsFd, messages: &mut [Message], call: Call) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    let (first, count) = (messages.as_mut_ptr().cast::<libc::mmsghdr>(), messages.len() as libc::c_uint);
    loop {
        // SAFETY: `Message` is the kernel's `mmsghdr`, of which there are `count`. All pointers in them are null with a
        // length of 0, or lead to memory of that length which outlives the call, as the two callers above see to;
        // nobody else uses it meanwhile. What is written there are bytes, for which every value is valid; a send writes
        // to none of it but `len`.
        let done = unsafe {
            match call {
                Call::Receive => libc::recvmmsg(fd, first, count, libc::MSG_DONTWAIT as _, ptr::null_mut()),
                Call::Send => {
                    libc::sendmmsg(fd, first, count, (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _)
                }
            }
        };
        match usize::try_from(done) {
            Ok(count) => return Ok(count.min(messages.len())),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}
