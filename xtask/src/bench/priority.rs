//! Priority over what else runs on this machine, for benches whose figures are about waiting.

use std::fs;

/// Where the kernel groups processes by session, the group has a niceness of its own, and that of processes counts
/// within it (sched(7)).
const GROUP: &str = "/proc/self/autogroup";
/// What we have while we measure.
const NICE: i32 = -15;

/// Our priority, and that of all that we start. The session has the former one again on drop: it is not ours alone, and
/// a session that keeps this starves every other one.
pub(super) struct Priority {
    group: Option<i32>,
    /// Whether it was allowed.
    pub(super) is_first: bool,
}

impl Priority {
    /// Puts us before what else runs here, where that is allowed. The weights among our own stay as they are.
    pub(super) fn first() -> Self {
        let group = fs::read_to_string(GROUP).ok().and_then(|text| niceness(&text));
        let has_moved = group.is_none() || fs::write(GROUP, NICE.to_string()).is_ok();
        let is_first = has_moved && rustix::process::setpriority_process(None, NICE).is_ok();
        Self { group, is_first }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(nice) = self.group {
            let _ = fs::write(GROUP, nice.to_string());
        }
    }
}

/// Reads `/autogroup-7 nice 0`.
fn niceness(text: &str) -> Option<i32> {
    text.trim().rsplit_once(" nice ")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_niceness_of_a_group_is_read() {
        assert_eq!(niceness("/autogroup-866 nice -15\n"), Some(-15));
        assert_eq!(niceness(""), None);
    }
}
