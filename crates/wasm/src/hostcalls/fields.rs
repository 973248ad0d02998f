//! Fields of heads. They are read as long as the exchange lasts, and changed while their part of it is decided.

use crate::abi::{map, status};
use crate::data::Data;
use crate::guest::{Guest, Place, Stop, answer, stop};
use crate::head::{Field, Head, Refusal, Rule, Side, deserialize, joined, serialize, serialized_len};
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    read(linker)?;
    change(linker)
}

fn read(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap("env", "proxy_get_header_map_size", |caller: Caller<'_, Data>, id: i32, out: i32| {
        answer(Guest::new(caller).and_then(|mut guest| {
            let length = serialized_len(fields(&mut guest, id)?);
            guest.write_u32(out, length as u32)
        }))
    })?;
    linker.func_wrap(
        "env",
        "proxy_get_header_map_pairs",
        |caller: Caller<'_, Data>, id: i32, out: i32, length: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                let pairs = serialize(fields(&mut guest, id)?);
                guest.give(&pairs, (out, length))
            }))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_header_map_value",
        |caller: Caller<'_, Data>, id: i32, key: i32, key_length: i32, out: i32, length: i32| {
            answer(
                Guest::new(caller)
                    .and_then(|mut guest| value(&mut guest, id, (key, key_length), (out, length))),
            )
        },
    )?;
    Ok(())
}

fn change(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap(
        "env",
        "proxy_set_header_map_pairs",
        |caller: Caller<'_, Data>, id: i32, at: i32, length: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                let pairs = deserialize(&guest.read((at, length))?);
                let pairs = pairs.ok_or(Stop::Status(status::BAD_ARGUMENT))?;
                let (head, _) = changeable(&mut guest, id)?;
                // Each name is looked for in both sets.
                let (known, new) = (head.fields().len(), pairs.len());
                guest.charge_fields((known + new).saturating_mul(known + new))?;
                let (head, rules) = changeable(&mut guest, id)?;
                head.replace_all(rules, pairs).map_err(refused)
            }))
        },
    )?;
    for (name, alone) in [("proxy_add_header_map_value", false), ("proxy_replace_header_map_value", true)] {
        linker.func_wrap(
            "env",
            name,
            move |caller: Caller<'_, Data>, id: i32, key: i32, key_length: i32, at: i32, length: i32| {
                answer(Guest::new(caller).and_then(|mut guest| {
                    let field = (guest.read((key, key_length))?, guest.read((at, length))?);
                    put(&mut guest, id, field, alone)
                }))
            },
        )?;
    }
    linker.func_wrap(
        "env",
        "proxy_remove_header_map_value",
        |caller: Caller<'_, Data>, id: i32, key: i32, length: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                let name = guest.read((key, length))?;
                let (head, rules) = changeable(&mut guest, id)?;
                head.remove(rules, name).map_err(refused)
            }))
        },
    )?;
    Ok(())
}

/// The fields of a map. Maps that this host does not have (trailers, gRPC) are empty.
fn fields<'g>(guest: &'g mut Guest<'_>, id: i32) -> Result<&'g [Field], Stop> {
    let count = known(guest.data(), id)?.len();
    guest.charge_fields(count)?;
    known(guest.data(), id)
}

fn known(data: &mut Data, id: i32) -> Result<&[Field], Stop> {
    if id == map::CALL_RESPONSE_HEADERS {
        return Ok(data.answer.as_ref().map_or(&[], |answer| &*answer.fields));
    }
    let stream = data.stream();
    match (id, stream) {
        (map::REQUEST_HEADERS, Some(stream)) => Ok(stream.request.fields()),
        (map::RESPONSE_HEADERS, Some(stream)) => Ok(stream.response.fields()),
        (0..=map::LAST, _) => Ok(&[]),
        _ => stop(status::BAD_ARGUMENT),
    }
}

fn value(guest: &mut Guest<'_>, id: i32, name: Place, out: Place) -> Result<(), Stop> {
    let name = guest.read(name)?;
    let found = joined(fields(guest, id)?, &name);
    match found {
        Some(value) => guest.give(&value, out),
        None => stop(status::NOT_FOUND),
    }
}

fn put(guest: &mut Guest<'_>, id: i32, field: Field, alone: bool) -> Result<(), Stop> {
    let (head, rules) = changeable(guest, id)?;
    head.put(rules, field, alone).map_err(refused)
}

/// The head that may be changed now.
fn changeable<'g>(guest: &'g mut Guest<'_>, id: i32) -> Result<(&'g mut Head, (Rule, Side)), Stop> {
    fields(guest, id)?;
    let data = guest.data();
    let rule = data.common.rule;
    match (id, data.writable()) {
        (map::REQUEST_HEADERS, Some((stream, Side::Request))) => {
            Ok((&mut stream.request, (rule, Side::Request)))
        }
        (map::RESPONSE_HEADERS, Some((stream, Side::Response))) => {
            Ok((&mut stream.response, (rule, Side::Response)))
        }
        (1 | 3..=map::LAST, _) => stop(status::UNIMPLEMENTED),
        _ => stop(status::BAD_ARGUMENT),
    }
}

fn refused(refusal: Refusal) -> Stop {
    Stop::Status(match refusal {
        Refusal::NotAllowed => status::BAD_ARGUMENT,
        Refusal::TooMuch => status::INTERNAL_FAILURE,
    })
}
