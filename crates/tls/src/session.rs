//! One connection's records: what the owner of a socket gives received bytes to, and takes bytes from to send.
//!
//! A server's session begins with the ClientHello, read by [`hello`]: rustls, and its memory, come when all of it
//! is there. See `records` for what drives rustls, and `seal` for the way out.

use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use crate::acceptor::Acceptor;
use crate::client_verifier::ClientAuth;
use crate::connector::{Connector, Offer};
use crate::failure::Failure;
use crate::hello;
use crate::identity::Identity;
use crate::policy::Version;
use crate::provider::{Group, Suite};
use crate::records::{self, Connection, Input, Side, Taken};
use crate::{issued_store, seal};
use thalweg_core::{Opened, Sealed};

/// Most bytes that sealing adds to a plaintext of up to 16 KiB: header 5, explicit nonce 8 (TLS 1.2) or type 1 (1.3),
/// tag 16.
pub const RECORD_OVERHEAD: usize = 29;
/// The largest record that may be received, in bytes.
pub const RECORD_MAX: usize = 16 * 1024 + 2048 + 5;
/// Room for close_notify and a key update before it.
const FAREWELL: usize = 128;

/// What was agreed on, as far as it is known yet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// The version.
    pub version: Option<Version>,
    /// The cipher suite's name in the registry of IANA; empty while not known.
    pub suite: &'static str,
    /// The group of the key exchange; empty where there was none, or while not known.
    pub group: &'static str,
    /// The application protocol.
    pub alpn: Option<Vec<u8>>,
    /// The name that the client asked for, in lower case; on the client's side the name of the server, or its address.
    pub name: Option<String>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

impl Facts {
    /// Whether the client was there to check a name and nothing else (RFC 8737): its connection is closed now.
    pub fn is_check(&self) -> bool {
        self.alpn.as_deref() == Some(issued_store::ACME_TLS)
    }
}

/// One connection's records. No I/O, `Send`.
pub struct Session {
    stage: Stage,
    input: Input,
    name: Option<Box<str>>,
    /// What the client was asked for.
    client_auth: Option<Arc<ClientAuth>>,
    failed: Option<Failure>,
    /// close_notify was said.
    parted: bool,
}

enum Stage {
    /// The ClientHello is not all there.
    Hello(Arc<Acceptor>),
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

impl Session {
    /// The server's side. Nothing is kept until the client has said its hello.
    pub fn accept(acceptor: &Arc<Acceptor>) -> Result<Self, Failure> {
        Ok(Self::at(Stage::Hello(Arc::clone(acceptor))))
    }

    /// The client's side, which has something to say at once.
    pub fn connect(connector: &Arc<Connector>, offer: Offer) -> Result<Self, Failure> {
        let connection = connector.connection(offer).map_err(Failure::of_client)?;
        let mut session = Self::at(Stage::Client(Box::new(connection)));
        session.name = Some(connector.name().into());
        session.open(&mut [], &mut [])?;
        Ok(session)
    }

    /// A server's that has chosen a realm before it knows whom the client asks for.
    #[cfg(test)]
    pub(crate) fn of_config(config: Arc<rustls::ServerConfig>) -> Result<Self, Failure> {
        let connection = UnbufferedServerConnection::new(config).map_err(Failure::of_server)?;
        Ok(Self::at(Stage::Server(Box::new(connection))))
    }

    fn at(stage: Stage) -> Self {
        Self { stage, input: Input::default(), name: None, client_auth: None, failed: None, parted: false }
    }

    /// Takes received bytes, from the first one not consumed last time, and puts plaintext into `into`. What stays must
    /// be offered again unchanged as left: records are opened in place. An empty `into` shows by `more` whether there
    /// is plaintext. After an error [`Session::say`] has the alert, and every call gives the same error.
    pub fn open(&mut self, received: &mut [u8], into: &mut [u8]) -> Result<Opened, Failure> {
        let written = self.input.rest.take(into);
        if !self.input.rest.is_empty() {
            return Ok(Opened { written, more: true, ..Opened::default() });
        }
        if let Some(failed) = &self.failed {
            // What was received before goes first; the failure is told by the next call.
            let nothing = Opened { written, more: true, ..Opened::default() };
            return if written > 0 { Ok(nothing) } else { Err(failed.clone()) };
        }
        let taken = self.take(received, &mut into[written..]);
        let written = written + taken.written;
        let is_failed = taken.failure.is_some();
        let waits = taken.more || !self.input.rest.is_empty();
        if let Some(failure) = taken.failure {
            let failure = self.fail(failure);
            if written == 0 && !waits {
                return Err(failure);
            }
        }
        let ended = self.input.ended && !waits && !is_failed;
        Ok(Opened { consumed: taken.consumed, written, more: waits || is_failed, ended })
    }

    fn take(&mut self, received: &mut [u8], into: &mut [u8]) -> Taken {
        if let Stage::Hello(acceptor) = &self.stage {
            let acceptor = Arc::clone(acceptor);
            if let Err(failure) = self.begin(&acceptor, received) {
                return Taken { failure: Some(failure), ..Taken::default() };
            }
        }
        match &mut self.stage {
            Stage::Hello(_) => Taken::default(),
            Stage::Server(connection) => records::take(connection, &mut self.input, received, into),
            Stage::Client(connection) => records::take(connection, &mut self.input, received, into),
        }
    }

