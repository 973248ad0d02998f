use super::*;

#[test]
fn no_word_stands_twice_at_a_place() {
    let mut seen = HashSet::new();
    for row in WORDS {
        assert!(!row.at.is_empty() && !row.words.is_empty());
        for place in row.at {
            for word in row.words {
                assert!(seen.insert((*place, *word)), "{place:?} `{word}`");
                assert_eq!(
                    lookup(*place, word).map(|row| row.words),
                    Some(row.words),
                    "{word} is not in plain form"
                );
            }
        }
    }
}

#[test]
fn every_page_exists() {
    for row in WORDS {
        let Means::Called(_, page) = row.means else { continue };
        let (file, anchor) = page.split_once('#').unwrap_or((page, ""));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../").to_owned() + file;
        let text = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{page}"));
        let heading = |line: &str| {
            let letters = line.trim_start_matches('#').trim().chars();
            let slug = letters.filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
                _ => None,
            });
            line.starts_with('#') && slug.collect::<String>() == anchor
        };
        assert!(anchor.is_empty() || text.lines().any(heading), "{page} has no such heading");
    }
}

/// A key that has landed is not refused.
#[test]
fn no_word_is_a_key_of_its_place() {
    let keys = crate::schema::keys();
    let keys: HashSet<&str> =
        keys.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(keys.contains("services.<name>.health.path"));
    for (place, paths) in PLACES {
        for path in *paths {
            let mut written = String::new();
            for (at, part) in path.iter().enumerate() {
                match (*part, path[at - usize::from(at > 0)]) {
                    ("*", "routes" | "tests" | "filters" | "endpoints" | "certificates") => {
                        written.push_str("[]")
                    }
                    ("*", "*") => written.push_str("[]"),
                    ("*", _) => written.push_str(".<name>"),
                    (part, _) => {
                        written = if at == 0 { part.to_owned() } else { format!("{written}.{part}") }
                    }
                }
            }
            for row in WORDS.iter().filter(|row| row.at.contains(place)) {
                for word in row.words {
                    let key =
                        if written.is_empty() { (*word).to_owned() } else { format!("{written}.{word}") };
                    assert!(!keys.contains(key.as_str()), "`{key}` exists");
                }
            }
        }
    }
}

#[test]
fn spelling_does_not_matter() {
    for key in ["entry_points", "entryPoints", "EntryPoints", "entry-points"] {
        assert!(lookup(Place::Top, key).is_some(), "{key}");
    }
    assert_eq!(section("upstreams"), Some("services"));
    assert!(lookup(Place::Top, &"e".repeat(10_000)).is_none());
}
