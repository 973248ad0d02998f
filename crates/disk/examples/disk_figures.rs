//! Figures of the store on a disk: bytes of index and disk per object, puts, loads, and how long the index takes at a
//! start; and the same objects as a file each.
//!
//! `cargo run --release -p thalweg-disk --example disk_figures DIRECTORY [OBJECTS]`
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;
use thalweg_cache::{Key, KeyRule, Policy, Request, Response, StoredHead, UnixMillis, Url};
use thalweg_disk::{Disk, Load, Settings};
use thalweg_http::Method;
use thalweg_store::{Body, Limits, Object, Store};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HEAD: &[(&[u8], &[u8])] = &[
    (b"Date", b"Wed, 25 Nov 2026 15:00:00 GMT"),
    (b"Content-Type", b"application/json; charset=utf-8"),
    (b"Cache-Control", b"public, max-age=3600"),
    (b"ETag", b"\"0123456789abcdef\""),
    (b"Last-Modified", b"Wed, 25 Nov 2026 14:00:00 GMT"),
    (b"Server", b"origin"),
];
const SMALL: usize = 1000;
const LARGE: usize = 8 << 20;
const THREADS: usize = 4;

fn key_of(number: usize) -> Key {
    let path = format!("/api/v1/objects/{number:08}/details");
    let url =
        Url { scheme: "https", host: b"www.example.com", port: 443, path: path.as_bytes(), query: None };
    Key::of(&KeyRule::default(), &url, HEAD.iter().copied(), None).unwrap_or_default()
}

fn object(memory: &Store, number: usize, length: usize) -> Option<Arc<Object>> {
    let (policy, now) = (Policy::default(), UnixMillis::from_seconds(1_795_618_800));
    let fields = HEAD.iter().copied();
    let request = Request::read(Method::Get, false, std::iter::empty::<(&[u8], &[u8])>());
    let response = Response::read(&policy, 200, (now, now), fields.clone());
    let head = StoredHead::new(&policy, &request, &response, fields).ok()?;
    memory.put(&key_of(number), b"", head, Body::copy_of(&vec![number as u8; length])).ok()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<T>(mut poll: impl FnMut(&Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = poll(&context) {
            return done;
        }
        thread::park();
    }
}

fn put(disk: &Disk, memory: &Store, numbers: std::ops::Range<usize>, length: usize) {
    let (begin, many) = (Instant::now(), numbers.len());
    for number in numbers {
        let Some(object) = object(memory, number, length) else { continue };
        while !disk.put(&object, disk.ticket()) {
            disk.wait_idle();
        }
    }
    disk.wait_idle();
    let (seconds, counts) = (begin.elapsed().as_secs_f64(), disk.counts());
    println!(
        "{many} objects of {length} bytes: {:.0} puts and {:.0} MB per second; {} bytes of the disk in all",
        many as f64 / seconds,
        (many * length) as f64 / seconds / 1e6,
        counts.bytes,
    );
}

fn load_one(disk: &Disk, number: usize) -> Option<u64> {
    let (policy, key, mut variant) = (Policy::default(), key_of(number), Vec::new());
    let place = disk.find(&key, &policy, HEAD.iter().copied(), &mut variant)?;
    let mut load: Load = disk.load(place, &key, &variant)?;
    wait(|context| load.poll_head(context, &policy))?;
    let mut length = 0;
    while let Ok(Some(piece)) = wait(|context| load.poll_piece(context)) {
        length += piece.len() as u64;
    }
    Some(length)
}

fn load(disk: &Disk, objects: std::ops::Range<usize>, times: usize) {
    let begin = Instant::now();
    let counted = thread::scope(|scope| {
        let run = |thread: usize| {
            let objects = objects.clone();
            move || {
                let mut state = thread as u64 + 1;
                let numbers = std::iter::repeat_with(|| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    objects.start + (state >> 33) as usize % objects.len()
                });
                numbers
                    .take(times / THREADS)
                    .filter_map(|number| load_one(disk, number))
                    .fold((0, 0_u64), |sum, length| (sum.0 + 1, sum.1 + length))
            }
        };
        let running: Vec<_> = (0..THREADS).map(|thread| scope.spawn(run(thread))).collect();
        let all = running.into_iter().filter_map(|thread| thread.join().ok());
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} of {times} loads found, {:.0} and {:.0} MB per second, {THREADS} at a time",
        counted.0,
        f64::from(counted.0) / seconds,
        counted.1 as f64 / seconds / 1e6,
    );
}

/// The other format: a file for each object.
fn files(folder: &Path, objects: usize) -> std::io::Result<()> {
    let content = vec![7; SMALL + 500];
    for number in 0..256 {
        fs::create_dir_all(folder.join(format!("{number:02x}")))?;
    }
    let name = |number: usize| folder.join(format!("{:02x}", number % 256)).join(format!("{number:016x}"));
    let begin = Instant::now();
    for number in 0..objects {
        let path = name(number);
        let next = path.with_extension("next");
        fs::write(&next, &content)?;
        fs::rename(next, path)?;
    }
    let written = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let mut bytes = 0;
    for number in 0..objects {
        let file = fs::File::open(name(number))?;
        use std::os::unix::fs::{FileExt, MetadataExt};
        let mut front = [0; 512];
        file.read_exact_at(&mut front, 0)?;
        bytes += file.metadata()?.blocks() * 512;
    }
    let read = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    fs::remove_dir_all(folder)?;
    println!(
        "{objects} files: {:.0} puts per second, {:.0} heads read per second, {:.0} removed per second, {} bytes each \
         beside inodes",
        objects as f64 / written,
        objects as f64 / read,
        objects as f64 / begin.elapsed().as_secs_f64(),
        bytes / objects as u64,
    );
    Ok(())
}

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(folder) = args.next() else { return println!("disk_figures DIRECTORY [OBJECTS]") };
    let objects = args.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let folder = Path::new(&folder);
    let settings = Settings::of(folder.join("segments"), 8 << 30);
    let Ok(memory) = Store::new(Limits::of(256 << 20)) else { return };
    let open =
        || Disk::open(settings.clone(), Arc::new(|notice: thalweg_core::Notice| println!("{}", notice.text)));
    let Ok(disk) = open() else { return };
    disk.wait_idle();
    put(&disk, &memory, 0..objects, SMALL);
    let (index, counts) = (disk.index_bytes(), disk.counts());
    println!(
        "{} objects: {} bytes of index and {} of the disk each",
        counts.objects,
        index / counts.objects.max(1),
        counts.bytes / counts.objects.max(1),
    );
    load(&disk, 0..objects, 400_000);
    put(&disk, &memory, 10_000_000..10_000_100, LARGE);
    load(&disk, 10_000_000..10_000_100, 400);
    disk.close();
    let begin = Instant::now();
    let Ok(disk) = open() else { return };
    println!("opened after {:?}", begin.elapsed());
    disk.wait_idle();
    println!("{} objects found again after {:?}", disk.counts().objects, begin.elapsed());
    disk.close();
    if let Err(error) = files(&folder.join("files"), objects) {
        println!("{error}");
    }
}
