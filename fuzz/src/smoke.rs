//! A short run of each target as an ordinary test: every seed, and random changes of them.
//!
//! The changes are the same in every run, so that a failure comes again. `THALWEG_LONG=1` makes twenty times as many;
//! what needs a view of the code is found by `cargo xtask fuzz`.

use std::time::{Duration, Instant};

use crate::mutation::Mutations;
use crate::{seeds, targets};

/// How many times more inputs a long run tries.
const LONGER: u32 = 20;
/// Longest time for one input, in an unoptimised build on a busy machine. What it is to catch takes hours.
const TIME: Duration = Duration::from_secs(20);

/// Shows an input when its check panics, as it would stand in a pack.
struct Shown<'a> {
    name: &'a str,
    bytes: &'a [u8],
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input, as a seed:\n{}", seeds::write(self.name, self.bytes));
        }
    }
}

fn smoke(name: &str, inputs: u32) {
    let target = targets::find(name).unwrap_or_else(|| panic!("there is no target {name}"));
    let check = |name: &str, bytes: &[u8]| {
        let shown = Shown { name, bytes };
        let start = Instant::now();
        (target.run)(shown.bytes);
        assert!(start.elapsed() < TIME, "{:?} for {} bytes", start.elapsed(), bytes.len());
    };
    let mut mutations = Mutations::of(target);
    for seed in mutations.seeds() {
        check(&seed.name, &seed.bytes);
    }
    let long = std::env::var("THALWEG_LONG").as_deref() == Ok("1");
    for number in 0..if long { inputs * LONGER } else { inputs } {
        check(&format!("{name}_{number}"), &mutations.next());
    }
}

/// One test per target, and the inputs that it tries: about two seconds in an unoptimised build.
macro_rules! smoke {
    ($($name:ident $inputs:literal)*) => {
        $(#[test]
        fn $name() {
            smoke(stringify!($name), $inputs);
        })*

        #[test]
        fn every_target_has_a_short_run() {
            let tried = [$(stringify!($name)),*];
            let names: Vec<_> = targets::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, tried);
        }
    };
}

smoke! {
    access_log 20000
    api_body 20000
    authority 50000
    body 20000
    cache 20000
    client_hello 50000
    condition 20000
    config 2000
    engine_vs_hyper 20000
    framing_rules 50000
    h2_head 50000
    h2_meter 5000
    har 20000
    jute 50000
    jwt 5000
    oidc 5000
    proxy_protocol 50000
    proxy_tlvs 20000
    request_head 50000
    response_head 50000
    route 20000
    sealed 20000
    signed_url 10000
    target 50000
    units 50000
}
