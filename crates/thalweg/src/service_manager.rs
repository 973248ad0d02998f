//! What systemd is told (sd_notify(3)): that the proxy is ready, reloads, stops, lives, and which process it is. Where
//! nothing supervises the process, nothing is said.

use rustix::fd::BorrowedFd;
use sd_notify::NotifyState as State;
use std::sync::atomic::{AtomicBool, Ordering};

/// A supervisor of our own runs this process: that one is the main process, and stays it.
static IS_SUPERVISED: AtomicBool = AtomicBool::new(false);

/// From now on this process is none that systemd should follow.
pub(crate) fn is_supervised() {
    IS_SUPERVISED.store(true, Ordering::Relaxed);
}

/// Tells, or does nothing.
fn tell(states: &[State<'_>]) {
    let _ = sd_notify::notify(states);
}

/// The proxy accepts. `line` is what `systemctl status` shows.
pub(crate) fn ready(line: &str) {
    main_process_is(std::process::id());
    tell(&[State::Ready, State::Status(line)]);
}

/// A reload begins; [`ready`] ends it.
pub(crate) fn reloading() {
    match State::monotonic_usec_now() {
        Ok(now) => tell(&[State::Reloading, now]),
        Err(_) => tell(&[State::Reloading]),
    }
}

/// The proxy drains.
pub(crate) fn stopping() {
    tell(&[State::Stopping, State::Status("draining")]);
}

/// The workers turn.
pub(crate) fn alive() {
    tell(&[State::Watchdog]);
}

/// This process counts from now on.
pub(crate) fn main_process_is(pid: u32) {
    if !IS_SUPERVISED.load(Ordering::Relaxed) {
        tell(&[State::MainPid(pid)]);
    }
}

/// Has a listening socket kept for the process that comes after this one, under the name of its listener.
pub(crate) fn keep(name: &str, fds: &[BorrowedFd<'_>]) {
    let _ = sd_notify::notify_with_fds(&[State::FdStore, State::FdName(name)], fds);
}

/// Sockets of that name are not needed any more.
pub(crate) fn let_go(name: &str) {
    tell(&[State::FdStoreRemove, State::FdName(name)]);
}

/// Whether systemd runs this process.
pub(crate) fn is_there() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some() || std::env::var_os("INVOCATION_ID").is_some()
}
