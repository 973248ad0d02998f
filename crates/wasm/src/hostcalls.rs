//! The functions that modules import, one file per part of the ABI.
//!
//! A function that this host does not have answers `UNIMPLEMENTED` (12), or `NOSYS` for one of WASI: a module that
//! imports it and never needs it runs.

mod buffers;
mod calls;
mod fields;
mod log;
mod properties;
mod shared;
mod streams;
mod wasi;

use crate::abi::{errno, status};
use crate::data::Data;
use crate::engine::engine;
use wasmtime::{ExternType, Linker, Module, Val};

/// Names under which modules import WASI.
const WASI: [&str; 2] = ["wasi_snapshot_preview1", "wasi_unstable"];
/// What modules of Emscripten import beside the ABI.
const IGNORED: &[&str] = &["emscripten_notify_memory_growth"];

/// Everything that this module imports.
///
/// # Errors
/// It imports something that is not of the ABI.
pub(crate) fn link(module: &Module) -> Result<Linker<Data>, String> {
    let mut linker = Linker::new(engine()?);
    let all =
        [log::link, fields::link, buffers::link, properties::link, streams::link, calls::link, shared::link];
    for group in all {
        group(&mut linker).map_err(|error| error.to_string())?;
    }
    for name in WASI {
        wasi::link(&mut linker, name).map_err(|error| error.to_string())?;
    }
    rest(&mut linker, module)?;
    Ok(linker)
}

/// What is left of the module's imports.
fn rest(linker: &mut Linker<Data>, module: &Module) -> Result<(), String> {
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        let is_wasi = WASI.contains(&from);
        let answer = match name {
            _ if is_wasi && name.starts_with("fd_") => errno::BADF,
            _ if is_wasi => errno::NOSYS,
            _ if from == "env" && name.starts_with("proxy_") => status::UNIMPLEMENTED,
            _ if from == "env" && IGNORED.contains(&name) => status::OK,
            _ => {
                return Err(format!(
                    "it imports `{name}` of `{from}`, which is neither of proxy-wasm nor of WASI"
                ));
            }
        };
        let ExternType::Func(kind) = import.ty() else {
            return Err(format!("it imports `{name}` of `{from}`, which is no function here"));
        };
        let wants = kind.results().collect::<Vec<_>>();
        if wants.len() > 1 || wants.iter().any(|kind| !kind.is_i32()) {
            return Err(format!("it imports `{name}` with a result that the ABI does not have"));
        }
        // What this host has is not replaced: that is an error here, and as it should be.
        let _ = linker.func_new(from, name, kind, move |_, _, results| {
            if let Some(result) = results.first_mut() {
                *result = Val::I32(answer);
            }
            Ok(())
        });
    }
    Ok(())
}
