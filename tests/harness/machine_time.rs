//! A clock that stands still while the machine does: a host that gives it no processor, or programs that leave none.
//! What must happen within a time is measured by it, so that a test fails for what the proxy does and for nothing else.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(5);

/// The time in which this process was given a processor when it wanted one, since it was first asked for; to 10 ms.
pub fn machine_time() -> Duration {
    static MICROS: OnceLock<&'static AtomicU64> = OnceLock::new();
    let micros = MICROS.get_or_init(|| {
        let micros: &'static AtomicU64 = Box::leak(Box::default());
        thread::spawn(move || {
            loop {
                let begun = Instant::now();
                thread::sleep(TICK); // The clock's tick.
                let passed = begun.elapsed().min(2 * TICK);
                micros.fetch_add(passed.as_micros() as u64, Ordering::Relaxed);
            }
        });
        micros
    });
    Duration::from_micros(micros.load(Ordering::Relaxed))
}