    /// Reads the hello, and makes the connection when all of it is there.
    fn begin(&mut self, acceptor: &Acceptor, received: &[u8]) -> Result<(), Failure> {
        let refused = match hello::read(received) {
            hello::Read::Incomplete => return Ok(()),
            hello::Read::Refused(refused) => refused,
            hello::Read::Hello(hello) => match acceptor.realm_for(&hello) {
                Ok(realm) => {
                    let config = realm.config_for(&hello);
                    self.name = hello.name.map(String::into_boxed_str);
                    self.client_auth = realm.client_auth;
                    let connection = UnbufferedServerConnection::new(config);
                    self.stage = Stage::Server(Box::new(connection.map_err(Failure::of_server)?));
                    return Ok(());
                }
                Err(refused) => {
                    self.name = hello.name.map(String::into_boxed_str);
                    refused
                }
            },
        };
        self.input.unsaid.put(&refused.alert());
        Err(refused.into())
    }

    /// Seals a record from `slices`, up to 16 KiB of them, behind what the session itself has to say; both as much as
    /// fits into `out`. `last`: close_notify follows at once, where this takes all that is left. Nothing is taken while
    /// the handshake is not over.
    pub fn seal(&mut self, slices: &[IoSlice<'_>], last: bool, out: &mut [u8]) -> Result<Sealed, Failure> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let sealed = match &mut self.stage {
            Stage::Hello(_) => Ok(Sealed::default()),
            _ if self.parted => Ok(Sealed { taken: 0, written: self.input.unsaid.take(out) }),
            Stage::Server(connection) => seal_behind(connection, &mut self.input, slices, out),
            Stage::Client(connection) => seal_behind(connection, &mut self.input, slices, out),
        };
        let mut sealed = match sealed {
            Ok(sealed) => sealed,
            Err(failure) => return Err(self.fail(failure)),
        };
        if last && sealed.taken == slices.iter().map(|slice| slice.len()).sum() {
            sealed.written += self.part(&mut out[sealed.written..]);
        }
        Ok(sealed)
    }

    /// Handshake flights, alerts, key updates and tickets that wait to be sent: the bytes put into `out`; 0: none.
    pub fn say(&mut self, out: &mut [u8]) -> usize {
        self.input.unsaid.take(out)
    }

    /// Whether [`Session::say`] has something.
    pub fn has_to_say(&self) -> bool {
        !self.input.unsaid.is_empty()
    }

    /// Says close_notify, behind what else waits, if it may still be said: the bytes put into `out`. What does not fit
    /// is for [`Session::say`].
    pub fn part(&mut self, out: &mut [u8]) -> usize {
        if !self.parted && self.failed.is_none() && !self.is_shaking_hands() {
            let parted = match &mut self.stage {
                Stage::Hello(_) => Ok(()),
                Stage::Server(connection) => close(connection, &mut self.input),
                Stage::Client(connection) => close(connection, &mut self.input),
            };
            match parted {
                Ok(()) => self.parted = true,
                Err(failure) => _ = self.fail(failure),
            }
        }
        self.say(out)
    }

    /// Whether the handshake is not over yet.
    pub fn is_shaking_hands(&self) -> bool {
        self.common().is_none_or(CommonState::is_handshaking)
    }

    /// What was agreed on.
    pub fn facts(&self) -> Facts {
        let name = self.name.as_deref().map(str::to_owned);
        let Some(common) = self.common() else { return Facts { name, ..Facts::default() } };
        Facts {
            version: common.protocol_version().and_then(|version| match version {
                ProtocolVersion::TLSv1_2 => Some(Version::Tls12),
                ProtocolVersion::TLSv1_3 => Some(Version::Tls13),
                _ => None,
            }),
            suite: common.negotiated_cipher_suite().map_or("", Suite::name_of),
            group: common.negotiated_key_exchange_group().map_or("", |group| Group::name_of(group.name())),
            alpn: common.alpn_protocol().map(<[u8]>::to_vec),
            name,
            resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// The name that the client asked for, in lower case; on the client's side that of the server.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What the client was asked for when it came; what is asked now may be something else.
    pub fn client_auth(&self) -> Option<&Arc<ClientAuth>> {
        self.client_auth.as_ref()
    }

    /// Who the client is, on the server's side, when the handshake is over; `None`: it has shown no certificate. Reads
    /// the certificate at each call.
    pub fn identity(&self) -> Option<Identity> {
        let Stage::Server(connection) = &self.stage else { return None };
        if connection.is_handshaking() {
            return None;
        }
        Identity::read(connection.peer_certificates()?.first()?)
    }

    fn common(&self) -> Option<&CommonState> {
        match &self.stage {
            Stage::Hello(_) => None,
            Stage::Server(connection) => Some(connection),
            Stage::Client(connection) => Some(connection),
        }
    }

    fn fail(&mut self, failure: Failure) -> Failure {
        self.failed = Some(failure.clone());
        failure
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("name", &self.name).field("is_shaking_hands", &self.is_shaking_hands());
        shown.field("failed", &self.failed).finish_non_exhaustive()
    }
}

fn seal_behind<D: Side>(
    connection: &mut Connection<D>,
    input: &mut Input,
    slices: &[IoSlice<'_>],
    out: &mut [u8],
) -> Result<Sealed, Failure> {
    let traffic = records::writing(connection, input)?;
    let written = input.unsaid.take(out);
    match traffic {
        Some(mut traffic) if input.unsaid.is_empty() => {
            let sealed = seal::seal(&mut traffic, slices, &mut out[written..])?;
            Ok(Sealed { taken: sealed.taken, written: written + sealed.written })
        }
        _ => Ok(Sealed { taken: 0, written }),
    }
}

fn close<D: Side>(connection: &mut Connection<D>, input: &mut Input) -> Result<(), Failure> {
    let Some(mut traffic) = records::writing(connection, input)? else { return Ok(()) };
    let mut farewell = [0; FAREWELL];
    if let Ok(length) = traffic.queue_close_notify(&mut farewell) {
        input.unsaid.put(&farewell[..length]);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
