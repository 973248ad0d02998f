//! What is said of an endpoint beside its address, such as the zone that it is in.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most labels of one endpoint.
pub const LABELS: usize = 64;
/// The longest name or value of a label, in bytes.
pub const LABEL: usize = 256;

/// Names and values. At most [`LABELS`], of at most [`LABEL`] bytes each: what is more is left out. Clones share.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Labels(Option<Arc<BTreeMap<Box<str>, Box<str>>>>);

impl Labels {
    /// The label that says in which zone (data centre, availability zone) an endpoint is.
    pub const ZONE: &str = "zone";
    /// The label that says which version of the service an endpoint runs.
    pub const VERSION: &str = "version";

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.as_ref().and_then(|labels| labels.get(name)).map(|value| &**value)
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|labels| labels.iter()).map(|(name, value)| (&**name, &**value))
    }

    /// Whether each of the `wanted` is there with the same value.
    pub fn contain(&self, wanted: &Self) -> bool {
        wanted.iter().all(|(name, value)| self.get(name) == Some(value))
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(labels: I) -> Self {
        let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
        let fit = |(name, value): &(Box<str>, Box<str>)| {
            !name.is_empty() && name.len() <= LABEL && value.len() <= LABEL
        };
        let labels: BTreeMap<_, _> = labels.filter(fit).take(LABELS).collect();
        Self((!labels.is_empty()).then(|| Arc::new(labels)))
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_left_out() {
        let many = (0..LABELS + 5).map(|n| (format!("n{n:03}"), "v"));
        assert_eq!(many.collect::<Labels>().iter().count(), LABELS);
        let long = "x".repeat(LABEL + 1);
        let labels: Labels =
            [("zone", "a"), ("long", long.as_str()), (&long, "b"), ("", "c")].into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("zone", "a")]);
    }

    #[test]
    fn a_subset_is_chosen_by_all_that_is_wanted() {
        let labels: Labels = [("zone", "a"), ("version", "2")].into_iter().collect();
        assert!(labels.contain(&Labels::default()));
        assert!(labels.contain(&[("version", "2")].into_iter().collect()));
        assert!(!labels.contain(&[("version", "2"), ("zone", "b")].into_iter().collect()));
        assert!(Labels::default().is_empty() && labels.get("else").is_none());
    }
}
