//! What every source owes, shown for each entry of the lists: `every_source! { … }` below has one line per source of
//! endpoints, and one per source of documents, with a [`Registry`] that plays its server, or runs the real one.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test: a panic is the report")]

mod every_source {
    pub(crate) mod consul;
    pub(crate) mod dns;
    pub(crate) mod dns_fake;
    pub(crate) mod docker;
    pub(crate) mod etcd;
    pub(crate) mod eureka;
    pub(crate) mod eureka_server;
    pub(crate) mod file;
    pub(crate) mod gate;
    pub(crate) mod http;
    pub(crate) mod http_fake;
    pub(crate) mod kubernetes;
    pub(crate) mod nacos;
    pub(crate) mod program;
    pub(crate) mod redis;
    pub(crate) mod registry;
    #[path = "../../../../tests/harness/spring.rs"]
    #[allow(dead_code, unreachable_pub, reason = "it belongs to the harness of the black-box tests")]
    pub(crate) mod spring;
    mod tls;
    pub(crate) mod watch;
    pub(crate) mod zookeeper;
}

use every_source::registry::Registry;
use every_source::watch::{Shown, Told, Watched};
use std::time::{Duration, Instant};
use thalweg_discovery::{Document, Found};

/// Beyond what a source states, on a machine that is busy.
const SLACK: Duration = Duration::from_secs(10);

macro_rules! every_source {
    ($all:ident: $content:ty; $( $name:ident: $registry:ty, )*) => {
        #[test]
        fn the_suite_knows_every_source() {
            let all: Vec<_> = thalweg_discovery::$all.iter().map(|entry| entry.name).collect();
            let shown = [ $( stringify!($name), )* ];
            assert_eq!(all, shown, "add the source to `every_source!`");
        }

        #[test]
        fn every_example_is_one() {
            for entry in thalweg_discovery::$all {
                <$content>::source(&format!("{}: {}", entry.name, entry.example));
            }
        }

        $( mod $name {
            use super::*;

            #[test]
            fn tells_what_there_is_and_every_change() {
                shown::<$registry>(tells_all::<$content, _>);
            }

            #[test]
            fn keeps_what_is_known_while_its_server_is_gone() {
                shown::<$registry>(outlives_its_server::<$content, _>);
            }

            #[test]
            fn takes_garbage_for_a_failure() {
                shown::<$registry>(survives_garbage::<$content, _>);
            }

            #[test]
            fn notices_a_server_that_is_silent() {
                shown::<$registry>(notices_silence::<$content, _>);
            }

            #[test]
            fn ends_at_once() {
                shown::<$registry>(ends::<$content, _>);
            }
        } )*
    };
}

every_source! {
    ALL: [Found];
    file: every_source::file::FileRegistry,
    dns: every_source::dns::DnsRegistry,
    http: every_source::http::HttpRegistry,
    consul: every_source::consul::ConsulRegistry,
    eureka: every_source::eureka::EurekaRegistry,
    nacos: every_source::nacos::NacosRegistry,
    kubernetes: every_source::kubernetes::KubernetesRegistry,
    etcd: every_source::etcd::EtcdRegistry,
    redis: every_source::redis::RedisRegistry,
    zookeeper: every_source::zookeeper::ZookeeperRegistry,
    docker: every_source::docker::DockerRegistry,
}

/// What the same registries tell of documents.
mod route_sources {
    use super::*;

    every_source! {
        ROUTE_SOURCES: [Document];
        file: every_source::file::FolderRegistry,
        http: every_source::http::HttpRegistry,
        consul: every_source::consul::ConsulRegistry,
        kubernetes: every_source::kubernetes::KubernetesRegistry,
        etcd: every_source::etcd::EtcdRegistry,
        redis: every_source::redis::RedisRegistry,
        zookeeper: every_source::zookeeper::ZookeeperRegistry,
        docker: every_source::docker::DockerRegistry,
    }
}

/// The whole suite.
fn all_of<T: Shown + ?Sized, R: Registry>() -> [fn(R); 5] {
    [
        tells_all::<T, _>,
        outlives_its_server::<T, _>,
        survives_garbage::<T, _>,
        notices_silence::<T, _>,
        ends::<T, _>,
    ]
}

/// Shows all of it at the same time.
fn owes_the_same<T: Shown + ?Sized, R: Registry>() {
    std::thread::scope(|scope| {
        for show in all_of::<T, R>() {
            scope.spawn(move || show(R::start()));
        }
    });
}

