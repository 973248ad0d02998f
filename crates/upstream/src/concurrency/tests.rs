//! The concurrency limit against a plain model over random histories, and under the feet of several threads.

use super::*;
use proptest::prelude::*;
use std::sync::Condvar;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::task::Wake;
use std::thread;

/// What can be given in these tests: a number, of a kind.
#[derive(Debug, Eq, PartialEq)]
struct Handed(u32);

impl Alternative for Handed {
    type Kind = u32;
}

type LimitHandle = super::LimitHandle<Handed>;
type ConcurrencyLimit = super::ConcurrencyLimit<Handed>;
type Permit = super::Permit<Handed>;
type Wait = super::Wait<Handed>;

fn policy(size: u32) -> QueuePolicy {
    QueuePolicy { size, timeout: Duration::from_secs(1) }
}

fn limit_handle(limit: u32, size: u32) -> LimitHandle {
    LimitHandle::new(ConcurrencyLimit::new(limit, Arc::new(WaitQueue::new(policy(size)))))
}

fn wait(limit_handle: &LimitHandle, priority: Priority) -> Result<Wait, Rejected> {
    let wait = limit_handle.concurrency().line().join(priority, Waker::noop())?;
    limit_handle.offer();
    Ok(wait)
}

fn poll(wait: &mut Wait) -> Poll<Result<Permit, Rejected>> {
    wait.poll(&Context::from_waker(Waker::noop())).map_ok(|got| match got {
        Acquired::Place(permit) => permit,
        Acquired::Alternative(gift) => panic!("it was given {gift:?}"),
    })
}

fn granted(wait: &mut Wait) -> bool {
    match poll(wait) {
        Poll::Ready(Ok(permit)) => {
            drop(permit);
            true
        }
        _ => false,
    }
}

#[test]
fn a_place_that_is_left_goes_to_the_first_in_line_and_to_nobody_else() {
    let concurrency = limit_handle(1, 10);
    let first = concurrency.enter().unwrap();
    let (mut a, mut b) =
        (wait(&concurrency, Priority::Normal).unwrap(), wait(&concurrency, Priority::Normal).unwrap());
    drop(first);
    assert!(concurrency.enter().is_none(), "who comes now does not overtake");
    assert!(poll(&mut b).is_pending());
    assert!(granted(&mut a));
    assert!(granted(&mut b));
    assert_eq!((concurrency.concurrency().taken(), concurrency.concurrency().line().waiting()), (0, 0));
}

#[test]
fn a_higher_priority_goes_first_and_takes_the_last_place_in_a_full_line() {
    let concurrency = limit_handle(1, 2);
    let held = concurrency.enter().unwrap();
    let mut low = wait(&concurrency, Priority::Low).unwrap();
    let mut later = wait(&concurrency, Priority::Low).unwrap();
    assert_eq!(wait(&concurrency, Priority::Low).err(), Some(Rejected::Full));
    let mut high = wait(&concurrency, Priority::High).unwrap();
    assert_eq!(poll(&mut later).map(Result::err), Poll::Ready(Some(Rejected::Displaced)));
    drop(held);
    assert!(poll(&mut low).is_pending());
    assert!(granted(&mut high));
    assert!(granted(&mut low));
}

#[test]
fn a_place_granted_to_somebody_who_gives_up_goes_on() {
    let concurrency = limit_handle(1, 10);
    let held = concurrency.enter().unwrap();
    let a = wait(&concurrency, Priority::Normal).unwrap();
    let mut b = wait(&concurrency, Priority::Normal).unwrap();
    drop(held);
    drop(a);
    assert!(granted(&mut b));
}

#[test]
fn a_line_of_no_size_turns_everybody_away() {
    let concurrency = limit_handle(1, 0);
    let _held = concurrency.enter().unwrap();
    assert_eq!(wait(&concurrency, Priority::High).err(), Some(Rejected::Full));
}

