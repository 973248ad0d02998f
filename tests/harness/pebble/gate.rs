//! A TCP address that stays while what is behind it comes and goes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::STEP;

/// What becomes of who connects.
#[derive(Clone, Copy, Debug)]
enum State {
    /// He waits.
    Waits,
    /// He is sent away.
    Closed,
    /// He is let through.
    Open(SocketAddr),
}

type Shared = Arc<(Mutex<State>, Condvar)>;

/// The address. Its threads end with the test process.
#[derive(Debug)]
pub(super) struct Gate {
    address: SocketAddr,
    state: Shared,
}

impl Gate {
    /// One at which everybody waits.
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state: Shared = Arc::new((Mutex::new(State::Waits), Condvar::new()));
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || {
                    if let Some(to) = wait(&state) {
                        let _ = join(stream, to);
                    }
                });
            }
        });
        Self { address, state }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn open(&self, to: SocketAddr) {
        self.set(State::Open(to));
    }

    pub(super) fn close(&self) {
        self.set(State::Closed);
    }

    fn set(&self, state: State) {
        *self.state.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.state.1.notify_all();
    }
}

/// Where to, once that is decided.
fn wait(state: &Shared) -> Option<SocketAddr> {
    let guard = state.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = |state: &mut State| matches!(state, State::Waits);
    let (state, _) =
        state.1.wait_timeout_while(guard, STEP * 4, waits).unwrap_or_else(PoisonError::into_inner);
    match *state {
        State::Open(to) => Some(to),
        State::Waits | State::Closed => None,
    }
}

fn join(near: TcpStream, to: SocketAddr) -> io::Result<()> {
    let far = TcpStream::connect_timeout(&to, STEP)?;
    let (near_too, far_too) = (near.try_clone()?, far.try_clone()?);
    let back = thread::spawn(move || carry(&far_too, &near_too));
    carry(&near, &far);
    let _ = back.join();
    Ok(())
}

fn carry(mut from: &TcpStream, mut to: &TcpStream) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
