//! What the operator is told of the access log: that lines are lost, once, and how many they were when that is over.
//!
//! Looked at once a second. A destination that now takes a batch and now does not is one trouble, not many: it is over
//! when nothing has been lost for a while and something has been written.

use thalweg_core::Notice;
use thalweg_observe::Registry;

/// So many looks without a loss, and it is over.
const CALM: u32 = 3;

/// What is known of the access log.
#[derive(Debug, Default)]
pub(crate) struct AccessLogMonitor {
    /// Lines lost until the last look.
    lost: u64,
    /// Lines that the operator knows to be lost.
    told: u64,
    /// Lines are being lost, and for so many looks none has been.
    trouble: Option<u32>,
}

/// What is seen at a look.
#[derive(Debug, Default)]
struct Seen {
    /// Lines lost since the start.
    lost: u64,
    /// Why a write has failed since the last look.
    error: Option<String>,
    /// The last write failed.
    fails: bool,
}

impl Seen {
    fn of(registry: &Registry) -> Self {
        let log = registry.log();
        let dropped: u64 = registry.workers().iter().map(|worker| worker.log_dropped.value()).sum();
        Self { lost: log.lost.value() + dropped, error: log.take_write_error(), fails: log.fails() }
    }
}

impl AccessLogMonitor {
    /// Looks, and says what there is to say.
    pub(crate) fn look(&mut self, registry: &Registry) -> impl Iterator<Item = Notice> {
        let reopened = registry.log().take_reopen_error();
        let reopened = reopened.map(|error| Notice::warn(format!("{error}; the old file is written on")));
        reopened.into_iter().chain(self.compare(Seen::of(registry)))
    }

    /// The last look: what has not been told yet.
    pub(crate) fn end(&mut self, registry: &Registry) -> Option<String> {
        let Seen { lost, .. } = Seen::of(registry);
        let new = lost.saturating_sub(std::mem::replace(&mut self.told, lost));
        (new > 0).then(|| format!("{} lost: the access log could not be written", were(new)))
    }

    fn compare(&mut self, Seen { lost, error, fails }: Seen) -> Option<Notice> {
        let loses = lost > std::mem::replace(&mut self.lost, lost) || error.is_some();
        let Some(calm) = self.trouble.as_mut() else {
            if !loses {
                return None;
            }
            self.trouble = Some(0);
            let why = error.unwrap_or_else(|| "the access log does not keep up".into());
            return Some(Notice::warn(format!("{why}; lines are lost (`thalweg_log_dropped_total`)")));
        };
        *calm = if loses || fails { 0 } else { *calm + 1 };
        if *calm < CALM {
            return None;
        }
        self.trouble = None;
        let new = lost - std::mem::replace(&mut self.told, lost);
        Some(Notice::info(format!("the access log is written again; {} lost", were(new))))
    }
}

fn were(lines: u64) -> String {
    if lines == 1 { "1 line was".into() } else { format!("{lines} lines were") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(monitor: &mut AccessLogMonitor, lost: u64, error: &str, fails: bool) -> Option<String> {
        let error = Some(error.to_owned()).filter(|error| !error.is_empty());
        monitor.compare(Seen { lost, error, fails }).map(|notice| notice.text)
    }

    #[test]
    fn a_loss_is_told_when_it_begins_and_when_it_is_over_with_the_count() {
        let mut monitor = AccessLogMonitor::default();
        assert_eq!(look(&mut monitor, 0, "", false), None);
        let begun = look(&mut monitor, 2, "the access log /l cannot be written: full", true).unwrap();
        assert!(begun.starts_with("the access log /l cannot be written: full; lines are lost"), "{begun}");
        // Without a request nothing is written, and so nothing is over; and some batches fit, others do not.
        for (lost, error, fails) in
            [(2, "", true), (2, "", true), (2, "", true), (2, "", true), (2, "", false)]
        {
            assert_eq!(look(&mut monitor, lost, error, fails), None);
        }
        assert_eq!(look(&mut monitor, 5, "full", true), None);
        assert_eq!(look(&mut monitor, 5, "", false), None);
        assert_eq!(look(&mut monitor, 5, "", false), None);
        let over = look(&mut monitor, 5, "", false);
        assert_eq!(over.as_deref(), Some("the access log is written again; 5 lines were lost"));
        assert_eq!(look(&mut monitor, 5, "", false), None);

        let begun = look(&mut monitor, 6, "", false).unwrap();
        assert!(begun.starts_with("the access log does not keep up; "), "{begun}");
        let over = (0..CALM).find_map(|_| look(&mut monitor, 6, "", false));
        assert_eq!(over.as_deref(), Some("the access log is written again; 1 line was lost"));
    }

    #[test]
    fn what_is_lost_at_the_end_is_told_then() {
        let (mut monitor, registry) = (AccessLogMonitor::default(), Registry::new(1));
        assert_eq!(monitor.end(&registry), None);
        registry.log().lost.add(3);
        assert_eq!(
            monitor.end(&registry).as_deref(),
            Some("3 lines were lost: the access log could not be written")
        );
    }
}
