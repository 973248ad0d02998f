//! Buffers: bodies, and the configuration of the module.

use crate::abi::{buffer, status};
use crate::data::Data;
use crate::guest::{Guest, Place, Stop, answer, stop};
use crate::stream::Phase;
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap(
        "env",
        "proxy_get_buffer_bytes",
        |caller: Caller<'_, Data>, id: i32, start: i32, most: i32, out: i32, length: i32| {
            answer(Guest::new(caller).and_then(|mut guest| get(&mut guest, id, (start, most), (out, length))))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_buffer_bytes",
        |caller: Caller<'_, Data>, id: i32, start: i32, size: i32, at: i32, length: i32| {
            answer(Guest::new(caller).and_then(|mut guest| set(&mut guest, id, (start, size), (at, length))))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_buffer_status",
        |caller: Caller<'_, Data>, id: i32, length: i32, unused: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                let bytes = bytes(guest.data(), id)?.len();
                guest.write_u32(length, bytes as u32)?;
                guest.write_u32(unused, 0)
            }))
        },
    )?;
    // Of version 0.1.0.
    linker.func_wrap(
        "env",
        "proxy_get_configuration",
        |caller: Caller<'_, Data>, out: i32, length: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                let common = guest.data().common.clone();
                guest.give(&common.config, (out, length))
            }))
        },
    )?;
    Ok(())
}

/// A buffer as it is now.
fn bytes(data: &mut Data, id: i32) -> Result<&[u8], Stop> {
    let found = match id {
        // Here a module has one configuration.
        buffer::VM_CONFIGURATION => Some(&[][..]),
        buffer::PLUGIN_CONFIGURATION => Some(&*data.common.config),
        buffer::CALL_RESPONSE_BODY => data.answer.as_ref().map(|answer| &*answer.body),
        buffer::REQUEST_BODY | buffer::RESPONSE_BODY => {
            let stream = data.streams.get(&data.active);
            let is_it = |phase| (phase == Phase::Request) == (id == buffer::REQUEST_BODY);
            stream.filter(|stream| is_it(stream.phase)).and_then(|stream| stream.body.as_deref())
        }
        0..=buffer::LAST => None,
        _ => return stop(status::BAD_ARGUMENT),
    };
    found.ok_or(Stop::Status(status::NOT_FOUND))
}

fn get(guest: &mut Guest<'_>, id: i32, (start, most): Place, out: Place) -> Result<(), Stop> {
    let (start, most) = (start as u32 as usize, most as u32 as usize);
    let bytes = bytes(guest.data(), id)?;
    let Some(rest) = bytes.get(start..) else { return stop(status::BAD_ARGUMENT) };
    let part = rest.get(..most).unwrap_or(rest).to_vec();
    guest.give(&part, out)
}

fn set(guest: &mut Guest<'_>, id: i32, (start, size): Place, place: Place) -> Result<(), Stop> {
    let new = guest.read(place)?;
    let (start, size) = (start as u32 as usize, size as u32 as usize);
    let data = guest.data();
    let length = bytes(data, id)?.len();
    let most = data.common.max_body;
    if !matches!(id, buffer::REQUEST_BODY | buffer::RESPONSE_BODY) {
        return stop(status::BAD_ARGUMENT);
    }
    guest.charge(length)?;
    let stream = guest.data().stream().ok_or(Stop::Status(status::NOT_FOUND))?;
    let body = stream.body.as_mut().ok_or(Stop::Status(status::NOT_FOUND))?;
    let from = start.min(length);
    let to = from.saturating_add(size).min(length);
    if length - (to - from) + new.len() > most {
        return stop(status::INTERNAL_FAILURE);
    }
    body.splice(from..to, new);
    stream.body_changed = true;
    Ok(())
}
