//! Objects of one kind: listed in pieces, then watched from the version of the list on.
//!
//! As "Efficient detection of changes" in Kubernetes' API concepts says: a watch goes on where the last one ended
//! (`resourceVersion`; bookmarks move it on while nothing changes), and when the server has forgotten that version
//! (410 Gone) all is listed again. A watch is asked to end after a time (`timeoutSeconds`), and a server sends a
//! bookmark just before that: so that it is known at least that often that the server is there.

use super::api::{Api, Failure, KubeStatusSpec};
use super::objects::{KubeMetadataSpec, Resource};
use crate::flaw;
use crate::http_servers::encoded;
use serde::Deserialize;
use std::borrow::Cow;
use std::time::{Duration, Instant};
use thalweg_client::{BodyStream, ClientError};

/// The most objects in one answer.
const PIECE: usize = 100;
/// The most objects of one kind, counted by [`Resource::size`].
pub(super) const MOST: usize = 500_000;
/// Longest line of a watch, in bytes: Kubernetes keeps no object of more than 1.5 MiB.
const LINE: usize = 4 * 1024 * 1024;
/// A watch that ends sooner is not one that works.
const SHORT: Duration = Duration::from_millis(500);
/// How often in a row a list may be too old for a watch at once, or a piece too old for the next.
const STALE: usize = 8;

/// What is watched.
pub(super) struct Scope<'a> {
    pub(super) namespace: &'a str,
    /// `labelSelector=…` or `fieldSelector=…`, encoded; or empty.
    pub(super) selector: &'a str,
    /// How long one watch lasts.
    pub(super) wait: Duration,
    /// How long it may take beyond that.
    pub(super) grace: Duration,
}

/// What has become of the objects.
#[derive(Debug)]
pub(super) enum News<R> {
    /// All there are.
    All(Vec<R>),
    /// In their order; none is a sign of life.
    Changes(Vec<Change<R>>),
}

#[derive(Debug)]
pub(super) enum Change<R> {
    Is(R),
    Gone(R),
}

/// Tells of all objects, then of every change, until it fails; then why, in a sentence.
pub(super) async fn follow<R: Resource>(
    api: &Api,
    scope: Scope<'_>,
    tell: impl Fn(News<R>) + Send + Sync,
) -> String {
    let mut stale = 0;
    loop {
        let (objects, mut version) = match list::<R>(api, &scope).await {
            Ok(list) => list,
            Err(why) => return why,
        };
        tell(News::All(objects));
        let begun = Instant::now();
        match watch(api, &scope, &mut version, &tell).await {
            Failure::Other(why) => return why,
            Failure::Gone if begun.elapsed() > SHORT => stale = 0,
            Failure::Gone => stale += 1,
        }
        if stale == STALE {
            return format!("{}: the server takes its own lists of {} for too old", api.place(), R::PLURAL);
        }
    }
}

fn target<R: Resource>(scope: &Scope<'_>) -> String {
    format!("{}/namespaces/{}/{}?{}", R::GROUP, encoded(scope.namespace), R::PLURAL, scope.selector)
}

#[derive(Deserialize)]
struct KubeListSpec<R> {
    metadata: KubeListMetadataSpec,
    #[serde(default = "Option::default")]
    items: Option<Vec<R>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KubeListMetadataSpec {
    resource_version: String,
    #[serde(rename = "continue", default)]
    rest: String,
}

/// All objects, and their version. The newest: the answer to a question for any (`resourceVersion=0`) may be older than
/// what is known.
async fn list<R: Resource>(api: &Api, scope: &Scope<'_>) -> Result<(Vec<R>, String), String> {
    for _ in 0..STALE {
        let (mut all, mut size, mut rest) = (Vec::new(), 0, String::new());
        loop {
            let piece = format!("{}&limit={PIECE}&continue={}", target::<R>(scope), encoded(&rest));
            let body = match api.get(&piece).await {
                Ok(body) => body,
                // The list that has been begun is too old to be gone on with.
                Err(Failure::Gone) => break,
                Err(Failure::Other(why)) => return Err(why),
            };
            let unreadable = |error| {
                format!("{}: the answer is no list of {}: {}", api.place(), R::PLURAL, flaw::json(&error))
            };
            let list: KubeListSpec<R> = serde_json::from_slice(&body).map_err(unreadable)?;
            let items = list.items.unwrap_or_default();
            size += items.iter().map(Resource::size).sum::<usize>();
            if size > MOST {
                return Err(format!("{}: the {} of the namespace are too many", api.place(), R::PLURAL));
            }
            all.extend(items);
            rest = list.metadata.rest;
            if rest.is_empty() {
                return Ok((all, list.metadata.resource_version));
            }
        }
    }
    Err(format!("{}: the list of {} changes faster than it can be read", api.place(), R::PLURAL))
}

/// Watches from `version` on, as often as it takes, and moves it on.
async fn watch<R: Resource>(
    api: &Api,
    scope: &Scope<'_>,
    version: &mut String,
    tell: &(impl Fn(News<R>) + Send + Sync),
) -> Failure {
    loop {
        let target = format!(
            "{}&watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
            target::<R>(scope),
            encoded(version),
            scope.wait.as_secs()
        );
        let begun = Instant::now();
        let body = match api.stream(&target, scope.wait + scope.grace).await {
            Ok(body) => body,
            Err(failure) => return failure,
        };
        let mut lines = Lines { body, rest: Vec::new() };
        let end = loop {
            match lines.next().await {
                Ok(Some(whole)) => match changes(&whole, version) {
                    Ok(changes) => tell(News::Changes(changes)),
                    Err(Failure::Other(why)) => return Failure::Other(format!("{}: {why}", api.place())),
                    Err(Failure::Gone) => return Failure::Gone,
                },
                Ok(None) => break "the server ends watches at once".to_owned(),
                Err(why @ ClientError::Time(_)) => return Failure::Other(format!("{}: {why}", api.place())),
                Err(why) => break why.to_string(),
            }
        };
        // One that has broken off is gone on with, too: mostly one of several servers behind an address has ended.
        if begun.elapsed() < SHORT {
            return Failure::Other(format!("{}: {end}", api.place()));
        }
    }
}

/// A body in whole lines.
struct Lines {
    body: BodyStream,
    rest: Vec<u8>,
}

impl Lines {
    /// Lines that have come, at least one; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            let Some(piece) = self.body.next().await? else { return Ok(None) };
            let begun = self.rest.len();
            self.rest.extend_from_slice(&piece);
            if let Some(end) = self.rest[begun..].iter().rposition(|byte| *byte == b'\n') {
                let rest = self.rest.split_off(begun + end + 1);
                return Ok(Some(std::mem::replace(&mut self.rest, rest)));
            }
            if self.rest.len() > LINE {
                return Err(ClientError::TooLarge(LINE));
            }
        }
    }
}

