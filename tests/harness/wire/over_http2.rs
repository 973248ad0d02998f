//! The steps of a transcript whose clients speak HTTP/2: requests go as streams, and status, fields and body of
//! responses are compared with what is written for HTTP/1.

use std::time::Instant;

use super::http2::Http2;
use super::parse::{Step, Who};
use super::pattern::{Outcome, Pattern, show_bytes};
use super::perform::{Stage, indent, judge_own, probe};
use crate::connection::Event;
use crate::message::{Kind, find};
use crate::{Message, STEP};

impl Stage {
    /// Performs a step in the way of HTTP/2; `None`: it is the same in both.
    pub(super) fn step_over_http2(&mut self, step: &Step) -> Option<Result<(), String>> {
        Some(match step {
            Step::Send(Who::Client(number), bytes, _) => {
                self.client(*number).and_then(|client| client.send(bytes))
            }
            Step::Sees(Who::Client(number), pattern) => {
                self.client(*number).and_then(|client| sees(client, pattern))
            }
            Step::Sees(upstream, pattern) if pattern.begins_message() => {
                self.sees_request(*upstream, pattern)
            }
            Step::HalfClose(Who::Client(_)) => {
                Err("an end of one side alone has no form in HTTP/2; say so in `--- http1`".to_owned())
            }
            Step::Close(Who::Client(number)) | Step::Reset(Who::Client(number)) => {
                self.http2.remove(number);
                Ok(())
            }
            Step::Closed(Who::Client(number)) => self.client(*number).and_then(closed).map(drop),
            Step::Broken(Who::Client(number)) => self.client(*number).and_then(closed).and_then(|event| {
                if event == Event::Reset { Ok(()) } else { Err("the stream is not reset".to_owned()) }
            }),
            Step::Own(number, status, fault, _) => {
                let answer = self.client(*number).and_then(own_answer);
                self.own.push((*status, fault.clone()));
                answer.and_then(|answer| judge_own(&answer, *status, fault))
            }
            Step::Open => self.probe_over_http2(),
            _ => return None,
        })
    }

    fn client(&mut self, number: usize) -> Result<&mut Http2, String> {
        if !self.http2.contains_key(&number) {
            let client =
                Http2::open(self.proxy.web(), self.tls_of(number)).map_err(|error| error.to_string())?;
            self.http2.insert(number, client);
        }
        self.http2.get_mut(&number).ok_or_else(|| "no such connection".to_owned())
    }

    /// The upstream receives a request that came as a stream: names of its fields are in lower case.
    fn sees_request(&mut self, who: Who, pattern: &Pattern) -> Result<(), String> {
        let pattern = match self.is_secure {
            true => pattern.clone().secure().of_http2_request()?,
            false => pattern.of_http2_request()?,
        };
        let connection = self.connection(who)?;
        let deadline = Instant::now() + STEP;
        loop {
            let seen = connection.seen();
            let outcome = match find(seen, b"\r\n\r\n") {
                None => Outcome::More,
                Some(end) => pattern.matches(&[&lower_case(&seen[..end]), &seen[end..]].concat()),
            };
            let missing = match outcome {
                Outcome::Matched(len) => {
                    connection.take(len);
                    return Ok(());
                }
                Outcome::Wrong(at) => format!("byte {at} differs"),
                Outcome::More => match connection.read(deadline) {
                    Event::Bytes => continue,
                    event => format!("{event:?}"),
                },
            };
            return Err(format!("{missing}\n  expected:\n{}", indent(&pattern.show())));
        }
    }

    fn probe_over_http2(&mut self) -> Result<(), String> {
        self.probes += 1;
        self.client(1)?.send(probe().as_bytes())?;
        self.answer_probe()?;
        let answer = own_answer(self.client(1)?)?;
        if answer.status() == 200 {
            Ok(())
        } else {
            Err(format!("the next exchange was answered {}", answer.start))
        }
    }

    /// All responses have ended as they should, and have no more than was written.
    pub(super) fn finish_http2(&mut self) -> Result<(), String> {
        for (number, mut client) in std::mem::take(&mut self.http2) {
            let event = read_to_end(&mut client);
            if !client.seen().is_empty() {
                let seen = show_bytes(client.seen());
                return Err(format!("client {number} saw more than expected: {seen}"));
            }
            match (event, client.broken()) {
                (Event::End, _) => {}
                (_, Some(_)) if client.was_closed => {}
                (_, Some(reason)) => {
                    return Err(format!("a response to client {number} was broken off: {reason}"));
                }
                (event, None) => return Err(format!("a response to client {number} has no end: {event:?}")),
            }
        }
        Ok(())
    }
}

/// A head with names of fields in lower case.
fn lower_case(head: &[u8]) -> Vec<u8> {
    let lines = head.split_inclusive(|byte| *byte == b'\n').enumerate();
    lines.fold(Vec::with_capacity(head.len()), |mut text, (number, line)| {
        let end = if number == 0 { 0 } else { line.iter().position(|byte| *byte == b':').unwrap_or(0) };
        text.extend(line[..end].to_ascii_lowercase());
        text.extend_from_slice(&line[end..]);
        text
    })
}

fn sees(client: &mut Http2, pattern: &Pattern) -> Result<(), String> {
    let pattern = pattern.of_http2_response(&mut client.chunked)?;
    let deadline = Instant::now() + STEP;
    loop {
        let missing = match pattern.matches(client.seen()) {
            Outcome::Matched(len) => {
                client.take(len);
                return Ok(());
            }
            Outcome::Wrong(at) => format!("byte {at} differs"),
            Outcome::More => match client.read(deadline) {
                Event::Bytes => continue,
                event => format!("{event:?}"),
            },
        };
        return Err(format!("{missing}\n  expected:\n{}", indent(&pattern.show())));
    }
}

/// No response is under way, or the one that is was broken off and brings nothing more.
fn closed(client: &mut Http2) -> Result<Event, String> {
    let event = read_to_end(client);
    client.was_closed = true;
    match (client.seen().is_empty(), event) {
        (true, Event::End | Event::Reset) => Ok(event),
        (true, event) => Err(format!("the proxy does not end the stream: {event:?}")),
        (false, _) => Err(format!("bytes before the end: {}", show_bytes(client.seen()))),
    }
}

fn own_answer(client: &mut Http2) -> Result<Message, String> {
    if read_to_end(client) != Event::End {
        return Err(format!("no whole answer: {}", client.broken().unwrap_or("nothing more came")));
    }
    let (answer, len) = Message::parse(client.seen(), Kind::Response, true)?.ok_or("no answer")?;
    client.take(len);
    Ok(answer)
}

fn read_to_end(client: &mut Http2) -> Event {
    let deadline = Instant::now() + STEP;
    loop {
        match client.read(deadline) {
            Event::Bytes => {}
            event => return event,
        }
    }
}
