//! Calls to services of the configuration. A call is made once the callback has returned, and the module is told of the
//! answer before anything else happens to the exchange. One of the root context is made with the next request.

use crate::abi::status;
use crate::data::{Data, ROOT};
use crate::guest::{Guest, Place, Stop, answer, stop};
use crate::head::{Allowed, Side, deserialize};
use crate::log::Level;
use crate::stream::{HttpCall, Phase};
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    linker.func_wrap(
        "env",
        "proxy_http_call",
        |caller: Caller<'_, Data>,
         service: i32,
         service_length: i32,
         fields: i32,
         fields_length: i32,
         body: i32,
         body_length: i32,
         _trailers: i32,
         _trailers_length: i32,
         timeout: i32,
         out: i32| {
            let places = [(service, service_length), (fields, fields_length), (body, body_length)];
            answer(Guest::new(caller).and_then(|mut guest| call(&mut guest, places, (timeout, out))))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_status",
        |caller: Caller<'_, Data>, code: i32, out: i32, length: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                let fields = guest.data().answer.iter().flat_map(|answer| &answer.fields);
                let status =
                    fields.filter(|(name, _)| name == b":status").map(|(_, value)| value.clone()).next();
                let status = status.and_then(|status| str::from_utf8(&status).ok()?.parse().ok());
                guest.write_u32(code, status.unwrap_or(0))?;
                guest.give(&[], (out, length))
            }))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_call_foreign_function",
        |_: Caller<'_, Data>, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32| status::NOT_FOUND,
    )?;
    Ok(())
}

/// `places`: those of the service, the fields and the body.
fn call(guest: &mut Guest<'_>, places: [Place; 3], (timeout, out): (i32, i32)) -> Result<(), Stop> {
    let [service, fields, body] = places;
    let (service, body) = (guest.read(service)?, guest.read(body)?);
    let service = String::from_utf8_lossy(&service).into_owned();
    let fields = deserialize(&guest.read(fields)?).ok_or(Stop::Status(status::BAD_ARGUMENT))?;
    let data = guest.data();
    if !data.common.services.contains(&service) {
        let text = format!("it calls `{service}`, which is not among its `services`");
        data.write(Level::Warn, text.as_bytes());
        return stop(status::BAD_ARGUMENT);
    }
    let has = |wanted: &[u8]| fields.iter().any(|(name, _)| name == wanted);
    if ![&b":method"[..], b":path", b":authority"].into_iter().all(has) {
        return stop(status::BAD_ARGUMENT);
    }
    let rule = data.common.rule;
    let mut allowed = Vec::new();
    for (name, value) in fields {
        match rule(Side::Call, &name, Some(&value)) {
            Allowed::Yes => allowed.push((name, value)),
            Allowed::WithoutEffect => {}
            Allowed::No => return stop(status::BAD_ARGUMENT),
        }
    }
    let id = data.last_call.wrapping_add(1);
    let call = HttpCall { id, service, fields: allowed, body, timeout_ms: timeout as u32 };
    let phase = data.stream().map(|stream| stream.phase);
    let has_room = match phase {
        Some(Phase::Request | Phase::Response) => data.stream().is_some_and(|stream| stream.call(call)),
        None if data.active == ROOT && !data.is_dry => data.root_calls.push(call),
        _ => {
            data.write(Level::Warn, b"it calls a service where nothing can wait for the answer");
            false
        }
    };
    if !has_room {
        return stop(status::INTERNAL_FAILURE);
    }
    data.last_call = id;
    guest.write_u32(out, id)
}
