//! The file on disk where it is not the configuration that runs: what a change by API is compared with.
//!
//! A file with mistakes says nothing of its protections and secrets, so nothing is compared with another one instead.

use super::origin::Origin;
use thalweg_admin::{Refusal, Via};
use thalweg_config::{Loaded, check_text};

/// The configuration on disk; `None`: the one that runs, or there is none and the change comes from the admin socket.
///
/// # Errors
/// It has mistakes, and a token may change nothing until it has none.
pub(super) fn other_on_disk(origin: &Origin, on_disk: &str, via: Via) -> Result<Option<Loaded>, Refusal> {
    other((&origin.name(), &origin.text), on_disk, via)
}

fn other((name, running): (&str, &str), on_disk: &str, via: Via) -> Result<Option<Loaded>, Refusal> {
    if on_disk == running {
        return Ok(None);
    }
    match check_text(name, on_disk, &|name| std::env::var(name).ok()) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(_) if via == Via::Socket => Ok(None),
        Err(report) => {
            let first = report.errors.first();
            let place = first.map(|error| format!(" ({})", report.place(error.span))).unwrap_or_default();
            Err(Refusal::Conflict(format!(
                "the configuration on disk has mistakes{place}, so nothing can be compared with it; mend it first"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "listeners: { web: { address: ':8080' } }\nroutes: [ { filters: [ { respond: 204 } ] } ]\n";

    /// A change was compared with the configuration that runs, which may lack what the file on disk protects.
    #[test]
    fn a_token_changes_nothing_while_the_file_on_disk_has_a_mistake() {
        let of = |on_disk: &str, via| other(("t.yaml", TEXT), on_disk, via);
        let edited = TEXT.replace("204", "200");
        assert!(of(TEXT, Via::Token).unwrap().is_none());
        assert!(of(&edited, Via::Token).unwrap().is_some());
        for broken in ["routes: [", "routes: [ { no: key } ]"] {
            let refused = of(broken, Via::Token);
            assert!(
                matches!(&refused, Err(Refusal::Conflict(why)) if why.contains("has mistakes")),
                "{broken}"
            );
            assert!(of(broken, Via::Socket).unwrap().is_none(), "{broken}");
        }
    }
}
