//! Drives rustls' unbuffered connection: the one place that knows its states.
//!
//! What has to hold, beyond what the types say (rustls 0.23.46):
//! - `discard` counts also where a call failed, and what was not discarded must be offered again as it was left: parts
//!   of handshake messages are put together in it.
//! - A call ends at the first state; only `WriteTraffic` and `BlockedHandshake` mean that nothing is left to do.
//! - After an error the alert is fetched only while there is one. Another look at the input could fail again, and with
//!   it what was to be said first.
//! - While a handshake message is there in part, rustls steps over that part without looking whether it is there: a
//!   shorter slice, an empty one above all, is a panic. [`Input::kept`] is that part's length, and [`writing`] shows
//!   rustls as many bytes, which it does not read.

use rustls::client::ClientConnectionData;
use rustls::server::ServerConnectionData;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, UnbufferedConnectionCommon, UnbufferedStatus, WriteTraffic,
};
use thalweg_core::limits::{TLS_HELD, TLS_HELD_RECORDS, TLS_UNSAID};

use crate::byte_queue::ByteQueue;
use crate::failure::{Failure, Refused};

/// Type, version and length.
const HEADER: usize = 5;

/// A connection of either side.
pub(crate) type Connection<D> = UnbufferedConnectionCommon<D>;

/// The side of a connection: rustls has the same method twice.
pub(crate) trait Side: Sized {
    /// Whether this is the server's.
    const IS_SERVER: bool;

    /// One step.
    fn process<'c, 'i>(
        connection: &'c mut Connection<Self>,
        input: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self>;
}

impl Side for ServerConnectionData {
    const IS_SERVER: bool = true;

    fn process<'c, 'i>(
        connection: &'c mut Connection<Self>,
        input: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self> {
        connection.process_tls_records(input)
    }
}

impl Side for ClientConnectionData {
    const IS_SERVER: bool = false;

    fn process<'c, 'i>(
        connection: &'c mut Connection<Self>,
        input: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self> {
        connection.process_tls_records(input)
    }
}

/// What a connection holds beside rustls.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Bytes of whole records, from the first one not consumed, that rustls has read and wants to see again: part of a
    /// handshake message.
    kept: usize,
    /// Records among them.
    kept_records: usize,
    /// Plaintext for which there was no room.
    pub(crate) rest: ByteQueue,
    /// What waits to be sent.
    pub(crate) unsaid: ByteQueue,
    /// close_notify came.
    pub(crate) ended: bool,
}

/// What [`take`] did.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) consumed: usize,
    pub(crate) written: usize,
    /// Whole records stay, for want of room.
    pub(crate) more: bool,
    /// What ended the connection behind what was written.
    pub(crate) failure: Option<Failure>,
}

/// Takes records of `received` and puts plaintext into `into`, until either is used up.
pub(crate) fn take<D: Side>(
    connection: &mut Connection<D>,
    input: &mut Input,
    received: &mut [u8],
    into: &mut [u8],
) -> Taken {
    let mut taken = Taken::default();
    if received.len() < input.kept {
        // Not what was left. Nothing can be made of it, and rustls must not see it.
        return taken;
    }
    let (end, records) = whole_records(received, input.kept);
    loop {
        // With no room at all one record is read, to see whether it is plaintext.
        if !input.rest.is_empty() || (taken.written > 0 && taken.written == into.len()) {
            taken.more = taken.consumed < end;
            break;
        }
        // Several steps have an end: each takes a record, a message to send or a state away.
        let UnbufferedStatus { discard, state } = D::process(connection, &mut received[taken.consumed..]);
        let mut is_done = false;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(Ok(record)) = traffic.next_record() {
                    let room = &mut into[taken.written..];
                    let (fits, rest) = record.payload.split_at(room.len().min(record.payload.len()));
                    room[..fits.len()].copy_from_slice(fits);
                    taken.written += fits.len();
                    taken.consumed += record.discard;
                    input.rest.put(rest);
                }
            }
            Ok(ConnectionState::EncodeTlsData(data)) => taken.failure = encode(data, &mut input.unsaid).err(),
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => input.ended = true,
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => is_done = true,
            Ok(ConnectionState::Closed) => is_done = true,
            // Early data is never allowed.
            Ok(_) => taken.failure = Some(Refused::Protocol.into()),
            Err(why) => {
                last_words(connection, &mut received[taken.consumed + discard..], &mut input.unsaid);
                taken.failure = Some(Failure::of::<D>(why));
            }
        }
        taken.consumed += discard;
        if is_done || taken.failure.is_some() {
            break;
        }
    }
    keep(input, &mut taken, end, records);
    if input.ended {
        // What follows close_notify is ignored, RFC 8446 §6.1.
        taken.consumed = received.len();
        taken.more = false;
    }
    taken
}

