//! The Caddyfile's syntax: words, quotes, blocks and comments; snippets, imported files and variables in their place.
//!
//! A directive is a line: a name, arguments, and perhaps a block. Sites are directives here too: their name is the
//! first address. What a name means is not known here, but for `import`.

use crate::yaml::variable;
use crate::{Files, ImportError, Place};
use std::collections::BTreeMap;

/// Blocks within blocks that are followed.
const DEPTH: usize = 32;
/// Imports within imports that are followed.
const IMPORTS: usize = 16;
/// Directives of all files together.
const DIRECTIVES: usize = 100_000;

/// One directive.
#[derive(Clone, Debug, Default, PartialEq)]
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
            let quote = if arg.is_empty() || arg.contains(char::is_whitespace) { "\"" } else { "" };
            out.push_str(&format!(" {quote}{arg}{quote}"));
        }
        if self.block.is_some() {
            out.push_str(" { … }");
        }
        out
    }

    pub(super) fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Name and arguments.
    pub(super) fn words(&self) -> Vec<String> {
        std::iter::once(&self.name).chain(&self.args).cloned().collect()
    }
}

/// A word and where it stands.
#[derive(Clone, Debug)]
struct Token {
    text: String,
    quoted: bool,
    place: Place,
    /// It is the first one of its line.
    first: bool,
}

impl Token {
    fn is(&self, text: &str) -> bool {
        !self.quoted && self.text == text
    }
}

/// Splits a text into words.
fn tokens(text: &str, file: &str) -> Result<Vec<Token>, ImportError> {
    let mut all = Vec::new();
    let mut letters = text.chars().peekable();
    let (mut line, mut first) = (1, true);
    while let Some(&letter) = letters.peek() {
        let place = Place { file: file.to_owned(), line };
        match letter {
            '\n' => {
                line += 1;
                first = true;
                letters.next();
            }
            letter if letter.is_whitespace() => drop(letters.next()),
            '#' => while letters.next_if(|letter| *letter != '\n').is_some() {},
            '"' | '`' => {
                letters.next();
                let mut word = String::new();
                loop {
                    match letters.next() {
                        None => return Err(ImportError::new(&place, "a quote is not closed")),
                        Some(end) if end == letter => break,
                        Some('\\') if letter == '"' && letters.peek() == Some(&'"') => {
                            word.push('"');
                            letters.next();
                        }
                        Some(other) => {
                            line += usize::from(other == '\n');
                            word.push(other);
                        }
                    }
                }
                all.push(Token { text: word, quoted: true, place, first });
                first = false;
            }
            _ => {
                let mut word = String::new();
                while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace()) {
                    // A backslash at the end joins the next line.
                    if letter == '\\' && letters.next_if_eq(&'\n').is_some() {
                        line += 1;
                        break;
                    }
                    word.push(letter);
                }
                if word.starts_with("<<") && word.len() > 2 {
                    let (body, lines) = heredoc(&word[2..], &mut letters);
                    line += lines;
                    word = body;
                    all.push(Token { text: word, quoted: true, place, first });
                    first = false;
                    continue;
                }
                if !word.is_empty() {
                    all.push(Token { text: word, quoted: false, place, first });
                    first = false;
                }
            }
        }
    }
    Ok(all)
}

