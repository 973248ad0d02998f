//! What is done to the endpoints, and when the proxy must have noticed.

use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::endpoint::Mood;
use thalweg_tests::event_stream::Told;
use thalweg_tests::process::Signal;
use thalweg_tests::{Endpoint, EventStream, Noise};

use super::load::Clients;
use super::{CHECK_TIMEOUT, EJECTED_MOST, ENDPOINTS, INTERVAL, PER_TRY};

/// What a busy machine may add to a time that follows from the policy.
const SLACK: Duration = Duration::from_millis(800);
/// Intervals between checks vary by a tenth.
const JITTER: f64 = 1.1;
/// Checks in a row that change what is thought of an endpoint.
const CHECKS: f64 = 2.0;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// The process dies, and is started again.
    Kill,
    /// The process is stopped: the kernel still accepts connections for it.
    Freeze,
    /// Answers take longer than an attempt may.
    Slow,
    Reset,
    HalfClose,
    /// 500.
    Error,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Kill, Self::Freeze, Self::Slow, Self::Reset, Self::HalfClose, Self::Error];

    /// Whether checks may find the endpoint well all the same.
    pub(super) fn can_hide(self) -> bool {
        !matches!(self, Self::Kill | Self::Freeze)
    }
}

/// Something that is to happen to an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    pub(super) kind: Kind,
    /// Whether checks notice it.
    pub(super) seen: bool,
    pub(super) endpoint: usize,
    /// How long it lasts at least, from when it was noticed.
    pub(super) hold: Duration,
}

/// Something that has happened to an endpoint.
#[derive(Clone, Debug)]
pub(super) struct Happened {
    pub(super) trouble: Trouble,
    /// Just before and just after it was inflicted.
    pub(super) begun: (Instant, Instant),
    /// Just after it was over.
    pub(super) over: Instant,
    pub(super) down: Told,
    pub(super) up: Told,
}

/// The next trouble of a long run; the first ones are one of each kind.
pub(super) fn draw(noise: &mut Noise, done: usize) -> Trouble {
    let bytes = noise.take(4);
    let kind = Kind::ALL[if done < Kind::ALL.len() { done } else { usize::from(bytes[0]) % Kind::ALL.len() }];
    Trouble {
        kind,
        seen: !kind.can_hide() || bytes[1].is_multiple_of(2),
        endpoint: usize::from(bytes[2]) % ENDPOINTS,
        hold: Duration::from_millis(u64::from(bytes[3]) * 12),
    }
}

impl Trouble {
    /// When it must have been told, after it has begun: the checks or the load show it, whichever does so first.
    fn down_within(&self) -> Duration {
        let load = match self.kind {
            Kind::Freeze | Kind::Slow => PER_TRY,
            _ => Duration::ZERO,
        };
        let checks = INTERVAL.mul_f64(CHECKS * JITTER) + CHECK_TIMEOUT;
        load.min(if self.seen { checks } else { Duration::MAX }) + SLACK
    }

    /// When its end must have been told: checks pass again, the time of an ejection is over, and a request has been
    /// answered.
    fn up_within() -> Duration {
        // A check that is under way at the end may still fail.
        let checks = CHECK_TIMEOUT + INTERVAL.mul_f64((CHECKS + 1.0) * JITTER);
        EJECTED_MOST.max(checks) + SLACK
    }

    fn inflict(&self, endpoint: &Endpoint, clients: &Clients) {
        let tell = |mood| if self.seen { endpoint.tell(mood) } else { endpoint.tell_requests(mood) };
        match self.kind {
            Kind::Kill => {
                clients.wait_body(self.endpoint);
                endpoint.kill();
            }
            Kind::Freeze => endpoint.process().signal(Signal::STOP),
            Kind::Slow => tell(Mood::Slow(PER_TRY * 2)),
            Kind::Reset => tell(Mood::Reset),
            Kind::HalfClose => tell(Mood::HalfClose),
            Kind::Error => tell(Mood::Status(500)),
        }
    }

    fn end(&self, endpoint: &mut Endpoint) {
        match self.kind {
            Kind::Kill => endpoint.restart(),
            Kind::Freeze => endpoint.process().signal(Signal::CONT),
            _ => endpoint.tell(Mood::Ok),
        }
    }
}

/// Lets it happen, and waits until the proxy has told that the endpoint is down, and up again.
pub(super) fn happen(
    trouble: Trouble,
    endpoints: &mut [Endpoint; ENDPOINTS],
    clients: &Clients,
    events: &EventStream,
) -> Happened {
    let endpoint = &mut endpoints[trouble.endpoint];
    let (url, skip) = (endpoint.url(), events.all().len());
    let before = Instant::now();
    trouble.inflict(endpoint, clients);
    let begun = (before, Instant::now());
    let within = trouble.down_within();
    let down = events.wait(skip, "endpoint_down", &url, within).unwrap_or_else(|| {
        panic!("{trouble:?} is not told within {within:?}; since then: {:?}", &events.all()[skip..])
    });
    // The length of the trouble, not a wait for something.
    thread::sleep(trouble.hold);
    trouble.end(endpoint);
    let (over, within) = (Instant::now(), Trouble::up_within());
    let up = events.wait(skip, "endpoint_up", &url, within).unwrap_or_else(|| {
        panic!(
            "the end of {trouble:?} is not told within {within:?}; since it began: {:?}",
            &events.all()[skip..]
        )
    });
    assert!(up.at >= over, "{trouble:?}: {url} was called well before it was: {:?}", &events.all()[skip..]);
    Happened { trouble, begun, over, down, up }
}