#[test]
fn any_gate_of_a_line_serves_who_waits_in_it() {
    let line = Arc::new(WaitQueue::new(policy(10)));
    let concurrency_limits = [1, 1].map(|limit| LimitHandle::new(ConcurrencyLimit::new(limit, line.clone())));
    let [first, second] = concurrency_limits.each_ref().map(|concurrency| concurrency.enter().unwrap());
    let mut a = line.join(Priority::Normal, Waker::noop()).unwrap();
    drop(second);
    let Poll::Ready(Ok(permit)) = poll(&mut a) else { panic!("the place was not handed over") };
    assert!(Arc::ptr_eq(permit.concurrency(), concurrency_limits[1].concurrency()));
    drop((first, permit));
    assert_eq!(concurrency_limits.map(|concurrency| concurrency.concurrency().taken()), [0, 0]);
}

#[test]
fn a_place_that_is_of_no_use_to_the_first_in_line_goes_to_the_first_to_whom_it_is() {
    let line = Arc::new(WaitQueue::new(policy(10)));
    let concurrency_limits = [1, 1].map(|limit| LimitHandle::new(ConcurrencyLimit::new(limit, line.clone())));
    let [first, second] = concurrency_limits.each_ref().map(|concurrency| concurrency.enter().unwrap());
    let only = |concurrency: &LimitHandle| WaitFor {
        thing: None,
        concurrency_limits: Some([concurrency.concurrency().key()].into()),
    };
    let mut old = line.join_for(only(&concurrency_limits[0]), Priority::Normal, Waker::noop()).unwrap();
    let mut new = line.join(Priority::Low, Waker::noop()).unwrap();
    drop(second);
    assert!(poll(&mut old).is_pending());
    assert!(granted(&mut new));
    assert!(poll(&mut old).is_pending(), "nor does it get the place when that is free again");
    drop(first);
    assert!(granted(&mut old));
    assert_eq!(
        (concurrency_limits.map(|concurrency| concurrency.concurrency().taken()), line.waiting()),
        ([0, 0], 0)
    );
}

#[test]
fn the_places_of_a_gate_that_is_shunned_go_to_those_who_wait_only_by_an_offer() {
    let concurrency = limit_handle(1, 10);
    let held = concurrency.enter().unwrap();
    let mut a = wait(&concurrency, Priority::Normal).unwrap();
    concurrency.concurrency().shun();
    drop(held);
    assert!(poll(&mut a).is_pending());
    concurrency.offer();
    assert!(granted(&mut a));
}

fn given(wait: &mut Wait) -> Option<u32> {
    match wait.poll(&Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(Acquired::Alternative(Handed(number)))) => Some(number),
        _ => None,
    }
}

fn wish(kind: u32) -> WaitFor<Handed> {
    WaitFor { thing: Some(kind), concurrency_limits: None }
}

#[test]
fn a_thing_goes_to_the_first_of_its_kind_in_the_highest_priority_but_others_get_a_turn() {
    let concurrency = limit_handle(1, 1000);
    let held = concurrency.enter().unwrap();
    let line = concurrency.concurrency().line();
    let join = |wants, priority| line.join_for(wish(wants), priority, Waker::noop()).unwrap();
    let mut first = join(1, Priority::Normal);
    let mut others: Vec<_> = (0..20).map(|_| join(2, Priority::Normal)).collect();
    let mut high = join(3, Priority::High);
    assert!(!line.wants(&2) && line.give(&2, Handed(0)).is_err(), "somebody with a higher priority waits");
    assert!(line.wants(&3) && line.give(&3, Handed(0)).is_ok());
    assert_eq!(given(&mut high), Some(0));
    let passed = (0..20).filter(|number| line.give(&2, Handed(*number)).is_ok()).count();
    assert_eq!(passed, PASSED_OVER as usize);
    let numbers: Vec<_> = others.iter_mut().filter_map(given).collect();
    assert_eq!(numbers, (0..PASSED_OVER).collect::<Vec<_>>(), "in the order in which they came");
    assert_eq!(line.give(&2, Handed(7)), Err(Handed(7)), "now it is the turn of the first");
    drop(held);
    assert!(granted(&mut first));
    drop(others);
    assert_eq!((concurrency.concurrency().taken(), concurrency.concurrency().line().waiting()), (0, 0));
}

