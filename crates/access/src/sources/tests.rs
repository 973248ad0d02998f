//! Tests of lists in files. Those from URLs are in the scenarios: they need a server.

use super::*;
use std::fs;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thalweg-lists-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn has(source: &Source, address: &str) -> bool {
    source.networks().contains(address.parse().unwrap())
}

/// What is said at the second look at a file that has changed.
fn looked(source: &Source) -> Option<String> {
    assert_eq!(source.look(), None, "it may be in the middle of a change");
    source.look().map(|notice| notice.text)
}

#[test]
fn a_list_is_read_again_when_it_has_changed_and_a_wrong_one_is_not_taken() {
    let folder = Folder::new("again");
    let path = folder.0.join("list.txt");
    fs::write(&path, "192.0.2.0/24\n").unwrap();
    let source = Source::file(&path).unwrap();
    assert!(has(&source, "192.0.2.1") && source.look().is_none() && source.look().is_none());
    fs::write(&path, "192.0.2.0/24\n198.51.100.0/24\n# two\n").unwrap();
    assert!(looked(&source).unwrap().ends_with("list.txt: 2 networks, 1 before"));
    assert!(has(&source, "198.51.100.1"));
    // Half written: the line is named, and the old list stays.
    fs::write(&path, "203.0.113.0/24\n198.51.").unwrap();
    let told = looked(&source).unwrap();
    assert!(told.contains("line 2: is neither a network nor an address"), "{told}");
    assert!(!told.contains("198.51."), "{told}");
    assert!(told.ends_with("the old list with 2 networks stays"), "{told}");
    assert!(has(&source, "192.0.2.1") && !has(&source, "203.0.113.1"));
    assert!(source.look().is_none() && source.look().is_none(), "it is told once");
    // A reload says it again.
    assert!(Source::file(&path).unwrap_err().contains("line 2"));
    fs::write(&path, "203.0.113.0/24\n").unwrap();
    assert!(looked(&source).unwrap().ends_with("1 networks, 2 before"));
    fs::remove_file(&path).unwrap();
    assert!(source.look().unwrap().text.contains("there is no such file"));
    assert!(source.look().is_none() && has(&source, "203.0.113.1"));
    fs::write(&path, "192.0.2.0/24\n").unwrap();
    assert!(looked(&source).is_some() && has(&source, "192.0.2.1"));
}

#[test]
fn places_that_name_the_same_file_share_its_list() {
    let folder = Folder::new("shared");
    let path = folder.0.join("list.txt");
    fs::write(&path, "192.0.2.0/24\n").unwrap();
    let one = Source::file(&path).unwrap();
    fs::write(&path, "192.0.2.0/24\n198.51.100.7\n").unwrap();
    let other = Source::file(&path).unwrap();
    assert!(Arc::ptr_eq(&one, &other));
    assert!(has(&one, "198.51.100.7"), "a reload reads it at once");
}

#[test]
fn what_cannot_be_a_list_is_refused_at_the_start() {
    let folder = Folder::new("refused");
    for (name, bytes, part) in [
        ("long", &[b'1'; 1 << 20][..], "line 1: it is longer than 4096 bytes"),
        ("bad", b"192.0.2.0/24\nnonsense\n", "line 2: is neither a network nor an address"),
        ("host", b"192.0.2.1/24\n", "bits set behind"),
    ] {
        let path = folder.0.join(name);
        fs::write(&path, bytes).unwrap();
        let error = Source::file(&path).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    assert!(Source::file(&folder.0.join("none")).unwrap_err().contains("no such file"));
    assert!(Source::file(&folder.0).unwrap_err().contains("not a regular file"));
    assert!(Source::file(Path::new("/dev/zero")).unwrap_err().contains("not a regular file"));
    assert!(Source::url("ftp://a", Duration::from_secs(60)).is_err());
}
