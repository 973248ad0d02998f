//! CPU time of the proxy's threads, from the kernel's files.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// CPU time so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// Of the control thread, which watches the sources too.
    pub(super) control: Duration,
    /// Of all workers.
    pub(super) workers: Duration,
    /// Of all others: admin, checks, certificates, log.
    pub(super) others: Duration,
}

impl Spent {
    /// What the threads of a process have used until now.
    pub(super) fn now(pid: u32) -> Result<Self> {
        let mut spent = Self::default();
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = entry?.path();
            let read = |name: &str| fs::read_to_string(path.join(name));
            // Nanoseconds on a CPU, waiting for one, and turns. A thread may end meanwhile.
            let (Ok(name), Ok(text)) = (read("comm"), read("schedstat")) else { continue };
            let time = text.split_whitespace().next().and_then(|word| word.parse().ok());
            let time = Duration::from_nanos(time.context("the kernel keeps no times of threads")?);
            let is_main = path.file_name().is_some_and(|tid| *tid == *pid.to_string());
            match () {
                () if is_main => spent.control += time,
                () if name.starts_with("worker-") => spent.workers += time,
                () => spent.others += time,
            }
        }
        Ok(spent)
    }

    /// What has been used since an earlier moment.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            control: self.control.saturating_sub(before.control),
            workers: self.workers.saturating_sub(before.workers),
            others: self.others.saturating_sub(before.others),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart() {
        let spent = Spent::now(std::process::id()).unwrap();
        assert_eq!(spent.workers, Duration::ZERO);
        assert!(spent.control + spent.others > Duration::ZERO);
    }
}
