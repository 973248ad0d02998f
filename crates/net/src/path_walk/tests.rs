use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

/// A user that owns nothing on this machine.
const OTHER: u32 = 54321;

/// A directory that only this user can write, removed in the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thalweg-walk-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn directory(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The inode number of a directory.
fn number(directory: impl AsFd) -> u64 {
    fstat(directory).unwrap().st_ino
}

#[test]
fn a_link_is_followed_only_in_a_directory_that_no_other_user_can_write() {
    let place = Place::new("link");
    let (ours, open) = (place.directory("ours", 0o755), place.directory("open", 0o777));
    let target = place.directory("target", 0o755);
    for directory in [&ours, &open] {
        symlink("../target", directory.join("relative")).unwrap();
        symlink(&target, directory.join("absolute")).unwrap();
    }
    let inner = target.join("inner");
    fs::create_dir(&inner).unwrap();
    let expected = fs::metadata(&inner).unwrap().ino();
    for link in ["relative", "absolute"] {
        let opened = open_directory(&ours.join(link).join("inner")).unwrap();
        assert_eq!(number(opened), expected, "{link}");
        let error = open_directory(&open.join(link).join("inner")).unwrap_err();
        assert!(
            error.kind() == io::ErrorKind::PermissionDenied && error.to_string().contains(link),
            "{error}"
        );
    }
    symlink("round", ours.join("round")).unwrap();
    assert!(open_directory(&ours.join("round")).is_err());
    let missing = open_directory(&ours.join("missing")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn directories_that_are_missing_are_made_and_no_others() {
    let place = Place::new("make");
    let made = |path: &Path| {
        let mut all = Vec::new();
        make_directory(path, |made| {
            all.push(number(made));
            Ok(())
        })
        .map(|_| all)
    };
    let inner = place.0.join("a/b");
    let all = made(&inner).unwrap();
    assert_eq!(all, [place.0.join("a"), inner.clone()].map(|path| fs::metadata(path).unwrap().ino()));
    assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
    assert!(made(&inner).unwrap().is_empty(), "the second time it is there");
    fs::write(place.0.join("file"), "").unwrap();
    assert!(made(&place.0.join("file/below")).is_err());
    // The owner of a parent directory redirects the rest of the path.
    let (open, target) = (place.directory("open", 0o777), place.directory("target", 0o755));
    symlink(&target, open.join("state")).unwrap();
    assert!(made(&open.join("state/thalweg")).is_err());
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_directory_that_was_put_in_the_place_of_a_new_one_is_found_out() {
    let place = Place::new("swap");
    let check = |path: &Path| check_new(&openat(CWD, path, LIST, Mode::empty()).unwrap());
    let made = place.directory("made", 0o700);
    check(&made).unwrap();
    assert!(check(&place.directory("wider", 0o755)).is_err());
    fs::write(made.join("file"), "").unwrap();
    assert!(check(&made).is_err(), "it has something in it");
}

#[test]
fn a_program_is_trusted_where_others_can_write_nothing_on_the_way() {
    let place = Place::new("program");
    let program = |directory: &Path| {
        let path = directory.join("thalweg");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    // Others can write the temporary directory, so nothing below it is trusted.
    let below = program(&place.0);
    let told = trusted_program(&below).unwrap_err().to_string();
    let shared = std::env::temp_dir().canonicalize().unwrap();
    if fs::metadata(&shared).unwrap().mode() & 0o002 != 0 {
        assert!(told.starts_with(&format!("{} can be written", shared.display())), "{told}");
    }
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    assert_eq!(trusted_program(Path::new("/bin/sh")).unwrap(), shell);
    assert!(trusted_program(Path::new("/bin")).is_err(), "a directory");
    assert!(trusted_program(Path::new("/dev/null")).is_err(), "a device that others can write");
}

#[test]
fn a_file_of_another_user_or_that_others_can_write_is_not_ours() {
    let place = Place::new("owner");
    let file = place.0.join("file");
    fs::write(&file, "").unwrap();
    let is_ours = |mode: u32| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        is_written_by_us(&rustix::fs::stat(&file).unwrap())
    };
    assert!(is_ours(0o755) && !is_ours(0o775) && !is_ours(0o757));
    if !rustix::process::geteuid().is_root() {
        println!("not root: the owner of a file cannot be changed, so the rest is skipped");
        return;
    }
    chown(&file, Some(OTHER), None).unwrap();
    assert!(!is_ours(0o755));
}
