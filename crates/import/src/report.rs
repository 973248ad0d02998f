//! The loss report: each directive of the original with what has become of it.

use crate::concealed::without_secrets;
use serde_json::json;
use std::fmt::Write as _;

/// How much of a directive was taken over.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Grade {
    /// Requests are treated as before.
    Exact,
    /// There is a difference, and the report says which.
    Near,
    /// It was not taken over, and the report says which requests it concerns.
    Lost,
}

impl Grade {
    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Near => "near",
            Self::Lost => "lost",
        }
    }
}

/// Where a directive stands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Place {
    /// The file as it was named.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
}

/// One directive and what has become of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Where it stands.
    pub place: Place,
    /// The directive on one line.
    pub what: String,
    /// How much was taken over.
    pub grade: Grade,
    /// The difference, or why it was not taken over; empty where it is exact and nothing needs to be said.
    pub about: String,
    /// Requests that are concerned; empty: all.
    pub concerns: String,
}

/// The report of one import.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was read, in a word: `nginx`.
    pub original: &'static str,
    /// Differences that hold for every request, whatever is configured.
    pub always: &'static [&'static str],
    /// Directives, in the order of the files.
    pub entries: Vec<Entry>,
}

impl Report {
    pub(crate) fn new(original: &'static str, always: &'static [&'static str]) -> Self {
        Self { original, always, entries: Vec::new() }
    }

    /// Notes a directive, without the secrets in it.
    #[expect(clippy::too_many_arguments, reason = "these are the columns of a line")]
    pub(crate) fn note(
        &mut self,
        place: &Place,
        what: impl Into<String>,
        grade: Grade,
        about: impl Into<String>,
        concerns: impl Into<String>,
    ) {
        let what = shortened(&crate::yaml::shown(&without_secrets(&what.into())));
        let entry =
            Entry { place: place.clone(), what, grade, about: about.into(), concerns: concerns.into() };
        self.entries.push(entry);
    }

    pub(crate) fn exact(&mut self, place: &Place, what: impl Into<String>) {
        self.note(place, what, Grade::Exact, "", "");
    }

    /// Brings the entries into the order of the files; of several for one directive the worst stays in front.
    pub(crate) fn finish(&mut self) {
        let mut files: Vec<String> = Vec::new();
        for entry in &self.entries {
            if !files.contains(&entry.place.file) {
                files.push(entry.place.file.clone());
            }
        }
        let order = |entry: &Entry| {
            let file = files.iter().position(|file| *file == entry.place.file);
            (file, entry.place.line, entry.what.clone(), std::cmp::Reverse(entry.grade))
        };
        self.entries.sort_by_cached_key(order);
        self.entries.dedup();
        let mut kept: Vec<Entry> = Vec::new();
        for entry in std::mem::take(&mut self.entries) {
            let is_told = kept.iter().rev().take_while(|known| known.place == entry.place).any(|known| {
                known.what == entry.what && entry.grade == Grade::Exact && known.grade != Grade::Exact
            });
            if !is_told {
                kept.push(entry);
            }
        }
        self.entries = kept;
    }

    /// How many directives have this grade.
    pub fn count(&self, grade: Grade) -> usize {
        self.entries.iter().filter(|entry| entry.grade == grade).count()
    }

    /// Whether nothing was lost, not even nearly.
    pub fn is_exact(&self) -> bool {
        self.count(Grade::Exact) == self.entries.len()
    }

    /// One line for each directive, then what holds for all requests, then the numbers.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for entry in &self.entries {
            let Entry { place, what, grade, about, concerns } = entry;
            let _ = write!(out, "{}:{}: {}: {what}", place.file, place.line, grade.word());
            if !about.is_empty() {
                let _ = write!(out, ": {about}");
            }
            if !concerns.is_empty() {
                let _ = write!(out, " [{concerns}]");
            }
            out.push('\n');
        }
        if !self.always.is_empty() {
            let _ = writeln!(out, "what differs from {} in every configuration:", self.original);
            for line in self.always {
                let _ = writeln!(out, "  - {line}");
            }
        }
        let [exact, near, lost] = [Grade::Exact, Grade::Near, Grade::Lost].map(|grade| self.count(grade));
        let _ = writeln!(out, "{exact} exact, {near} near, {lost} lost");
        out
    }

    /// The same as JSON.
    pub fn json(&self) -> String {
        let entries: Vec<_> = self
            .entries
            .iter()
            .map(|entry| {
                json!({
                    "file": entry.place.file,
                    "line": entry.place.line,
                    "directive": entry.what,
                    "grade": entry.grade.word(),
                    "about": entry.about,
                    "concerns": entry.concerns,
                })
            })
            .collect();
        let count = |grade| self.count(grade);
        let whole = json!({
            "original": self.original,
            "exact": count(Grade::Exact),
            "near": count(Grade::Near),
            "lost": count(Grade::Lost),
            "always": self.always,
            "entries": entries,
        });
        format!("{whole:#}\n")
    }
}

/// A directive on one line of a bearable length.
fn shortened(text: &str) -> String {
    const MOST: usize = 100;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
