//! The protocol of ZooKeeper: records (Jute), frames, and the session that reads them.
//!
//! Input: a byte that chooses the check, and bytes. Asserts: a record is read with the written values; the reader and
//! a plain cursor agree on each value and on the end of the record; frames do not depend on how their bytes are
//! split, and none exceeds the limit; a session does not panic on any answer, and the number of its requests is
//! bounded.

use std::collections::VecDeque;

use crate::{Draw, cut};
use thalweg_discovery::zookeeper::Conversation;
use thalweg_discovery::zookeeper::jute::{Reader, Writer, take_frame};

/// Longest frame that is taken.
const MOST: usize = 512;
/// Most requests of a session in flight.
const WINDOW: usize = 256;

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind % 4 {
        0 => written(bytes),
        1 => read(bytes),
        2 => frames(bytes),
        _ => session(bytes),
    }
}

/// A value of a record.
#[derive(Debug, Eq, PartialEq)]
enum Value<'a> {
    Int(i32),
    Long(i64),
    Bytes(&'a [u8]),
    Texts(Vec<&'a str>),
}

/// Takes values from the input: a byte for the kind, and a few for the value.
fn values(mut rest: &[u8]) -> Vec<Value<'_>> {
    let mut values = Vec::new();
    while let Some((kind, after)) = rest.split_first() {
        let mut number = [0; 8];
        let length = after.len().min(8);
        number[..length].copy_from_slice(&after[..length]);
        let number = i64::from_be_bytes(number);
        let some = usize::from(kind >> 2).min(after.len());
        let (value, used) = match kind % 4 {
            0 => (Value::Int(number as i32), length),
            1 => (Value::Long(number), length),
            2 => (Value::Bytes(&after[..some]), some),
            _ => {
                let text = std::str::from_utf8(&after[..some]).unwrap_or_default();
                (Value::Texts(text.split(',').collect()), some)
            }
        };
        values.push(value);
        rest = &after[used..];
    }
    values
}

fn written(bytes: &[u8]) {
    let values = values(bytes);
    let record = values.iter().fold(Writer::new(), |record, value| match value {
        Value::Int(number) => record.int(*number),
        Value::Long(number) => record.long(*number),
        Value::Bytes(bytes) => record.bytes(bytes),
        Value::Texts(texts) => {
            let count = i32::try_from(texts.len()).expect("few");
            texts.iter().fold(record.int(count), |record, text| record.bytes(text.as_bytes()))
        }
    });
    let mut buffer = record.frame();
    buffer.extend_from_slice(b"\0\0");
    let frame = take_frame(&mut buffer, usize::MAX).expect("a frame").expect("a whole frame");
    assert_eq!(buffer, b"\0\0");
    let mut reader = Reader::new(&frame);
    for value in values {
        let again = match value {
            Value::Int(_) => Value::Int(reader.int().expect("a number")),
            Value::Long(_) => Value::Long(reader.long().expect("a number")),
            Value::Bytes(_) => Value::Bytes(reader.bytes().expect("bytes")),
            Value::Texts(_) => Value::Texts(reader.texts().expect("texts")),
        };
        assert_eq!(again, value);
    }
    // All was read.
    assert!(reader.int().is_err());
}

/// The input chooses the types to read; a cursor computes the expected ends.
fn read(bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let (mut reader, mut at) = (Reader::new(bytes), 0);
    let length = |at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some((at + 4, usize::try_from(i32::from_be_bytes(bytes)).unwrap_or(0)))
    };
    let text = |(from, length): (usize, usize)| bytes.get(from..from.checked_add(length)?);
    loop {
        let (ours, expected) = match draw.below(4) {
            0 => (reader.int().is_ok(), bytes.get(at..at + 4).map(|_| at + 4)),
            1 => (reader.long().is_ok(), bytes.get(at..at + 8).map(|_| at + 8)),
            2 => {
                let place = length(at);
                let expected = place.and_then(text);
                let ours = reader.bytes();
                assert_eq!(ours.as_ref().ok().copied(), expected);
                (ours.is_ok(), place.map(|(from, length)| from + length).filter(|_| expected.is_some()))
            }
            _ => {
                let ours = reader.texts();
                let mut end = length(at);
                let count = end.map_or(0, |(_, count)| count);
                for _ in 0..count {
                    let Some((from, _)) = end else { break };
                    let place = length(from);
                    let is_text = place.and_then(text).is_some_and(|text| std::str::from_utf8(text).is_ok());
                    end = place.filter(|_| is_text).map(|(from, length)| (from + length, 0));
                }
                assert_eq!(ours.as_ref().map_or(0, Vec::len), if end.is_some() { count } else { 0 });
                (ours.is_ok(), end.map(|(from, _)| from))
            }
        };
        assert_eq!(ours, expected.is_some());
        match expected {
            Some(end) => at = end,
            None => break,
        }
    }
}

fn frames(bytes: &[u8]) {
    let taken = |pieces: &[&[u8]]| {
        let (mut buffer, mut frames) = (Vec::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                match take_frame(&mut buffer, MOST) {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(_) => return (frames, None),
                }
            }
        }
        (frames, Some(buffer))
    };
    let whole = taken(&[bytes]);
    assert_eq!(taken(&cut(bytes, &Draw::of(bytes).ends(bytes.len()))), whole, "other frames when split");
    let (frames, rest) = whole;
    assert!(frames.iter().all(|frame| frame.len() <= MOST));
    if let Some(rest) = rest {
        let all: Vec<u8> = frames.iter().fold(Vec::new(), |mut all, frame| {
            all.extend_from_slice(&(frame.len() as u32).to_be_bytes());
            all.extend_from_slice(frame);
            all
        });
        assert_eq!([all, rest].concat(), bytes);
    }
}

/// Frames, each after a byte for its length and a byte that decides whether it answers the oldest request.
fn session(bytes: &[u8]) {
    let mut session = Conversation::about(&["/s", "/s/t"]);
    let (mut asked, mut rest) = (VecDeque::new(), bytes);
    while let Some(([length, is_answer], after)) = rest.split_first_chunk::<2>() {
        let mut outgoing = session.outgoing();
        while let Some(frame) = take_frame(&mut outgoing, MOST).expect("frames are sent") {
            asked.push_back(Reader::new(&frame).int().expect("a number"));
        }
        assert!(outgoing.is_empty() && asked.len() <= WINDOW);
        let (frame, after) = after.split_at(usize::from(*length).min(after.len()));
        let mut frame = frame.to_vec();
        if let (Some(first), Some(place)) = (asked.front(), frame.first_chunk_mut::<4>()) {
            if is_answer % 2 == 0 {
                *place = i32::to_be_bytes(*first);
            }
            if i32::from_be_bytes(*place) == *first {
                asked.pop_front();
            }
        }
        if let Err(why) = session.take(&frame) {
            assert!(!why.is_empty());
            return;
        }
        assert!(session.documents() <= bytes.len(), "more documents than bytes");
        rest = after;
    }
}
