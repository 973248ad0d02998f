//! What the instances of one plugin share: values by key, and metrics. Both are bounded.

use std::collections::HashMap;

/// Keys that a plugin may have values for.
const KEYS: usize = 1024;
/// Bytes of one value.
const VALUE: usize = 64 * 1024;
/// Bytes of all keys and values.
const BYTES: usize = 4 * 1024 * 1024;
/// Metrics that a plugin may define.
const METRICS: usize = 256;
/// Bytes of a key, and of a metric's name.
const NAME: usize = 256;

/// Why a value is not kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unkept {
    /// The value has changed since it was read.
    Mismatch,
    /// There is no room.
    Full,
}

/// Values by key.
#[derive(Debug, Default)]
pub(crate) struct Values {
    known: HashMap<Vec<u8>, (Vec<u8>, u32)>,
    bytes: usize,
    last: u32,
}

impl Values {
    /// A value, and the number of its version.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&(Vec<u8>, u32)> {
        self.known.get(key)
    }

    /// Keeps a value. `version`: only if that is the version of the one before; 0: whatever is there.
    pub(crate) fn set(&mut self, key: Vec<u8>, value: Vec<u8>, version: u32) -> Result<(), Unkept> {
        let former = self.known.get(&key);
        if version != 0 && former.map_or(0, |(_, known)| *known) != version {
            return Err(Unkept::Mismatch);
        }
        let freed = former.map_or(0, |(value, _)| key.len() + value.len());
        let bytes = self.bytes - freed + key.len() + value.len();
        let is_new = former.is_none();
        if key.len() > NAME || value.len() > VALUE || bytes > BYTES || (is_new && self.known.len() >= KEYS) {
            return Err(Unkept::Full);
        }
        // 0 means that no version is asked for.
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.bytes = bytes;
        self.known.insert(key, (value, self.last));
        Ok(())
    }
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric that a module has defined.
#[derive(Debug)]
struct Metric {
    kind: Kind,
    name: Vec<u8>,
    value: u64,
}

/// Metrics by number.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Vec<Metric>);

impl Metrics {
    /// The number of the metric of this kind and name; `None`: there is no room for another one.
    pub(crate) fn define(&mut self, kind: Kind, name: Vec<u8>) -> Option<u32> {
        let known = self.0.iter().position(|metric| metric.kind == kind && metric.name == name);
        let at = match known {
            Some(at) => at,
            None if self.0.len() < METRICS && name.len() <= NAME => {
                self.0.push(Metric { kind, name, value: 0 });
                self.0.len() - 1
            }
            None => return None,
        };
        u32::try_from(at).ok()
    }

    /// Its value.
    pub(crate) fn get(&self, id: u32) -> Option<u64> {
        self.0.get(id as usize).map(|metric| metric.value)
    }

    /// Another value; says whether there is such a metric.
    pub(crate) fn record(&mut self, id: u32, value: u64) -> bool {
        let metric = self.0.get_mut(id as usize);
        metric.map(|metric| metric.value = value).is_some()
    }

    /// Changes the value; `Some(false)`: this one cannot be changed so, `None`: there is none.
    pub(crate) fn increment(&mut self, id: u32, by: i64) -> Option<bool> {
        let metric = self.0.get_mut(id as usize)?;
        if metric.kind == Kind::Histogram || (metric.kind == Kind::Counter && by < 0) {
            return Some(false);
        }
        metric.value = metric.value.saturating_add_signed(by);
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_only_over_the_version_that_was_read() {
        let mut values = Values::default();
        assert_eq!(values.set(b"k".to_vec(), b"1".to_vec(), 0), Ok(()));
        let (_, version) = *values.get(b"k").unwrap();
        assert_eq!(values.set(b"k".to_vec(), b"2".to_vec(), version), Ok(()));
        assert_eq!(values.set(b"k".to_vec(), b"3".to_vec(), version), Err(Unkept::Mismatch));
        assert_eq!(values.get(b"k").unwrap().0, b"2");
        assert_eq!(values.set(b"new".to_vec(), Vec::new(), 7), Err(Unkept::Mismatch));
    }

    #[test]
    fn values_and_metrics_are_bounded() {
        let mut values = Values::default();
        assert_eq!(values.set(b"k".to_vec(), vec![0; VALUE + 1], 0), Err(Unkept::Full));
        let fits =
            (0..KEYS).take_while(|at| values.set(at.to_le_bytes().to_vec(), vec![0; VALUE], 0).is_ok());
        assert_eq!(fits.count(), BYTES / (VALUE + 8));
        let mut metrics = Metrics::default();
        assert_eq!(metrics.define(Kind::Counter, vec![b'a'; NAME + 1]), None);
        let defined =
            (0..METRICS + 9).filter_map(|at| metrics.define(Kind::Gauge, at.to_le_bytes().to_vec()));
        assert_eq!(defined.count(), METRICS);
        assert_eq!(metrics.define(Kind::Gauge, 0_usize.to_le_bytes().to_vec()), Some(0));
    }

    #[test]
    fn a_counter_only_grows() {
        let mut metrics = Metrics::default();
        let counter = metrics.define(Kind::Counter, b"c".to_vec()).unwrap();
        assert_eq!(
            (metrics.increment(counter, 3), metrics.increment(counter, -1)),
            (Some(true), Some(false))
        );
        assert_eq!((metrics.get(counter), metrics.increment(9, 1)), (Some(3), None));
    }
}