/// Side by side, on one server.
#[test]
fn a_real_server_of_eureka_is_as_the_one_that_is_played() {
    use every_source::eureka_server::EurekaServer;
    let shown = all_of::<[Found], _>();
    let Some(registries) = shown.iter().map(|_| EurekaServer::try_start()).collect::<Option<Vec<_>>>() else {
        return;
    };
    std::thread::scope(|scope| {
        scope.spawn(EurekaServer::takes_registrations);
        for (show, registry) in shown.into_iter().zip(registries) {
            scope.spawn(move || show(registry));
        }
    });
}

/// The source `http`, with requests that the server holds back.
#[test]
fn requests_that_are_held_back_owe_the_same() {
    owes_the_same::<[Found], every_source::http::HeldRegistry>();
}

/// The source `file`, with one document and no directory of them.
#[test]
fn a_document_alone_owes_the_same() {
    owes_the_same::<[Document], every_source::file::FileRegistry>();
}

/// Shows it, where its server can be run.
fn shown<R: Registry>(show: fn(R)) {
    if R::is_here() {
        show(R::start());
    }
}

/// All at first, then each change, within what the source states; an empty set too.
fn tells_all<T: Shown + ?Sized, R: Registry>(mut registry: R) {
    registry.publish(&[1001, 1002]);
    let mut watched = Watched::<T>::shown(&T::argument(&registry));
    assert_eq!(watched.ports(), [1001, 1002], "the first set is whole");
    assert!(watched.is_settled());
    for ports in [&[1001, 1002, 1003][..], &[1003], &[1004, 1005], &[], &[1001]] {
        let begun = Instant::now();
        registry.publish(ports);
        assert_eq!(watched.ports(), ports);
        let (took, stated) = (begun.elapsed(), watched.stated());
        assert!(took <= stated + SLACK, "{took:?}, and {stated:?} is stated");
    }
}

/// Its server is killed and comes back: one failure is told, nothing is lost, and the change in between is seen.
fn outlives_its_server<T: Shown + ?Sized, R: Registry>(mut registry: R) {
    registry.publish(&[1001, 1002]);
    let mut watched = Watched::<T>::shown(&T::argument(&registry));
    assert_eq!(watched.ports(), [1001, 1002]);
    registry.cut();
    let why = watched.failure();
    assert!(!why.is_empty() && !why.contains('\n'), "{why:?} is no sentence");
    registry.publish(&[1002, 1003]);
    registry.mend();
    assert_eq!(watched.until_ports(), [1002, 1003], "what came in between is made good");
    assert!(watched.status().failure.is_none() && watched.status().failures >= 1);
}

/// What is no answer changes nothing.
fn survives_garbage<T: Shown + ?Sized, R: Registry>(mut registry: R) {
    registry.publish(&[1001]);
    let mut watched = Watched::<T>::shown(&T::argument(&registry));
    assert_eq!(watched.ports(), [1001]);
    registry.garble();
    let why = watched.failure();
    assert!(!why.is_empty(), "a reason");
    registry.mend();
    registry.publish(&[1001, 1002]);
    assert_eq!(watched.until_ports(), [1001, 1002]);
}

/// A server that takes connections and says nothing (SIGSTOP) is one that has failed.
fn notices_silence<T: Shown + ?Sized, R: Registry>(mut registry: R) {
    registry.publish(&[1001]);
    let mut watched = Watched::<T>::shown(&T::argument(&registry));
    assert_eq!(watched.ports(), [1001]);
    if !registry.freeze() {
        return;
    }
    let begun = Instant::now();
    watched.failure();
    let (took, stated) = (begun.elapsed(), watched.stated());
    assert!(took <= stated * 2 + SLACK, "{took:?}, and {stated:?} is stated");
    registry.mend();
    registry.publish(&[1002]);
    assert_eq!(watched.until_ports(), [1002]);
}

/// A source that is not wanted any more leaves nothing behind, also while its server is silent.
fn ends<T: Shown + ?Sized, R: Registry>(mut registry: R) {
    registry.publish(&[1001]);
    let mut watched = Watched::<T>::shown(&T::argument(&registry));
    assert_eq!(watched.ports(), [1001]);
    registry.freeze();
    let begun = Instant::now();
    watched.forget();
    registry.publish(&[1002]);
    assert!(matches!(watched.next(Duration::from_millis(300)), Told::Nothing));
    assert!(registry.connections() == 0 || begun.elapsed() < SLACK, "it has let go");
    drop(watched);
    while registry.connections() > 0 {
        assert!(begun.elapsed() < SLACK, "{} connections are open", registry.connections());
        std::thread::sleep(Duration::from_millis(10));
    }
}
