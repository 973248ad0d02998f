//! Answers of an original that are kept beside its files, for machines that do not have the program.
//!
//! `IMPORT_RECORD=1 cargo test -p thalweg-tests --test black_box import::traefik` with the program on the PATH writes
//! them anew, `NAME.answers.json` for each file; without the program they are what Thalweg is compared with.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};
use thalweg_tests::Message;

use super::case::Request;
use super::echo::Echo;

/// Answers by their requests.
pub(super) struct Answers {
    kept: BTreeMap<String, Value>,
    records: bool,
}

impl Answers {
    pub(super) fn read(path: &Path, has_original: bool, _: &Echo) -> Self {
        let records = has_original && env::var("IMPORT_RECORD").is_ok();
        let text = fs::read_to_string(path).unwrap_or_else(|_| "{}".to_owned());
        let kept = if records { BTreeMap::new() } else { serde_json::from_str(&text).unwrap() };
        Self { kept, records }
    }

    /// Keeps an answer where answers are recorded.
    pub(super) fn kept(
        &mut self,
        request: &Request,
        answer: Result<Message, String>,
        echo: &Echo,
    ) -> Result<Message, String> {
        if let (true, Ok(message)) = (self.records, &answer) {
            let fields: Vec<_> = message
                .fields
                .iter()
                .filter(|(name, _)| !name.eq_ignore_ascii_case("date"))
                .map(|(name, value)| json!([name, echo.written(value)]))
                .collect();
            let told = json!({
                "start": message.start, "fields": fields, "body": echo.written(&message.text()),
            });
            self.kept.insert(request.line.clone(), told);
        }
        answer
    }

    /// The answer that was kept.
    pub(super) fn of(&self, request: &Request, echo: &Echo) -> Option<Result<Message, String>> {
        let kept = self.kept.get(&request.line)?;
        let text = |value: &Value| echo.placed(value.as_str().unwrap());
        let fields = kept["fields"].as_array().unwrap();
        Some(Ok(Message {
            start: text(&kept["start"]),
            fields: fields.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
            body: text(&kept["body"]).into_bytes(),
        }))
    }

    pub(super) fn write(&self, path: &Path) {
        if self.records {
            fs::write(path, format!("{:#}\n", json!(self.kept))).unwrap();
        }
    }
}
