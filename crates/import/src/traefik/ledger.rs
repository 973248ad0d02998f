//! What becomes of each value, and the report that comes of it: what nobody has graded is lost.

use crate::node::{Kind, Node};
use crate::{Grade, Place, Report};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A file that was read.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) root: Node,
    /// What stands before each key in the report.
    pub(super) prefix: &'static str,
}

/// A value of a file, with the way to it.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    pub(super) node: &'a Node,
    pub(super) file: usize,
    pub(super) path: Rc<str>,
}

impl<'a> At<'a> {
    fn below(&self, key: &str, node: &'a Node) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        At { node, file: self.file, path: path.into() }
    }

    pub(super) fn root(file: usize, node: &'a Node) -> Self {
        At { node, file, path: "".into() }
    }

    /// The value of a key, whatever its case.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        self.entries().into_iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, at)| at)
    }

    /// The same through several keys.
    pub(super) fn find(&self, keys: &[&str]) -> Option<Self> {
        keys.iter().try_fold(self.clone(), |at, key| at.get(key))
    }

    pub(super) fn entries(&self) -> Vec<(&'a str, Self)> {
        self.node.entries().iter().map(|(key, node)| (key.as_str(), self.below(key, node))).collect()
    }

    pub(super) fn items(&self) -> Vec<Self> {
        let items = self.node.items().into_iter().enumerate();
        items.map(|(at, node)| self.below(&at.to_string(), node)).collect()
    }

    pub(super) fn text(&self) -> &'a str {
        self.node.text()
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.node.texts()
    }
}

/// Grades by file and way.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    grades: BTreeMap<(usize, Rc<str>), (Grade, String, String)>,
}

impl Ledger {
    /// Grades a value and all below it that is not graded otherwise; of several grades the worst stays.
    pub(super) fn grade(&mut self, at: &At<'_>, grade: Grade, about: impl Into<String>) {
        let key = (at.file, at.path.clone());
        if self.grades.get(&key).is_none_or(|(known, ..)| *known < grade) {
            self.grades.insert(key, (grade, about.into(), String::new()));
        }
    }

    pub(super) fn exact(&mut self, at: &At<'_>) {
        self.grade(at, Grade::Exact, "");
    }

    pub(super) fn near(&mut self, at: &At<'_>, about: impl Into<String>) {
        self.grade(at, Grade::Near, about);
    }

    pub(super) fn lost(&mut self, at: &At<'_>, about: impl Into<String>) {
        self.grade(at, Grade::Lost, about);
    }

    /// Grades each of these keys exact where they are written.
    pub(super) fn exact_keys(&mut self, at: &At<'_>, keys: &[&str]) {
        for key in keys {
            if let Some(inner) = at.get(key) {
                self.exact(&inner);
            }
        }
    }

    /// Whether anything of a value was graded.
    pub(super) fn is_known_below(&self, at: &At<'_>) -> bool {
        let below = format!("{}.", at.path);
        self.grades
            .keys()
            .any(|(file, path)| *file == at.file && (*path == at.path || path.starts_with(&below)))
    }

    /// Writes every line.
    pub(super) fn write(&self, files: &[File], report: &mut Report) {
        for (number, file) in files.iter().enumerate() {
            self.walk(&At::root(number, &file.root), file, None, report);
        }
    }

    fn walk(&self, at: &At<'_>, file: &File, above: Option<Grade>, report: &mut Report) {
        let own = self.grades.get(&(at.file, at.path.clone()));
        let grade = own.map(|(grade, ..)| *grade).or(above);
        let is_leaf = match &at.node.kind {
            Kind::Map(entries) => entries.is_empty(),
            Kind::List(items) => items.iter().all(|item| matches!(item.kind, Kind::Text(_) | Kind::Null)),
            _ => true,
        };
        if (is_leaf && !at.path.is_empty()) || own.is_some_and(|(grade, ..)| *grade != Grade::Exact) {
            let place = Place { file: file.name.clone(), line: at.node.line };
            let value = match &at.node.kind {
                Kind::Text(text) => format!(" {text}"),
                Kind::List(_) if is_leaf => format!(" {}", at.texts().join(", ")),
                _ => String::new(),
            };
            let unknown = || (Grade::Lost, "this importer does not know it", "");
            let (grade, about, concerns) = match (own, grade) {
                (Some((grade, about, concerns)), _) => (*grade, about.as_str(), concerns.as_str()),
                (None, Some(grade)) => (grade, "", ""),
                (None, None) => unknown(),
            };
            report.note(&place, format!("{}{}{value}", file.prefix, at.path), grade, about, concerns);
        }
        if !is_leaf {
            match &at.node.kind {
                Kind::List(_) => at.items().iter().for_each(|item| self.walk(item, file, grade, report)),
                _ => at.entries().iter().for_each(|(_, inner)| self.walk(inner, file, grade, report)),
            }
        }
    }
}
