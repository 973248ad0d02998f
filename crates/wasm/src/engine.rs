//! The one engine of the process, and how modules are compiled.

use crate::abi::VERSIONS;
use std::sync::OnceLock;
use wasmtime::{Config, Engine, Module, OperatorCost};

/// Bytes of address space that an instance has at once for its memory, so that it never moves. Nothing is used before
/// the module asks for it.
pub(crate) const MOST_MEMORY: usize = 256 * 1024 * 1024;
/// Bytes of a thread's stack that a call may use.
const STACK: usize = 512 * 1024;
/// Fuel that a request for memory costs beside what becomes of it.
const GROW: u8 = 250;

/// The engine.
pub(crate) fn engine() -> Result<&'static Engine, String> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| {
        Engine::new(&config()).map_err(|error| format!("this machine cannot run Wasm: {error}"))
    });
    engine.as_ref().map_err(Clone::clone)
}

fn config() -> Config {
    let mut cost = OperatorCost::new();
    (cost.MemoryGrow, cost.TableGrow) = (GROW, GROW);
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(cost)
        // Signals of the process are the crash report's: checks are compiled in instead.
        .signals_based_traps(false)
        .memory_reservation(MOST_MEMORY as u64)
        .memory_may_move(false)
        .memory_init_cow(false)
        .max_wasm_stack(STACK)
        .native_unwind_info(false)
        .generate_address_map(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false);
    config
}

/// Compiles a module; it is one of proxy-wasm.
pub(crate) fn compile(code: &[u8]) -> Result<Module, String> {
    if !code.starts_with(b"\0asm") {
        return Err("it is no Wasm module in its binary form".into());
    }
    let module = Module::new(engine()?, code)
        .map_err(|error| format!("it is no module that can be run: {}", error.root_cause()))?;
    if !VERSIONS.iter().any(|version| module.get_export(version).is_some()) {
        return Err("it is no module of proxy-wasm: it exports none of `proxy_abi_version_0_2_1`, \
                    `proxy_abi_version_0_2_0` and `proxy_abi_version_0_1_0`"
            .into());
    }
    Ok(module)
}