#[derive(Deserialize)]
struct KubeEventKindSpec<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct KubeEventObjectSpec<T> {
    object: T,
}

#[derive(Deserialize)]
struct KubeBookmarkSpec {
    metadata: KubeMetadataSpec,
}

/// The changes in lines of a watch.
fn changes<R: Resource>(lines: &[u8], version: &mut String) -> Result<Vec<Change<R>>, Failure> {
    fn read<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Failure> {
        let unreadable =
            |error| Failure::Other(format!("the watch says what is no event: {}", flaw::json(&error)));
        serde_json::from_slice(line).map_err(unreadable)
    }
    let mut changes = Vec::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let kind = read::<KubeEventKindSpec<'_>>(line)?.kind;
        let change = match &*kind {
            "ADDED" | "MODIFIED" => Change::Is(read::<KubeEventObjectSpec<R>>(line)?.object),
            "DELETED" => Change::Gone(read::<KubeEventObjectSpec<R>>(line)?.object),
            "BOOKMARK" => {
                *version =
                    read::<KubeEventObjectSpec<KubeBookmarkSpec>>(line)?.object.metadata.resource_version;
                continue;
            }
            "ERROR" => {
                let status = read::<KubeEventObjectSpec<KubeStatusSpec>>(line)?.object;
                return Err(Failure::of(status.code, "the watch ends with"));
            }
            _ => {
                return Err(Failure::Other(
                    "the watch says what is no event: its type is unknown".to_owned(),
                ));
            }
        };
        let (Change::Is(object) | Change::Gone(object)) = &change;
        version.clone_from(&object.metadata().resource_version);
        changes.push(change);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::super::objects::KubeServiceSpec;
    use super::*;

    fn names(lines: &str, version: &mut String) -> Result<Vec<String>, Failure> {
        let changes = changes::<KubeServiceSpec>(lines.as_bytes(), version)?;
        let name = |change| match change {
            Change::Is(object) => format!("is {}", KubeServiceSpec::metadata(&object).name),
            Change::Gone(object) => format!("gone {}", KubeServiceSpec::metadata(&object).name),
        };
        Ok(changes.into_iter().map(name).collect())
    }

    #[test]
    fn events_and_bookmarks_move_the_version_on() {
        let mut version = "5".to_owned();
        let lines = r#"{"type":"ADDED","object":{"kind":"Service","metadata":{"name":"a","resourceVersion":"6"},"spec":{}}}
{"type":"DELETED","object":{"metadata":{"name":"b","resourceVersion":"9"}}}
"#;
        assert_eq!(names(lines, &mut version).unwrap(), ["is a", "gone b"]);
        assert_eq!(version, "9");
        let bookmark =
            r#"{"object":{"kind":"Service","metadata":{"resourceVersion":"12"}},"type":"BOOKMARK"}"#;
        assert_eq!(names(bookmark, &mut version).unwrap(), Vec::<String>::new());
        assert_eq!(version, "12");
    }

    #[test]
    fn a_version_that_is_forgotten_is_no_failure_and_other_errors_are() {
        let mut version = "5".to_owned();
        let error = |code| {
            format!(
                r#"{{"type":"ERROR","object":{{"kind":"KubeStatusSpec","code":{code},"message":"too\nold"}}}}"#
            )
        };
        assert!(matches!(names(&error(410), &mut version), Err(Failure::Gone)));
        match names(&error(500), &mut version) {
            Err(Failure::Other(why)) => assert_eq!(why, "the watch ends with 500"),
            other => panic!("{other:?}"),
        }
        for bad in ["{", "[]", r#"{"type":"NEW","object":{}}"#, r#"{"type":"ADDED","object":3}"#] {
            assert!(matches!(names(bad, &mut version), Err(Failure::Other(_))), "{bad}");
        }
        assert_eq!(version, "5");
    }
}
