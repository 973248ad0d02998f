use super::*;
use crate::service_shared::Notifier;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;

fn standings(members: usize) -> (Vec<EndpointState>, Arc<AtomicUsize>) {
    let rings = Arc::new(AtomicUsize::new(0));
    let heard = rings.clone();
    let bell = Notifier::new(move || {
        heard.fetch_add(1, Relaxed);
    });
    let service = Arc::new(ServiceShared::new("s".into(), 2, bell));
    service.set_members(members);
    let member = |at: usize| {
        let address = PeerAddress::Tcp(SocketAddr::from(([192, 0, 2, at as u8], 80)));
        EndpointState::new(service.clone(), ("u".into(), address), at as u64, 2)
    };
    ((0..members).map(member).collect(), rings)
}

fn policy() -> EjectionPolicy {
    EjectionPolicy { consecutive: 3, ..EjectionPolicy::default() }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn failures_one_after_the_other_eject_and_a_success_between_them_saves() {
    let (members, rings) = standings(2);
    let (member, now, policy) = (&members[0], Instant::now(), policy());
    assert!(
        !member.failed(&policy, member.stage(), now, "x")
            && !member.failed(&policy, member.stage(), now, "x")
    );
    assert!(!member.succeeded(member.stage(), now), "it had not been out");
    let before = (member.service.version(), rings.load(Relaxed));
    assert!(
        !member.failed(&policy, member.stage(), now, "x")
            && !member.failed(&policy, member.stage(), now, "x")
    );
    assert_eq!(before, (member.service.version(), rings.load(Relaxed)), "nothing has changed yet");
    assert!(member.failed(&policy, member.stage(), now, "reset"));
    assert_ne!(before.0, member.service.version());
    assert!(rings.load(Relaxed) > before.1);
    assert!(matches!(member.condition(now), Condition::Out(_)));
    assert_eq!(member.cause(), "reset");
    assert!(!member.failed(&policy, member.stage(), now, "x"), "it is out already");
}

#[test]
fn no_more_are_ejected_than_the_share_allows() {
    let (members, _) = standings(5);
    let (now, policy) = (Instant::now(), EjectionPolicy { max_share: 40, ..policy() });
    let ejected = members.iter().filter(|member| member.eject(&policy, now, "x")).count();
    assert_eq!(ejected, 2);
    assert!(members[0].succeeded(members[0].stage(), now), "a trial");
    assert!(members[4].eject(&policy, now, "x"), "there is room again");
    members[1].retire();
    assert!(members[3].eject(&policy, now, "x"), "who leaves the service makes room");
    assert!(!standings(1).0[0].eject(&policy, now, "x"), "the only one stays");
}

#[test]
fn who_does_not_accept_connections_is_out_whatever_the_share() {
    let (members, _) = standings(3);
    let now = Instant::now();
    assert!(members.iter().all(|member| member.refused(now, "x")));
    let policy = EjectionPolicy { max_share: 34, ..policy() };
    let (members, _) = standings(3);
    assert!(members[0].eject(&policy, now, "x"));
    members[0].refused(now + secs(10), "x");
    assert!(members[1].eject(&policy, now + secs(10), "x"), "it no longer counts as ejected");
}

#[test]
fn the_time_out_grows_with_each_ejection_that_follows_on_another_and_is_forgotten_in_calm() {
    let (members, _) = standings(2);
    let (member, policy) = (&members[0], EjectionPolicy { max_time: secs(18), ..policy() });
    let mut now = Instant::now();
    for time in [5, 10, 18, 18] {
        member.eject(&policy, now, "x");
        let just_before = now + secs(time) - Duration::from_millis(1);
        assert!(matches!(member.condition(just_before), Condition::Out(_)), "{time}");
        now += secs(time) + Duration::from_millis(1);
        assert_eq!(member.condition(now), Condition::OnTrial, "{time}");
    }
    assert!(member.succeeded(member.stage(), now));
    now += secs(37);
    assert!(member.eject(&policy, now, "x"));
    assert_eq!(member.condition(now + Duration::from_millis(5001)), Condition::OnTrial);
}

#[test]
fn a_refusal_long_after_ejections_is_a_first_one() {
    let (members, _) = standings(2);
    let (member, policy) = (&members[0], policy());
    let mut now = Instant::now();
    for time in [5, 10, 20, 40] {
        member.eject(&policy, now, "x");
        now += secs(time) + Duration::from_millis(1);
    }
    assert!(member.succeeded(member.stage(), now));
    now += secs(81);
    assert!(member.refused(now, "x"));
    assert_eq!(member.condition(now + REFUSED_FIRST + Duration::from_millis(1)), Condition::OnTrial);
}

#[test]
fn a_trial_that_fails_sends_it_out_again_at_the_first_failure() {
    let (members, _) = standings(2);
    let (member, now, policy) = (&members[0], Instant::now(), policy());
    member.eject(&policy, now, "x");
    let later = now + secs(6);
    assert!(member.begin_trial(later));
    assert!(!member.begin_trial(later), "one at a time");
    assert!(matches!(member.condition(later), Condition::Out(_)));
    assert!(!member.failed(&policy, member.stage(), later, "x"), "no news: it had not been in");
    assert!(matches!(member.condition(later + secs(9)), Condition::Out(_)));
    assert_eq!(member.condition(later + secs(11)), Condition::OnTrial);
    assert!(member.begin_trial(later + secs(11)));
    assert_eq!(member.condition(later + secs(22)), Condition::OnTrial, "a trial without a word is over");
}

#[test]
fn health_checks_are_a_second_opinion() {
    let (members, _) = standings(2);
    let (member, now, policy) = (&members[0], Instant::now(), policy());
    assert!(member.set_health(Health::Unwell, now, "status 503"));
    assert!(!member.set_health(Health::Unwell, now, "status 503"), "no news");
    assert_eq!((member.condition(now), &*member.cause()), (Condition::Unwell, "status 503"));
    member.succeeded(member.stage(), now);
    assert_eq!(member.condition(now), Condition::Unwell, "exchanges do not overrule it");
    member.eject(&policy, now, "x");
    member.set_health(Health::Well, now, "");
    assert!(matches!(member.condition(now), Condition::Out(_)), "nor it what exchanges have found");
    member.succeeded(member.stage(), now + secs(1));
    assert!(matches!(member.condition(now + secs(1)), Condition::ReadySince(_)));
}

/// Whatever happens in whichever order: as many are counted as ejected as are, and nobody is lost.
#[test]
fn the_number_of_the_ejected_is_true_after_any_history() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (members, _) = standings(4);
        let policy = EjectionPolicy { max_share: 60, ..policy() };
        let mut now = Instant::now();
        for _ in 0..200 {
            let member = &members[random.usize(..4)];
            match random.u32(..8) {
                0 => drop(member.refused(now, "x")),
                1 => drop(member.accepted(member.stage(), now)),
                2..4 => drop(member.failed(&policy, member.stage(), now, "x")),
                4 => drop(member.succeeded(member.stage(), now)),
                5 => drop(member.eject(&policy, now, "x")),
                6 => drop(member.begin_trial(now)),
                _ => now += Duration::from_millis(random.u64(..20_000)),
            }
            let ejected = members.iter().filter(|m| m.lock().reason == Some(Reason::Ejected)).count();
            assert_eq!(ejected, members[0].service.ejected.load(Relaxed) as usize, "seed {seed}");
            assert!(ejected <= 2, "seed {seed}");
            assert!(members.iter().all(|m| m.lock().reason.is_some() == m.out_until().is_some()));
        }
        now += secs(3600);
        assert!(members.iter().all(|m| !matches!(m.condition(now), Condition::Out(_))), "seed {seed}");
    }
}

#[test]
fn only_what_was_begun_in_this_time_out_says_something_about_its_end() {
    let (members, _) = standings(2);
    let (member, now, policy) = (&members[0], Instant::now(), policy());
    let before = member.stage();
    member.eject(&policy, now, "x");
    assert!(!member.succeeded(before, now), "an exchange that was under way");
    let first = member.stage();
    let later = now + secs(6);
    assert!(member.begin_trial(later));
    assert!(!member.failed(&policy, first, later, "x"));
    assert!(
        !member.failed(&policy, first, later, "x") && !member.succeeded(first, later),
        "a late one of the first"
    );
    assert!(matches!(member.condition(later), Condition::Out(_)));
    assert!(member.succeeded(member.stage(), later));
}

#[test]
fn a_trial_while_it_is_still_out_takes_no_slot() {
    let (members, _) = standings(2);
    let (member, now) = (&members[0], Instant::now());
    member.refused(now, "x");
    assert!(!member.begin_trial(now), "a last resort, not a trial");
    assert!(!member.refused(now, "x"));
    assert_eq!(member.condition(now + secs(2)), Condition::OnTrial);
}
