//! libFuzzer over one target, which `$THALWEG_FUZZ_TARGET` names. Built and started by `cargo xtask fuzz`.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::targets::{self, Target};

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("THALWEG_FUZZ_TARGET").expect("THALWEG_FUZZ_TARGET names the target");
        let target = targets::find(&name).unwrap_or_else(|| panic!("there is no fuzz target `{name}`"));
        let _ = TARGET.set(target);
    },
    |input: &[u8]| {
        let target = TARGET.get().expect("libFuzzer calls init first");
        (target.run)(input);
    }
);
