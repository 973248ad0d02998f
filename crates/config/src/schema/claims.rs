//! What the attributes of a field say of its values: its range, and what holds where nothing is written.
//!
//! A field of a Spec has `#[schemars(extend("x-range" = [1, 10], "x-default" = 2))]`; a default that is no value stands
//! in words, `"x-default-words" = "no bound"`. Its doc comment is prose.

use serde_json::Value;

/// The least and the most, both of them allowed.
pub(super) const RANGE: &str = "x-range";
/// A default, as one would write it.
const DEFAULT: &str = "x-default";
/// A default in words.
const WORDS: &str = "x-default-words";
/// All of them.
pub(super) const KEYWORDS: [&str; 3] = [RANGE, DEFAULT, WORDS];

/// The claims of one field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims {
    /// `1–10`
    pub(super) range: Option<String>,
    /// What holds where nothing is written.
    pub(super) default: Option<Value>,
    /// The same in words.
    pub(super) words: Option<String>,
}

impl Claims {
    /// Those of a property.
    pub(super) fn of(property: &Value) -> Self {
        let range = property.get(RANGE).and_then(Value::as_array).map(Vec::as_slice);
        Self {
            range: match range {
                Some([least, most]) => Some(format!("{}–{}", text(least), text(most))),
                _ => None,
            },
            default: property.get(DEFAULT).cloned(),
            words: property.get(WORDS).and_then(Value::as_str).map(str::to_owned),
        }
    }

    /// The default for people: a value in the notation of code, or words.
    pub(super) fn default_text(&self) -> Option<String> {
        self.default.as_ref().map(|value| format!("`{}`", text(value))).or_else(|| self.words.clone())
    }

    /// The meaning of a key with its claims behind it; `None`: there are none.
    pub(super) fn sentence(&self, meaning: &str) -> Option<String> {
        let range = self.range.as_ref().map(|range| format!(", {range}"));
        let default = self.default_text().map(|default| format!("; default: {default}"));
        let claims: String = [range, default].into_iter().flatten().collect();
        (!claims.is_empty()).then(|| format!("{}{claims}.", meaning.trim_end_matches('.')))
    }
}

/// A value as one would write it in a file.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_are_told_behind_the_meaning() {
        let told = |property: Value| Claims::of(&property).sentence("Its share.");
        assert_eq!(
            told(json!({ "x-range": [0, 9], "x-default": 1 })).unwrap(),
            "Its share, 0–9; default: `1`."
        );
        assert_eq!(told(json!({ "x-default": ["200-399"] })).unwrap(), "Its share; default: `[200-399]`.");
        assert_eq!(told(json!({ "x-default-words": "none" })).unwrap(), "Its share; default: none.");
        assert_eq!(told(json!({})), None);
    }
}
