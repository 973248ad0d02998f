//! A compiled module with its configuration, and its instances: one for each thread.

use crate::data::{Common, Data};
use crate::engine::{MOST_MEMORY, compile};
use crate::failure::Failure;
use crate::head::Rule;
use crate::hostcalls::link;
use crate::instance::{Callback, Instance, check_exports};
use crate::log::{Level, Line};
use crate::setup::Setup;
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use wasmtime::{InstancePre, Module};

pub use crate::instance::FUEL_OF_START;

/// Places for instances: threads beyond it share them.
const PLACES: usize = 256;
/// How often a thread starts an instance within [`WHILE`].
const STARTS: u32 = 8;
const WHILE: Duration = Duration::from_secs(1);

/// A compiled module with its configuration.
pub struct Plugin {
    code: Box<[u8]>,
    setup: Setup,
    module: Module,
    linked: InstancePre<Data>,
    common: Arc<Common>,
    places: Box<[Mutex<Place>]>,
    /// The instance that was started to see whether it can be; the first thread takes it.
    spare: Mutex<Option<Instance>>,
    /// When a failure was last told.
    told: Mutex<Option<Instant>>,
}

/// Where the instance of a thread is.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) instance: Option<Instance>,
    /// Which instance it is: contexts of one that is gone are gone too.
    pub(crate) generation: u64,
    next: u32,
    /// Instances that were started since then.
    started: Option<(Instant, u32)>,
}

impl Place {
    /// The number of a new context.
    pub(crate) fn number(&mut self) -> u32 {
        // 1 is the root context; one of four billion exchanges is long gone.
        self.next = self.next.checked_add(1).unwrap_or(2).max(2);
        self.next
    }
}

impl Plugin {
    /// Compiles a module and starts it once, to see that it can be. One that is in use already, with the same
    /// configuration, is given again as it is.
    ///
    /// # Errors
    /// A sentence: it is no such module, or it does not start.
    pub fn load(code: &[u8], setup: Setup, rule: Rule) -> Result<Arc<Self>, String> {
        let mut module = None;
        for plugin in known().iter().filter_map(Weak::upgrade).filter(|plugin| *plugin.code == *code) {
            if plugin.setup == setup {
                return Ok(plugin);
            }
            module = Some(plugin.module.clone());
        }
        // Nobody waits for a compiler but the one who needs what it makes.
        let module = match module {
            Some(module) => module,
            None => compile(code)?,
        };
        let plugin = Arc::new(Self::new(code, setup, (module, rule))?);
        let mut known = known();
        let is_same = |other: &Arc<Self>| *other.code == *code && other.setup == plugin.setup;
        if let Some(other) = known.iter().filter_map(Weak::upgrade).find(is_same) {
            return Ok(other);
        }
        known.push(Arc::downgrade(&plugin));
        Ok(plugin)
    }

    fn new(code: &[u8], setup: Setup, (module, rule): (Module, Rule)) -> Result<Self, String> {
        if setup.limits.memory > MOST_MEMORY {
            return Err(format!("an instance has at most {MOST_MEMORY} bytes of memory"));
        }
        check_exports(&module)?;
        let linker = link(&module)?;
        let linked = linker.instantiate_pre(&module).map_err(|error| error.root_cause().to_string())?;
        let common = Arc::new(Common::new(setup.clone(), rule));
        let first = Instance::start(&linked, &common, setup.limits).map_err(|failure| failure.to_string())?;
        Ok(Self {
            code: code.into(),
            setup,
            module,
            linked,
            common,
            places: (0..PLACES).map(|_| Mutex::default()).collect(),
            spare: Mutex::new(Some(first)),
            told: Mutex::default(),
        })
    }

    /// By which name the operator knows it.
    pub fn name(&self) -> &str {
        &self.common.name
    }

    /// Whether it has something to say of requests' bodies.
    pub fn reads_request_bodies(&self) -> bool {
        self.exports(Callback::RequestBody)
    }

    /// Whether it has something to say of responses.
    pub fn reads_responses(&self) -> bool {
        self.exports(Callback::ResponseHeaders) || self.reads_response_bodies()
    }

    /// Whether it has something to say of responses' bodies.
    pub fn reads_response_bodies(&self) -> bool {
        self.exports(Callback::ResponseBody)
    }

    /// Whether it asks for properties at all.
    pub fn reads_properties(&self) -> bool {
        self.module.imports().any(|import| import.name() == "proxy_get_property")
    }

    fn exports(&self, callback: Callback) -> bool {
        self.module.get_export(callback.name()).is_some()
    }

    /// The next line that the module, or somebody about it, has to say. Cancel-safe.
    pub fn poll_line(&self, context: &Context<'_>) -> Poll<Line> {
        self.common.log.poll(context)
    }

    /// The number of this thread's place.
    pub(crate) fn place_of_thread() -> usize {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static PLACE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % PLACES;
        }
        PLACE.with(|place| *place)
    }

    pub(crate) fn place(&self, at: usize) -> MutexGuard<'_, Place> {
        self.places[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is an instance in this place.
    pub(crate) fn ensure(&self, place: &mut Place) -> Result<(), Failure> {
        if place.instance.is_some() {
            return Ok(());
        }
        let now = Instant::now();
        let within = |since: &Instant| now.saturating_duration_since(*since) < WHILE;
        let (since, starts) = place.started.filter(|(since, _)| within(since)).unwrap_or((now, 0));
        if starts >= STARTS {
            return Err(Failure::new("the module has failed too often; it is started again within a second"));
        }
        place.started = Some((since, starts + 1));
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        let instance = match spare {
            Some(instance) => instance,
            None => {
                Instance::start(&self.linked, &self.common, self.setup.limits).inspect_err(|failure| {
                    self.tell(failure);
                })?
            }
        };
        place.instance = Some(instance);
        place.generation += 1;
        Ok(())
    }

    /// A line about a failure; of many in a row, one in a while.
    pub(crate) fn tell(&self, failure: &Failure) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= WHILE) {
            *told = Some(Instant::now());
            self.common.log.write(Level::Warn, failure.to_string().as_bytes());
        }
    }
}

/// The plugins that are in use.
fn known() -> MutexGuard<'static, Vec<Weak<Plugin>>> {
    static KNOWN: Mutex<Vec<Weak<Plugin>>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|plugin| plugin.strong_count() > 0);
    known
}

impl Debug for Plugin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("name", &self.name()).finish_non_exhaustive()
    }
}
