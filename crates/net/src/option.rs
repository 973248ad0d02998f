//! Options of sockets that no library in use has in a safe form.

use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// Sets an option whose value is one `int`.
///
/// # Errors
/// What the kernel says against it.
#[expect(unsafe_code, reason = "no library in use has a safe form of these options (decisions 0030, 0061)")]
pub(crate) fn set_int(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: i32) -> io::Result<()> {
    let value: libc::c_int = value;
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads one int at the address, which outlives the call.
    let done =
        unsafe { libc::setsockopt(fd.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
