//! Tests of contexts and of the policy.

use super::*;

const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn policy(parents: Parents, share: u32) -> TracingPolicy {
    TracingPolicy { parents, share, errors: true, slower_than: Duration::from_secs(1) }
}

fn written(context: &TraceContext) -> String {
    let mut out = Vec::new();
    context.write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_traceparent_is_read_and_written() {
    let parent = Parent::parse(GOOD.as_bytes()).unwrap();
    assert_eq!(parent.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!((parent.span, parent.sampled), (SpanId::new(0x00f0_67aa_0ba9_02b7), true));
    let context = policy(Parents::All, 0).begin(Some(parent), true, (7, 0x10));
    assert_eq!(context.parent, Some(parent.span));
    let second = TraceContext { attempt: 1, ..context };
    assert_eq!(written(&context), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000011-01");
    assert_eq!(written(&second), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000012-01");
    assert_eq!(Parent::parse(written(&second).as_bytes()).unwrap().trace, parent.trace);
}

#[test]
fn later_versions_may_say_more_and_what_is_malformed_is_no_parent() {
    let other_flags = [format!("{}fe", &GOOD[..53]), format!("{}ff", &GOOD[..53])];
    let sampled = other_flags.map(|field| Parent::parse(field.as_bytes()).unwrap().sampled);
    assert_eq!(sampled, [false, true], "flags that mean nothing yet change nothing");
    for good in ["01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", &format!("cc{}-more", &GOOD[2..])]
    {
        assert!(Parent::parse(good.as_bytes()).is_some(), "{good}");
    }
    for bad in [
        "",
        "00",
        &GOOD[..54],
        &format!("{GOOD}-more"),
        &format!("{GOOD} "),
        &format!("ff{}", &GOOD[2..]),
        &format!("01{}x", &GOOD[2..]),
        &GOOD.to_uppercase(),
        &GOOD.replace('-', "_"),
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
    ] {
        assert_eq!(Parent::parse(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn a_tracestate_is_passed_on_up_to_its_bounds() {
    let passes = |values: &[&str]| passes_on(values.iter().map(|value| value.as_bytes()));
    assert!(passes(&[]) && passes(&["a=b"]) && passes(&["a=b,c=d", "e=f"]));
    assert!(passes(&[&format!("a={}", "x".repeat(510))]));
    assert!(!passes(&[&format!("a={}", "x".repeat(511))]));
    let member = ["a=b"; 33];
    assert!(passes(&member[..32]) && !passes(&member) && !passes(&[&member.join(",")]));
}

#[test]
fn strangers_do_not_decide_what_is_recorded() {
    let parent = Parent::parse(GOOD.as_bytes());
    let begin = |parents, trusted, share| policy(parents, share).begin(parent, trusted, (u128::MAX, 9));
    let followed = |context: TraceContext| context.parent.is_some();
    assert!(begin(Parents::All, true, 0).sampled);
    assert!(!begin(Parents::All, false, 0).sampled && followed(begin(Parents::All, false, 0)));
    assert!(begin(Parents::All, false, 100).sampled);
    assert!(!followed(begin(Parents::Trusted, false, 100)) && followed(begin(Parents::Trusted, true, 100)));
    assert!(!followed(begin(Parents::None, true, 100)));
    // An id that would be drawn, as one of this process's own, draws nothing as a stranger's.
    let chosen = Parent { trace: TraceId::new(1 << 56), ..parent.unwrap() };
    assert!(!policy(Parents::All, 1).begin(Some(chosen), false, (u128::MAX, 9)).sampled);
}

#[test]
fn the_share_holds_and_failures_and_slow_ones_are_told_beside_it() {
    let policy = policy(Parents::All, 25);
    // Evenly spread over the bits that count.
    let traces = (0..1000_u128).map(|i| (i << 56) / 1000);
    let sampled = traces.filter(|random| policy.begin(None, false, (*random, 1)).sampled).count();
    assert_eq!(sampled, 250);
    let context = policy.begin(None, false, (u128::MAX, 1));
    let (quick, slow) = (Duration::from_millis(999), Duration::from_secs(1));
    assert!(!policy.tells(&context, false, quick));
    assert!(policy.tells(&context, true, quick) && policy.tells(&context, false, slow));
    assert!(policy.tells(&TraceContext { sampled: true, ..context }, false, quick));
    let never = TracingPolicy { errors: false, slower_than: Duration::from_secs(60), ..policy };
    assert!(!never.tells(&context, true, slow));
}

#[test]
fn no_span_has_the_id_zero() {
    let context = policy(Parents::All, 100).begin(None, false, (0, 0));
    assert_ne!((context.trace.bytes(), context.span.bytes()), (&[0; 16], [0; 8]));
    assert_ne!(TraceContext { span: SpanId::new(u64::MAX), ..context }.attempt(0).bytes(), [0; 8]);
}

#[test]
fn a_request_of_the_proxys_own_stands_below_its_exchange() {
    let context = policy(Parents::All, 100).begin(None, false, (5, 7));
    let inner = context.inner(99);
    assert_eq!((inner.trace, inner.parent, inner.sampled), (context.trace, Some(context.span), true));
    assert!(inner.is_inner && inner.span != context.span);
}

#[test]
fn every_exchange_has_room_for_one() {
    assert!(size_of::<Option<TraceContext>>() <= 40);
}
