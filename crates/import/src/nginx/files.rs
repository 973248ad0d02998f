//! Files of a location: `root`, `alias`, `try_files` and pages of errors.

use super::Importer;
use super::content::Content;
use super::level::{Action, Level};
use super::matching::{Kind, Pattern, plain};
use super::variables::{Scope, is_constant};
use crate::Grade;
use crate::yaml::{Map, one, one_or_many};

impl Importer<'_> {
    pub(super) fn files(&mut self, level: &Level, pattern: &Pattern, content: &mut Content) {
        let settings = &level.settings;
        let alias = settings.alias.as_deref();
        let Some(root) = alias.or(settings.root.as_deref()).filter(|root| is_constant(root)) else {
            content.filters.push(one("respond", 404_u16));
            return;
        };
        if alias.is_some() && matches!(pattern.kind, Kind::Prefix(_)) {
            content.filters.push(one("strip_prefix", plain(pattern.path.trim_end_matches('/'))));
            content.filters.push(one("map_back", false));
        }
        let mut files = one("root", root);
        if !settings.index.is_empty() {
            let names: Vec<String> = settings
                .index
                .iter()
                .filter(|name| !name.contains('/') && is_constant(name))
                .cloned()
                .collect();
            files.put("index", one_or_many(names));
        }
        if settings.autoindex {
            files.put("listing", true);
        }
        files.put("hidden", true);
        files.put("charset", "");
        self.tries(level, &mut files, content);
        content.filters.push(one("files", files));
    }

    fn tries(&mut self, level: &Level, files: &mut Map, content: &mut Content) {
        let Some(tries) = &level.try_files else { return };
        let Some((last, first)) = tries.split_last() else { return };
        let mut places: Vec<String> = Vec::new();
        for place in first.iter().filter(|place| place.as_str() != "$uri/") {
            places.push(place.replace("$uri", "{path}"));
        }
        if places.is_empty() {
            places.push("{path}".to_owned());
        }
        if let Some(name) = last.strip_prefix('@') {
            let named = self.named.iter().find(|(known, _)| known == name).map(|(_, level)| level.clone());
            if let Some(Action::Pass(url)) = named.as_ref().and_then(|level| level.action.clone()) {
                files.put("fall_through", true);
                let root = Pattern { kind: Kind::Prefix(false), path: "/".to_owned() };
                let level = named.unwrap_or_default();
                self.pass(&url, &level, (&root, &Scope::default()), content);
            }
        } else if last.starts_with('=') {
            places.push(last.clone());
        } else if !last.contains(".php") {
            let path = last.split(['?', '$']).next().unwrap_or_default();
            places.push(if path.is_empty() { "{path}".to_owned() } else { path.to_owned() });
        }
        if places != ["{path}"] {
            files.put("try_files", places);
        }
    }

    pub(super) fn error_pages(&mut self, level: &Level) -> Option<Map> {
        let mut pages = Map::default();
        for (statuses, target) in &level.settings.error_pages {
            let Some(root) = self.root_of(level, target) else { continue };
            let file = format!("{root}{target}");
            if let Err(error) = self.files.read(&file) {
                let about = format!("the page is left out: {error}");
                self.report.note(&level.place, format!("error_page {target}"), Grade::Lost, about, "errors");
                continue;
            }
            for status in statuses {
                pages.put(status.to_string(), one("html", one("file", file.as_str())));
            }
        }
        if pages.is_empty() {
            return None;
        }
        let mut map = one("pages", pages);
        if level.settings.intercept {
            map.put("upstream", true);
        }
        Some(one("error_pages", map))
    }

    /// The root of the location that serves a page.
    fn root_of(&self, level: &Level, target: &str) -> Option<String> {
        let exact = self.page_roots.iter().find(|(path, _)| path == target).map(|(_, root)| root.clone());
        exact.or_else(|| level.settings.root.clone())
    }
}
