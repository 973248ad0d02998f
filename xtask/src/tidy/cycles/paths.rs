//! What the code of a module names: paths from the crate's root, and names that it hands on.

use std::collections::BTreeMap;

/// A path from the crate's root.
type Words = Vec<String>;

/// What one module names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// What it needs.
    pub(super) paths: Vec<Words>,
    /// Names of its own that stand for something of another module of the crate.
    pub(super) handed_on: BTreeMap<String, Words>,
}

impl Names {
    /// Reads `use` lines, and everything behind `crate::`, `super::` and the name of a module inside this one.
    pub(super) fn of(module: &str, text: &str) -> Self {
        let own: Words = module.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code: String = code.flat_map(|line| [line, "\n"]).collect();
        let inside = children(&code);
        let mut found = Self::default();
        let mut rest = code.as_str();
        let mut before = ' ';
        while let Some(first) = rest.chars().next() {
            let word = word_at(rest);
            if word.is_empty() || before == ':' {
                before = first;
                rest = &rest[first.len_utf8().max(word.len())..];
                continue;
            }
            let is_use = word == "use" && rest[word.len()..].starts_with(' ');
            let tree = if is_use { &rest[word.len() + 1..] } else { rest };
            let mut leaves = Vec::new();
            let used = match base(tree, &own, &inside) {
                Some((mut base, at)) => at + leaves_of(&mut base, &tree[at..], &mut leaves),
                None => word_at(tree).len(),
            };
            for (path, name) in leaves {
                if is_use {
                    found.handed_on.insert(name, path.clone());
                }
                // What a root or a folder only hands on is no need of its own.
                if !(is_use && hands_on(&code[..code.len() - rest.len()])) {
                    found.paths.push(path);
                }
            }
            before = ' ';
            rest = &tree[used..];
        }
        found
    }
}

/// Whether the `use` that follows is visible to others.
fn hands_on(before: &str) -> bool {
    let line = before.rsplit(['\n', ';']).next().unwrap_or_default().trim();
    line == "pub" || (line.starts_with("pub(") && line != "pub(self)")
}

/// The modules inside this one.
fn children(code: &str) -> Vec<&str> {
    let lines = code.lines().filter_map(|line| line.trim().strip_suffix(';'));
    lines
        .filter_map(|line| {
            line.strip_prefix("mod ").or_else(|| line.split_once(" mod ").map(|(_, name)| name))
        })
        .collect()
}

/// Where a path of this crate begins: its base, and how far that reaches into the text.
fn base(text: &str, own: &[String], inside: &[&str]) -> Option<(Words, usize)> {
    let word = word_at(text);
    text[word.len()..].strip_prefix("::")?;
    let at = word.len() + 2;
    match word {
        "crate" => Some((Vec::new(), at)),
        "self" => Some((own.to_vec(), at)),
        "super" => {
            let (mut base, mut at) = (own.to_vec(), 0);
            while text[at..].starts_with("super::") {
                base.pop();
                at += "super::".len();
            }
            Some((base, at))
        }
        _ => inside.contains(&word).then(|| (own.to_vec(), 0)),
    }
}

fn word_at(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The paths of one tree (`a::{b, c::d as e}`) below `base`, each with the name that it is known by; how many bytes of
/// the text the tree takes.
fn leaves_of(base: &mut Words, text: &str, found: &mut Vec<(Words, String)>) -> usize {
    let depth = base.len();
    let mut at = 0;
    loop {
        if text[at..].starts_with('{') {
            at += 1;
            loop {
                at += text[at..].len() - text[at..].trim_start_matches([' ', '\n', ',']).len();
                if !text[at..].starts_with(|c: char| c.is_alphabetic() || c == '_') {
                    break;
                }
                at += leaves_of(base, &text[at..], found);
            }
            at += usize::from(text[at..].starts_with('}'));
            break;
        }
        let word = word_at(&text[at..]);
        at += word.len();
        if !word.is_empty() && word != "self" {
            base.push(word.to_owned());
        }
        if !word.is_empty() && text[at..].starts_with("::") {
            at += 2;
            continue;
        }
        let alias = text[at..].strip_prefix(" as ").map(word_at);
        at += alias.map_or(0, |alias| alias.len() + " as ".len());
        let name = alias.or(base.last().map(String::as_str)).unwrap_or_default().to_owned();
        found.push((base.clone(), name));
        break;
    }
    base.truncate(depth);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(module: &str, code: &str) -> Vec<String> {
        Names::of(module, code).paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_where_code_names_them() {
        let code = "mod p;\nuse crate::a::{b, c::{self, D}, e as f};\n// crate::x\nuse std::fs;\n\
                    fn f() -> crate::g::H { super::i(); p::q(); std::r(); x::p::y() }\nuse super::super::k::L;";
        let all = ["a::b", "a::c", "a::c::D", "a::e", "g::H", "m::n::i", "m::n::o::p::q", "m::k::L"];
        assert_eq!(found("m::n::o", code), all);
    }

    #[test]
    fn what_is_handed_on_is_known_by_its_name_and_no_need() {
        let names = Names::of("m", "mod a;\npub(crate) use a::{B, C as D};\npub use self::a::E;\nuse a::F;");
        let of = |name: &str| names.handed_on[name].join("::");
        assert_eq!([of("B"), of("D"), of("E"), of("F")], ["m::a::B", "m::a::C", "m::a::E", "m::a::F"]);
        assert_eq!(names.paths, [["m", "a", "F"]]);
    }
}
