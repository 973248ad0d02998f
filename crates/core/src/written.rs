//! Values of the plan as a configuration writes them: helpers for `#[serde(serialize_with = …)]`.
//!
//! Plan types derive `Serialize` with these, so that `plan`, `explain` and the admin API show and compare every field
//! without code of its own. A secret becomes a fingerprint with a key of this process: two of them can be compared,
//! and one says nothing.

use crate::units::{duration_text, size_text};
use serde::{Serialize, Serializer};
use std::fmt::Display;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The key of [`Hidden`] in what is serialised.
pub const HIDDEN: &str = "$hidden";
/// The key of what [`Partly`] shows.
pub const SHOWN: &str = "$shown";

/// A value that is compared and never shown.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Hidden {
    #[serde(rename = "$hidden")]
    fingerprint: String,
}

impl Hidden {
    /// In the place of this value.
    pub fn of(value: &(impl Hash + ?Sized)) -> Self {
        static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
        let keys = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
        let parts = keys.each_ref().map(|key| format!("{:016x}", key.hash_one(value)));
        Self { fingerprint: parts.concat() }
    }
}

/// A value of which a part is shown, and the whole is compared.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Partly {
    #[serde(rename = "$shown")]
    shown: String,
    #[serde(flatten)]
    whole: Hidden,
}

impl Partly {
    /// What is shown, and what is compared.
    pub fn of(shown: impl Display, whole: &(impl Hash + ?Sized)) -> Self {
        Self { shown: shown.to_string(), whole: Hidden::of(whole) }
    }
}

/// A value that may be absent.
pub trait Maybe<T> {
    /// The value.
    fn value(&self) -> Option<&T>;
}

impl<T> Maybe<T> for T {
    fn value(&self) -> Option<&T> {
        Some(self)
    }
}

impl<T> Maybe<T> for Option<T> {
    fn value(&self) -> Option<&T> {
        self.as_ref()
    }
}

type Done<S> = Result<<S as Serializer>::Ok, <S as Serializer>::Error>;

/// `1m30s`
///
/// # Errors
/// Those of the serializer.
pub fn duration<S: Serializer>(value: &impl Maybe<Duration>, serializer: S) -> Done<S> {
    value.value().map(|value| duration_text(*value)).serialize(serializer)
}

/// `20%`
///
/// # Errors
/// Those of the serializer.
pub fn percent<S: Serializer>(value: &impl Maybe<u32>, serializer: S) -> Done<S> {
    value.value().map(|value| format!("{value}%")).serialize(serializer)
}

/// `64KiB`
///
/// # Errors
/// Those of the serializer.
pub fn size<S: Serializer>(value: &impl Maybe<u64>, serializer: S) -> Done<S> {
    value.value().map(|value| size_text(*value)).serialize(serializer)
}

/// `64KiB`, of what is held in memory.
///
/// # Errors
/// Those of the serializer.
pub fn size_of_memory<S: Serializer>(value: &usize, serializer: S) -> Done<S> {
    size(&(*value as u64), serializer)
}

/// `64KiB`, or `auto`.
///
/// # Errors
/// Those of the serializer.
pub fn size_or_auto<S: Serializer>(value: &Option<u64>, serializer: S) -> Done<S> {
    or_auto(&value.map(size_text), serializer)
}

/// The value, or `auto`.
///
/// # Errors
/// Those of the serializer.
pub fn or_auto<T: Serialize, S: Serializer>(value: &Option<T>, serializer: S) -> Done<S> {
    match value {
        Some(value) => value.serialize(serializer),
        None => serializer.serialize_str("auto"),
    }
}

/// As it is displayed.
///
/// # Errors
/// Those of the serializer.
pub fn text<T: Display + ?Sized, S: Serializer>(value: &T, serializer: S) -> Done<S> {
    serializer.collect_str(value)
}

/// As it is displayed, or nothing.
///
/// # Errors
/// Those of the serializer.
pub fn maybe_text<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Done<S> {
    value.as_ref().map(T::to_string).serialize(serializer)
}

/// Each as it is displayed.
///
/// # Errors
/// Those of the serializer.
pub fn list<T: Display, S: Serializer>(values: &[T], serializer: S) -> Done<S> {
    serializer.collect_seq(values.iter().map(T::to_string))
}

/// What is behind a pointer.
///
/// # Errors
/// Those of the serializer.
pub fn shared<T: Serialize, S: Serializer>(value: &Option<Arc<T>>, serializer: S) -> Done<S> {
    value.as_deref().serialize(serializer)
}

/// Compared and never shown.
///
/// # Errors
/// Those of the serializer.
pub fn hidden<T: Hash + ?Sized, S: Serializer>(value: &T, serializer: S) -> Done<S> {
    Hidden::of(value).serialize(serializer)
}

/// Compared and never shown, where it is there.
///
/// # Errors
/// Those of the serializer.
pub fn maybe_hidden<T: Hash, S: Serializer>(value: &Option<T>, serializer: S) -> Done<S> {
    value.as_ref().map(Hidden::of).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_compared_by_a_fingerprint() {
        assert_eq!(Hidden::of("a"), Hidden::of("a"));
        assert_ne!(Hidden::of("a"), Hidden::of("b"));
        assert_ne!(Partly::of("x", "a"), Partly::of("x", "b"));
        assert!(!Hidden::of("hush").fingerprint.contains("hush"));
    }
}
