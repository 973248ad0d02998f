//! A source that is watched.

use super::registry::Registry;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_discovery::{
    Content, Document, Found, News, RouteSourceSpec, Source, SourceSpec, SourceStatus, Watches,
};
use thalweg_filter::ConfigFiles;
use tokio::runtime::Runtime;

/// The longest that anything is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Paths as they are written, and the environment of the test.
pub(crate) struct Here;

impl ConfigFiles for Here {
    fn path(&self, written: &str) -> PathBuf {
        written.into()
    }

    fn read(&self, written: &str, _limit: usize) -> Result<Vec<u8>, String> {
        std::fs::read(written).map_err(|error| error.to_string())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// The source of this argument.
pub(crate) fn source(argument: &str) -> Arc<dyn Source> {
    let spec: SourceSpec =
        serde_saphyr::from_str(argument).unwrap_or_else(|error| panic!("{argument}: {error}"));
    spec.build(&Here).unwrap_or_else(|error| panic!("{argument}: {error}"))
}

/// What sources tell of, as the suite sees it.
pub(crate) trait Shown: Content {
    /// The argument of a source of it that asks this server.
    fn argument(registry: &impl Registry) -> String;

    /// The source of this argument.
    fn source(argument: &str) -> Arc<dyn Source<Self>>;

    /// The ports in it, each at `127.0.0.1`.
    fn ports(&self) -> Vec<u16>;
}

impl Shown for [Found] {
    fn argument(registry: &impl Registry) -> String {
        registry.argument()
    }

    fn source(argument: &str) -> Arc<dyn Source> {
        source(argument)
    }

    fn ports(&self) -> Vec<u16> {
        assert!(self.iter().all(|found| found.host == "127.0.0.1"), "{self:?}");
        self.iter().map(|found| found.port).collect()
    }
}

/// What stands in a document is for others to read: the suite only looks for the number behind each address.
impl Shown for [Document] {
    fn argument(registry: &impl Registry) -> String {
        registry.documents()
    }

    fn source(argument: &str) -> Arc<dyn Source<Self>> {
        let spec: RouteSourceSpec =
            serde_saphyr::from_str(argument).unwrap_or_else(|error| panic!("{argument}: {error}"));
        spec.build(&Here).unwrap_or_else(|error| panic!("{argument}: {error}"))
    }

    fn ports(&self) -> Vec<u16> {
        let addresses = self.iter().flat_map(|document| document.text.split("127.0.0.1").skip(1));
        let numbers = addresses.map(|rest| rest.trim_start_matches(|c: char| !c.is_ascii_digit()));
        let digits = numbers.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap());
        digits.map(|digits| digits.parse().unwrap()).collect()
    }
}

/// What was told.
#[derive(Debug)]
pub(crate) enum Told {
    Ports(Vec<u16>),
    Failed(String),
    Works,
    Nothing,
}

/// A source that is watched, on a runtime of its own.
pub(crate) struct Watched<T: ?Sized = [Found]> {
    watches: Watches<T>,
    source: Arc<dyn Source<T>>,
    // Dropped last.
    runtime: Runtime,
}

impl Watched {
    pub(crate) fn start(registry: &impl Registry) -> Self {
        Self::of(&registry.argument())
    }

    /// The source of endpoints of this argument.
    pub(crate) fn of(argument: &str) -> Self {
        Self::shown(argument)
    }
}

impl Watched<[Document]> {
    /// The source of documents of this argument.
    pub(crate) fn documents_of(argument: &str) -> Self {
        Self::shown(argument)
    }

    /// The next set, each document by its name and text. A failure before it is one too many.
    pub(crate) fn documents(&mut self) -> Vec<(String, String)> {
        match self.news(PATIENCE) {
            Some(News::Set(_, all)) => {
                all.iter().map(|one| (one.name.to_string(), one.text.to_string())).collect()
            }
            other => panic!("{other:?}; {:?}", self.status()),
        }
    }
}

impl<T: Shown + ?Sized> Watched<T> {
    /// The source of this argument.
    pub(crate) fn shown(argument: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let source = T::source(argument);
        let mut watches = Watches::default();
        runtime.block_on(async { watches.watch(std::slice::from_ref(&source)) });
        Self { watches, source, runtime }
    }

    fn news(&mut self, time: Duration) -> Option<News<T>> {
        self.runtime.block_on(async { tokio::time::timeout(time, self.watches.news()).await.ok() })
    }

    /// The next news within this time.
    pub(crate) fn next(&mut self, time: Duration) -> Told {
        match self.news(time) {
            None => Told::Nothing,
            Some(News::Turned(_, None)) => Told::Works,
            Some(News::Turned(_, Some(why))) => Told::Failed(why),
            Some(News::Set(_, found)) => {
                let mut ports = found.ports();
                ports.sort_unstable();
                Told::Ports(ports)
            }
        }
    }

    /// The next set. A failure before it is one too many.
    pub(crate) fn ports(&mut self) -> Vec<u16> {
        match self.next(PATIENCE) {
            Told::Ports(ports) => ports,
            other => panic!("{other:?}; {:?}", self.status()),
        }
    }

    /// The next set, whatever failures come before it.
    pub(crate) fn until_ports(&mut self) -> Vec<u16> {
        loop {
            match self.next(PATIENCE) {
                Told::Ports(ports) => return ports,
                Told::Failed(_) | Told::Works => {}
                Told::Nothing => panic!("nothing came; {:?}", self.status()),
            }
        }
    }

    /// The next failure. No set may come before it: what is known stays.
    pub(crate) fn failure(&mut self) -> String {
        loop {
            match self.next(PATIENCE) {
                Told::Failed(why) => return why,
                Told::Works => {}
                other => panic!("{other:?}; {:?}", self.status()),
            }
        }
    }

    pub(crate) fn status(&self) -> SourceStatus {
        self.watches.sources().get(&thalweg_discovery::id(&*self.source)).unwrap()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.watches.are_settled()
    }

    /// How old what is known may be.
    pub(crate) fn stated(&self) -> Duration {
        self.source.silence()
    }

    /// It is not wanted any more.
    pub(crate) fn forget(&mut self) {
        self.watches.watch(&[]);
    }
}
