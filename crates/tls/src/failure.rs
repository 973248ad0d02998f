//! Why a connection failed: a word for metrics and logs, and a sentence for people.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use crate::error_text;
use crate::records::Side;

macro_rules! refused {
    ($( $variant:ident $name:literal $summary:literal; )*) => {
        /// Why there is no connection, or no longer one. The words are values of metrics, logs and events.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum Refused { $( #[doc = $summary] $variant, )* }

        impl Refused {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// Its word.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// What it means, in a sentence without a full stop.
            pub const fn summary(self) -> &'static str {
                match self { $( Self::$variant => $summary, )* }
            }
        }
    };
}

refused! {
    PlainHttp "plain_http" "a plain HTTP request came to a port that speaks TLS";
    NoTls "no_tls" "what came is not TLS";
    HelloTooLarge "hello_too_large" "the ClientHello is larger than any real one";
    HelloMalformed "hello_malformed" "the ClientHello is malformed";
    UnknownName "unknown_name" "no certificate has the name that the client asked for";
    NoCertificate "no_certificate" "no certificate has a key that the client can use";
    Version "version" "there is no version of TLS that both sides speak";
    Suite "suite" "there is no cipher suite or group that both sides have";
    Alpn "alpn" "there is no application protocol that both sides speak";
    ClientCertificateMissing "client_certificate_missing" "the client showed no certificate";
    ClientCertificateInvalid "client_certificate_invalid" "the client's certificate is not trusted";
    ClientCertificateRevoked "client_certificate_revoked" "the client's certificate was revoked";
    ClientCertificateExpired "client_certificate_expired" "the client's certificate is not valid now";
    ServerCertificate "server_certificate" "the server's certificate is not trusted, or not for this name";
    Alert "alert" "the peer refused with an alert";
    Protocol "protocol" "the peer broke the rules of TLS";
    Time "time" "the handshake was not over in time";
    Gone "gone" "the peer ended the connection without a word";
    Limit "limit" "a bound on what a peer may make us keep was reached";
}

impl Refused {
    /// The fatal alert for a client whose hello is not taken, as a record of its own (RFC 8446 §6).
    pub fn alert(self) -> [u8; 7] {
        let alert = match self {
            Self::UnknownName => AlertDescription::UnrecognisedName,
            Self::Version => AlertDescription::ProtocolVersion,
            Self::NoTls | Self::PlainHttp => AlertDescription::UnexpectedMessage,
            Self::Time | Self::Limit => AlertDescription::InternalError,
            _ => AlertDescription::DecodeError,
        };
        [21, 3, 3, 0, 2, 2, alert.into()]
    }
}

/// A connection's failure. Once there is one, the connection is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    kind: Refused,
    /// In fixed words.
    what: &'static str,
    why: Option<Box<str>>,
}

impl Failure {
    /// With a sentence of its own beside the word; `None`: the word's.
    pub(crate) fn new(kind: Refused, why: Option<String>) -> Self {
        Self { kind, what: kind.summary(), why: why.map(String::into_boxed_str) }
    }

    /// What rustls says on the server's side.
    pub(crate) fn of_server(why: Error) -> Self {
        let kind = match &why {
            Error::InvalidCertificate(CertificateError::Revoked) => Refused::ClientCertificateRevoked,
            Error::InvalidCertificate(why) if is_of_time(why) => Refused::ClientCertificateExpired,
            Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => {
                Refused::ClientCertificateInvalid
            }
            Error::NoCertificatesPresented => Refused::ClientCertificateMissing,
            why => common(why),
        };
        Self::new(kind, Some(error_text::of(&why)))
    }

    /// What rustls says on the client's side.
    pub(crate) fn of_client(why: Error) -> Self {
        let kind = match &why {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Refused::ServerCertificate,
            why => common(why),
        };
        // With fixed words for it only the names of a certificate are news.
        let is_news = match &why {
            Error::InvalidCertificate(why) => matches!(why, CertificateError::NotValidForNameContext { .. }),
            _ => true,
        };
        match error_text::fixed(&why) {
            None => Self::new(kind, Some(error_text::of(&why))),
            Some(what) => Self { what, ..Self::new(kind, is_news.then(|| error_text::of(&why))) },
        }
    }

    /// What rustls says on that side.
    pub(crate) fn of<D: Side>(why: Error) -> Self {
        if D::IS_SERVER { Self::of_server(why) } else { Self::of_client(why) }
    }

    /// Its word.
    pub fn kind(&self) -> Refused {
        self.kind
    }

    /// What went wrong as far as fixed words can tell it: nothing in them comes from the peer.
    pub fn what(&self) -> &'static str {
        self.what
    }
}

/// What means the same on both sides.
fn common(why: &Error) -> Refused {
    use PeerIncompatible as Peer;
    match why {
        Error::AlertReceived(_) => Refused::Alert,
        Error::NoApplicationProtocol => Refused::Alpn,
        Error::PeerIncompatible(
            Peer::ServerDoesNotSupportTls12Or13
            | Peer::ServerTlsVersionIsDisabledByOurConfig
            | Peer::SupportedVersionsExtensionRequired
            | Peer::Tls12NotOffered
            | Peer::Tls12NotOfferedOrEnabled,
        ) => Refused::Version,
        Error::PeerIncompatible(Peer::NoSignatureSchemesInCommon) => Refused::NoCertificate,
        Error::PeerIncompatible(_) => Refused::Suite,
        _ => Refused::Protocol,
    }
}

fn is_of_time(why: &CertificateError) -> bool {
    use CertificateError as Bad;
    matches!(
        why,
        Bad::Expired | Bad::ExpiredContext { .. } | Bad::NotValidYet | Bad::NotValidYetContext { .. }
    )
}

impl From<Refused> for Failure {
    fn from(kind: Refused) -> Self {
        Self::new(kind, None)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match &self.why {
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
