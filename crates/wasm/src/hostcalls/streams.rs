//! What becomes of an exchange: it goes on, is answered, or ends.

use crate::abi::{status, stream_type};
use crate::data::{Data, ROOT};
use crate::guest::{Guest, Place, Stop, answer, stop};
use crate::head::{Allowed, Side, deserialize};
use crate::log::printable;
use crate::stream::{LocalResponse, Phase};
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap("env", "proxy_continue_stream", |caller: Caller<'_, Data>, kind: i32| {
        answer(Guest::new(caller).and_then(|mut guest| resume(guest.data(), kind)))
    })?;
    linker.func_wrap("env", "proxy_close_stream", |caller: Caller<'_, Data>, kind: i32| {
        answer(Guest::new(caller).and_then(|mut guest| match (kind, guest.data().writable()) {
            (0..=stream_type::LAST, Some((stream, _))) => {
                stream.closed = true;
                Ok(())
            }
            _ => stop(status::BAD_ARGUMENT),
        }))
    })?;
    // Of version 0.1.0.
    let older = [
        ("proxy_continue_request", stream_type::REQUEST),
        ("proxy_continue_response", stream_type::RESPONSE),
    ];
    for (name, kind) in older {
        linker.func_wrap("env", name, move |caller: Caller<'_, Data>| {
            answer(Guest::new(caller).and_then(|mut guest| resume(guest.data(), kind)))
        })?;
    }
    linker.func_wrap("env", "proxy_clear_route_cache", |_: Caller<'_, Data>| status::OK)?;
    linker.func_wrap("env", "proxy_set_effective_context", |caller: Caller<'_, Data>, id: i32| {
        answer(Guest::new(caller).and_then(|mut guest| {
            let (data, id) = (guest.data(), id as u32);
            if id != ROOT && !data.streams.contains_key(&id) {
                return stop(status::BAD_ARGUMENT);
            }
            data.active = id;
            Ok(())
        }))
    })?;
    // Contexts are not kept beyond their exchange.
    linker.func_wrap("env", "proxy_done", |_: Caller<'_, Data>| status::NOT_FOUND)?;
    linker.func_wrap(
        "env",
        "proxy_set_tick_period_milliseconds",
        |mut caller: Caller<'_, Data>, ms: i32| {
            let period = std::time::Duration::from_millis(u64::from(ms as u32));
            caller.data_mut().tick = (!period.is_zero()).then_some(period);
            status::OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_send_local_response",
        |caller: Caller<'_, Data>,
         code: i32,
         details: i32,
         details_length: i32,
         body: i32,
         body_length: i32,
         fields: i32,
         fields_length: i32,
         _grpc: i32| {
            let places = [(details, details_length), (body, body_length), (fields, fields_length)];
            answer(Guest::new(caller).and_then(|mut guest| respond(&mut guest, code, places)))
        },
    )?;
    Ok(())
}

fn resume(data: &mut Data, kind: i32) -> Result<(), Stop> {
    let wanted = match kind {
        stream_type::REQUEST => Phase::Request,
        stream_type::RESPONSE => Phase::Response,
        // Those of TCP.
        2..=stream_type::LAST => return stop(status::UNIMPLEMENTED),
        _ => return stop(status::BAD_ARGUMENT),
    };
    match data.stream() {
        Some(stream) if stream.phase == wanted => {
            stream.resumed = true;
            Ok(())
        }
        _ => stop(status::BAD_ARGUMENT),
    }
}

/// `places`: those of the details, the body and the fields.
fn respond(guest: &mut Guest<'_>, code: i32, places: [Place; 3]) -> Result<(), Stop> {
    let [details, body, fields] = places;
    let (details, body) = (guest.read(details)?, guest.read(body)?);
    let fields = deserialize(&guest.read(fields)?).ok_or(Stop::Status(status::BAD_ARGUMENT))?;
    let code_of = u16::try_from(code).ok().filter(|code| (200..=599).contains(code));
    let code = code_of.ok_or(Stop::Status(status::BAD_ARGUMENT))?;
    let data = guest.data();
    let rule = data.common.rule;
    let mut allowed = Vec::new();
    for (name, value) in fields {
        match rule(Side::Reply, &name, Some(&value)) {
            Allowed::Yes => allowed.push((name, value)),
            Allowed::WithoutEffect => {}
            Allowed::No => return stop(status::BAD_ARGUMENT),
        }
    }
    let body = if matches!(code, 204 | 205 | 304) { Vec::new() } else { body };
    let Some((stream, _)) = data.writable() else { return stop(status::BAD_ARGUMENT) };
    stream.local = Some(LocalResponse { status: code, details: printable(&details), fields: allowed, body });
    Ok(())
}
