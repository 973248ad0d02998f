//! A proxy that asks Pebble.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thalweg_tests::message::Kind;
use thalweg_tests::pebble::{Pebble, Settings};
use thalweg_tests::process::Signal;
use thalweg_tests::{Connection, Directory, Message, Proxy, STEP, Upstream};

/// A validity that no test sees the end of, in seconds.
pub(super) const MONTH: u32 = 30 * 24 * 60 * 60;
/// How long an order may take: requests are made again, checks are waited for, and tests run beside each other.
pub(super) const ORDER: Duration = Duration::from_secs(40);

/// Pebble, a proxy that asks it, and what is behind the proxy.
pub(super) struct House {
    pub(super) pebble: Pebble,
    pub(super) proxy: Proxy,
    upstream: Upstream,
    config: String,
}

impl House {
    /// `keys` are those of `acme` but for the authority's; `{hook}` in them stands for who sets records. The authority
    /// does not answer yet. To be called before the watchdog watches: the first call may build it. `None` where there
    /// is none, which has been told.
    pub(super) fn new(keys: &str) -> Option<Self> {
        Self::new_changed(keys, str::to_owned)
    }

    /// The same with another configuration made of its own.
    pub(super) fn new_changed(keys: &str, change: impl Fn(&str) -> String) -> Option<Self> {
        let pebble = Pebble::new()?;
        let upstream = Upstream::saying("hello");
        let directory = Directory::new();
        let config = change(&config(&pebble, (&upstream, directory.path()), keys));
        let proxy = Proxy::start_in(directory, &config);
        Some(Self { pebble, proxy, upstream, config })
    }

    /// Another proxy with the same configuration and the same state.
    pub(super) fn replica(&self) -> Proxy {
        Proxy::start(&self.config)
    }

    /// The authority answers from now on; its certificates are valid for so many seconds.
    pub(super) fn open(&self, validity: u32) {
        let (http, tls) = (self.proxy.web().port(), self.proxy.address("secure").port());
        self.pebble.start(Settings { http, tls, validity });
    }

    /// The same with the proxy's files and another process.
    pub(super) fn restart(self) -> Self {
        let Self { pebble, proxy, upstream, config } = self;
        let ended = proxy.stop();
        assert!(ended.status.success(), "{}", ended.stderr);
        let proxy = Proxy::start_in(ended.directory, &config);
        Self { pebble, proxy, upstream, config }
    }

    /// The same after a crash.
    pub(super) fn crash(self) -> Self {
        let Self { pebble, proxy, upstream, config } = self;
        proxy.process().signal(Signal::KILL);
        let ended = proxy.ended(STEP);
        let proxy = Proxy::start_in(ended.directory, &config);
        Self { pebble, proxy, upstream, config }
    }

    /// Has the configuration read again, for the how manieth time.
    pub(super) fn reload(&self, times: usize) {
        super::super::reload(&self.proxy, &self.config, times);
    }

    /// The same with this in the place of that.
    pub(super) fn reload_with(&mut self, that: &str, this: &str, times: usize) {
        assert!(self.config.contains(that), "{}", self.config);
        self.config = self.config.replace(that, this);
        self.reload(times);
    }

    /// A file that is kept of the authority.
    pub(super) fn kept(&self, name: &str) -> PathBuf {
        let mut places = vec![self.proxy.directory().join("state/acme")];
        while let Some(place) = places.pop() {
            for path in fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()) {
                if path.ends_with(name) {
                    return path;
                }
                places.extend(path.is_dir().then_some(path));
            }
        }
        panic!("there is no {name}");
    }

    /// How many certificates were issued for a name.
    pub(super) fn issued(&self, name: &str) -> usize {
        issued(&self.proxy, name)
    }

    /// Waits until so many were.
    pub(super) fn wait_issued(&self, name: &str, times: usize) {
        let end = Instant::now() + ORDER;
        while self.issued(name) < times {
            assert!(Instant::now() < end, "no certificate for {name} in\n{}", self.proxy.process().stderr());
            std::thread::yield_now();
        }
    }

    /// Waits for a line that tells why there is none.
    pub(super) fn wait_failed(&self, name: &str) -> String {
        let start = format!("thalweg: no certificate for {name}: ");
        let why = |line: &str| line.strip_prefix(&start).map(str::to_owned);
        self.proxy.process().wait_line("a failure", ORDER, why)
    }

    /// A connection to the listener with TLS, as one that trusts the authority.
    pub(super) fn connect(&self, name: &str) -> io::Result<Connection> {
        Connection::open_as(self.proxy.address("secure"), self.pebble.client(), name)
    }

    /// The status of an answer.
    pub(super) fn serves(&self, name: &str) -> Result<u16, String> {
        let mut client = self.connect(name).map_err(|error| error.to_string())?;
        client.send(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        Ok(Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap().status())
    }
}

/// How many certificates a proxy says were issued for a name.
pub(super) fn issued(proxy: &Proxy, name: &str) -> usize {
    let start = format!("thalweg: the certificate for {name} was ");
    proxy.process().stderr().lines().filter(|line| line.starts_with(&start)).count()
}

fn config(pebble: &Pebble, (upstream, directory): (&Upstream, &Path), keys: &str) -> String {
    let keys = keys.replace("{hook}", &pebble.hook());
    format!(
        "workers: 2\n\
         state: {{ path: \"{}/state\" }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         listeners:\n  \
           web: {{ address: \"127.0.0.1:0\" }}\n  \
           secure:\n    \
             address: \"127.0.0.1:0\"\n    \
             tls: {{ acme: {{ email: ops@example.com, {}, {keys} }} }}\n\
         routes:\n  \
           - {{ to: s }}\n  \
           - {{ match: {{ host: [ routed.acme.test, \"*.other.test\" ] }}, to: s }}\n\
         services: {{ s: {{ endpoints: [ \"{}\" ] }} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        directory.display(),
        pebble.keys(),
        upstream.url(),
    )
}
