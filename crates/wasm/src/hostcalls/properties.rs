//! Properties: what is known of an exchange beside its fields. A path of names, with a zero between them.

use crate::abi::status;
use crate::data::Data;
use crate::guest::{Guest, Place, Stop, answer, stop};
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap(
        "env",
        "proxy_get_property",
        |caller: Caller<'_, Data>, path: i32, path_length: i32, out: i32, length: i32| {
            answer(
                Guest::new(caller).and_then(|mut guest| get(&mut guest, (path, path_length), (out, length))),
            )
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_property",
        |caller: Caller<'_, Data>, path: i32, path_length: i32, at: i32, length: i32| {
            answer(
                Guest::new(caller).and_then(|mut guest| set(&mut guest, (path, path_length), (at, length))),
            )
        },
    )?;
    Ok(())
}

/// The path, with dots.
fn path(guest: &mut Guest<'_>, place: Place) -> Result<Vec<u8>, Stop> {
    let mut path = guest.read(place)?;
    while path.last() == Some(&0) {
        path.pop();
    }
    path.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'.');
    Ok(path)
}

fn get(guest: &mut Guest<'_>, place: Place, out: Place) -> Result<(), Stop> {
    let path = path(guest, place)?;
    let looked_at = guest.data().stream().map_or(0, |stream| stream.looked_at());
    guest.charge_fields(looked_at)?;
    match find(guest.data(), &path) {
        Some(value) => guest.give(&value, out),
        None => stop(status::NOT_FOUND),
    }
}

fn find(data: &Data, path: &[u8]) -> Option<Vec<u8>> {
    let common = &data.common;
    match path {
        b"plugin_name" => return Some(common.name.clone().into_bytes()),
        b"plugin_root_id" => return Some(common.root_id.clone().into_bytes()),
        b"plugin_vm_id" => return Some(Vec::new()),
        _ => {}
    }
    let stream = data.streams.get(&data.active)?;
    if let Some(own) = stream.own_property(path) {
        return Some(own.to_vec());
    }
    if let Some(name) = path.strip_prefix(b"request.headers.") {
        return stream.request.get(name);
    }
    if let Some(name) = path.strip_prefix(b"response.headers.") {
        return stream.response.get(name);
    }
    if path == b"response.code" {
        let status = stream.response.get(b":status")?;
        let status: i64 = str::from_utf8(&status).ok()?.parse().ok()?;
        return Some(status.to_le_bytes().to_vec());
    }
    let known = stream.properties.iter().find(|(name, _)| name.as_bytes() == path);
    known.map(|(_, value)| value.clone())
}

fn set(guest: &mut Guest<'_>, place: Place, value: Place) -> Result<(), Stop> {
    let (path, value) = (path(guest, place)?, guest.read(value)?);
    let stream = guest.data().stream().ok_or(Stop::Status(status::NOT_FOUND))?;
    if !stream.set_property(path, value) {
        return stop(status::INTERNAL_FAILURE);
    }
    Ok(())
}
