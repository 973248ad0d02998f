//! What the machine allows: CPUs, memory, descriptors, users. Asked once, when the process starts.

use rustix::process::{Resource, Rlimit};
use std::fs;
use std::io;
use std::path::Path;

/// Where cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Memory that is assumed where the kernel does not tell.
const UNKNOWN_MEMORY: u64 = 1 << 30;

/// CPUs that this process may use: the affinity mask, limited by the cgroup's CPU quota (v1 and v2,
/// the smallest along the path, rounded up). At least 1.
pub fn cpus() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
    let quota = smallest_in_cgroups(Path::new(CGROUPS), &membership(), "cpu", quota_of);
    quota.map_or(allowed, |quota| allowed.min(quota)).max(1)
}

/// How long the calling thread goes on at most when others wait for its CPU, in nanoseconds: the least that Linux takes
/// (from 6.12; by itself some 3 ms). Others are asked for 0.1 to 100 ms.
const SHORT: u64 = 100_000;

/// From now on the calling thread is asked to go on for 0.1 ms only when others wait for its CPU, and gets it the
/// sooner when it has something to do; its share is the same. A kernel that does not know that changes nothing.
#[expect(unsafe_code, reason = "no library in use has a safe form of this system call (decision 0041)")]
pub fn ask_for_short_slices() {
    let thread = Some(rustix::thread::gettid());
    let Ok(nice) = rustix::process::getpriority_process(thread) else { return };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SHORT,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads the attributes, whose size they say themselves and which outlive it.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

/// Memory in bytes, and whose bound that is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Memory {
    /// A cgroup's limit: it is for this process and what runs beside it in the cgroup.
    Cgroup(u64),
    /// All that the machine has.
    Machine(u64),
}

/// Memory that this process may use at most: the smallest cgroup limit along the path (v1 and v2), or
/// the machine's memory where that is less or there is no limit.
pub fn memory() -> Memory {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = total_memory(&text).unwrap_or(UNKNOWN_MEMORY);
    match smallest_in_cgroups(Path::new(CGROUPS), &membership(), "memory", memory_limit_of) {
        Some(limit) if limit < machine => Memory::Cgroup(limit),
        _ => Memory::Machine(machine),
    }
}

fn membership() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// The smallest value that `read` finds in the cgroups of a controller that `membership` (the text of
/// `/proc/self/cgroup`) names, and in those above them.
fn smallest_in_cgroups<T: Ord>(
    root: &Path,
    membership: &str,
    controller: &str,
    read: impl Fn(&Path) -> Option<T>,
) -> Option<T> {
    let mut smallest: Option<T> = None;
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let base = match controllers {
            "" => root.to_path_buf(),
            list if list.split(',').any(|name| name == controller) => root.join(list),
            _ => continue,
        };
        let mut dir = base.join(path.trim_start_matches('/'));
        loop {
            smallest = smallest.into_iter().chain(read(&dir)).min();
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

/// v2: `memory.max` ends the process, `memory.high` slows it down before; v1 has one limit. No limit is
/// the word `max` there and a number larger than any machine here.
fn memory_limit_of(dir: &Path) -> Option<u64> {
    let read = |name| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
    ["memory.max", "memory.high", "memory.limit_in_bytes"].into_iter().filter_map(read).min()
}

/// `MemTotal` of the text of `/proc/meminfo`, in bytes.
fn total_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
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
        let quota = |root: &Path, text: &str| smallest_in_cgroups(root, text, "cpu", quota_of);
        let root = std::env::temp_dir().join(format!("thalweg-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/cpu.max"), "150000 100000\n").unwrap();
        fs::write(root.join("a/b/cpu.max"), "max 100000\n").unwrap();
        assert_eq!(quota(&root, "0::/a/b\n"), Some(2));
        fs::write(root.join("a/b/cpu.max"), "20000 100000\n").unwrap();
        assert_eq!(quota(&root, "0::/a/b\n"), Some(1));
        assert_eq!(quota(&root, "0::/elsewhere\n"), None);
        fs::create_dir_all(root.join("cpu,cpuacct/x")).unwrap();
        fs::write(root.join("cpu,cpuacct/x/cpu.cfs_quota_us"), "300000").unwrap();
        fs::write(root.join("cpu,cpuacct/x/cpu.cfs_period_us"), "100000").unwrap();
        assert_eq!(quota(&root, "4:cpu,cpuacct:/x\n3:memory:/y\n"), Some(3));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_thread_asks_for_short_slices_and_keeps_the_rest() {
        let told = std::thread::spawn(|| {
            ask_for_short_slices();
            let thread = Some(rustix::thread::gettid());
            (rustix::process::getpriority_process(thread), fs::read_to_string("/proc/thread-self/sched"))
        });
        let (nice, told) = told.join().unwrap();
        assert_eq!(nice, rustix::process::getpriority_process(Some(rustix::thread::gettid())));
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
        let knows = numbers.next().zip(numbers.next()).is_some_and(|version| version >= (6, 12));
        let value = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.rsplit(' ').next()?.parse::<u64>().ok()
        };
        match told {
            Ok(text) if knows => {
                assert_eq!((value(&text, "policy"), value(&text, "se.slice")), (Some(0), Some(SHORT)));
            }
            _ => eprintln!("skipped: Linux {release} does not tell of slices"),
        }
    }

    #[test]
    fn takes_the_smallest_memory_limit_along_the_path() {
        let limit = |root: &Path, text: &str| smallest_in_cgroups(root, text, "memory", memory_limit_of);
        let root = std::env::temp_dir().join(format!("thalweg-memory-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/memory.max"), "1000000\n").unwrap();
        fs::write(root.join("a/b/memory.max"), "max\n").unwrap();
        assert_eq!(limit(&root, "0::/a/b\n"), Some(1_000_000));
        fs::write(root.join("a/b/memory.high"), "900000\n").unwrap();
        assert_eq!(limit(&root, "0::/a/b\n"), Some(900_000));
        fs::create_dir_all(root.join("memory/x")).unwrap();
        fs::write(root.join("memory/memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        fs::write(root.join("memory/x/memory.limit_in_bytes"), "67108864\n").unwrap();
        assert_eq!(limit(&root, "8:pids:/\n4:memory:/x\n"), Some(64 << 20));
        assert_eq!(limit(&root, "4:memory:/not/mounted/here\n"), Some(9_223_372_036_854_771_712));
        assert_eq!(limit(&root, "0::/elsewhere\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn reads_what_the_machine_has() {
        assert_eq!(total_memory("MemTotal:       24684416 kB\nMemFree: 1 kB\n"), Some(24_684_416 * 1024));
        assert_eq!(total_memory(""), None);
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
