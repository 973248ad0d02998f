//! The program's own code in memory, and how what only the start needs leaves it (`docs/decisions/0103`).

use std::ffi::c_void;
use std::fs;

/// Lets go of the program's code that this process has mapped so far. The kernel maps 64 KiB around each first use, so
/// that the start alone, which is most of the code that ever runs, leaves more than 15 MB resident. What is run from
/// here on is mapped again from the page cache, at some 0.5 µs for each 64 KiB. Does nothing where the kernel does not
/// say where the code is. To be called once, when the start is over.
pub fn let_go_of_start() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some((start, length)) = code_around(&maps, let_go_of_start as *const () as usize) {
        discard(start, length);
    }
}

/// Where the mapping of code lies that has this address, and its bytes.
fn code_around(maps: &str, address: usize) -> Option<(usize, usize)> {
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let is_code = words.next()? == "r-xp" && (start..end).contains(&address);
        is_code.then(|| (start, end - start))
    })
}

#[expect(unsafe_code, reason = "advice that may change memory has no safe form (decision 0103)")]
fn discard(start: usize, length: usize) {
    // SAFETY: the range is a private mapping of a file, and is not written to: each page that goes away comes back with
    // the same bytes when it is touched.
    let _ = unsafe { libc::madvise(start as *mut c_void, length, libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_is_the_one_of_code_that_has_the_address() {
        let maps = "1000-3000 r--p 00000000 fe:00 7 /bin/thalweg\n3000-9000 r-xp 00002000 fe:00 7 /bin/thalweg\n\
                    9000-a000 rw-p 00008000 fe:00 7 /bin/thalweg\n";
        assert_eq!(code_around(maps, 0x3000), Some((0x3000, 0x6000)));
        assert_eq!(code_around(maps, 0x8fff), Some((0x3000, 0x6000)));
        assert_eq!(code_around(maps, 0x2fff), None);
        assert_eq!(code_around(maps, 0x9000), None);
        assert_eq!(code_around("", 0x3000), None);
    }

    /// In a process in which no other test runs, whose code would come and go.
    #[test]
    fn code_runs_on_behind_it_and_less_of_it_is_resident() {
        const ALONE: &str = "THALWEG_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "code::tests::code_runs_on_behind_it_and_less_of_it_is_resident";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let done = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let resident = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
        };
        let before = resident();
        let_go_of_start();
        assert!(resident() < before, "{before} KiB before, {} KiB after", resident());
    }
}
