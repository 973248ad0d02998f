//! Proves that no algorithm of the list allocates for a pick: with all endpoints ready, some, few and none, with and
//! without load, in small and large sets.

use thalweg_balance::{BALANCERS, Balancer, Candidate, Loads, Pick, Seed, endpoint_id, key_hash};

use super::counting::Tally;

/// Picks in each situation.
const PICKS: u64 = 200;

/// Every third endpoint is busy.
struct Uneven;

impl Loads for Uneven {
    fn in_flight(&self, index: u32) -> u32 {
        if index.is_multiple_of(3) { 9 } else { 1 }
    }

    fn total_in_flight(&self) -> u32 {
        300
    }

    fn latency(&self, index: u32) -> Option<f32> {
        (!index.is_multiple_of(5)).then_some(1000.0 * index as f32)
    }
}

fn endpoints(count: u32) -> Vec<Candidate> {
    let id = |number: u32| endpoint_id(&format!("http://10.0.{}.{}:80", number / 256, number % 256));
    (0..count).map(|n| Candidate { weight: 1 + n % 4, ready: true, id: id(n) }).collect()
}

/// Allocations of a worker's copy over all situations, and how many picks it made.
fn allocations(entry: &Balancer) -> (u64, u64) {
    let (tally, mut picked) = (Tally::new(), 0);
    for count in [1, 4, 50, 1000] {
        let mut set = endpoints(count);
        let mut prototype = (entry.new)(Seed(1));
        prototype.rebuild(&set);
        let mut balancer = prototype.fork(Seed(2));
        let thread = std::thread::spawn(move || {
            tally.enlist();
            let mut picked = 0;
            // All ready, two of three, one of 40, none.
            for ready in [1, 3, 40, u32::MAX] {
                for (number, candidate) in (0..).zip(&mut set) {
                    candidate.ready = match ready {
                        3 => number % 3 != 0,
                        _ => number % ready == 1 % ready && ready != u32::MAX,
                    };
                }
                for number in 0..PICKS {
                    let hash = key_hash(&number.to_le_bytes());
                    for (tried, bounded_load) in [(&[][..], None), (&[1, 2][..], None), (&[][..], Some(125))]
                    {
                        let pick = Pick { candidates: &set, tried, hash, bounded_load, loads: &Uneven };
                        picked += u64::from(balancer.pick(&pick).is_some());
                    }
                }
            }
            // What a thread's end allocates is not a pick's.
            (tally.allocations(), picked)
        });
        let (allocated, of_thread) = thread.join().unwrap();
        picked += of_thread;
        if allocated > 0 {
            return (allocated, picked);
        }
    }
    (0, picked)
}

#[test]
fn a_pick_allocates_nothing_whatever_the_algorithm() {
    for entry in BALANCERS {
        let (allocated, picked) = allocations(entry);
        assert_eq!(allocated, 0, "{} allocated", entry.name);
        assert!(picked > 5 * PICKS, "{} picked only {picked} times", entry.name);
    }
}

#[test]
fn a_balancer_that_allocates_is_seen() {
    /// Allocates for every pick.
    #[derive(Debug)]
    struct Wasteful;

    impl thalweg_balance::Balance for Wasteful {
        fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
            let usable: Vec<u32> = (0..pick.candidates.len() as u32).filter(|i| pick.may_use(*i)).collect();
            std::hint::black_box(usable).first().copied()
        }

        fn rebuild(&mut self, _candidates: &[Candidate]) {}

        fn fork(&self, _seed: Seed) -> Box<dyn thalweg_balance::Balance> {
            Box::new(Self)
        }

        fn name(&self) -> &'static str {
            "wasteful"
        }
    }

    let entry = Balancer { new: |_| Box::new(Wasteful), ..BALANCERS[0] };
    assert!(allocations(&entry).0 > 0);
}
