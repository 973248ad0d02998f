//! Many readers on many threads: each waker parks a thread, so that a wake-up that is lost hangs it.

use super::{head, key};
use crate::claim::Claim;
use crate::limits::{LEAST_BYTES, Limits};
use crate::reader::{Broken, Reader, Seen};
use crate::store::{Choice, Store};
use crate::testing::{THEN, lines};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use thalweg_cache::Policy;

/// A whole run takes less than a second; past this a wake-up was lost.
const TOO_LONG: Duration = Duration::from_secs(60);

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
        match poll(&context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

fn read(reader: &mut Reader) -> Result<Vec<u8>, Broken> {
    let mut read = Vec::new();
    while let Some(piece) = wait(|context| reader.poll_piece(context))? {
        read.extend_from_slice(&piece);
        if read.len() % 7 == 0 {
            thread::yield_now();
        }
    }
    Ok(read)
}

fn body(round: u32) -> Vec<u8> {
    let len = 1 + round as usize * 7919 % 200_000;
    (0..len).map(|number| (number as u32 * 31 + round) as u8).collect()
}

/// Gets one object, in whatever way a claim says.
fn fetch(store: &Store, round: u32, led: &AtomicU32) -> Vec<u8> {
    let key = key(&format!("/{round}"));
    loop {
        let stored = store.find(&key);
        if let Choice::Object(object) = stored.choose(&Policy::default(), lines(""), &mut Vec::new()) {
            return object.body().chunks().concat();
        }
        match store.claim(&key, b"", &stored, THEN) {
            Claim::Lead(mut lead) => {
                let number = led.fetch_add(1, Ordering::Relaxed);
                let body = body(round);
                let head = Arc::new(head(""));
                assert!(lead.give_head(head, b"", Some(body.len() as u64)));
                // Every third leader breaks off at first.
                let ends = if number.is_multiple_of(3) { body.len() / 2 } else { body.len() };
                for part in body[..ends].chunks(1 + round as usize * 131 % 9000) {
                    lead.append(part).unwrap();
                }
                if ends == body.len() {
                    lead.finish().unwrap();
                }
            }
            Claim::Follow(mut reader) => match wait(|context| reader.poll_head(context)) {
                Seen::Response(given) => match read(&mut reader) {
                    Ok(read) => {
                        assert_eq!(
                            Some(read.len() as u64),
                            given.length,
                            "a truncated body never is complete"
                        );
                        return read;
                    }
                    Err(why) => assert_eq!(why, Broken::LeaderGone),
                },
                Seen::Object(object) => return object.body().chunks().concat(),
                Seen::Alone(_) => {}
            },
            Claim::Look => {}
            Claim::Pass(why) => panic!("{why:?}"),
        }
    }
}

#[test]
fn no_wake_up_is_lost_and_no_reader_gets_half_a_body() {
    const THREADS: usize = 12;
    const ROUNDS: u32 = 150;
    let store = Store::new(Limits { largest: 1 << 20, shards: 2, ..Limits::of(LEAST_BYTES) }).unwrap();
    let (done, is_done) = mpsc::channel();
    let led = Arc::new(AtomicU32::new(0));
    for thread in 0..THREADS {
        let (store, done, led) = (store.clone(), done.clone(), led.clone());
        thread::spawn(move || {
            for round in 0..ROUNDS {
                assert!(fetch(&store, round, &led) == body(round), "{thread}: {round}");
                if round % 16 == 0 {
                    store.remove(&key(&format!("/{}", round + 1)));
                }
            }
            done.send(thread).unwrap();
        });
    }
    drop(done);
    for _ in 0..THREADS {
        is_done.recv_timeout(TOO_LONG).expect("a thread hangs or has failed");
    }
    let counts = store.counts();
    assert_eq!((counts.filling, counts.fill_bytes), (0, 0));
    assert!(counts.bytes <= LEAST_BYTES && counts.broken > 0, "{counts:?}");
}
