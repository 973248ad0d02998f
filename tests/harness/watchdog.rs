//! The last line of defence against a hanging test.
//!
//! Every wait of the harness has its own deadline; this one catches the sum of them, and loops.

use std::io::Write as _;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::process as children;

/// How much longer a test may take than it should on a machine of today that has nothing else to do.
const SLOW: u32 = 3;

/// Ends the whole test process when it is not dropped in time.
#[derive(Debug)]
pub struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    /// Gives the test called `name` the time `limit`, and as much again as slow machines need.
    pub fn new(name: &str, limit: Duration) -> Self {
        let (limit, (alive, gone)) = (limit * SLOW, mpsc::channel());
        let name = name.to_owned();
        thread::spawn(move || {
            if gone.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Not by a macro: what those print is kept with the test, and would be lost with it.
                let _ = writeln!(std::io::stderr(), "watchdog: {name} did not finish within {limit:?}");
                // Exit runs no destructors: without this, proxies would outlive the tests.
                children::kill_all();
                process::exit(101);
            }
        });
        Self { _alive: alive }
    }
}
