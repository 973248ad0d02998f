//! Free texts that were probably meant to be a word with a meaning of its own.

use super::Subject;
use crate::diagnose::{Problems, SpecError, nearest};
use crate::spec::Spanned;

/// Methods that people mean.
const METHODS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PURGE", "PROPFIND",
    "REPORT",
];
/// Methods that are near one of those, and real (the IANA registry).
const REAL: &[&str] =
    &["PRI", "BIND", "COPY", "LINK", "LOCK", "MOVE", "ACL", "SEARCH", "UNBIND", "UNLINK", "LABEL"];

pub(super) fn word_misspelt(subject: &Subject<'_>, problems: &mut Problems) {
    for (_, service) in &subject.spec.services.0 {
        // A host of one label is rare enough to ask.
        if let Some(host) = service.host.as_ref().filter(|host| !host.contains(['.', ':'])) {
            near(host, &["keep", "endpoint"], "it is sent as the host of every request", problems);
        }
        let method = service.health.as_ref().and_then(|health| health.value.method.as_ref());
        method.into_iter().for_each(|method| self::method(method, problems));
    }
    for route in &subject.spec.routes.items {
        route.r#match.methods.items.iter().for_each(|method| self::method(method, problems));
    }
    let log = subject.spec.access_log.as_ref().and_then(|log| log.path.as_ref());
    if let Some(path) = log.filter(|path| !path.contains('/')) {
        near(path, &["stdout", "stderr"], "it is the name of a file", problems);
    }
}

fn method(method: &Spanned<String>, problems: &mut Problems) {
    if !REAL.contains(&method.as_str()) {
        near(method, METHODS, "it is a method of its own", problems);
    }
}

fn near(text: &Spanned<String>, words: &[&str], otherwise: &str, problems: &mut Problems) {
    if words.contains(&text.as_str()) || text.span.filled {
        return;
    }
    if let Some(word) = nearest(text, words.iter().copied()) {
        let message = format!("`{}` looks like `{word}`: as written, {otherwise}", text.value);
        let warning = SpecError::warning("word_misspelt", text.span, message);
        problems.push(warning.help(format!("did you mean `{word}`?")));
    }
}