/// Notes how much of the whole records stays, and bounds it.
fn keep(input: &mut Input, taken: &mut Taken, end: usize, records: usize) {
    // Where it stopped for want of room the last record was plaintext, which cannot stand inside a handshake message.
    let kept = if taken.more { 0 } else { end.saturating_sub(taken.consumed) };
    input.kept_records = if kept == 0 { 0 } else { input.kept_records + records };
    input.kept = kept;
    let fits = kept <= TLS_HELD && input.kept_records <= TLS_HELD_RECORDS && input.unsaid.len() <= TLS_UNSAID;
    if !fits && taken.failure.is_none() {
        taken.failure = Some(Refused::Limit.into());
    }
}

/// The end of the last whole record, and how many there are from `at` on. What is no record is rustls' to say.
fn whole_records(received: &[u8], mut at: usize) -> (usize, usize) {
    let mut count = 0;
    while let Some([_, _, _, high, low]) = received.get(at..at + HEADER) {
        let next = at + HEADER + usize::from(u16::from_be_bytes([*high, *low]));
        if next > received.len() {
            break;
        }
        at = next;
        count += 1;
    }
    (at.min(received.len()), count)
}

/// Brings a connection to where it can send; `None`: the handshake is not over, or close_notify was said.
pub(crate) fn writing<'c, D: Side>(
    connection: &'c mut Connection<D>,
    input: &mut Input,
) -> Result<Option<WriteTraffic<'c, D>>, Failure> {
    let mut seen = vec![0; input.kept];
    // What waits is moved out first, so that the last step borrows the connection for the caller. Every step takes
    // something away; there are never more of them than messages wait.
    while !is_at_rest(connection, &mut seen, input)? {}
    match D::process(connection, &mut seen).state {
        Ok(ConnectionState::WriteTraffic(traffic)) => Ok(Some(traffic)),
        Ok(_) => Ok(None),
        Err(why) => Err(Failure::of::<D>(why)),
    }
}

/// One step without input; whether there was nothing to do.
fn is_at_rest<D: Side>(
    connection: &mut Connection<D>,
    seen: &mut [u8],
    input: &mut Input,
) -> Result<bool, Failure> {
    match D::process(connection, seen).state {
        Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut input.unsaid).map(|()| false),
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(false)
        }
        Ok(ConnectionState::PeerClosed) => {
            input.ended = true;
            Ok(false)
        }
        Ok(_) => Ok(true),
        Err(why) => Err(Failure::of::<D>(why)),
    }
}

/// Moves what rustls wants to say last, an alert as a rule, to what waits to be sent.
fn last_words<D: Side>(connection: &mut Connection<D>, received: &mut [u8], unsaid: &mut ByteQueue) {
    while connection.wants_write() {
        let Ok(ConnectionState::EncodeTlsData(data)) = D::process(connection, received).state else { return };
        if encode(data, unsaid).is_err() {
            return;
        }
    }
}

fn encode<D>(mut data: EncodeTlsData<'_, D>, unsaid: &mut ByteQueue) -> Result<(), Failure> {
    // The message does not tell its length but in this way.
    match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(short)) => {
            let written = data.encode(unsaid.room(short.required_size));
            written.map(|_| ()).map_err(|why| Failure::new(Refused::Protocol, Some(why.to_string())))
        }
        _ => Ok(()),
    }
}
