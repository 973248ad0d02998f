//! Checks whether users other than root and the proxy's own can write the state directory, or replace a component of
//! its path; and, with `user:`, whether users other than root can write the configuration. Root reads it at every
//! start and upgrade: without its `user:` the proxy would stay root.
//!
//! Such a user can replace the files that the proxy reads at its next start: changes of the admin API, lists,
//! certificates, and the token of the admin API.

use super::{Subject, place};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thalweg_config::SpecError;
use thalweg_net::machine::Identity;

/// The file of the admin token in the state directory.
const TOKEN: &str = "admin.token";
/// The sticky bit: only the owner of an entry may remove or rename it in such a directory.
const STICKY: u32 = 0o1000;

/// The owner of files that only root can write.
const ROOT: Identity = Identity { uid: 0, gid: 0 };

pub(super) fn check(subject: &Subject<'_>) -> Vec<SpecError> {
    state(subject).into_iter().chain(configuration(subject)).collect()
}

fn configuration(subject: &Subject<'_>) -> Option<SpecError> {
    let user = super::user::identity(&subject.loaded.settings)?.ok()?;
    if user.uid == ROOT.uid {
        return None;
    }
    let inputs = &subject.loaded.inputs;
    let files = inputs.texts().map(Path::to_owned).chain(inputs.directories());
    // A link can be replaced where it stands, and what it leads to where that stands.
    let places = files.flat_map(|path| [std::path::absolute(&path).ok(), fs::canonicalize(&path).ok()]);
    let (part, why) = places.flatten().find_map(|path| way(&path, ROOT))?;
    let what = format!(
        "with `user`, others than root can write the configuration, which root reads: {} {why}",
        part.display()
    );
    let help = "they could choose the user of the next start, root among them, and the files that root opens; let root own \
                the files and their directories, with modes like 0644 and 0755";
    Some(SpecError::warning("exposed", place(subject.places.user), what).help(help))
}

fn state(subject: &Subject<'_>) -> Vec<SpecError> {
    let Some(state) = &subject.loaded.settings.state else { return Vec::new() };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let user = super::user::identity(&subject.loaded.settings).and_then(Result::ok);
    let user = user.unwrap_or(Identity { uid, gid });
    let Ok(path) = std::path::absolute(state) else { return Vec::new() };
    let token = path.join(TOKEN);
    let found = way(&path, user).or_else(|| of_entry(&token, user).map(|why| (token, why)));
    let Some((part, why)) = found else { return Vec::new() };
    let what =
        format!("the state in {} is not safe from other users: {} {why}", state.display(), part.display());
    let help = "they could replace the files that the proxy reads there, the admin token among them; let root or the user of \
                the proxy own it, with a mode like 0700";
    vec![SpecError::warning("exposed", place(subject.places.state), what).help(help)]
}

/// The first component of a path that others can replace, or the file or directory itself if they can write it.
fn way(path: &Path, user: Identity) -> Option<(PathBuf, String)> {
    let mut parts: Vec<_> = path.ancestors().collect();
    parts.reverse();
    let mut parts = parts.into_iter().peekable();
    while let Some(part) = parts.next() {
        let found = fs::metadata(part).ok()?;
        let next = parts.peek().is_some_and(|next| next.symlink_metadata().is_ok());
        // In a directory like `/tmp` other users cannot remove an entry that exists.
        let is_shared = next && found.mode() & STICKY != 0;
        if !is_shared && let Some(why) = writer(&found, user) {
            return Some((part.to_owned(), why));
        }
    }
    None
}

fn of_entry(path: &Path, user: Identity) -> Option<String> {
    path.symlink_metadata().ok().filter(|found| !found.is_symlink()).and_then(|found| writer(&found, user))
}

