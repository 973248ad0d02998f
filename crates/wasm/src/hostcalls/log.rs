//! Log lines and the time.

use crate::abi::status;
use crate::data::Data;
use crate::guest::{Guest, Place, Stop, answer, stop};
use crate::log::Level;
use std::time::{SystemTime, UNIX_EPOCH};
use wasmtime::{Caller, Linker};

/// `proxy_log_level_t`: lines below are not written.
const INFO: i32 = 2;
const WARN: i32 = 3;
const CRITICAL: i32 = 5;

pub(super) fn link(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap("env", "proxy_log", |caller: Caller<'_, Data>, level: i32, at: i32, length: i32| {
        answer(Guest::new(caller).and_then(|mut guest| write(&mut guest, level, (at, length))))
    })?;
    linker.func_wrap("env", "proxy_get_log_level", |caller: Caller<'_, Data>, out: i32| {
        answer(Guest::new(caller).and_then(|mut guest| guest.write_u32(out, INFO as u32)))
    })?;
    linker.func_wrap("env", "proxy_get_current_time_nanoseconds", |caller: Caller<'_, Data>, out: i32| {
        answer(Guest::new(caller).and_then(|mut guest| guest.write(out, &unix_nanoseconds().to_le_bytes())))
    })?;
    Ok(())
}

fn write(guest: &mut Guest<'_>, level: i32, place: Place) -> Result<(), Stop> {
    let text = guest.read(place)?;
    match level {
        0..INFO => {}
        INFO => guest.data().write(Level::Info, &text),
        WARN..=CRITICAL => guest.data().write(Level::Warn, &text),
        _ => return stop(status::BAD_ARGUMENT),
    }
    Ok(())
}

/// Nanoseconds since the Unix epoch.
pub(super) fn unix_nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
