//! What a process says when it crashes: the signal, the thread, where it was, and what that thread knows to add.
//!
//! The handler does what POSIX does not promise to work in one: it makes a backtrace, which takes memory and locks. The
//! process ends in any case, and a clock ends it when a lock is in the way.

use rustix::fd::{AsRawFd, OwnedFd};
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::fmt::{self, Write};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// How long a report may take, in seconds.
const TIME: u32 = 2;
/// What a bug, a broken machine or somebody with `kill` sends.
const SIGNALS: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// Writes what one thread adds to a report.
type Words = Box<dyn Fn(&mut dyn Write)>;

thread_local! {
    static LAST_WORDS: RefCell<Option<Words>> = const { RefCell::new(None) };
}

static REPORT: AtomicI32 = AtomicI32::new(2);
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// From now on a crash is reported on standard error, and to this descriptor. To be called once. The stack that has
/// overflowed has no room for a report: the process ends without one.
///
/// # Errors
/// What the kernel says.
#[expect(unsafe_code, reason = "signal handlers have no safe form")]
pub fn report_to(report: Option<OwnedFd>) -> io::Result<()> {
    if let Some(report) = report {
        REPORT.store(report.as_raw_fd(), Ordering::Relaxed);
        // For as long as the process lives.
        std::mem::forget(report);
    }
    for signal in SIGNALS {
        // SAFETY: all zeros is a value of this type: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_NODEFER;
        // SAFETY: the handler has the signature that goes with these flags, and lives as long as the process.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// What the report of a crash in this thread ends with, from now on. The crash may have come at any moment: what
/// `words` reads may be half written, and must not wait for anything.
pub fn add_words(words: impl Fn(&mut dyn Write) + 'static) {
    LAST_WORDS.set(Some(Box::new(words)));
}

#[expect(unsafe_code, reason = "signal handlers have no safe form")]
extern "C" fn handle(signal: libc::c_int) {
    // SAFETY: these calls are allowed in handlers, and have no memory of ours as arguments.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(TIME);
    }
    if !HAS_BEGUN.swap(true, Ordering::Relaxed) {
        let thread = std::thread::current();
        let mut report = Report;
        let name = thread.name().unwrap_or("?");
        let _ = writeln!(report, "signal {signal} ({}) in thread {name}", signal_name(signal));
        let _ = writeln!(report, "{}", Backtrace::force_capture());
        let _ = LAST_WORDS.try_with(|words| {
            if let Ok(Some(words)) = words.try_borrow().as_deref() {
                words(&mut report);
            }
        });
    }
    // SAFETY: as above; the action is the default, which ends the process.
    unsafe {
        libc::raise(signal);
    }
}

/// The name of a signal that ends a process.
pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGABRT => "SIGABRT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        libc::SIGALRM => "SIGALRM",
        _ => "another signal",
    }
}

/// Writes without memory of its own.
struct Report;

impl Write for Report {
    #[expect(unsafe_code, reason = "a descriptor that may be closed already")]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for fd in [2, REPORT.load(Ordering::Relaxed)] {
            // SAFETY: the kernel reads as many bytes as there are. Where it takes fewer, the rest is not told.
            unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
            if fd == REPORT.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }
}