/// The other users that can write a file.
fn writer(found: &Metadata, user: Identity) -> Option<String> {
    let (uid, gid, mode) = (found.uid(), found.gid(), found.mode());
    match () {
        () if mode & 0o002 != 0 => Some("can be written by all users".to_owned()),
        () if mode & 0o020 != 0 && gid != 0 && gid != user.gid => {
            Some(format!("can be written by the group {gid}"))
        }
        () if uid != 0 && uid != user.uid => Some(format!("belongs to the user {uid}")),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_state_directory_that_others_can_write_is_told() {
        let base = std::env::temp_dir().join(format!("thalweg-exposed-{}", std::process::id()));
        let state = base.join("state");
        fs::create_dir_all(&state).unwrap();
        let told = || {
            let text = format!(
                "state: {{ path: {} }}\nlisteners: {{ web: {{ address: \":8080\" }} }}\n\
                 routes: [ {{ to: [ \"http://127.0.0.1:1\" ] }} ]\n",
                state.display()
            );
            let loaded = thalweg_config::check_text("a.yaml", &text, &|_| None).unwrap();
            let found = check(&Subject { loaded: &loaded, places: &loaded.places });
            found.into_iter().map(|error| error.message).collect::<Vec<_>>()
        };
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for path in [&base, &state] {
            set(path, 0o755);
        }
        assert_eq!(told(), [""; 0]);
        for (path, mode) in [(&base, 0o777), (&state, 0o777), (&state, 0o1777)] {
            set(path, mode);
            let said = told();
            let expected = format!("{} can be written by all users", path.display());
            assert!(said.len() == 1 && said[0].ends_with(&expected), "{said:?}");
            set(path, 0o755);
        }
        // In a directory like /tmp an existing entry is safe; others could make a missing one.
        set(&base, 0o1777);
        assert_eq!(told(), [""; 0]);
        fs::remove_dir(&state).unwrap();
        assert_eq!(told().len(), 1);
        fs::create_dir(&state).unwrap();
        fs::write(state.join(TOKEN), "token").unwrap();
        set(&state.join(TOKEN), 0o666);
        assert!(told()[0].contains("admin.token can be written by all users"), "{:?}", told());
        fs::remove_dir_all(&base).unwrap();
    }

    /// A user that could write the file removed `user:` from it and was root after the next crash.
    #[test]
    fn a_configuration_that_others_than_root_can_write_is_told_where_it_names_a_user() {
        if !rustix::process::geteuid().is_root() {
            println!("not root: the owner of a file cannot be changed, so this is skipped");
            return;
        }
        let base = std::env::temp_dir().join(format!("thalweg-exposed-file-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let (main, part) = (base.join("main.yaml"), base.join("part.yaml"));
        let rest = "listeners: { web: \":8080\" }\ninclude: [ part.yaml ]\n";
        fs::write(&part, "routes: [ { to: [ \"http://127.0.0.1:1\" ] } ]\n").unwrap();
        let told = |head: &str| {
            fs::write(&main, format!("{head}{rest}")).unwrap();
            let loaded = thalweg_config::load_file(&main).unwrap();
            let found = check(&Subject { loaded: &loaded, places: &loaded.places });
            found.into_iter().map(|error| error.message).collect::<Vec<_>>()
        };
        let other = "user: \"54321\"\n";
        assert_eq!(told(other), [""; 0]);
        for path in [&main, &part, &base] {
            std::os::unix::fs::chown(path, Some(54321), None).unwrap();
            let expected = format!("{} belongs to the user 54321", path.display());
            assert!(told(other)[0].ends_with(&expected), "{:?}", told(other));
            assert_eq!(told(""), [""; 0]);
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
        }
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn other_owners_and_groups_can_write() {
        let base = std::env::temp_dir().join(format!("thalweg-exposed-owner-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let found = fs::metadata(&base).unwrap();
        let user = Identity { uid: found.uid(), gid: found.gid() };
        assert_eq!(writer(&found, user), None);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&base, Some(54321), Some(54322)).unwrap();
            let found = fs::metadata(&base).unwrap();
            assert_eq!(writer(&found, user), Some("belongs to the user 54321".to_owned()));
            assert_eq!(writer(&found, Identity { uid: 54321, gid: 54322 }), None);
            fs::set_permissions(&base, fs::Permissions::from_mode(0o770)).unwrap();
            let found = fs::metadata(&base).unwrap();
            let other_group = Identity { uid: 54321, gid: 1 };
            assert_eq!(writer(&found, other_group), Some("can be written by the group 54322".to_owned()));
        } else {
            println!("not root: the owner of a directory cannot be changed, so the rest is skipped");
        }
        fs::remove_dir_all(&base).unwrap();
    }
}
