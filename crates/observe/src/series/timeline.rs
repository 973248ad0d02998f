//! Which place of a ring is which step of time. All rings of a store turn together.
//!
//! Steps are numbered from the Unix epoch. When the clock goes forward, however far, the steps between are blank. When
//! it goes back, the next step gets the number that the clock says now, and those before it are numbered down from
//! there: nothing is lost, and nothing lies in the future.

/// Steps and their places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    /// Seconds of a step.
    pub(crate) step_s: u64,
    /// Steps that are kept.
    pub(crate) places: usize,
    /// The number of the newest step.
    pub(crate) head: u64,
    /// Its place.
    at: usize,
    /// Steps since the first one, at most `places`.
    pub(crate) filled: usize,
}

impl Timeline {
    pub(crate) const fn new(step_s: u64, places: usize) -> Self {
        Self { step_s, places, head: 0, at: 0, filled: 0 }
    }

    /// The number of the step that this moment, in milliseconds since the epoch, lies in.
    pub(crate) fn step_of(&self, unix_ms: u64) -> u64 {
        unix_ms / (self.step_s * 1_000)
    }

    /// Makes this step the newest. Gives how many steps have begun: their places are the last ones, and hold what is
    /// as old as the ring.
    pub(crate) fn turn_to(&mut self, step: u64) -> usize {
        let begun = match step.checked_sub(self.head) {
            _ if self.filled == 0 => 1,
            Some(0) => 0,
            Some(more) => usize::try_from(more).unwrap_or(usize::MAX).min(self.places),
            // The clock went back.
            None => 1,
        };
        self.head = step;
        self.at = (self.at + begun) % self.places;
        self.filled = (self.filled + begun).min(self.places);
        begun
    }

    /// The place of the newest step.
    pub(crate) fn newest(&self) -> usize {
        self.at
    }

    /// The place of the step that is so many steps older than the newest.
    pub(crate) fn place(&self, age: usize) -> usize {
        (self.at + self.places - age % self.places) % self.places
    }

    /// The ages of steps that are kept and over at this moment, the oldest first.
    pub(crate) fn complete(&self, unix_s: u64) -> impl Iterator<Item = usize> + Clone + use<> {
        let is_over = (self.head + 1) * self.step_s <= unix_s;
        let youngest = usize::from(!is_over);
        (youngest..self.filled).rev()
    }

    /// When the step of this age began, in seconds since the epoch.
    pub(crate) fn began(&self, age: usize) -> u64 {
        self.head.saturating_sub(age as u64) * self.step_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(timeline: &Timeline, unix_s: u64) -> Vec<(usize, u64)> {
        timeline.complete(unix_s).map(|age| (timeline.place(age), timeline.began(age))).collect()
    }

    #[test]
    fn steps_follow_one_another_and_old_ones_give_their_places() {
        let mut timeline = Timeline::new(10, 3);
        assert!(places(&timeline, 1_000).is_empty());
        assert_eq!(timeline.turn_to(100), 1);
        assert_eq!(timeline.turn_to(100), 0);
        assert!(places(&timeline, 1_009).is_empty(), "it is not over");
        assert_eq!(places(&timeline, 1_010), [(1, 1_000)]);
        assert_eq!((timeline.turn_to(101), timeline.turn_to(102), timeline.turn_to(103)), (1, 1, 1));
        assert_eq!(places(&timeline, 1_040), [(2, 1_010), (0, 1_020), (1, 1_030)]);
    }

    #[test]
    fn a_jump_forward_leaves_blanks_and_one_back_loses_nothing() {
        let mut timeline = Timeline::new(10, 5);
        timeline.turn_to(100);
        assert_eq!(timeline.turn_to(102), 2);
        assert_eq!(timeline.turn_to(40), 1);
        let kept = places(&timeline, 1_000);
        assert_eq!(kept.iter().map(|(_, began)| *began).collect::<Vec<_>>(), [370, 380, 390, 400]);
        assert_eq!(timeline.turn_to(u64::MAX / 10_000), 5);
        assert_eq!(timeline.filled, 5);
        assert_eq!(timeline.turn_to(0), 1);
        assert_eq!(timeline.began(4), 0);
    }
}
