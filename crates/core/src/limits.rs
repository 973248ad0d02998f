//! Every bound that is not a configuration field, in one place.

use std::time::Duration;

/// Longest request line, in bytes; longer is answered 414.
pub const REQUEST_LINE: usize = 16 * 1024;
/// Default for the whole head of a request or response, in bytes (`limits.max_head`); longer is answered 431.
pub const HEAD: usize = 64 * 1024;
/// Largest value accepted for `limits.max_head`.
pub const HEAD_MAX: usize = 1024 * 1024;
/// Default number of fields in a head (`limits.max_fields`); more is answered 431.
pub const FIELDS: usize = 128;
/// Longest chunk-size line with its extensions, in bytes.
pub const CHUNK_LINE: usize = 4 * 1024;
/// Sum of the chunk extensions of one message, in bytes.
pub const CHUNK_EXTENSIONS: usize = 16 * 1024;
/// Largest trailer section, in bytes.
pub const TRAILERS: usize = 16 * 1024;
/// Interim (1xx) responses passed on before one final response.
pub const INTERIM_RESPONSES: u32 = 16;
/// Time for which an unread request body is drained before a connection is closed, in all.
pub const DRAIN_TIME: Duration = Duration::from_secs(30);
/// The same without a byte.
pub const DRAIN_SILENCE: Duration = Duration::from_secs(2);
/// Bytes read from one socket before another connection gets its turn.
pub const TURN_BYTES: usize = 512 * 1024;
/// The same while many receivers are slow.
pub const TURN_BYTES_CROWDED: usize = 64 * 1024;
/// Exchanges that wait for slow clients and go on in one turn of a worker, where they are many.
pub const LAGGARDS_PER_TURN: usize = 1;
/// Bytes of a request that are kept, head and body, so that it can be sent again.
pub const REPLAY: usize = 64 * 1024;
/// Connections accepted by a worker in one turn.
pub const ACCEPTS_PER_TURN: usize = 64;
/// Time in one turn of a worker for datagrams of clients, and as much for those of endpoints.
pub const DATAGRAM_SHARE: Duration = Duration::from_micros(200);
/// Longest datagram that is kept until its endpoint has said something, in bytes: where that refuses it, another one
/// gets it.
pub const DATAGRAM_KEPT: usize = 2048;
/// Events taken from the kernel in one turn.
pub const EVENTS_PER_TURN: usize = 256;
/// Descriptors kept back for logs, admin, DNS and refusals.
pub const DESCRIPTOR_RESERVE: usize = 64;
/// Pipes of a worker through which large bodies go, with two descriptors each; fewer where descriptors are few.
pub const PIPES: usize = 16;
/// Connections that are answered 503 at once when every place is taken, at the same time and worker.
pub const REFUSALS: usize = 16;
/// Refused connections of one worker that have a line of their own in the access log, in a second; the next line says
/// how many had none.
pub const REFUSAL_LINES_PER_SECOND: u32 = 10;
/// Time a refused connection gets to read its answer.
pub const REFUSAL_TIME: Duration = Duration::from_millis(100);
/// Endpoint sets that a worker takes over in a turn while others wait: a set of a hundred endpoints takes some 0.1 ms.
pub const ENDPOINT_SETS_PER_TURN: usize = 1;
/// Time that a connection which was accepted but not served yet, or whose last answer promised that it is kept, has to
/// speak once the proxy stops.
pub const FIRST_WORD_TIME: Duration = Duration::from_millis(1000);
/// Silence after which `/livez` calls a worker dead.
pub const WORKER_SILENCE: Duration = Duration::from_secs(10);
/// Shortest time between two resolutions of one host name.
pub const RESOLVE_FLOOR: Duration = Duration::from_secs(1);
/// Endpoints of one service.
pub const ENDPOINTS: usize = 10_000;
/// Plans that may be alive at once: the one in force, and old ones that a worker has not let go of yet. No exchange
/// holds one, so two are the rule.
pub const PLANS: usize = 16;
/// How long a new plan waits for a place among them; past it, it does not take over.
pub const PLAN_WAIT: Duration = Duration::from_secs(2);
/// How long the sockets of a listener that is gone take in who comes: connections whose handshake is done and whose
/// first bytes are on their way.
pub const CLOSING_TIME: Duration = Duration::from_millis(100);
/// Longest header of the PROXY protocol, in bytes; real ones have 30 to 300.
pub const PROXY_HEADER: usize = 4 * 1024;
/// Longest ClientHello, in bytes with the headers of its records; real ones are 0.3 to 2 KiB.
pub const TLS_HELLO: usize = 32 * 1024;
/// Records that a ClientHello may come in.
pub const TLS_HELLO_RECORDS: usize = 256;
/// Bytes of a handshake message of which the last record has not come yet, with the headers of its records.
pub const TLS_HELD: usize = 64 * 1024;
/// Records that such a message may come in.
pub const TLS_HELD_RECORDS: usize = 512;
/// Bytes of handshake, alerts and key updates that wait for a peer who does not read.
pub const TLS_UNSAID: usize = 64 * 1024;
/// Largest PEM file, in bytes.
pub const TLS_PEM: usize = 1024 * 1024;
/// Certificates of one chain.
pub const TLS_CHAIN: usize = 16;
/// Largest file of keys of session tickets, in bytes.
pub const TLS_TICKET_FILE: usize = 64 * 1024;
/// A file of revoked labels, in bytes: some 60,000 of them.
pub const SEALED_REVOKED_FILE: usize = 4 * 1024 * 1024;
/// Largest certificate of a client, in bytes: what is told of it stands in the head of each of its requests.
pub const TLS_CLIENT_CERTIFICATE: usize = 16 * 1024;
/// Bytes of names of authorities that are told to clients who are asked for a certificate; above it none are.
pub const TLS_AUTHORITIES: usize = 16 * 1024;
/// Keys that open session tickets at one time; the newest of them seals.
pub const TLS_TICKET_KEYS: usize = 8;
/// Handshakes that wait at the same time for certificates that are asked for on demand.
pub const TLS_WANTED: usize = 64;
/// Checks by authorities over plain HTTP that are answered at the same time.
pub const ACME_CHALLENGES: usize = 1000;
/// Names that are remembered as refused on demand.
pub const TLS_WANTED_REFUSED: usize = 10_000;
/// Names below `localhost` that get a certificate of the local authority.
pub const TLS_LOCAL_NAMES: usize = 1000;
/// Streams that a peer may have open at one time on one HTTP/2 connection; of clients the default
/// (`listeners.*.limits.max_streams`).
pub const H2_STREAMS: u32 = 100;
/// Largest value accepted for `listeners.*.limits.max_streams`.
pub const H2_STREAMS_MAX: u32 = 1000;
/// Time in which a client of HTTP/2 that asks for something has to acknowledge our settings.
pub const H2_SETTINGS_TIME: Duration = Duration::from_secs(5);
/// Heads of HTTP/2 that the codec gets before what came of them has been taken up.
pub const H2_HEADS_AT_ONCE: u32 = 8;
/// Bytes of field sections after which the codec gets no further one before those have been taken up.
pub const H2_BLOCK_AT_ONCE: u32 = 1024;
/// Bytes of one HTTP/2 connection that its codec gets before others have theirs.
pub const H2_TURN_BYTES: u32 = 64 * 1024;
/// The same in frames: one for this many bytes of the share.
pub const H2_TURN_BYTES_PER_FRAME: u32 = 256;
/// The same in heads, each of which is an exchange that begins: one for this many bytes of the share.
pub const H2_TURN_BYTES_PER_HEAD: u32 = 8192;
/// Bytes by which an HTTP/2 field section may be longer on the wire than `limits.max_head`.
pub const H2_BLOCK_SLACK: usize = 8 * 1024;
/// Fields of an HTTP/2 field section from which on nobody unpacks it: this many times those that a head may have, and
/// at least so many. The parts of a cookie come as fields (RFC 9113 §8.2.3).
pub const H2_FIELDS_SLACK: (usize, usize) = (4, 1000);
/// CONTINUATION frames of a field section, where `limits.max_head` does not ask for more of them.
pub const H2_CONTINUATIONS: u32 = 5;
/// Frames that carry nothing of a message and that an HTTP/2 peer may send at once.
pub const H2_CONTROL_BURST: u32 = 2000;
/// The same for each second.
pub const H2_CONTROL_PER_SECOND: u32 = 200;
/// Window updates that a peer may have earned by payload it got before it sends them.
pub const H2_WINDOWS_EARNED: u32 = 64 * 1024;
/// Resets of an HTTP/2 peer that are free, and those of each second, where few streams are allowed.
pub const H2_RESETS_LEAST: (u32, u32) = (50, 10);
/// Empty DATA frames that the codec gets of one connection; it ends the connection at the hundredth.
pub const H2_EMPTY_DATA: u32 = 50;
/// Small DATA frames of a stream that the codec may keep before they are taken over as one piece: each costs it some
/// 250 bytes.
pub const H2_CRUMBS: u32 = 32;
