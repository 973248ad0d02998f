//! The opening handshake of a WebSocket (RFC 6455 §4) for a client whose stream is one already (RFC 8441): the endpoint
//! of HTTP/1.1 wants it, and the client knows nothing of it.

use crate::state::exchange::Exchange;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use thalweg_core::RequestId;
use thalweg_http::{Field, ResponseHead};

/// What an endpoint appends to the key (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub(super) const KEY: &[u8] = b"sec-websocket-key";
const ACCEPT: &[u8] = b"sec-websocket-accept";

/// The key for a request: the same whenever it is asked for, so that nothing is kept to know the answer by.
fn key_of(id: &RequestId) -> String {
    STANDARD.encode(&Sha256::digest(id.as_bytes())[..16])
}

/// What an endpoint answers to a key.
pub(super) fn answer_to(key: impl AsRef<[u8]>) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// The client's fields go on without a key, which it has no use for.
pub(crate) fn strip_key(x: &mut Exchange) {
    let received = &x.received;
    let keys = x.request.fields.iter_mut().filter(|field| is(field, received, KEY));
    keys.for_each(|field| field.keep = false);
}

/// Writes the key of a request.
pub(crate) fn write_key(out: &mut Vec<u8>, id: &RequestId) {
    out.extend_from_slice(b"Sec-WebSocket-Key: ");
    out.extend_from_slice(key_of(id).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Makes of a composed response's head of `len` bytes, which accepts a WebSocket over a stream, the switch of HTTP/1.1
/// that it stands for. `proof`: the answer to the client's key.
pub(super) fn write_switch(head: &mut Vec<u8>, len: usize, proof: &str) {
    let lines = head.windows(2).position(|end| end == b"\r\n").map_or(len, |at| at + 2);
    let first = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nsec-websocket-accept: {proof}\r\n"
    );
    head.splice(..lines, first.into_bytes());
}

/// Whether a response knows the key of the request. The proof is not passed on.
pub(crate) fn takes_proof(id: &RequestId, response: &mut ResponseHead, head: &[u8]) -> bool {
    let answer = answer_to(key_of(id));
    let mut proofs = response.fields.iter_mut().filter(|field| is(field, head, ACCEPT));
    let (first, second) = (proofs.next(), proofs.next());
    let (Some(proof), None) = (first, second) else { return false };
    proof.keep = false;
    proof.value.of(head) == answer.as_bytes()
}

fn is(field: &Field, bytes: &[u8], name: &[u8]) -> bool {
    field.name.of(bytes).eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_that_of_the_standard() {
        assert_eq!(answer_to("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "RFC 6455 §1.3");
    }

    #[test]
    fn a_request_has_one_key_and_another_has_another() {
        let [one, other] = [1, 2].map(|random| RequestId::new(7, random));
        assert_eq!((key_of(&one), key_of(&one).len()), (key_of(&one), 24));
        assert_ne!(key_of(&one), key_of(&other));
    }
}
