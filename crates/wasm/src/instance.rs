//! One instance of a module: its memory, and the callbacks that it exports.

use crate::data::{Common, Data, ROOT};
use crate::failure::{Exit, Failure};
use crate::setup::Limits;
use std::sync::Arc;
use std::time::Instant;
use wasmtime::{AsContextMut, ExternType, Func, Instance as Linked, InstancePre, Module, Store, Val};

/// Fuel of everything that a module does before its first exchange.
pub const FUEL_OF_START: u64 = 1_000_000_000;
/// The most parameters of a callback.
const PARAMETERS: usize = 5;

/// A function that a module exports for the host to call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callback {
    ContextCreate,
    VmStart,
    Configure,
    RequestHeaders,
    RequestBody,
    ResponseHeaders,
    ResponseBody,
    CallResponse,
    Tick,
    Done,
    Log,
    Delete,
}

/// Their names.
pub(crate) const CALLBACKS: [&str; 12] = [
    "proxy_on_context_create",
    "proxy_on_vm_start",
    "proxy_on_configure",
    "proxy_on_request_headers",
    "proxy_on_request_body",
    "proxy_on_response_headers",
    "proxy_on_response_body",
    "proxy_on_http_call_response",
    "proxy_on_tick",
    "proxy_on_done",
    "proxy_on_log",
    "proxy_on_delete",
];

impl Callback {
    pub(crate) fn name(self) -> &'static str {
        CALLBACKS[self as usize]
    }
}

/// What a module exports has the form that the ABI says.
pub(crate) fn check_exports(module: &Module) -> Result<(), String> {
    for name in CALLBACKS {
        let wrong = || format!("it exports `{name}` in a form that the ABI does not have");
        match module.get_export(name) {
            None => {}
            Some(ExternType::Func(kind)) => {
                let all_numbers = kind.params().chain(kind.results()).all(|kind| kind.is_i32());
                if !all_numbers || kind.params().len() > PARAMETERS || kind.results().len() > 1 {
                    return Err(wrong());
                }
            }
            Some(_) => return Err(wrong()),
        }
    }
    Ok(())
}

/// A function, how many parameters it takes, and results it has: versions of the ABI differ in that.
#[derive(Clone, Copy, Debug)]
struct Found {
    func: Func,
    params: usize,
    results: usize,
}

/// An instance that is ready for exchanges.
#[derive(Debug)]
pub(crate) struct Instance {
    store: Store<Data>,
    callbacks: [Option<Found>; CALLBACKS.len()],
    fuel: u64,
    ticked: Instant,
}

impl Instance {
    /// Starts an instance and hands it its configuration.
    pub(crate) fn start(
        linked: &InstancePre<Data>,
        common: &Arc<Common>,
        limits: Limits,
    ) -> Result<Self, Failure> {
        let mut store = Store::new(linked.module().engine(), Data::new(common.clone(), limits.memory));
        store.limiter(|data| &mut data.limiter);
        store.data_mut().begin(ROOT);
        let begun = store.set_fuel(FUEL_OF_START).and_then(|()| {
            let linked = linked.instantiate(&mut store)?;
            begin(&mut store, &linked)?;
            Ok(linked)
        });
        let linked = begun.map_err(|error| Failure::of(&error, store.data().limiter.refused))?;
        let callbacks = CALLBACKS.map(|name| {
            let func = linked.get_func(&mut store, name)?;
            let kind = func.ty(&store);
            Some(Found { func, params: kind.params().len(), results: kind.results().len() })
        });
        let mut instance = Self { store, callbacks, fuel: FUEL_OF_START, ticked: Instant::now() };
        instance.call(Callback::ContextCreate, ROOT, &[ROOT as i32, 0])?;
        if instance.call(Callback::VmStart, ROOT, &[ROOT as i32, 0])? == Some(0) {
            return Err(Failure::new("the module says in `proxy_on_vm_start` that it cannot run"));
        }
        let length = i32::try_from(common.config.len()).unwrap_or(i32::MAX);
        if instance.call(Callback::Configure, ROOT, &[ROOT as i32, length])? == Some(0) {
            return Err(Failure::new("the module refuses its `config`"));
        }
        instance.fuel = limits.fuel;
        Ok(instance)
    }

    pub(crate) fn data(&mut self) -> &mut Data {
        self.store.data_mut()
    }

    /// Calls the module about this context; `None`: it has no such function, or one without a result.
    pub(crate) fn call(
        &mut self,
        callback: Callback,
        active: u32,
        arguments: &[i32],
    ) -> Result<Option<i32>, Failure> {
        let Some(found) = self.callbacks[callback as usize] else { return Ok(None) };
        self.data().begin(active);
        let mut values = [const { Val::I32(0) }; PARAMETERS];
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = Val::I32(*argument);
        }
        let mut results = [Val::I32(0)];
        let (parameters, results) = (&values[..found.params], &mut results[..found.results]);
        let called = self.store.set_fuel(self.fuel);
        let called = called.and_then(|()| found.func.call(&mut self.store, parameters, results));
        called.map_err(|error| Failure::of(&error, self.store.data().limiter.refused))?;
        Ok(results.first().and_then(Val::i32))
    }

    /// Calls the module by itself, if it wants that and it is time.
    pub(crate) fn tick(&mut self) -> Result<(), Failure> {
        let Some(period) = self.data().tick else { return Ok(()) };
        if self.ticked.elapsed() < period {
            return Ok(());
        }
        self.ticked = Instant::now();
        self.call(Callback::Tick, ROOT, &[ROOT as i32]).map(drop)
    }
}

/// Runs what a module runs before anything else.
fn begin(store: &mut Store<Data>, linked: &Linked) -> wasmtime::Result<()> {
    let memory = linked.get_memory(&mut *store, "memory");
    let names = ["proxy_on_memory_allocate", "malloc"];
    let allocate = names.iter().find_map(|name| linked.get_typed_func(&mut *store, name).ok());
    let data = store.data_mut();
    (data.memory, data.allocate) = (memory, allocate);
    let ended = |result: wasmtime::Result<()>| match result {
        // A program that has done its part says so.
        Err(error) if error.downcast_ref::<Exit>().is_some_and(|exit| exit.0 == 0) => Ok(()),
        result => result,
    };
    let mut run = |name: &str| -> wasmtime::Result<bool> {
        let Some(func) = linked.get_func(&mut *store, name) else { return Ok(false) };
        let kind = func.ty(&*store);
        if !kind.params().all(|kind| kind.is_i32()) || kind.results().len() > 1 {
            return Ok(false);
        }
        let arguments = vec![Val::I32(0); kind.params().len()];
        let mut results = vec![Val::I32(0); kind.results().len()];
        ended(func.call(store.as_context_mut(), &arguments, &mut results))?;
        Ok(true)
    };
    if run("_initialize")? {
        run("main")?;
    } else {
        run("_start")?;
    }
    Ok(())
}
