//! What modules of the SDKs need of WASI preview 1: standard output and error become lines of the log, there are clocks
//! and random numbers, and neither arguments, environment nor files.

use crate::abi::errno;
use crate::data::Data;
use crate::failure::Exit;
use crate::guest::{Guest, Stop};
use crate::hostcalls::log::unix_nanoseconds;
use wasmtime::{Caller, Linker};

/// Pieces of one `fd_write`.
const PIECES: u32 = 64;
/// Bytes of one `random_get`.
const RANDOM: usize = 64 * 1024;
/// Subscriptions of one `poll_oneoff`, and the bytes of one and of an event.
const SUBSCRIPTIONS: i32 = 16;
const SUBSCRIPTION: i32 = 48;
const EVENT: usize = 32;

pub(super) fn link(linker: &mut Linker<Data>, from: &str) -> wasmtime::Result<()> {
    linker.func_wrap(
        from,
        "fd_write",
        |caller: Caller<'_, Data>, fd: i32, pieces: i32, count: i32, out: i32| {
            answer(Guest::new(caller).and_then(|mut guest| write(&mut guest, fd, (pieces, count), out)))
        },
    )?;
    linker.func_wrap(
        from,
        "clock_time_get",
        |caller: Caller<'_, Data>, clock: i32, _precision: i64, out: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                let time = match clock {
                    0 => unix_nanoseconds(),
                    1 => u64::try_from(guest.data().born.elapsed().as_nanos()).unwrap_or(u64::MAX),
                    _ => return Err(Stop::Status(errno::NOTSUP)),
                };
                guest.write(out, &time.to_le_bytes())
            }))
        },
    )?;
    linker.func_wrap(from, "random_get", |caller: Caller<'_, Data>, at: i32, length: i32| {
        answer(Guest::new(caller).and_then(|mut guest| {
            let mut bytes = vec![0; (length as u32 as usize).min(RANDOM + 1)];
            if bytes.len() > RANDOM || getrandom::fill(&mut bytes).is_err() {
                return Err(Stop::Status(errno::INVAL));
            }
            guest.write(at, &bytes)
        }))
    })?;
    for name in ["environ_sizes_get", "args_sizes_get"] {
        linker.func_wrap(from, name, |caller: Caller<'_, Data>, count: i32, bytes: i32| {
            answer(Guest::new(caller).and_then(|mut guest| {
                guest.write_u32(count, 0)?;
                guest.write_u32(bytes, 0)
            }))
        })?;
    }
    for name in ["environ_get", "args_get"] {
        linker.func_wrap(from, name, |_: Caller<'_, Data>, _: i32, _: i32| errno::SUCCESS)?;
    }
    linker.func_wrap(from, "sched_yield", |_: Caller<'_, Data>| errno::SUCCESS)?;
    linker.func_wrap(
        from,
        "poll_oneoff",
        |caller: Caller<'_, Data>, wanted: i32, events: i32, count: i32, out: i32| {
            answer(Guest::new(caller).and_then(|mut guest| poll(&mut guest, wanted, events, (count, out))))
        },
    )?;
    linker.func_wrap(from, "proc_exit", |_: Caller<'_, Data>, code: i32| -> wasmtime::Result<()> {
        Err(wasmtime::Error::new(Exit(code)))
    })?;
    Ok(())
}

/// As for the ABI, with the numbers of WASI.
fn answer(result: Result<(), Stop>) -> wasmtime::Result<i32> {
    match result {
        Err(Stop::Status(crate::abi::status::INVALID_MEMORY_ACCESS)) => Ok(errno::FAULT),
        result => crate::guest::answer(result),
    }
}

fn write(guest: &mut Guest<'_>, fd: i32, (pieces, count): (i32, i32), out: i32) -> Result<(), Stop> {
    if !matches!(fd, 1 | 2) {
        return Err(Stop::Status(errno::BADF));
    }
    let mut written = 0;
    for piece in 0..(count as u32).min(PIECES) {
        let at = pieces.wrapping_add(piece.wrapping_mul(8) as i32);
        let place = (guest.read_u32(at)? as i32, guest.read_u32(at.wrapping_add(4))? as i32);
        let bytes = guest.read(place)?;
        guest.data().print(fd as usize - 1, &bytes);
        written += bytes.len();
    }
    guest.write_u32(out, written as u32)
}

/// Everything that is waited for is there at once: nobody waits on a worker.
fn poll(guest: &mut Guest<'_>, wanted: i32, events: i32, (count, out): (i32, i32)) -> Result<(), Stop> {
    if !(1..=SUBSCRIPTIONS).contains(&count) {
        return Err(Stop::Status(errno::INVAL));
    }
    for at in 0..count {
        let asked = guest.read((wanted.wrapping_add(at * SUBSCRIPTION), 9))?;
        let mut event = [0_u8; EVENT];
        let (user, kind) = asked.split_at(8);
        event[..8].copy_from_slice(user);
        event[10] = kind.first().copied().unwrap_or(0);
        guest.write(events.wrapping_add(at * EVENT as i32), &event)?;
    }
    guest.write_u32(out, count as u32)
}
