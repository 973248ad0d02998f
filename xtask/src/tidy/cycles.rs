//! `cargo xtask tidy --cycles`: modules of a crate that need each other in a circle.
//!
//! A module is a file; it needs those that its code names ([`paths`]). A name that a module only hands on (`pub use`)
//! leads to the module that holds it. The crate's root and tests do not count. Two modules are in one circle when each
//! reaches the other (the components of Tarjan, 1972).

mod paths;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::folders::{code_of, visit};
use crate::command::root;
use paths::Names;

/// Longest chain of `pub use` that is followed.
const HANDED_ON: usize = 8;

/// Modules of one crate by path (`exchange::upstream::pick`), each with those that it needs.
type Graph = BTreeMap<String, Vec<String>>;

/// Prints, for each crate, how many of its modules are in circles, and which.
pub(super) fn report() -> Result<()> {
    let crates = root().join("crates");
    let mut names: Vec<_> = fs::read_dir(&crates)?.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let source = crates.join(&name).join("src");
        let graph = graph(&source).with_context(|| format!("cannot read {}", source.display()))?;
        let circles = circles(&graph);
        let inside: usize = circles.iter().map(Vec::len).sum();
        let sizes: Vec<_> = circles.iter().map(|circle| circle.len().to_string()).collect();
        let sizes = if sizes.is_empty() { String::new() } else { format!(" ({})", sizes.join("+")) };
        println!("{}: {inside} of {} modules in cycles{sizes}", name.display(), graph.len());
        circles.iter().for_each(|circle| println!("  {}", circle.join(" ")));
    }
    Ok(())
}

/// The modules of a crate and what they need.
fn graph(source: &Path) -> Result<Graph> {
    let mut texts = BTreeMap::new();
    visit(source, source, &mut |name, text| {
        texts.insert(module_of(name), code_of(text).to_owned());
    })?;
    let root =
        fs::read_to_string(source.join("lib.rs")).or_else(|_| fs::read_to_string(source.join("main.rs")));
    texts.insert(String::new(), root.map(|text| code_of(&text).to_owned()).unwrap_or_default());
    let names: BTreeMap<_, _> =
        texts.iter().map(|(module, text)| (module.as_str(), Names::of(module, text))).collect();
    let edges = |module: &str| {
        let paths = names[module].paths.iter();
        let mut needed: Vec<_> = paths.map(|path| holder(&names, path.clone())).collect();
        needed.retain(|needed| !needed.is_empty() && needed != module);
        needed.sort();
        needed.dedup();
        needed
    };
    let modules = texts.keys().filter(|module| !module.is_empty() && *module != "main");
    Ok(modules.map(|module| (module.clone(), edges(module))).collect())
}

/// The path of a module from the name of its file.
fn module_of(name: &str) -> String {
    let path = name.strip_suffix(".rs").unwrap_or(name);
    path.strip_suffix("/mod").unwrap_or(path).replace('/', "::")
}

/// The module that holds what a path names.
fn holder(names: &BTreeMap<&str, Names>, mut path: Vec<String>) -> String {
    for _ in 0..HANDED_ON {
        let lengths = (0..=path.len()).rev();
        let mut modules = lengths.map(|length| (length, path[..length].join("::")));
        let Some((length, module)) = modules.find(|(_, module)| names.contains_key(module.as_str())) else {
            break;
        };
        let handed_on = path.get(length).and_then(|name| names[module.as_str()].handed_on.get(name));
        match handed_on {
            Some(target) => path = target.iter().chain(&path[length + 1..]).cloned().collect(),
            None => return module,
        }
    }
    String::new()
}

/// Groups of modules that all reach each other, the largest first.
fn circles(graph: &Graph) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, Vec<&str>> =
        graph.keys().map(|module| (module.as_str(), reach(graph, module))).collect();
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for module in graph.keys().map(String::as_str) {
        if circles.iter().any(|circle| circle.contains(&module)) {
            continue;
        }
        let circle: Vec<_> =
            reached[module].iter().copied().filter(|other| reached[other].contains(&module)).collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The modules that are reached from one by at least one step, in order.
fn reach<'a>(graph: &'a Graph, from: &str) -> Vec<&'a str> {
    let (mut seen, mut open) = (Vec::new(), vec![from]);
    while let Some(module) = open.pop() {
        for target in graph.get(module).into_iter().flatten() {
            if !seen.contains(&target.as_str()) {
                seen.push(target.as_str());
                open.push(target);
            }
        }
    }
    seen.sort_unstable();
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_groups_that_reach_each_other() {
        let edges =
            [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["a", "d"]), ("d", vec![]), ("e", vec!["a"])];
        let graph: Graph = edges
            .into_iter()
            .map(|(from, to)| (from.to_owned(), to.into_iter().map(str::to_owned).collect()))
            .collect();
        assert_eq!(circles(&graph), [["a", "b", "c"]]);
    }

    #[test]
    fn a_name_that_is_handed_on_leads_to_its_holder() {
        let names: BTreeMap<_, _> = [
            ("", "mod a;\nmod c;\npub use a::Held;"),
            ("a", "mod b;\npub(crate) use b::Inner as Held;\nstruct Own;"),
            ("a::b", ""),
            ("c", "use crate::a::{Held, Own};\nuse crate::Held as Same;"),
        ]
        .into_iter()
        .map(|(module, text)| (module, Names::of(module, text)))
        .collect();
        let held: Vec<_> = names["c"].paths.iter().map(|path| holder(&names, path.clone())).collect();
        assert_eq!(held, ["a::b", "a", "a::b"]);
        assert_eq!(holder(&names, vec!["x".into()]), "");
        assert_eq!(module_of("cli/mod.rs"), "cli");
    }
}
