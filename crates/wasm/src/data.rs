//! What belongs to one instance beside its memory.

use crate::head::{Rule, Side};
use crate::log::{LINE, Level, Log};
use crate::stream::{CallResponse, Calls, Phase, Stream};
use crate::values::{Metrics, Values};
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wasmtime::{Memory, ResourceLimiter, TypedFunc};

/// The root context of each instance; those of exchanges come after it.
pub(crate) const ROOT: u32 = 1;
/// Lines that one call may write.
const LINES: u32 = 16;
/// Elements of the tables of an instance: places of functions.
const TABLE: usize = 100_000;

/// What the instances of one plugin share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) name: String,
    pub(crate) root_id: String,
    pub(crate) config: Vec<u8>,
    pub(crate) services: Vec<String>,
    /// The longest body that a module may make of another one.
    pub(crate) max_body: usize,
    pub(crate) rule: Rule,
    pub(crate) log: Log,
    values: Mutex<Values>,
    metrics: Mutex<Metrics>,
}

impl Common {
    pub(crate) fn new(setup: crate::setup::Setup, rule: Rule) -> Self {
        Self {
            name: setup.name,
            root_id: setup.root_id,
            config: setup.config,
            services: setup.services,
            max_body: setup.max_body,
            rule,
            log: Log::default(),
            values: Mutex::default(),
            metrics: Mutex::default(),
        }
    }

    pub(crate) fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn metrics(&self) -> MutexGuard<'_, Metrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bounds of an instance's memory.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// Bytes of its memory.
    memory: usize,
    /// Whether it was refused more.
    pub(crate) refused: bool,
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, _now: usize, wanted: usize, _most: Option<usize>) -> wasmtime::Result<bool> {
        let fits = wanted <= self.memory;
        self.refused |= !fits;
        Ok(fits)
    }

    fn table_growing(&mut self, _now: usize, wanted: usize, _most: Option<usize>) -> wasmtime::Result<bool> {
        Ok(wanted <= TABLE)
    }

    fn instances(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        4
    }
}

/// What belongs to one instance.
pub(crate) struct Data {
    pub(crate) common: Arc<Common>,
    pub(crate) limiter: Limiter,
    pub(crate) memory: Option<Memory>,
    /// The module's own allocator.
    pub(crate) allocate: Option<TypedFunc<i32, i32>>,
    /// Exchanges by their contexts.
    pub(crate) streams: HashMap<u32, Stream>,
    /// The context that host functions are about.
    pub(crate) active: u32,
    /// How often the module wants to be called by itself.
    pub(crate) tick: Option<Duration>,
    /// The answer of a service, while the module is told of it.
    pub(crate) answer: Option<CallResponse>,
    /// Calls of the root context, which belong to no exchange.
    pub(crate) root_calls: Calls,
    /// The number of the last call to a service.
    pub(crate) last_call: u32,
    /// Nothing that outlives the call may be changed.
    pub(crate) is_dry: bool,
    pub(crate) born: Instant,
    lines: u32,
    /// What was written to standard output and error without an end of line.
    pub(crate) partial: [Vec<u8>; 2],
}

impl Debug for Data {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data").field("streams", &self.streams.len()).finish_non_exhaustive()
    }
}

impl Data {
    pub(crate) fn new(common: Arc<Common>, memory: usize) -> Self {
        Self {
            common,
            limiter: Limiter { memory, refused: false },
            memory: None,
            allocate: None,
            streams: HashMap::new(),
            active: ROOT,
            tick: None,
            answer: None,
            root_calls: Calls::default(),
            last_call: 0,
            is_dry: false,
            born: Instant::now(),
            lines: 0,
            partial: [Vec::new(), Vec::new()],
        }
    }

    /// A call begins that is about this context.
    pub(crate) fn begin(&mut self, active: u32) {
        self.active = active;
        self.lines = LINES;
        self.limiter.refused = false;
    }

    /// The exchange that host functions are about; `None`: they are about no exchange.
    pub(crate) fn stream(&mut self) -> Option<&mut Stream> {
        self.streams.get_mut(&self.active)
    }

    /// The exchange whose request or response may be changed now, and which of the two.
    pub(crate) fn writable(&mut self) -> Option<(&mut Stream, Side)> {
        let stream = self.streams.get_mut(&self.active)?;
        let side = match stream.phase {
            Phase::Request => Side::Request,
            Phase::Response => Side::Response,
            Phase::Outside | Phase::ResponseBody => return None,
        };
        Some((stream, side))
    }

    /// A line for the operator, unless the call has written too many.
    pub(crate) fn write(&mut self, level: Level, text: &[u8]) {
        if self.is_dry {
            return;
        }
        match self.lines.checked_sub(1) {
            Some(left) => {
                self.lines = left;
                self.common.log.write(level, text);
            }
            None => self.common.log.drop_line(),
        }
    }

    /// Bytes of standard output (0) or error (1): a line each.
    pub(crate) fn print(&mut self, to: usize, bytes: &[u8]) {
        let level = if to == 0 { Level::Info } else { Level::Warn };
        let mut partial = std::mem::take(&mut self.partial[to]);
        for byte in bytes {
            if *byte == b'\n' || partial.len() >= LINE {
                self.write(level, &partial);
                partial.clear();
            }
            if *byte != b'\n' {
                partial.push(*byte);
            }
        }
        self.partial[to] = partial;
    }
}
