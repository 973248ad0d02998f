use super::*;
use thalweg_proxy::plan::CanaryGates;

fn policy() -> CanaryPolicy {
    CanaryPolicy {
        service: "next".into(),
        steps: vec![5, 50, 100],
        hold: Duration::from_secs(60),
        gates: CanaryGates {
            min_requests: 100,
            max_error_ratio: Some(10),
            error_ratio_over_baseline: Some(1),
            p99: None,
            p99_over_baseline: Some(150),
        },
        on_failure: OnFailure::Rollback,
    }
}

/// A canary in a world whose time and requests the test makes.
struct World {
    canary: Canary,
    now: Instant,
    counted: Counted,
}

impl World {
    fn new(policy: &CanaryPolicy) -> Self {
        let now = Instant::now();
        let (canary, begins) = Canary::new(policy, None, (now, Counted::default()));
        assert!(begins);
        Self { canary, now, counted: Counted::default() }
    }

    /// So much time passes, with so many requests to each, of which so many of the newcomer's fail.
    fn pass(&mut self, seconds: u64, requests: u64, errors: u64) -> Option<Turn> {
        self.now += Duration::from_secs(seconds);
        for totals in [&mut self.counted.newcomer, &mut self.counted.baseline] {
            totals.record(Duration::from_millis(8), requests);
        }
        self.counted.newcomer.errors += errors;
        self.canary.tick(self.now, &self.counted)
    }

    fn order(&mut self, order: Order) -> Result<Option<Turn>, String> {
        self.canary.order(order, (self.now, &self.counted))
    }
}

#[test]
fn a_good_newcomer_passes_every_step_and_finishes() {
    let mut world = World::new(&policy());
    assert_eq!(world.canary.share(), 5);
    assert_eq!(world.pass(30, 500, 0), None, "the step has not lasted long enough");
    assert_eq!(world.pass(30, 500, 0), Some(Turn::Step));
    assert_eq!(world.canary.share(), 50);
    assert_eq!(world.pass(60, 50, 0), None, "too few requests");
    assert_eq!(world.pass(1, 50, 0), Some(Turn::Step));
    assert_eq!(world.pass(60, 500, 2), Some(Turn::Finished));
    assert_eq!((world.canary.share(), world.canary.state().phase), (100, PhaseSpec::Finished));
    assert_eq!(world.pass(600, 5000, 5000), None, "who is done is not judged");
}

#[test]
fn a_bad_one_is_rolled_back_at_once() {
    let mut world = World::new(&policy());
    assert_eq!(world.pass(1, 99, 99), None, "too few requests");
    assert_eq!(world.pass(1, 10, 10), Some(Turn::Failed));
    assert_eq!((world.canary.share(), world.canary.state().phase), (0, PhaseSpec::RolledBack));
    assert!(world.canary.state().reason.starts_with("109 of 109 requests failed"), "{:?}", world.canary);
    assert_eq!(world.pass(600, 5000, 0), None, "it does not begin again by itself");
    assert_eq!(world.order(Order::Start), Ok(Some(Turn::Step)));
    assert_eq!(world.canary.share(), 5);
}

#[test]
fn with_pause_it_stays_where_it_failed() {
    let mut world = World::new(&CanaryPolicy { on_failure: OnFailure::Pause, ..policy() });
    assert_eq!(world.pass(60, 500, 0), Some(Turn::Step));
    assert_eq!(world.pass(1, 500, 500), Some(Turn::Failed));
    assert_eq!((world.canary.share(), world.canary.state().phase), (50, PhaseSpec::Paused));
    assert_eq!(world.order(Order::Resume), Ok(Some(Turn::Step)));
    assert_eq!(world.pass(60, 500, 0), Some(Turn::Step), "what was before is forgotten");
}

#[test]
fn a_gate_that_stays_open_is_broken_in_the_end() {
    let mut world = World::new(&policy());
    world.pass(1000, 10, 0);
    assert_eq!(world.pass(60, 1000, 12), None, "so long it had too few requests");
    assert_eq!(world.pass(599, 0, 0), None);
    assert_eq!(world.pass(1, 0, 0), Some(Turn::Failed));
}

#[test]
fn it_goes_on_after_a_restart_and_begins_anew_with_another_policy() {
    let mut world = World::new(&policy());
    world.pass(60, 500, 0);
    let kept = world.canary.state().clone();
    let again = |policy: &CanaryPolicy| Canary::new(policy, Some(&kept), (world.now, Counted::default()));
    let (canary, begins) = again(&policy());
    assert_eq!((canary.share(), begins), (50, false));
    let (canary, begins) = again(&CanaryPolicy { hold: Duration::from_secs(1), ..policy() });
    assert_eq!((canary.share(), begins), (5, true));
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let mut world = World::new(&policy());
    assert!(world.order(Order::Start).unwrap_err().contains("running"));
    assert!(world.order(Order::Resume).is_err());
    assert_eq!(world.order(Order::Pause), Ok(None));
    assert_eq!(world.pass(600, 5000, 5000), None, "who is paused is not judged");
    assert_eq!(world.order(Order::Promote), Ok(Some(Turn::Finished)));
    assert!(world.order(Order::Promote).is_err());
    assert_eq!(world.order(Order::Rollback), Ok(Some(Turn::Failed)));
    assert!(world.order(Order::Pause).unwrap_err().contains("rolled_back"));
}

#[test]
fn weights_give_the_newcomer_its_share_and_leave_the_others_theirs() {
    let parts = [("a", 60), ("next", 7), ("b", 30), ("c", 0)];
    for percent in [0, 1, 33, 99, 100] {
        let weights = weights(&parts, "next", percent);
        let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
        assert_eq!(weights[1].1 * 100, percent * total, "{percent}: {weights:?}");
        assert_eq!(weights[3].1, 0, "who has nothing gets nothing: {weights:?}");
        assert_eq!(weights[0].1, 2 * weights[2].1, "{percent}: {weights:?}");
    }
    let of = |parts: &[(&str, u32)], percent| {
        weights(parts, "next", percent).into_iter().map(|(_, weight)| weight).collect::<Vec<_>>()
    };
    assert_eq!(of(&[("a", 100), ("next", 0)], 5), [19, 1]);
    assert_eq!(of(&[("a", 0), ("next", 1)], 20), [4, 1]);
    assert_eq!(of(&[("a", 100), ("next", 0)], 100), [0, 1]);
}
