//! Values that the instances of a plugin share, and its metrics.

use crate::abi::status;
use crate::data::Data;
use crate::guest::{Guest, Place, Stop, answer, stop};
use crate::values::{Kind, Unkept};
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap(
        "env",
        "proxy_get_shared_data",
        |caller: Caller<'_, Data>, key: i32, key_length: i32, out: i32, length: i32, version: i32| {
            answer(
                Guest::new(caller)
                    .and_then(|mut guest| get(&mut guest, (key, key_length), (out, length), version)),
            )
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_shared_data",
        |caller: Caller<'_, Data>, key: i32, key_length: i32, at: i32, length: i32, version: i32| {
            answer(
                Guest::new(caller)
                    .and_then(|mut guest| set(&mut guest, (key, key_length), (at, length), version)),
            )
        },
    )?;
    metrics(linker)
}

fn get(guest: &mut Guest<'_>, key: Place, out: Place, version: i32) -> Result<(), Stop> {
    let key = guest.read(key)?;
    let found = guest.data().common.values().get(&key).cloned();
    let (value, number) = found.ok_or(Stop::Status(status::NOT_FOUND))?;
    guest.give(&value, out)?;
    guest.write_u32(version, number)
}

fn set(guest: &mut Guest<'_>, key: Place, value: Place, version: i32) -> Result<(), Stop> {
    let (key, value) = (guest.read(key)?, guest.read(value)?);
    let data = guest.data();
    if data.is_dry {
        return Ok(());
    }
    match data.common.values().set(key, value, version as u32) {
        Ok(()) => Ok(()),
        Err(Unkept::Mismatch) => stop(status::CAS_MISMATCH),
        Err(Unkept::Full) => stop(status::INTERNAL_FAILURE),
    }
}

fn metrics(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap(
        "env",
        "proxy_define_metric",
        |caller: Caller<'_, Data>, kind: i32, at: i32, length: i32, out: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                let name = guest.read((at, length))?;
                let kind = match kind {
                    0 => Kind::Counter,
                    1 => Kind::Gauge,
                    2 => Kind::Histogram,
                    _ => return stop(status::BAD_ARGUMENT),
                };
                let id = guest.data().common.metrics().define(kind, name);
                let id = id.ok_or(Stop::Status(status::INTERNAL_FAILURE))?;
                guest.write_u32(out, id)
            }))
        },
    )?;
    linker.func_wrap("env", "proxy_record_metric", |caller: Caller<'_, Data>, id: i32, value: i64| {
        answer(Guest::new(caller).and_then(|mut guest| {
            let data = guest.data();
            match data.is_dry || data.common.metrics().record(id as u32, value as u64) {
                true => Ok(()),
                false => stop(status::NOT_FOUND),
            }
        }))
    })?;
    linker.func_wrap("env", "proxy_increment_metric", |caller: Caller<'_, Data>, id: i32, by: i64| {
        answer(Guest::new(caller).and_then(|mut guest| {
            let data = guest.data();
            if data.is_dry {
                return Ok(());
            }
            match data.common.metrics().increment(id as u32, by) {
                Some(true) => Ok(()),
                Some(false) => stop(status::BAD_ARGUMENT),
                None => stop(status::NOT_FOUND),
            }
        }))
    })?;
    linker.func_wrap("env", "proxy_get_metric", |caller: Caller<'_, Data>, id: i32, out: i32| {
        answer(Guest::new(caller).and_then(|mut guest| {
            let value = guest.data().common.metrics().get(id as u32);
            let value = value.ok_or(Stop::Status(status::NOT_FOUND))?;
            guest.write(out, &value.to_le_bytes())
        }))
    })?;
    Ok(())
}
