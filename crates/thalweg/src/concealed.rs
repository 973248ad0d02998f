//! Values of variables and secrets that neither the operator's log nor the admin API shows.
//!
//! Plans say which values these are ([`Concealed`]). URLs that the process itself asks (registries, lists, keys) may
//! hold them in their paths, and failures quote these URLs: every line of the log, every event and every status of a
//! source passes [`hide`]. The values of the plan before are hidden, too: what it began may still fail.

use std::sync::{PoisonError, RwLock};
use thalweg_core::Concealed;

static VALUES: RwLock<Option<Values>> = RwLock::new(None);

/// The values of the running plan and of the one before.
#[derive(Debug)]
struct Values {
    now: Concealed,
    both: Concealed,
}

/// From now on these values are hidden, and those of the plan that runs.
pub(crate) fn conceal(values: &Concealed) {
    let mut known = VALUES.write().unwrap_or_else(PoisonError::into_inner);
    let both = match &*known {
        Some(known) if known.now == *values => return,
        Some(known) => known.now.with(values),
        None => values.clone(),
    };
    *known = Some(Values { now: values.clone(), both });
}

/// The text with `<redacted>` in the place of each value.
pub(crate) fn hide(text: &str) -> String {
    let known = VALUES.read().unwrap_or_else(PoisonError::into_inner);
    known.as_ref().map_or_else(|| text.to_owned(), |known| known.both.hide(text).into_owned())
}

/// The texts of a status without the values.
pub(crate) fn hide_all<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    texts.into_iter().for_each(|text| *text = hide(text));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use thalweg_core::ConcealedValue;

    /// A value that tests hide in this process.
    pub(crate) const HIDDEN: &str = "hunter2-of-a-variable";

    /// Conceals [`HIDDEN`]. Tests run together: all conceal the same.
    pub(crate) fn conceal_it() {
        let value = ConcealedValue { text: HIDDEN.into(), is_secret: false };
        conceal(&Concealed::new([value]));
    }

    #[test]
    fn a_value_is_hidden_wherever_it_stands() {
        conceal_it();
        let url = format!("source eureka of http://a/eureka/{HIDDEN} fails");
        assert_eq!(hide(&url), "source eureka of http://a/eureka/<redacted> fails");
        let mut texts = [url, "as it is".to_owned()];
        hide_all(&mut texts);
        assert_eq!(texts, ["source eureka of http://a/eureka/<redacted> fails", "as it is"]);
    }
}