/// The text of `<<MARK` up to the line that has the mark alone, without the blanks before the mark; and its lines.
fn heredoc(mark: &str, letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> (String, usize) {
    while letters.next_if(|letter| *letter != '\n').is_some() {}
    letters.next();
    let (mut lines, mut count): (Vec<String>, usize) = (Vec::new(), 1);
    loop {
        let mut one = String::new();
        while let Some(letter) = letters.next_if(|letter| *letter != '\n') {
            one.push(letter);
        }
        if one.trim() == mark || letters.peek().is_none() {
            let blanks = &one[..one.len() - one.trim_start().len()];
            let bare = lines.iter().map(|line| line.strip_prefix(blanks).unwrap_or(line));
            return (bare.collect::<Vec<_>>().join("\n"), count);
        }
        letters.next();
        count += 1;
        lines.push(one);
    }
}

/// Reads files.
pub(super) struct Reader<'a> {
    pub(super) files: &'a dyn Files,
    snippets: BTreeMap<String, Vec<Token>>,
    /// `import` and what became of it.
    pub(super) imports: Vec<(Directive, Result<(), String>)>,
    count: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(files: &'a dyn Files) -> Self {
        Self { files, snippets: BTreeMap::new(), imports: Vec::new(), count: 0 }
    }

    /// The blocks of a file: global options (without a name) and sites.
    ///
    /// # Errors
    /// It cannot be read, or its braces do not fit.
    pub(super) fn file(&mut self, path: &str) -> Result<Vec<Directive>, ImportError> {
        let text = self.files.read(path).map_err(ImportError::unread)?;
        let all = self.expanded(tokens(&variables(&text), path)?, 0)?;
        let mut rest = all.as_slice();
        let mut found = Vec::new();
        while !rest.is_empty() {
            found.push(self.top(&mut rest)?);
        }
        Ok(found)
    }

    /// Takes snippets out, and puts what `import` names in its place.
    fn expanded(&mut self, all: Vec<Token>, depth: usize) -> Result<Vec<Token>, ImportError> {
        let mut out: Vec<Token> = Vec::new();
        let mut at = 0;
        let mut level = 0_usize;
        while at < all.len() {
            let token = &all[at];
            if level == 0 && token.first && token.text.starts_with('(') && token.text.ends_with(')') {
                let end = block_end(&all, at + 1)
                    .ok_or_else(|| ImportError::new(&token.place, "a snippet has no block"))?;
                let name = token.text.trim_matches(['(', ')']).to_owned();
                self.snippets.insert(name, all[at + 2..end].to_vec());
                at = end + 1;
                continue;
            }
            if token.first && token.is("import") {
                let line = line_end(&all, at);
                let args: Vec<String> = all[at + 1..line].iter().map(|token| token.text.clone()).collect();
                let directive =
                    Directive { name: "import".into(), args, block: None, place: token.place.clone() };
                out.extend(self.import(&directive, depth)?);
                at = line;
                continue;
            }
            level = if token.is("{") { level + 1 } else { level.saturating_sub(usize::from(token.is("}"))) };
            out.push(token.clone());
            at += 1;
        }
        Ok(out)
    }

    fn import(&mut self, directive: &Directive, depth: usize) -> Result<Vec<Token>, ImportError> {
        let place = &directive.place;
        if depth >= IMPORTS {
            return Err(ImportError::new(place, format!("more than {IMPORTS} imports in each other")));
        }
        let args = directive.args.get(1..).unwrap_or_default();
        if let Some(snippet) = self.snippets.get(directive.arg()).cloned() {
            self.imports.push((directive.clone(), Ok(())));
            return self.expanded(snippet.into_iter().map(|token| filled(token, args)).collect(), depth + 1);
        }
        let folder = place.file.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let pattern = match directive.arg() {
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{folder}{path}"),
        };
        let found = self.files.glob(&pattern).unwrap_or_default();
        let told = match found.is_empty() && !pattern.contains('*') {
            true => Err("there is no such file or snippet".to_owned()),
            false => Ok(()),
        };
        self.imports.push((directive.clone(), told));
        let mut out = Vec::new();
        for path in found {
            let text = self.files.read(&path).map_err(|error| ImportError::new(place, error))?;
            let inner = tokens(&variables(&text), &path)?;
            out.extend(self.expanded(inner.into_iter().map(|it| filled(it, args)).collect(), depth + 1)?);
        }
        Ok(out)
    }

    /// A block at the top: options, or a site with its addresses; a file may be one site without braces.
    fn top(&mut self, rest: &mut &[Token]) -> Result<Directive, ImportError> {
        let place = rest[0].place.clone();
        if rest[0].is("{") {
            *rest = &rest[1..];
            let block = Some(self.block(rest, 0, &place)?);
            return Ok(Directive { place, block, ..Directive::default() });
        }
        let mut words = Vec::new();
        while let Some((token, behind)) = rest.split_first() {
            let is_new_line = token.first && !words.last().is_none_or(|word: &String| word.ends_with(','));
            if is_new_line || token.is("{") {
                break;
            }
            words.push(token.text.clone());
            *rest = behind;
        }
        let block = match rest.first() {
            Some(open) if open.is("{") => {
                *rest = &rest[1..];
                self.block(rest, 0, &place)?
            }
            _ => {
                let mut block = Vec::new();
                while !rest.is_empty() {
                    block.push(self.directive(rest, 0)?);
                }
                block
            }
        };
        let name = words.first().cloned().unwrap_or_default();
        Ok(Directive { name, args: words.split_off(1.min(words.len())), block: Some(block), place })
    }

    fn block(
        &mut self,
        rest: &mut &[Token],
        depth: usize,
        begins: &Place,
    ) -> Result<Vec<Directive>, ImportError> {
        let mut all = Vec::new();
        loop {
            match rest.first() {
                None => return Err(ImportError::new(begins, "a block is not closed")),
                Some(token) if token.is("}") => {
                    *rest = &rest[1..];
                    return Ok(all);
                }
                Some(_) => all.push(self.directive(rest, depth)?),
            }
        }
    }

    fn directive(&mut self, rest: &mut &[Token], depth: usize) -> Result<Directive, ImportError> {
        let (token, behind) =
            rest.split_first().ok_or_else(|| ImportError::new(&Place::default(), "a line is missing"))?;
        let mut directive =
            Directive { name: token.text.clone(), place: token.place.clone(), ..Directive::default() };
        self.count += 1;
        if depth > DEPTH || self.count > DIRECTIVES {
            return Err(ImportError::new(&token.place, "the configuration is too large or too deep"));
        }
        *rest = behind;
        while let Some((token, behind)) = rest.split_first() {
            if token.is("{") && !token.first {
                *rest = behind;
                directive.block = Some(self.block(rest, depth + 1, &directive.place.clone())?);
                break;
            }
            if token.first {
                break;
            }
            directive.args.push(token.text.clone());
            *rest = behind;
        }
        Ok(directive)
    }
}

