//! The task, with endpoints that are a table and a clock that jumps from timer to timer; at the end, with
//! real endpoints.

use super::*;
use crate::thresholds::Verdict;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use thalweg_upstream::{Check, HealthPolicy, PeerAddress, Statuses};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const SECOND: Duration = Duration::from_secs(1);

/// What the endpoints of a test do.
#[derive(Clone, Copy, Debug)]
enum Does {
    Well,
    Badly,
    TakesTime(Duration),
    Panics,
}

#[derive(Clone, Default)]
struct World(Arc<Inner>);

#[derive(Default)]
struct Inner {
    does: Mutex<HashMap<PeerAddress, Does>>,
    asked: Mutex<Vec<(Instant, PeerAddress)>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl World {
    fn does(&self, target: &Target, does: Does) {
        self.0.does.lock().unwrap().insert(target.address.clone(), does);
    }

    fn asked(&self) -> Vec<(Instant, PeerAddress)> {
        self.0.asked.lock().unwrap().clone()
    }
}

/// Counts a check that is under way.
struct Presence(World);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.0.at_once.fetch_sub(1, Relaxed);
    }
}

impl Probe for World {
    fn ask(&self, target: Target) -> impl Future<Output = Outcome> + Send + 'static {
        let world = self.clone();
        world.0.asked.lock().unwrap().push((Instant::now(), target.address.clone()));
        let does = world.0.does.lock().unwrap().get(&target.address).copied().unwrap_or(Does::Well);
        let most = world.0.at_once.fetch_add(1, Relaxed) + 1;
        world.0.most_at_once.fetch_max(most, Relaxed);
        let presence = Presence(world);
        async move {
            let _presence = presence;
            match does {
                Does::Well => {}
                Does::Badly => return Outcome::Failed("status 503".into()),
                Does::TakesTime(time) => tokio::time::sleep(time).await,
                Does::Panics => panic!("as the test wants"),
            }
            Outcome::Passed("status 200".into())
        }
    }
}

fn target(host: u16, policy: &Arc<HealthPolicy>) -> Target {
    let [high, low] = host.to_be_bytes();
    let address = PeerAddress::Tcp(([10, 0, high, low], 80).into());
    Target { address, authority: "a.test".into(), tls: None, speaks_http2: false, policy: policy.clone() }
}

fn start(world: &World) -> (Checks, mpsc::Receiver<News>) {
    let (sink, news) = mpsc::channel(64);
    (Checks::start_with(world.clone(), 1, sink), news)
}

