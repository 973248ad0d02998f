//! The reference page of these words.

use super::words::WORDS;
use super::{Means, Place};
use std::fmt::Write as _;

impl Place {
    /// The place as a user would write it.
    fn title(self) -> &'static str {
        match self {
            Self::Top => "Top level",
            Self::Admin => "`admin`",
            Self::AccessLog => "`access_log`",
            Self::Listener => "`listeners.<name>`",
            Self::ListenerTls => "`listeners.<name>.tls`",
            Self::Route => "`routes[]`",
            Self::Match => "`routes[].match`",
            Self::Filter => "`routes[].filters[]` and `chains.<name>[]`",
            Self::Service => "`services.<name>`",
            Self::ServiceTls => "`services.<name>.tls`",
            Self::Endpoint => "`services.<name>.endpoints[]`",
            Self::Health => "`services.<name>.health`",
            Self::Retry => "`retry`",
            Self::Timeouts => "`timeouts`",
            Self::Limits => "`limits`",
            Self::TestExpect => "`tests[].expect`",
        }
    }
}

/// The page as Markdown.
pub fn page() -> String {
    let mut out = String::from(
        "# Words of other proxies\n\n\
         Keys that people bring from nginx, HAProxy, Envoy, Caddy and Traefik, and keys of features that are to come. Each is\n\
         refused with the line that is shown here, never ignored; `entryPoints` and `entry-points` are read as `entry_points`.\n\
         What this version has is in [the list of all keys](configuration-keys.md).\n",
    );
    for (place, _) in super::PLACES {
        let rows: Vec<_> = WORDS.iter().filter(|row| row.at.contains(place)).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(out, "\n## {}\n\n| word | in this version |\n|---|---|\n", place.title());
        for row in rows {
            let words: Vec<String> = row.words.iter().map(|word| format!("`{word}`")).collect();
            let means = match row.means {
                Means::Later(None) => "not available".to_owned(),
                Means::Later(Some(instead)) => format!("not available; {instead}"),
                Means::Called(instead, page) => format!("write {instead} ([more]({}))", link(page)),
                Means::Renamed(instead) => format!("has a new name: write {instead}"),
            };
            let _ = writeln!(out, "| {} | {} |", words.join(", "), means.replace('|', "\\|"));
        }
    }
    out
}

/// A page of the documentation, seen from `docs/reference`.
fn link(page: &str) -> String {
    page.strip_prefix("docs/").map_or_else(|| page.to_owned(), |page| format!("../{page}"))
}
