//! LimitRegistry, lines, pools and handovers under a deterministic simulation: several workers, whose steps the
//! seed interleaves over virtual time. Exchanges come, wait, are called off at any point, use
//! connections and end; connections die while idle, in use and on their way; bounds (adaptive ones at any
//! time), queues and endpoints change under way. A failure names its seed; `SEED=n` runs that one alone,
//! `THALWEG_LONG=1` many more.
//!
//! The steps of an exchange stand in [`exchange`], as `proxy` takes them; what is true in the world
//! outside in [`wire`]; who should go first in [`order`]; the events and the checks after each in [`world`].

mod exchange;
mod order;
mod wire;
mod world;

use world::World;

/// What a run has seen, so that one can tell that the runs see anything.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    opened: usize,
    reused: usize,
    handed_over: usize,
    died_on_the_way: usize,
    waited: usize,
    refused: usize,
    displaced: usize,
    called_off: usize,
    adapted: usize,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.opened += other.opened;
        self.reused += other.reused;
        self.handed_over += other.handed_over;
        self.died_on_the_way += other.died_on_the_way;
        self.waited += other.waited;
        self.refused += other.refused;
        self.displaced += other.displaced;
        self.called_off += other.called_off;
        self.adapted += other.adapted;
    }
}

fn run(seed: u64) -> Seen {
    let mut world = World::new(seed);
    for _ in 0..400 {
        world.step();
    }
    world.end()
}

#[test]
fn no_bound_is_passed_nobody_is_forgotten_and_everything_is_given_back() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", run(seed));
        return;
    }
    let seeds = if std::env::var_os("THALWEG_LONG").is_some() { 20_000 } else { 200 };
    let mut seen = Seen::default();
    for seed in 0..seeds {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(one) => seen.add(one),
            Err(panic) => {
                eprintln!("concurrency_limits and pools fail with SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    let Seen {
        opened,
        reused,
        handed_over,
        died_on_the_way,
        waited,
        refused,
        displaced,
        called_off,
        adapted,
    } = seen;
    let rare = [handed_over, died_on_the_way, waited, refused, displaced, called_off, adapted];
    for count in rare.into_iter().chain([opened, reused]) {
        assert!(count > 50, "the histories are too tame: {seen:?}");
    }
}