#[test]
fn who_wants_nothing_but_a_place_is_given_none_of_any_kind() {
    let concurrency = limit_handle(1, 10);
    let held = concurrency.enter().unwrap();
    let mut a = wait(&concurrency, Priority::Normal).unwrap();
    assert_eq!(concurrency.concurrency().line().give(&0, Handed(0)), Err(Handed(0)));
    drop(held);
    assert!(granted(&mut a));
}

#[test]
fn a_place_that_has_become_a_stay_is_left_once_and_goes_to_who_waits() {
    let concurrency = limit_handle(1, 10);
    let stay = concurrency.enter().unwrap().stay();
    assert_eq!((concurrency.concurrency().taken(), stay.is_wanted()), (1, false));
    let mut a = wait(&concurrency, Priority::Normal).unwrap();
    assert!(stay.is_wanted() && poll(&mut a).is_pending());
    thread::spawn(move || drop(stay)).join().unwrap();
    assert!(granted(&mut a));
    assert_eq!(concurrency.concurrency().taken(), 0);
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Enter(Priority),
    Leave(usize),
    GiveUp(usize),
    Claim(usize),
    Limit(u32),
    Size(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![Just(Priority::High), Just(Priority::Normal), Just(Priority::Low)];
    prop_oneof![
        6 => priority.prop_map(Step::Enter),
        4 => any::<usize>().prop_map(Step::Leave),
        2 => any::<usize>().prop_map(Step::GiveUp),
        3 => any::<usize>().prop_map(Step::Claim),
        1 => (0..6_u32).prop_map(Step::Limit),
        1 => (0..6_u32).prop_map(Step::Size),
    ]
}

/// What the concurrency limit should do, told plainly.
struct Model {
    limit: u32,
    size: u32,
    taken: u32,
    /// Who waits, in the order in which they will go.
    line: Vec<(Priority, usize)>,
    granted: Vec<usize>,
    displaced: Vec<usize>,
}

impl Model {
    fn hand_out(&mut self) {
        while self.taken < self.limit && !self.line.is_empty() {
            self.taken += 1;
            self.granted.push(self.line.remove(0).1);
        }
    }

    /// Whether somebody who comes gets in line.
    fn join(&mut self, priority: Priority, who: usize) -> bool {
        if self.line.len() >= self.size as usize {
            match self.line.last() {
                Some((last, _)) if *last > priority => self.displaced.extend(self.line.pop().map(|l| l.1)),
                _ => return false,
            }
        }
        let behind = self.line.iter().position(|(other, _)| *other > priority).unwrap_or(self.line.len());
        self.line.insert(behind, (priority, who));
        self.hand_out();
        true
    }
}

struct History {
    concurrency: LimitHandle,
    model: Model,
    inside: Vec<Permit>,
    waits: Vec<(usize, Wait)>,
    next: usize,
}

impl History {
    fn perform(&mut self, step: &Step) {
        match *step {
            Step::Enter(priority) => self.enter(priority),
            Step::Leave(at) if !self.inside.is_empty() => {
                drop(self.inside.swap_remove(at % self.inside.len()));
                self.model.taken -= 1;
                self.model.hand_out();
            }
            Step::GiveUp(at) if !self.waits.is_empty() => {
                let (who, wait) = self.waits.swap_remove(at % self.waits.len());
                drop(wait);
                self.model.line.retain(|(_, other)| *other != who);
                if let Some(at) = self.model.granted.iter().position(|other| *other == who) {
                    self.model.granted.remove(at);
                    self.model.taken -= 1;
                    self.model.hand_out();
                }
                self.model.displaced.retain(|other| *other != who);
            }
            Step::Claim(at) if !self.waits.is_empty() => self.claim(at % self.waits.len()),
            Step::Limit(limit) => {
                self.concurrency.concurrency().set_limit(limit);
                self.model.limit = limit;
                self.model.hand_out();
            }
            Step::Size(size) => {
                self.concurrency.concurrency().line().set_policy(policy(size));
                self.model.size = size;
            }
            _ => {}
        }
    }

    fn enter(&mut self, priority: Priority) {
        let free = self.model.line.is_empty() && self.model.taken < self.model.limit;
        let permit = self.concurrency.enter();
        assert_eq!(permit.is_some(), free);
        if let Some(permit) = permit {
            self.inside.push(permit);
            self.model.taken += 1;
            return;
        }
        let joined = wait(&self.concurrency, priority);
        assert_eq!(joined.is_ok(), self.model.join(priority, self.next));
        self.waits.extend(joined.ok().map(|wait| (self.next, wait)));
        self.next += 1;
    }

    fn claim(&mut self, at: usize) {
        let who = self.waits[at].0;
        match poll(&mut self.waits[at].1) {
            Poll::Pending => assert!(self.model.line.iter().any(|(_, other)| *other == who)),
            Poll::Ready(Ok(permit)) => {
                let at_model = self.model.granted.iter().position(|other| *other == who).unwrap();
                self.model.granted.remove(at_model);
                self.inside.push(permit);
                self.waits.swap_remove(at);
            }
            Poll::Ready(Err(_)) => {
                assert!(self.model.displaced.contains(&who));
                self.waits.swap_remove(at);
            }
        }
    }

    fn check(&self) {
        let concurrency = self.concurrency.concurrency();
        assert_eq!(concurrency.taken(), self.model.taken);
        assert_eq!(concurrency.taken() as usize, self.inside.len() + self.model.granted.len());
        assert_eq!(concurrency.line().waiting(), self.model.line.len());
    }
}

proptest! {
    #[test]
    fn every_history_goes_as_the_model_says(steps in prop::collection::vec(step(), 1..200)) {
        let model = Model {
            limit: 2, size: 3, taken: 0, line: Vec::new(), granted: Vec::new(), displaced: Vec::new(),
        };
        let mut history =
            History { concurrency: limit_handle(2, 3), model, inside: Vec::new(), waits: Vec::new(), next: 0 };
        for step in &steps {
            history.perform(step);
            history.check();
        }
        let concurrency = history.concurrency.concurrency().clone();
        drop(history);
        prop_assert_eq!((concurrency.taken(), concurrency.line().waiting()), (0, 0));
    }
}

/// Wakes a thread.
#[derive(Default)]
struct Notifier {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Notifier {
    /// Waits for a ring; whether one came in time.
    fn hear(&self, limit: Duration) -> bool {
        let guard = self.rung.lock().unwrap();
        let (mut rung, timeout) = self.changed.wait_timeout_while(guard, limit, |rung| !*rung).unwrap();
        *rung = false;
        !timeout.timed_out()
    }
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Longest that a thread of the stress may wait: only a lost wake-up takes so long.
const LOST: Duration = Duration::from_secs(30);

/// One thread's part of the stress: comes in, waits where it must, sometimes gives up.
fn come_and_go(concurrency: &LimitHandle, seed: u64, inside: &AtomicI64, over: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let bell = Arc::new(Notifier::default());
    let waker = Waker::from(bell.clone());
    for _ in 0..3_000 {
        let permit = concurrency.enter().or_else(|| {
            let mut wait = concurrency.concurrency().line().join(Priority::Normal, &waker).ok()?;
            concurrency.offer();
            if random.u8(..) < 40 {
                return None;
            }
            loop {
                match wait.poll(&Context::from_waker(&waker)) {
                    Poll::Ready(Ok(Acquired::Place(permit))) => return Some(permit),
                    Poll::Ready(_) => return None,
                    Poll::Pending => assert!(bell.hear(LOST), "a wake-up was lost, seed {seed}"),
                }
            }
        });
        if permit.is_some() {
            over.fetch_or(inside.fetch_add(1, SeqCst) >= 2, SeqCst);
            if random.u8(..) < 30 {
                thread::yield_now();
            }
            inside.fetch_sub(1, SeqCst);
        }
    }
}

#[test]
fn threads_that_come_go_and_give_up_never_pass_the_limit_and_are_never_forgotten() {
    let shared = ConcurrencyLimit::new(2, Arc::new(WaitQueue::new(policy(8))));
    let (inside, over) = (AtomicI64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for seed in 0..5 {
            let (shared, inside, over) = (shared.clone(), &inside, &over);
            scope.spawn(move || come_and_go(&LimitHandle::new(shared), seed, inside, over));
        }
    });
    assert!(!over.load(SeqCst), "more were inside than the limit allows");
    assert_eq!((shared.taken(), shared.line().waiting()), (0, 0));
}
