//! nginx's syntax: words, quotes, escapes, blocks and comments; included files in their place.
//!
//! A directive is a name, arguments, and either `;` or a block. What blocks mean is not known here, but for those of
//! Lua, whose text is passed over.

use crate::{Files, ImportError, Place};

/// Blocks within blocks that are followed.
const DEPTH: usize = 64;
/// Files that include each other in a row.
const INCLUDES: usize = 16;
/// Directives of all files together.
const DIRECTIVES: usize = 200_000;

/// One directive.
#[derive(Clone, Debug, Default)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    pub(super) place: Place,
}

impl Directive {
    /// The first argument; empty where there is none.
    pub(super) fn arg(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }

    /// The directive on one line, for the report.
    pub(super) fn text(&self) -> String {
        let mut out = self.name.clone();
        for arg in &self.args {
            out.push(' ');
            if arg.is_empty() || arg.contains([' ', ';']) {
                out.push('"');
                out.push_str(arg);
                out.push('"');
            } else {
                out.push_str(arg);
            }
        }
        if self.block.is_some() {
            out.push_str(" { … }");
        }
        out
    }

    pub(super) fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

struct Lexer<'a> {
    letters: std::iter::Peekable<std::str::Chars<'a>>,
    place: Place,
}

impl Lexer<'_> {
    fn step(&mut self) -> Option<char> {
        let letter = self.letters.next()?;
        if letter == '\n' {
            self.place.line += 1;
        }
        Some(letter)
    }

    /// The next token and where it begins.
    fn token(&mut self) -> Result<Option<(Token, Place)>, ImportError> {
        loop {
            match self.letters.peek() {
                None => return Ok(None),
                Some(letter) if letter.is_whitespace() => drop(self.step()),
                Some('#') => while self.step().is_some_and(|letter| letter != '\n') {},
                Some(_) => break,
            }
        }
        let place = self.place.clone();
        let token = match self.letters.peek() {
            Some(';') => Token::End,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some('"' | '\'') => return Ok(Some((Token::Word(self.quoted()?), place))),
            _ => return Ok(Some((Token::Word(self.word()), place))),
        };
        self.step();
        Ok(Some((token, place)))
    }

    fn quoted(&mut self) -> Result<String, ImportError> {
        let begins = self.place.clone();
        let quote = self.step();
        let mut out = String::new();
        loop {
            match self.step() {
                None => return Err(ImportError::new(&begins, "a quote is not closed")),
                letter if letter == quote => return Ok(out),
                Some('\\') => self.escape(&mut out),
                Some(letter) => out.push(letter),
            }
        }
    }

    fn word(&mut self) -> String {
        let mut out = String::new();
        while let Some(&letter) = self.letters.peek() {
            match letter {
                ';' => break,
                '{' if !out.ends_with('$') => break,
                letter if letter.is_whitespace() => break,
                '\\' => {
                    self.step();
                    self.escape(&mut out);
                }
                letter => {
                    out.push(letter);
                    self.step();
                }
            }
        }
        out
    }

    /// What stands behind a backslash.
    fn escape(&mut self, out: &mut String) {
        match self.step() {
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('n') => out.push('\n'),
            Some(letter @ ('"' | '\'' | '\\')) => out.push(letter),
            Some(letter) => {
                out.push('\\');
                out.push(letter);
            }
            None => out.push('\\'),
        }
    }

    /// Passes over a block of another language, up to its last brace.
    fn skip_block(&mut self) {
        let mut depth = 1;
        while depth > 0 {
            match self.step() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// Reads files and all that they include.
pub(super) struct Reader<'a> {
    pub(super) files: &'a dyn Files,
    /// Where relative names begin.
    pub(super) base: String,
    /// `include` directives, and how many files each has named or why it has none.
    pub(super) includes: Vec<(Directive, Result<usize, String>)>,
    pub(super) count: usize,
}

impl Reader<'_> {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no configuration of nginx.
    pub(super) fn file(&mut self, path: &str, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let place = Place { file: path.to_owned(), line: 1 };
        let text = self.files.read(path).map_err(ImportError::unread)?;
        let mut lexer = Lexer { letters: text.chars().peekable(), place };
        self.block(&mut lexer, None, depth)
    }

    /// Directives up to the end of a block, or of the file.
    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        opened: Option<&Place>,
        depth: usize,
    ) -> Result<Vec<Directive>, ImportError> {
        if depth > DEPTH {
            return Err(ImportError::new(&lexer.place, "blocks stand too deep in each other"));
        }
        let mut found = Vec::new();
        let mut words: Vec<(String, Place)> = Vec::new();
        loop {
            let Some((token, place)) = lexer.token()? else {
                return match (opened, words.first()) {
                    (Some(opened), _) => Err(ImportError::new(opened, "this block is not closed")),
                    (None, Some((_, place))) => Err(ImportError::new(place, "this directive has no `;`")),
                    (None, None) => Ok(found),
                };
            };
            match token {
                Token::Word(word) => words.push((word, place)),
                Token::Close if words.is_empty() && opened.is_some() => return Ok(found),
                Token::Close => return Err(ImportError::new(&place, "unexpected `}`")),
                Token::End | Token::Open if words.is_empty() => {
                    return Err(ImportError::new(&place, "a directive has no name"));
                }
                Token::End => {
                    let directive = made(&mut words, None);
                    self.add(directive, depth, &mut found)?;
                }
                Token::Open => {
                    let mut directive = made(&mut words, None);
                    directive.block = Some(if directive.name.contains("_by_lua_block") {
                        lexer.skip_block();
                        Vec::new()
                    } else {
                        self.block(lexer, Some(&directive.place), depth + 1)?
                    });
                    found.push(directive);
                }
            }
            self.count += 1;
            if self.count > DIRECTIVES {
                return Err(ImportError::new(&lexer.place, "there are too many directives"));
            }
        }
    }

    /// Adds a directive; what is included stands in the place of `include`.
    fn add(
        &mut self,
        directive: Directive,
        depth: usize,
        found: &mut Vec<Directive>,
    ) -> Result<(), ImportError> {
        if directive.name != "include" {
            found.push(directive);
            return Ok(());
        }
        let pattern = match directive.arg() {
            absolute if absolute.starts_with('/') => absolute.to_owned(),
            relative => format!("{}{relative}", self.base),
        };
        if depth >= DEPTH - INCLUDES {
            return Err(ImportError::new(&directive.place, "files include each other"));
        }
        let names = self.files.glob(&pattern);
        let told = match &names {
            Ok(names) if names.is_empty() && !pattern.contains(['*', '?', '[']) => {
                Err(format!("there is no file {pattern}"))
            }
            Ok(names) => Ok(names.len()),
            Err(error) => Err(error.clone()),
        };
        self.includes.push((directive, told));
        for name in names.unwrap_or_default() {
            let inner = self.file(&name, depth + DEPTH / INCLUDES)?;
            found.extend(inner);
        }
        Ok(())
    }
}

