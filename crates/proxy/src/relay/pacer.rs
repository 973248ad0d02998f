//! The pace of a throttled body: how much of it may be received, as time passes.
//!
//! A token bucket without a clock: the caller of a pump says what time it is, and a pump that has used up the bucket
//! says after which time to call again. A paced flow is not spliced: it receives measured pieces. What came with the
//! head waits here, and is received from here first. All of this belongs to a message, however many attempts it takes
//! to send it.

use super::Flow;
use super::spool::Spool;
use std::collections::VecDeque;
use std::io::Read;
use std::time::{Duration, Instant};
use thalweg_filter::Bandwidth;

/// The shortest time for which a paced flow waits: it moves in steps, not in bytes.
const STEP: Duration = Duration::from_millis(20);
/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;

/// The pace of one message.
#[derive(Debug)]
pub(crate) struct Pacer {
    bandwidth: Bandwidth,
    /// Bytes that may be received.
    room: i64,
    /// When `room` was right.
    since: Instant,
    /// The room was used up, and is not yet worth a step again.
    waits: bool,
    /// What came with the head; at most what is received at once.
    early: VecDeque<u8>,
    /// All of it, where it was received before.
    pub(super) spool: Option<Spool>,
}

impl Pacer {
    /// A full bucket, where a bandwidth is asked for.
    pub(crate) fn of(bandwidth: Option<Bandwidth>, now: Instant) -> Option<Box<Self>> {
        let bandwidth = bandwidth?;
        let (room, early) = (bandwidth.burst.cast_signed(), VecDeque::new());
        Some(Box::new(Self { bandwidth, room, since: now, waits: false, early, spool: None }))
    }

    /// As fast as it goes.
    pub(super) fn unbounded(now: Instant) -> Option<Box<Self>> {
        Self::of(Some(Bandwidth { bytes_per_second: u64::MAX, burst: i64::MAX.cast_unsigned() }), now)
    }

    /// Time has passed. What is less than a byte is not lost.
    fn refill(&mut self, now: Instant) {
        let rate = u128::from(self.bandwidth.bytes_per_second.max(1));
        let bytes = now.saturating_duration_since(self.since).as_nanos() * rate / SECOND;
        let full = i128::from(self.bandwidth.burst) - i128::from(self.room);
        if i128::try_from(bytes).is_ok_and(|bytes| bytes < full) {
            // What is below the burst fits.
            self.room = self.room.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
            self.since += Duration::from_nanos(u64::try_from(bytes * SECOND / rate).unwrap_or(u64::MAX));
        } else {
            (self.room, self.since) = (self.bandwidth.burst.cast_signed(), now);
        }
        self.waits &= self.room < self.step();
    }

    /// Bytes that are worth a step.
    fn step(&self) -> i64 {
        let bytes = u128::from(self.bandwidth.bytes_per_second) * STEP.as_nanos() / SECOND;
        i64::try_from(bytes).unwrap_or(i64::MAX).clamp(1, self.bandwidth.burst.cast_signed().max(1))
    }

    /// Time until a step is worth it.
    fn wait(&self) -> Duration {
        let missing = u128::try_from(self.step().saturating_sub(self.room)).unwrap_or(0);
        let nanos = missing * SECOND / u128::from(self.bandwidth.bytes_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(Duration::from_millis(1))
    }
}

impl Flow {
    /// The body of the message that was started is received no faster than this.
    pub(crate) fn set_pace(&mut self, pacer: Option<Box<Pacer>>) {
        self.pacer = pacer;
    }

    /// The pace of the message, for another attempt at it.
    pub(crate) fn take_pace(&mut self) -> Option<Box<Pacer>> {
        self.pacer.take()
    }

    /// Bytes per second that may be received, where that is bounded.
    #[inline]
    pub(crate) fn pace(&self) -> Option<u64> {
        self.pacer.as_ref().map(|pacer| pacer.bandwidth.bytes_per_second)
    }

    /// These bytes came before it was their time: they are received before any others. There is a pace.
    pub(crate) fn hold_early(&mut self, bytes: &[u8]) {
        debug_assert!(self.pacer.is_some(), "only a paced flow holds bytes");
        if let Some(pacer) = &mut self.pacer {
            pacer.early.extend(bytes);
        }
    }