/// Where a line ends that begins at `at`.
fn line_end(all: &[Token], at: usize) -> usize {
    let next = all[at + 1..].iter().position(|token| token.first || token.is("}"));
    next.map_or(all.len(), |found| at + 1 + found)
}

/// Where the block ends that opens at `at`.
fn block_end(all: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in all.iter().enumerate().skip(at) {
        if token.is("{") {
            depth += 1;
        } else if token.is("}") {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(index);
            }
        } else if depth == 0 {
            return None;
        }
    }
    None
}

/// A word of a snippet with the arguments of `import` in it.
fn filled(mut token: Token, args: &[String]) -> Token {
    if !token.text.contains("{args") {
        return token;
    }
    for (number, arg) in args.iter().enumerate() {
        token.text = token.text.replace(&format!("{{args.{number}}}"), arg);
        token.text = token.text.replace(&format!("{{args[{number}]}}"), arg);
    }
    token
}

/// `{$NAME}` and `{$NAME:default}` become variables of the configuration that is written, read when Thalweg starts.
fn variables(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{$") {
        out.push_str(before);
        let Some((inner, after)) = behind.split_once('}') else {
            out.push_str("{$");
            rest = behind;
            continue;
        };
        let (name, default) = inner.split_once(':').unwrap_or((inner, ""));
        out.push_str(&variable(name.trim(), default));
        rest = after;
    }
    out + rest
}
