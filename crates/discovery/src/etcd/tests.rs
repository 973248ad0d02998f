//! What etcd says, and what is made of it.

use super::gateway::{Beat, Line, Trouble, understood};
use super::{Ends, Known, Position};
use crate::kept::{Document, Kept, document};

const KEY: &str = "L3MvYQ=="; // /s/a

fn line(text: &str) -> Result<Line, Trouble> {
    understood(text.as_bytes(), "/s/")
}

#[test]
fn lines_of_a_watch_are_read_as_etcd_writes_them() {
    let head = r#""header":{"cluster_id":"7","member_id":"3","revision":"4","raft_term":"2"}"#;
    let created = line(&format!(r#"{{"result":{{{head},"created":true}}}}"#));
    assert!(matches!(created, Ok(Line::Created(7))), "{created:?}");
    let changed = line(&format!(
        r#"{{"result":{{{head},"events":[{{"kv":{{"key":"{KEY}","mod_revision":"3","value":"eA=="}}}},
            {{"type":"DELETE","kv":{{"key":"{KEY}","mod_revision":"4"}}}}]}}}}"#
    ));
    let Ok(Line::Changes(changes)) = changed else { panic!("{changed:?}") };
    assert_eq!(changes.iter().map(|change| change.revision).collect::<Vec<_>>(), [3, 4]);
    let mut kept = Kept::<Document>::new(document);
    changes[0].apply(&mut kept).unwrap();
    assert_eq!(kept.count(), 1);
    changes[1].apply(&mut kept).unwrap();
    assert_eq!(kept.count(), 0);
    assert!(matches!(line(&format!(r#"{{"result":{{{head}}}}}"#)), Ok(Line::Progress(4))));
    let compacted = r#"{"result":{"header":{"cluster_id":"7"},"canceled":true,"compact_revision":"3"}}"#;
    assert!(matches!(line(compacted), Ok(Line::Compacted)));
}

#[test]
fn a_watch_that_etcd_ends_or_that_makes_no_sense_is_a_failure() {
    let header = r#""header":{"cluster_id":"7","revision":"4"}"#;
    for (text, part) in [
        (r#"{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}"#.to_owned(), "no leader"),
        (r#"{"error":"etcdserver: no leader","code":14}"#.to_owned(), "no leader"),
        (
            r#"{"result":{"canceled":true,"cancel_reason":"permission denied"}}"#.to_owned(),
            "permission denied",
        ),
        ("{".to_owned(), "it ends too early"),
        ("[]".to_owned(), "no `header`"),
        (
            format!(r#"{{"result":{{{header},"events":[{{"kv":{{"key":"*","mod_revision":"1"}}}}]}}}}"#),
            "Base64",
        ),
        (format!(r#"{{"result":{{{header},"events":[{{"kv":{{"key":"{KEY}"}}}}]}}}}"#), "no revision"),
        (
            format!(r#"{{"result":{{{header},"events":[{{"type":"X","kv":{{"key":"{KEY}"}}}}]}}}}"#),
            "no known kind",
        ),
        (
            format!(r#"{{"result":{{{header},"events":[{{"kv":{{"key":"eA==","mod_revision":"1"}}}}]}}}}"#),
            "not asked for",
        ),
    ] {
        match line(&text) {
            Err(Trouble::Failed(why)) => assert!(why.contains(part), "{why}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

fn known(revision: i64, keys: &[&str]) -> Known<Document> {
    let mut kept = Kept::new(document);
    for key in keys {
        kept.put(key, b"").unwrap();
    }
    Known { kept, at: Position { revision, cluster: 7 }, floor: revision, doubt: None }
}

#[test]
fn a_beat_shows_whether_the_watch_has_told_of_everything() {
    let beat = |revision, count, newest| Beat { cluster: 7, revision, count, newest };
    let mut all = known(10, &["a", "b"]);
    assert_eq!(all.take_beat(&beat(20, 2, 10)), None);
    assert_eq!(all.at.revision, 20, "a watch that breaks goes on there");
    // A change is on its way; then it has come, and the next is on its way.
    assert_eq!(all.take_beat(&beat(21, 2, 21)), None);
    all.at.revision = 21;
    assert_eq!(all.take_beat(&beat(22, 3, 22)), None);
    assert_eq!(all.take_beat(&beat(23, 3, 22)), Some(Ends::Anew), "nothing came");
    // A key is gone, and the watch does not say so.
    let mut all = known(10, &["a", "b"]);
    assert_eq!(all.take_beat(&beat(23, 1, 10)), None);
    assert_eq!(all.take_beat(&beat(24, 1, 10)), Some(Ends::Anew));
    // Restored from a backup; another cluster.
    assert_eq!(known(10, &["a"]).take_beat(&beat(9, 1, 9)), Some(Ends::Anew));
    assert_eq!(known(10, &["a"]).take_beat(&Beat { cluster: 8, ..beat(20, 1, 10) }), Some(Ends::Anew));
}

#[test]
fn a_watch_of_another_cluster_or_from_too_early_is_begun_anew() {
    let mut all = known(10, &["a"]);
    assert_eq!(all.take_line(Line::Created(7)), Ok((None, false)));
    assert_eq!(all.take_line(Line::Created(8)), Ok((Some(Ends::Anew), false)));
    assert_eq!(all.take_line(Line::Compacted), Ok((Some(Ends::Anew), false)));
    assert_eq!(all.take_line(Line::End), Ok((Some(Ends::Broken), false)));
    assert_eq!(all.take_line(Line::Progress(12)), Ok((None, false)));
    assert_eq!(all.at.revision, 12);
}
