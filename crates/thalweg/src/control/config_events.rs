//! What is said of configurations: to the operator, in events, and beside what has changed.

use super::history::Cause;
use super::origin::Origin;
use std::time::SystemTime;
use thalweg_admin::{Author, ConfigOrigin, ConfigOutcome, Refusal, Via};
use thalweg_core::{Event, EventKind};

/// Lines of a long text that are written to the log: at its beginning and at its end.
const FIRST: usize = 20;
const LAST: usize = 10;

/// What is said of a configuration that has taken over.
pub(super) fn said(origin: &Origin, cause: &Cause, outcome: &ConfigOutcome) -> String {
    let (name, Author { via, uid, peer }) = (origin.name(), &cause.by);
    let who = match (via, uid, peer) {
        (Via::Process, ..) => String::new(),
        (Via::Socket, Some(uid), _) => format!(" by uid {uid} on the socket"),
        (_, _, Some(peer)) => format!(" by {peer}"),
        (Via::Socket | Via::Token, ..) => " through the admin API".into(),
    };
    let what = match cause.origin {
        ConfigOrigin::Start => format!("started with {name}"),
        ConfigOrigin::Signal | ConfigOrigin::File => format!("reloaded {name}"),
        ConfigOrigin::Reload => format!("{name} was read again{who}"),
        ConfigOrigin::Put if cause.ephemeral => {
            format!("the configuration was replaced{who}, the file was not")
        }
        ConfigOrigin::Put => format!("{name} was replaced{who}"),
        ConfigOrigin::Rollback => format!("an earlier configuration was brought back{who}"),
        ConfigOrigin::Source => "documents of sources took over".into(),
        ConfigOrigin::Watch => "the configuration before was brought back".into(),
    };
    let count = outcome.changes.len();
    let changes = if count == 1 { "1 change".to_owned() } else { format!("{count} changes") };
    format!("{what}: {changes}, generation {}", outcome.generation)
}

/// What has changed, for the log: of a long text the beginning, and the end, where it says what waits for a restart.
/// Whoever asked for the change gets all of it.
pub(super) fn in_short(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let Some(left_out) = lines.len().checked_sub(FIRST + LAST + 1).filter(|more| *more > 0) else {
        return lines.join("\n");
    };
    let middle = format!("… {} more lines; `thalweg plan` tells them all before a reload …", left_out + 1);
    let (first, last) = (&lines[..FIRST], &lines[lines.len() - LAST..]);
    [first, &[&*middle], last].concat().join("\n")
}

/// An event about the configuration.
pub(super) fn event(kind: EventKind, cause: String) -> Event {
    Event { at: SystemTime::now(), kind, service: None, endpoint: None, cause, endpoints: Default::default() }
}

/// A refusal for the event that tells of it.
pub(super) fn in_a_sentence(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Mistakes(_) => "the configuration has mistakes".into(),
        Refusal::Forbidden { keys } => format!("only the file on disk may introduce {}", keys.join(", ")),
        Refusal::Unknown(what) | Refusal::Duplicate(what) | Refusal::Conflict(what) => what.clone(),
        Refusal::Unprotected { detail, .. } | Refusal::Barred { detail, .. } => detail.clone(),
        Refusal::Unavailable(why) => why.clone(),
        Refusal::Invalid { field, detail, .. } => format!("{field}: {detail}"),
        Refusal::Stale { .. } | Refusal::StaleConfig { .. } => "somebody else was faster".into(),
    }
}

/// Adds a sentence to an outcome.
pub(super) fn add_note(outcome: &mut ConfigOutcome, note: String) {
    outcome.text.push_str(&format!("{note}\n"));
    outcome.notes.push(note);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        (0..count).map(|line| format!("line {line}\n")).collect()
    }

    #[test]
    fn a_short_text_is_told_whole() {
        for count in [0, 1, FIRST + LAST, FIRST + LAST + 1] {
            assert_eq!(in_short(&lines(count)), lines(count).trim_end());
        }
    }

    #[test]
    fn of_a_long_text_beginning_and_end_are_told_and_how_much_is_between() {
        let told = in_short(&lines(10_000));
        assert_eq!(told.lines().count(), FIRST + LAST + 1);
        assert!(told.starts_with("line 0\n") && told.ends_with("\nline 9999"), "{told}");
        assert!(told.contains(&format!("… {} more lines; ", 10_000 - FIRST - LAST)), "{told}");
    }
}
