//! The syntax of HAProxy's configuration: lines of words, and the sections that they make.

use crate::{ImportError, Place};
use std::collections::BTreeMap;

/// Around the name of a variable of the environment that only the running process knows.
pub(super) const VARIABLE: [char; 2] = ['\u{1}', '\u{2}'];
/// Keywords that begin a section.
const SECTIONS: &[&str] = &[
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "peers",
    "resolvers",
    "mailers",
    "program",
    "cache",
    "http-errors",
    "ring",
    "log-forward",
    "fcgi-app",
    "crt-store",
    "traces",
];

/// A line.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) place: Place,
    pub(super) words: Vec<String>,
    /// As it stands in the file, without its comment.
    pub(super) text: String,
    /// It stands in an `.if` block.
    pub(super) is_conditional: bool,
}

impl Line {
    /// A word by its number; empty where there is none.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// The words from one on.
    pub(super) fn rest(&self, from: usize) -> &[String] {
        self.words.get(from..).unwrap_or_default()
    }

    /// The value behind a word: `code 301`.
    pub(super) fn behind(&self, word: &str) -> Option<&str> {
        let at = self.words.iter().position(|known| known == word)?;
        self.words.get(at + 1).map(String::as_str)
    }
}

/// A section with its lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) head: Line,
    pub(super) lines: Vec<Line>,
}

/// Reads a file.
///
/// # Errors
/// A quote is open at the end of a line, or a line stands before the first section.
pub(super) fn sections(file: &str, text: &str) -> Result<Vec<Section>, ImportError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut depth = 0_usize;
    for (number, text) in (1..).zip(text.lines()) {
        let place = Place { file: file.to_owned(), line: number };
        let (words, text) = words(text, &known).map_err(|message| ImportError::new(&place, message))?;
        let Some(first) = words.first() else { continue };
        let is_conditional = depth > 0 || first.starts_with('.');
        match first.as_str() {
            ".if" => depth += 1,
            ".endif" => depth = depth.saturating_sub(1),
            "setenv" | "presetenv" if depth == 0 => {
                let value = words.get(2).cloned().unwrap_or_default();
                known.insert(words.get(1).cloned().unwrap_or_default(), value);
            }
            _ => {}
        }
        let line = Line { place: place.clone(), words, text, is_conditional };
        if SECTIONS.contains(&line.word(0)) && depth == 0 {
            sections.push(Section { head: line, lines: Vec::new() });
            continue;
        }
        match sections.last_mut() {
            Some(section) => section.lines.push(line),
            None if line.is_conditional => {
                sections.push(Section { head: Line::default(), lines: vec![line] });
            }
            // The file may not be an HAProxy configuration: the error quotes none of it.
            None => return Err(ImportError::new(&place, "this line stands in no section")),
        }
    }
    Ok(sections)
}

/// The words of a line, and its text without a comment.
fn words(text: &str, known: &BTreeMap<String, String>) -> Result<(Vec<String>, String), String> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut quote: Option<char> = None;
    let letters: Vec<char> = text.chars().collect();
    let mut at = 0;
    let mut end = letters.len();
    while at < letters.len() {
        let letter = letters[at];
        at += 1;
        match (letter, quote) {
            ('\'', Some('\'')) | ('"', Some('"')) => quote = None,
            (_, Some('\'')) => word.push(letter),
            ('\'' | '"', None) => (quote, is_word) = (Some(letter), true),
            ('\\', _) => {
                is_word = true;
                at += escape(letters.get(at..).unwrap_or_default(), &mut word);
            }
            ('$', Some('"')) => at += variable(&letters[at..], known, &mut word),
            ('#', None) => {
                end = at - 1;
                break;
            }
            (letter, None) if letter.is_whitespace() => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (letter, _) => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    if is_word {
        words.push(word);
    }
    Ok((words, letters[..end].iter().collect::<String>().trim().to_owned()))
}

/// What stands behind a backslash; gives how many characters that were.
fn escape(behind: &[char], word: &mut String) -> usize {
    match behind.first() {
        Some(plain @ (' ' | '"' | '#' | '\'' | '\\' | '$')) => word.push(*plain),
        Some('n') => word.push('\n'),
        Some('r') => word.push('\r'),
        Some('t') => word.push('\t'),
        Some('x') => {
            let digits: String = behind.iter().skip(1).take(2).collect();
            match u8::from_str_radix(&digits, 16) {
                Ok(byte) if digits.len() == 2 => {
                    word.push(char::from(byte));
                    return 3;
                }
                _ => word.push_str("\\x"),
            }
        }
        _ => {
            word.push('\\');
            return 0;
        }
    }
    1
}

/// A variable of the environment, `$NAME`, `${NAME}` or `${NAME-default}`; gives how many characters that were.
fn variable(behind: &[char], known: &BTreeMap<String, String>, word: &mut String) -> usize {
    let is_name = |letter: &&char| letter.is_ascii_alphanumeric() || **letter == '_';
    let (inner, length): (String, usize) = match behind.first() {
        Some('{') => {
            let inner: String = behind.iter().skip(1).take_while(|letter| **letter != '}').collect();
            let length = inner.chars().count() + 2;
            (inner, length)
        }
        _ => {
            let name: String = behind.iter().take_while(is_name).collect();
            let length = name.len();
            (name, length)
        }
    };
    if inner.is_empty() {
        word.push('$');
        return 0;
    }
    let (name, default) = inner.split_once('-').unwrap_or((&inner, ""));
    match known.get(name) {
        Some(value) => word.push_str(value),
        None => {
            let [begin, end] = VARIABLE;
            word.push_str(&format!("{begin}{name}:-{default}{end}"));
        }
    }
    length
}

/// Puts variables of the environment into a configuration that was written with their marks.
pub(super) fn with_variables(yaml: &str) -> String {
    yaml.replace("\\x01", "${").replace("\\x02", "}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_with_quotes_escapes_and_variables() {
        let known = BTreeMap::from([("HOME".to_owned(), "/root".to_owned())]);
        for (text, expected) in [
            ("  bind *:80 # all", vec!["bind", "*:80"]),
            (r"a b\ c \# 'd $HOME \e' e", vec!["a", "b c", "#", r"d $HOME \e", "e"]),
            (r#"x "${HOME}/a" "\"q\"" $HOME"#, vec!["x", "/root/a", "\"q\"", "$HOME"]),
            (r"path_reg ^/a\.b", vec!["path_reg", r"^/a\.b"]),
            (r#""" b"#, vec!["", "b"]),
            (r#""$PORT-x""#, vec!["\u{1}PORT:-\u{2}-x"]),
            (r#""${PORT-80}""#, vec!["\u{1}PORT:-80\u{2}"]),
            (r"a\x41b", vec!["aAb"]),
        ] {
            assert_eq!(words(text, &known).unwrap().0, expected, "{text}");
        }
        assert!(words("a \"b", &known).is_err());
    }

    #[test]
    fn sections_have_their_lines_and_conditions_are_known() {
        let text = "global\n maxconn 5\n.if defined(X)\n nbthread 2\n.endif\nfrontend a\n bind :80\n";
        let found = sections("x.cfg", text).unwrap();
        assert_eq!(found.len(), 2);
        let conditional: Vec<bool> = found[0].lines.iter().map(|line| line.is_conditional).collect();
        assert_eq!(conditional, [false, true, true, true]);
        assert_eq!((found[1].head.word(1), found[1].head.place.line), ("a", 6));
    }
}
