//! `handle_errors` as pages of errors.

use super::Importer;
use super::placeholders::Scope;
use super::syntax::Directive;
use crate::Grade;
use crate::yaml::{Map, one};

impl Importer<'_> {
    /// The filter that answers errors of a site.
    pub(super) fn errors(&mut self, site: &Directive) -> Vec<Map> {
        let blocks = site.children().iter().filter(|line| line.name == "handle_errors");
        let root = site
            .children()
            .iter()
            .find(|line| line.name == "root")
            .and_then(|line| line.args.last().cloned());
        let mut pages = Map::default();
        for block in blocks {
            let keys: Vec<String> = match block.args.is_empty() {
                true => vec!["4xx".to_owned(), "5xx".to_owned()],
                false => block.args.clone(),
            };
            let told = self.error_block(block, &keys, root.as_deref(), &mut pages);
            let (grade, about) = match told {
                Ok(()) => (
                    Grade::Near,
                    "clients that ask for JSON or plain text get the error in that form; answers without a body, also of `respond`, have the page",
                ),
                Err(why) => (Grade::Lost, why),
            };
            self.report.note(&block.place, block.text(), grade, about, "errors");
            self.note_inner(block, grade, about);
        }
        if pages.is_empty() { Vec::new() } else { vec![one("error_pages", one("pages", pages))] }
    }

    fn error_block(
        &mut self,
        block: &Directive,
        keys: &[String],
        root: Option<&str>,
        pages: &mut Map,
    ) -> Result<(), &'static str> {
        let other = "errors have the pages of Thalweg; write `error_pages`";
        let lines: Vec<&Directive> =
            block.children().iter().filter(|line| !line.name.starts_with('@')).collect();
        match lines.as_slice() {
            [line] if line.name == "respond" && !line.arg().starts_with(['@', '/']) => {
                let text = line.args.first().filter(|arg| arg.as_str() != "*").or(line.args.get(1));
                let text = Scope::default().template(text.ok_or(other)?).map_err(|_| other)?;
                for key in keys {
                    pages.put(key.as_str(), one("html", text.as_str()).with("text", text.as_str()));
                }
                Ok(())
            }
            [first, last] if first.name == "rewrite" && last.name == "file_server" => {
                let to = first.args.last().ok_or(other)?;
                let root = root.ok_or(other)?;
                let code = ["{err.status_code}", "{http.error.status_code}"];
                let Some(code) = code.iter().find(|code| to.contains(**code)) else {
                    let file = format!("{root}{to}");
                    self.files.read(&file).map_err(|_| other)?;
                    for key in keys {
                        pages.put(key.as_str(), one("html", one("file", file.as_str())));
                    }
                    return Ok(());
                };
                let pattern = format!("{root}{}", to.replace(code, "[0-9][0-9][0-9]"));
                let found = self.files.glob(&pattern).map_err(|_| other)?;
                let at = root.len() + to.find(code).unwrap_or(0);
                for file in &found {
                    let Some(status) = file.get(at..at + 3) else { continue };
                    pages.put(status, one("html", one("file", file.as_str())));
                }
                if found.is_empty() { Err(other) } else { Ok(()) }
            }
            _ => Err(other),
        }
    }
}