fn made(words: &mut Vec<(String, Place)>, block: Option<Vec<Directive>>) -> Directive {
    let place = words.first().map(|(_, place)| place.clone()).unwrap_or_default();
    let mut words = std::mem::take(words).into_iter().map(|(word, _)| word);
    Directive { name: words.next().unwrap_or_default(), args: words.collect(), block, place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Folder(BTreeMap<&'static str, &'static str>);

    impl Files for Folder {
        fn read(&self, path: &str) -> Result<String, String> {
            self.0.get(path).map(|text| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
        }

        fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
            let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
            let fits = |name: &&str| name.starts_with(before) && name.ends_with(after);
            Ok(self.0.keys().copied().filter(|name| fits(name)).map(str::to_owned).collect())
        }
    }

    fn read(text: &'static str) -> Result<Vec<Directive>, ImportError> {
        let files =
            Folder(BTreeMap::from([("a.conf", text), ("d/b.conf", "listen 80;"), ("d/c.conf", "x y;")]));
        Reader { files: &files, base: String::new(), includes: Vec::new(), count: 0 }.file("a.conf", 0)
    }

    #[test]
    fn words_quotes_escapes_and_blocks_are_read() {
        let found = read(
            "# c\nif ($a = \"b c\") { return 301 'x\\'y;'; }\nset $x ${host}a\\.b\\\\n;\nlocation ~ \\.php$ {}\ncontent_by_lua_block { if a then { x = 1 } } \n",
        )
        .unwrap();
        assert_eq!(found[0].args, ["($a", "=", "b c", ")"]);
        assert_eq!(found[0].children()[0].args, ["301", "x'y;"]);
        assert_eq!(found[1].args, ["$x", "${host}a\\.b\\n"]);
        assert_eq!(found[2].args, ["~", "\\.php$"]);
        assert_eq!(found[2].place.line, 4);
        assert_eq!(found[3].name, "content_by_lua_block");
    }

    #[test]
    fn included_files_stand_in_place() {
        let found = read("server { include d/*.conf; }").unwrap();
        let names: Vec<_> = found[0].children().iter().map(|inner| inner.name.as_str()).collect();
        assert_eq!(names, ["listen", "x"]);
        assert_eq!(found[0].children()[1].place.file, "d/c.conf");
    }

    #[test]
    fn what_is_broken_is_told_with_its_line() {
        for (text, line, part) in [
            ("\nserver {", 2, "not closed"),
            ("a b", 1, "no `;`"),
            ("}", 1, "unexpected"),
            ("\n\nx \"a;", 3, "quote"),
            ("include a.conf;", 1, "include each other"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.place.line == line && error.message.contains(part), "{text}: {error}");
        }
    }
}
