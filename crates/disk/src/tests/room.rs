//! The bound, and what goes.

use super::*;

pub(super) fn used(folder: &Folder) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let all = std::fs::read_dir(folder.path().join("cache")).unwrap();
    // One may go meanwhile.
    all.map(|entry| entry.unwrap().metadata().map_or(0, |found| found.blocks() * 512)).sum()
}

#[test]
fn the_oldest_go_and_what_is_used_stays() {
    let folder = Folder::new();
    let mut disk = open(&folder);
    let body = bytes(20_000, 1);
    put(&disk, "/used", "", b"used");
    disk.wait_idle();
    for round in 0..60 {
        for number in 0..50 {
            put(&disk, &format!("/{round}/{number}"), "", &body);
        }
        disk.wait_idle();
        assert_eq!(get(&disk, &key("/used"), "").body().unwrap(), b"used", "{round}");
        assert!(used(&folder) <= LEAST_BYTES, "{round}: {}", used(&folder));
        assert!(disk.counts().bytes <= LEAST_BYTES);
        if round == 19 {
            disk.close();
            disk = open(&folder);
        }
    }
    assert!(!is_there(&disk, "/0/0") && is_there(&disk, "/59/49"));
    let counts = disk.counts();
    assert!(counts.objects > 600 && counts.evictions > 500 && counts.kept > 0, "{counts:?}");
    assert!(used(&folder) > LEAST_BYTES * 8 / 10);
}

#[test]
fn large_objects_have_segments_of_their_own_and_too_large_ones_none() {
    let folder = Folder::new();
    let disk = open(&folder);
    for number in 0..20 {
        put(&disk, &format!("/{number}"), "", &bytes((LEAST_BYTES / 8) as usize, number));
        disk.wait_idle();
        assert!(used(&folder) <= LEAST_BYTES);
        let found = get(&disk, &key(&format!("/{number}")), "").body().unwrap();
        assert!(found == bytes((LEAST_BYTES / 8) as usize, number));
    }
    let large = object(&key("/l"), "", "", &bytes((LEAST_BYTES / 8) as usize + 1, 1));
    assert!(!disk.put(&large, disk.ticket()));
    assert!((4..=8).contains(&disk.counts().objects), "{:?}", disk.counts());
}

#[test]
fn a_load_goes_on_after_its_segment_has_gone() {
    let folder = Folder::new();
    let (disk, body, policy) = (open(&folder), bytes(20 * CHUNK, 1), Policy::default());
    put(&disk, "/", "", &body);
    disk.wait_idle();
    let (key, mut variant) = (key("/"), Vec::new());
    let place = disk.find(&key, &policy, lines(""), &mut variant).unwrap();
    let mut load = disk.load(place, &key, &variant).unwrap();
    wait(|context| load.poll_head(context, &policy)).unwrap();
    disk.remove(&key);
    for number in 0..40 {
        put(&disk, &format!("/{number}"), "", &bytes(20 * CHUNK, number));
        disk.wait_idle();
    }
    drop(disk);
    assert!(read(&mut load).unwrap() == body);
}

#[test]
fn a_smaller_limit_holds_after_a_restart() {
    let folder = Folder::new();
    let settings = Settings { readers: 1, ..Settings::of(folder.path().join("cache"), 3 * LEAST_BYTES) };
    let disk = Disk::open(settings, Said::default().say()).unwrap();
    disk.wait_idle();
    for number in 0..200 {
        put(&disk, &format!("/{number}"), "", &bytes(200_000, number));
        disk.wait_idle();
    }
    assert!(used(&folder) > LEAST_BYTES * 2);
    disk.close();
    let disk = open(&folder);
    assert!(used(&folder) <= LEAST_BYTES && disk.counts().objects > 40);
    assert!(get(&disk, &key("/199"), "").body().unwrap() == bytes(200_000, 199));
}

#[test]
fn more_than_may_wait_is_not_written() {
    let folder = Folder::new();
    let disk = open(&folder);
    let body = bytes(1 << 20, 1);
    // Each of its own key: of one key only the newest is written.
    let of = |number: &u32| object(&key(&format!("/{number}")), "", "", &body);
    let queued = (0..120).filter(|number| disk.put(&of(number), disk.ticket())).count();
    disk.wait_idle();
    let counts = disk.counts();
    assert!((1..120).contains(&queued));
    assert_eq!((counts.written, counts.not_written), (queued as u64, 120 - queued as u64));
    assert_eq!(counts.objects + counts.evictions, queued as u64);
}

#[test]
fn of_one_key_the_newest_is_found_however_many_wait() {
    let folder = Folder::new();
    let disk = open(&folder);
    let put = |number: u64| {
        let object = object(&key("/"), "", "", &bytes(10_000, number));
        disk.put(&object, disk.ticket())
    };
    assert!((0..300).all(put));
    let found = get(&disk, &key("/"), "");
    assert!(matches!(found, Got::Nothing) || found.body().unwrap() == bytes(10_000, 299));
    disk.wait_idle();
    assert!(get(&disk, &key("/"), "").body().unwrap() == bytes(10_000, 299));
    assert_eq!(disk.counts().objects, 1);
}