    /// Receives bytes that came early, where there are some.
    #[inline]
    pub(super) fn take_early(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let pacer = self.pacer.as_mut().filter(|pacer| !pacer.early.is_empty())?;
        pacer.early.read(buffer).ok()
    }

    /// The message is over: returns the bytes that were received early and follow it.
    #[inline]
    pub(super) fn take_behind(&mut self) -> Option<Vec<u8>> {
        let pacer = self.pacer.as_mut().filter(|pacer| !pacer.early.is_empty())?;
        Some(std::mem::take(&mut pacer.early).into())
    }

    /// Says what time it is, before a pump.
    #[inline]
    pub(crate) fn tick(&mut self, now: Instant) {
        if let Some(pacer) = &mut self.pacer {
            pacer.refill(now);
        }
    }

    /// For how long the flow does not receive because of its pace; `None`: that is not what it waits for.
    #[inline]
    pub(crate) fn paused_by_pace(&self) -> Option<Duration> {
        self.pacer.as_ref().filter(|pacer| pacer.waits && !self.ended).map(|pacer| pacer.wait())
    }

    /// Of `room` bytes those that may be received now; `None`: none.
    #[inline]
    pub(crate) fn paced(&mut self, room: usize) -> Option<usize> {
        let Some(pacer) = &mut self.pacer else { return Some(room) };
        pacer.waits |= pacer.room <= 0;
        let most = usize::try_from(pacer.room).unwrap_or(0);
        (!pacer.waits).then(|| room.min(most))
    }

    /// Bytes have been received.
    #[inline]
    pub(crate) fn spend(&mut self, n: usize) {
        if let Some(pacer) = &mut self.pacer {
            pacer.room = pacer.room.saturating_sub_unsigned(n as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that come in a time, received as fast as the pace allows and asked at the times that it says.
    fn received(bandwidth: Bandwidth, time: Duration) -> usize {
        let begin = Instant::now();
        let mut flow = Flow { ended: false, ..Flow::default() };
        flow.set_pace(Pacer::of(Some(bandwidth), begin));
        let (mut now, mut all) = (begin, 0);
        while now < begin + time {
            flow.tick(now);
            while let Some(n) = flow.paced(10_000) {
                assert!(n > 0);
                flow.spend(n);
                all += n;
            }
            now += flow.paused_by_pace().unwrap();
        }
        all
    }

    #[test]
    fn what_comes_is_the_rate_and_one_burst() {
        for (rate, burst) in [(1024, 1024), (1_000_000, 4096), (333_333, 100_000), (1 << 30, 1 << 25)] {
            let bandwidth = Bandwidth { bytes_per_second: rate, burst };
            let all = received(bandwidth, Duration::from_secs(4)) as u64;
            let most = rate * 4 + burst;
            // The last step may not have come.
            assert!(
                all <= most + rate / 40 && all + rate / 20 + 100 > most,
                "{rate} {burst}: {all} of {most}"
            );
        }
    }

    #[test]
    fn what_came_early_is_received_first_and_in_order() {
        let mut flow = Flow { ended: false, ..Flow::default() };
        flow.set_pace(Pacer::of(Some(Bandwidth { bytes_per_second: 1024, burst: 1024 }), Instant::now()));
        flow.hold_early(b"abcd");
        flow.hold_early(b"ef");
        let (mut buffer, mut all) = ([0; 4], Vec::new());
        while let Some(n) = flow.take_early(&mut buffer) {
            all.extend_from_slice(&buffer[..n]);
        }
        assert_eq!(all, b"abcdef");
    }

    #[test]
    fn what_is_too_much_is_waited_for_and_a_pause_saves_up_one_burst() {
        let begin = Instant::now();
        let mut flow = Flow { ended: false, ..Flow::default() };
        flow.set_pace(Pacer::of(Some(Bandwidth { bytes_per_second: 1000, burst: 2000 }), begin));
        flow.spend(3000);
        assert_eq!(flow.paced(1), None);
        assert_eq!(flow.paused_by_pace(), Some(Duration::from_millis(1020)));
        flow.tick(begin + Duration::from_secs(3600));
        assert_eq!((flow.paced(9999), flow.paused_by_pace()), (Some(2000), None));
    }
}
