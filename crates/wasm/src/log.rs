//! Lines that modules write, on their way to the operator. What nobody takes in time is dropped and counted.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Lines that wait.
const WAITING: usize = 256;
/// Bytes of a line.
pub(crate) const LINE: usize = 1024;

/// How much a line asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Ordinary life.
    Info,
    /// Somebody may have to act.
    Warn,
}

/// A line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    /// How much it asks for.
    pub level: Level,
    /// On one line, without control characters.
    pub text: String,
}

/// Lines of one plugin.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Line>,
    dropped: u64,
    readers: Vec<Waker>,
}

impl Log {
    /// Writes a line, cut to its longest.
    pub(crate) fn write(&self, level: Level, text: &[u8]) {
        let line = Line { level, text: printable(text) };
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.lines.len() >= WAITING {
            waiting.dropped += 1;
            return;
        }
        waiting.lines.push_back(line);
        waiting.readers.drain(..).for_each(Waker::wake);
    }

    /// Counts lines that were not even written.
    pub(crate) fn drop_line(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).dropped += 1;
    }

    /// The next line. Cancel-safe.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Line> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = waiting.lines.pop_front() {
            return Poll::Ready(line);
        }
        if waiting.dropped > 0 {
            let text = format!("{} lines of the module were dropped: it writes too many", waiting.dropped);
            waiting.dropped = 0;
            return Poll::Ready(Line { level: Level::Warn, text });
        }
        if !waiting.readers.iter().any(|known| known.will_wake(context.waker())) {
            waiting.readers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// What a module has written, on one line.
pub(crate) fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..LINE).unwrap_or(text));
    text.trim_end().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_counted() {
        let (log, context) = (Log::default(), Context::from_waker(Waker::noop()));
        for _ in 0..WAITING + 3 {
            log.write(Level::Info, b"a\nb\x1b[1m\n");
        }
        for _ in 0..WAITING {
            let Poll::Ready(line) = log.poll(&context) else { panic!("a line is missing") };
            assert_eq!(line, Line { level: Level::Info, text: "a b [1m".into() });
        }
        let Poll::Ready(last) = log.poll(&context) else { panic!("nothing tells of dropped lines") };
        assert!(last.text.starts_with("3 lines"), "{}", last.text);
        assert!(log.poll(&context).is_pending());
    }
}
