//! What `check` looks at beyond the file: the machine that it runs on.
//!
//! Each check is one file and one line of the list; each takes a bounded time and changes nothing. What keeps `run`
//! from starting on this machine, whoever starts it, is an error; what depends on the time or on the user who starts it
//! is a warning. Checks of the file alone belong to `thalweg_config`.

mod addresses;
mod budget;
mod exposed;
mod files;
mod names;
mod owner;
mod user;

use thalweg_config::span_index::Places;
use thalweg_config::{Loaded, Span, SpecError};

/// A configuration that can run, and where things stand in it.
pub(crate) struct Subject<'a> {
    pub(crate) loaded: &'a Loaded,
    pub(crate) places: &'a Places,
}

macro_rules! checks {
    ($( $name:ident $summary:literal; )*) => {
        const CHECKS: &[fn(&Subject<'_>) -> Vec<SpecError>] = &[ $( $name::check ),* ];

        /// The words of these warnings and what each of them says. These words stay.
        #[cfg(test)]
        const WARNINGS: &[(&str, &str)] = &[ $( (stringify!($name), $summary) ),* ];
    };
}

checks! {
    addresses "an address that is taken by another program, or that this user or this machine cannot use";
    user "a user or group that does not exist here, or that the proxy cannot become";
    files "a file or directory that cannot be written";
    exposed "a state directory, an admin token, or with `user` a configuration, that other users can write";
    budget "bounds that the descriptors or the memory of this machine do not admit";
    names "a host name of an endpoint that does not resolve";
}

/// Runs every check, in the order of the list.
pub(crate) fn look_around(loaded: &Loaded) -> Vec<SpecError> {
    let subject = Subject { loaded, places: &loaded.places };
    CHECKS.iter().flat_map(|check| check(&subject)).collect()
}

/// A place, or the beginning of the file where something is used without being written.
fn place(span: Option<Span>) -> Span {
    span.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_warning_is_in_the_guide() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/check.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        for (code, summary) in super::WARNINGS {
            let row = format!("| `{code}` | {summary} |");
            assert!(guide.contains(&row), "docs/guide/check.md lacks the row\n{row}");
        }
    }
}