async fn report(news: &mut mpsc::Receiver<News>) -> Report {
    match news.recv().await {
        Some(News::Report(report)) => report,
        other => panic!("not a report: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_goes_down_and_comes_back() {
    let world = World::default();
    let (checks, mut news) = start(&world);
    let target = target(1, &Arc::new(HealthPolicy::default()));
    checks.set(vec![target.clone()]);
    let begun = Instant::now();
    let first = report(&mut news).await;
    assert!(first.healthy && first.changed && first.target == target);
    assert!(begun.elapsed() <= SECOND);
    world.does(&target, Does::Badly);
    let down = report(&mut news).await;
    assert!(!down.healthy && down.changed);
    assert_eq!(down.why, "status 503");
    assert_eq!(world.asked().len(), 4, "one passed, three failed");
    world.does(&target, Does::Well);
    let up = report(&mut news).await;
    assert!(up.healthy && up.changed);
    assert_eq!(world.asked().len(), 6, "two more passed");
    let figures = checks.tallies().of(&target).unwrap();
    assert_eq!((figures.passed, figures.failed, figures.verdict), (3, 3, Some(Verdict::Healthy)));
}

#[tokio::test(start_paused = true)]
async fn a_target_of_two_services_is_checked_once() {
    let world = World::default();
    let (checks, _news) = start(&world);
    let of_a_service = || target(1, &Arc::new(HealthPolicy::default()));
    checks.set(vec![of_a_service(), of_a_service()]);
    tokio::time::sleep(51 * SECOND).await;
    let count = world.asked().len();
    assert!((9..=12).contains(&count), "{count} checks in 51 s at 5 s");
}

#[tokio::test(start_paused = true)]
async fn setting_the_same_targets_again_and_again_keeps_their_rhythm() {
    let world = World::default();
    let (checks, _news) = start(&world);
    for _ in 0..500 {
        checks.set((0..20).map(|host| target(host, &Arc::new(HealthPolicy::default()))).collect());
        tokio::time::sleep(SECOND / 10).await;
    }
    let mut last: HashMap<PeerAddress, Instant> = HashMap::new();
    for (at, address) in world.asked() {
        if let Some(before) = last.insert(address, at) {
            let wait = (at - before).as_secs_f64();
            assert!((4.49..=5.51).contains(&wait), "{wait}");
        }
    }
    assert_eq!(last.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_targets_are_not_asked_in_one_moment() {
    let world = World::default();
    let (sink, mut news) = mpsc::channel(16);
    let checks = Checks::start_with(world.clone(), 1, sink);
    let policy = Arc::new(HealthPolicy::default());
    checks.set((0..1000).map(|host| target(host, &policy)).collect());
    for _ in 0..1000 {
        assert!(report(&mut news).await.healthy);
    }
    let mut moments: HashMap<Instant, usize> = HashMap::new();
    for (at, _) in world.asked() {
        *moments.entry(at).or_default() += 1;
    }
    assert_eq!(world.asked().len(), 1000);
    assert!(moments.values().all(|count| *count <= 10), "{:?}", moments.values().max());
}

#[tokio::test(start_paused = true)]
async fn where_too_much_is_to_be_checked_checks_are_late_and_that_is_said_once() {
    let world = World::default();
    let (checks, mut news) = start(&world);
    let policy = Arc::new(HealthPolicy { starts_unhealthy: true, ..HealthPolicy::default() });
    let targets: Vec<_> = (0..200).map(|host| target(host, &policy)).collect();
    targets.iter().for_each(|target| world.does(target, Does::TakesTime(SECOND)));
    checks.set(targets);
    let (mut healthy, mut troubles) = (0, Vec::new());
    while healthy < 200 {
        match news.recv().await.unwrap() {
            News::Report(report) => healthy += u32::from(report.healthy),
            News::Trouble(text) => troubles.push(text),
        }
    }
    assert_eq!(world.0.most_at_once.load(Relaxed), UNDER_WAY);
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(troubles[0].contains("late") && !checks.tallies().late().is_zero());
}

#[tokio::test(start_paused = true)]
async fn who_is_gone_is_let_go_in_the_middle_of_a_check() {
    let world = World::default();
    let (checks, mut news) = start(&world);
    let policy = Arc::new(HealthPolicy { starts_unhealthy: true, ..HealthPolicy::default() });
    let (slow, next) = (target(1, &policy), target(2, &policy));
    world.does(&slow, Does::TakesTime(1000 * SECOND));
    checks.set(vec![slow.clone()]);
    tokio::time::sleep(SECOND).await;
    assert_eq!(checks.tallies().under_way(), 1);
    checks.set(vec![next.clone()]);
    assert_eq!(report(&mut news).await.target, next);
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.0.at_once.load(Relaxed), 0);
    assert_eq!(checks.tallies().under_way(), 0);
    assert!(checks.tallies().of(&slow).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_bug_in_a_check_is_said_and_the_checks_go_on() {
    let world = World::default();
    let (checks, mut news) = start(&world);
    let target = target(1, &Arc::new(HealthPolicy::default()));
    world.does(&target, Does::Panics);
    checks.set(vec![target.clone()]);
    assert!(matches!(news.recv().await, Some(News::Trouble(text)) if text.contains("bug")));
    world.does(&target, Does::Well);
    assert!(report(&mut news).await.healthy);
}

#[tokio::test(start_paused = true)]
async fn checks_end_with_their_handle_and_with_their_listener() {
    let world = World::default();
    let policy = Arc::new(HealthPolicy::default());
    let (checks, mut news) = start(&world);
    checks.set(vec![target(1, &policy)]);
    assert!(report(&mut news).await.healthy);
    drop(checks);
    assert!(news.recv().await.is_none());
    let count = world.asked().len();
    let (checks, news) = start(&world);
    checks.set(vec![target(1, &policy)]);
    drop(news);
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(world.asked().len(), count + 1, "the first report found nobody");
}

/// An endpoint that answers every request with the status of the moment.
async fn serve(listener: TcpListener, status: Arc<Mutex<u16>>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let status = status.clone();
        tokio::spawn(async move {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut request).await.unwrap() == 0 {
                    return;
                }
            }
            let answer = format!("HTTP/1.1 {} X\r\ncontent-length: 2\r\n\r\nok", *status.lock().unwrap());
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
    }
}

#[tokio::test]
async fn a_real_endpoint_goes_down_by_status_and_by_refusal_and_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let check = Check::Http {
        path: "/ping".into(),
        method: "GET".into(),
        headers: Vec::new(),
        expect: Statuses::new(vec![200..=299]),
        body: None,
    };
    let interval = Duration::from_millis(5);
    let policy = HealthPolicy { check, interval, timeout: 20 * SECOND, ..HealthPolicy::default() };
    let target = Target {
        address: PeerAddress::Tcp(address),
        authority: "localhost".into(),
        tls: None,
        speaks_http2: false,
        policy: Arc::new(policy),
    };
    let (sink, mut news) = mpsc::channel(16);
    let checks = Checks::start(sink);
    let status = Arc::new(Mutex::new(200));
    let server = tokio::spawn(serve(listener, status.clone()));
    checks.set(vec![target]);
    let up = report(&mut news).await;
    assert!(up.healthy, "{up:?}");
    *status.lock().unwrap() = 503;
    let down = report(&mut news).await;
    assert!(!down.healthy && down.why == "status 503", "{down:?}");
    *status.lock().unwrap() = 204;
    assert!(report(&mut news).await.healthy);
    server.abort();
    let gone = report(&mut news).await;
    assert!(!gone.healthy, "{gone:?}");
}
