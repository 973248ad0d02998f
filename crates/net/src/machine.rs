//! What the machine allows: CPUs, descriptors, users.

use rustix::process::{Resource, Rlimit};
use std::fs;
use std::io;
use std::path::Path;

/// CPUs that this process may use: the affinity mask, limited by the cgroup's CPU quota (v1 and v2,
/// the smallest along the path, rounded up). At least 1.
pub fn cpus() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let quota = cgroup_quota(Path::new("/sys/fs/cgroup"), &membership);
    quota.map_or(allowed, |quota| allowed.min(quota)).max(1)
}

/// The smallest CPU quota of the cgroups that `membership` (the text of `/proc/self/cgroup`) names.
fn cgroup_quota(root: &Path, membership: &str) -> Option<usize> {
    let mut smallest = None;
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let base = match controllers {
            "" => root.to_path_buf(),
            list if list.split(',').any(|name| name == "cpu") => root.join(list),
            _ => continue,
        };
        let mut dir = base.join(path.trim_start_matches('/'));
        loop {
            if let Some(quota) = quota_of(&dir) {
                smallest = Some(smallest.map_or(quota, |known: usize| known.min(quota)));
            }
            if dir == base || !dir.pop() {
                break;
            }
        }
    }
    smallest
}

fn quota_of(dir: &Path) -> Option<usize> {
    let read = |name| fs::read_to_string(dir.join(name)).ok();
    let (quota, period) = if let Some(text) = read("cpu.max") {
        let mut words = text.split_whitespace();
        (words.next()?.parse::<f64>().ok()?, words.next()?.parse::<f64>().ok()?)
    } else {
        let number = |name| read(name)?.trim().parse::<f64>().ok();
        (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    };
    (quota > 0.0 && period > 0.0).then(|| ((quota / period).ceil() as usize).max(1))
}

/// Raises the soft descriptor limit to the hard one and returns what holds now.
pub fn raise_descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.current.is_none() {
        let _ = rustix::process::setrlimit(
            Resource::Nofile,
            Rlimit { current: limit.maximum, maximum: limit.maximum },
        );
    }
    let now = rustix::process::getrlimit(Resource::Nofile).current;
    now.map_or(1 << 20, |limit| usize::try_from(limit).unwrap_or(usize::MAX)).min(1 << 24)
}

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// Looks `user` or `user:group` up: names of /etc/passwd and /etc/group, or numbers.
///
/// # Errors
/// `NotFound` when a name is unknown.
pub fn identity(text: &str) -> io::Result<Identity> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry = database_entry(&passwd, user);
    let number = |field: Option<&str>| field.and_then(|field| field.parse::<u32>().ok());
    let uid = number(entry.as_ref().map(|entry| entry[2])).or_else(|| user.parse().ok());
    let gid = match group {
        Some(group) => {
            let groups = fs::read_to_string("/etc/group").unwrap_or_default();
            number(database_entry(&groups, group).map(|entry| entry[2])).or_else(|| group.parse().ok())
        }
        None => number(entry.as_ref().map(|entry| entry[3])).or(uid),
    };
    let unknown =
        |what: &str| io::Error::new(io::ErrorKind::NotFound, format!("`{text}` names no known {what}"));
    Ok(Identity { uid: uid.ok_or_else(|| unknown("user"))?, gid: gid.ok_or_else(|| unknown("group"))? })
}

/// Gives up root. Call it before any thread starts: it changes the calling thread and those it starts.
///
/// # Errors
/// When the process may not change its user.
pub fn assume(identity: Identity) -> io::Result<()> {
    use rustix::process::{Gid, Uid};
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    rustix::thread::set_thread_groups(&[gid])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// The fields of the line of a passwd-like file whose first field is `name`; at least four.
fn database_entry<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    text.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|e| e.len() >= 4 && e[0] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_smallest_quota_along_the_path() {
        let root = std::env::temp_dir().join(format!("thalweg-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/cpu.max"), "150000 100000\n").unwrap();
        fs::write(root.join("a/b/cpu.max"), "max 100000\n").unwrap();
        assert_eq!(cgroup_quota(&root, "0::/a/b\n"), Some(2));
        fs::write(root.join("a/b/cpu.max"), "20000 100000\n").unwrap();
        assert_eq!(cgroup_quota(&root, "0::/a/b\n"), Some(1));
        assert_eq!(cgroup_quota(&root, "0::/elsewhere\n"), None);
        fs::create_dir_all(root.join("cpu,cpuacct/x")).unwrap();
        fs::write(root.join("cpu,cpuacct/x/cpu.cfs_quota_us"), "300000").unwrap();
        fs::write(root.join("cpu,cpuacct/x/cpu.cfs_period_us"), "100000").unwrap();
        assert_eq!(cgroup_quota(&root, "4:cpu,cpuacct:/x\n3:memory:/y\n"), Some(3));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn there_is_at_least_one_cpu() {
        assert!(cpus() >= 1);
    }

    #[test]
    fn finds_users_by_their_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nrooty:x:7:8::/:/bin/false\n";
        assert_eq!(database_entry(passwd, "rooty").map(|e| e[3]), Some("8"));
        assert!(database_entry(passwd, "roo").is_none());
    }
}
