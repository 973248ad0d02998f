//! `rewrite` that redirects, as locations of their own.

use super::Importer;
use super::level::{Action, Level};
use super::matching::{Kind, Pattern};
use super::server::Server;
use crate::Grade;

impl Importer<'_> {
    /// Rewrites of a server come before its locations.
    pub(super) fn rewrites(&mut self, server: &Server, locations: &mut Vec<(Pattern, Level)>) {
        for rewrite in &server.level.rewrites {
            let Some(status) = rewrite.redirect() else {
                let about = "only redirects are taken over here; requests that it fits are answered 501";
                let concerns = format!("paths that match {}", rewrite.regex.text);
                self.report.note(&rewrite.place, rewrite.text.as_str(), Grade::Lost, about, concerns);
                let mut level = server.level.child();
                level.action = Some(Action::Unsupported("a rewrite of the server".to_owned()));
                level.place = rewrite.place.clone();
                let kind = Kind::Before(rewrite.regex.clone());
                locations.push((Pattern { kind, path: String::new() }, level));
                continue;
            };
            let kind = Kind::Before(rewrite.regex.clone());
            let level = redirect_level(&server.level, rewrite, status);
            locations.push((Pattern { kind, path: String::new() }, level));
        }
    }

    /// A location, behind the redirects within it.
    pub(super) fn location_rewrites(
        &mut self,
        pattern: &Pattern,
        level: &Level,
        locations: &mut Vec<(Pattern, Level)>,
    ) {
        let mut level = level.clone();
        let (redirects, rest): (Vec<_>, Vec<_>) =
            level.rewrites.clone().into_iter().partition(|rewrite| rewrite.redirect().is_some());
        level.rewrites = rest;
        for rewrite in redirects {
            let status = rewrite.redirect().unwrap_or(302);
            if rewrite.takes_all() || matches!(pattern.kind, Kind::Exact) {
                let to = redirect_level(&level, &rewrite, status);
                if let Some(Action::Return(status, text)) = to.action {
                    level.action = Some(Action::Return(status, text));
                    level.place = rewrite.place.clone();
                }
                continue;
            }
            let about =
                "it is looked at for paths of this location, and only where its expression begins with them";
            let fits = pattern.path == "/" || rewrite.regex.prefix.starts_with(&pattern.path);
            if !fits {
                self.report.note(
                    &rewrite.place,
                    rewrite.text.as_str(),
                    Grade::Lost,
                    about,
                    "these redirects",
                );
                continue;
            }
            let kind = Kind::Regex(rewrite.regex.clone());
            locations.push((
                Pattern { kind, path: pattern.path.clone() },
                redirect_level(&level, &rewrite, status),
            ));
        }
        locations.push((pattern.clone(), level));
    }
}

/// What a redirect by `rewrite` comes to: it adds the query, unless its path ends in `?`.
fn redirect_level(level: &Level, rewrite: &super::level::Rewrite, status: u16) -> Level {
    let text = match rewrite.to.strip_suffix('?') {
        Some(bare) => bare.to_owned(),
        None => format!("{}$is_args$args", rewrite.to),
    };
    let mut redirect = level.child();
    redirect.action = Some(Action::Return(status, text));
    redirect.place = rewrite.place.clone();
    redirect
}
