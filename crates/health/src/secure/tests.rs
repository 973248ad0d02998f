//! Against a server that is not ours (rustls' buffered side), through pipes that take little at a time.

use super::*;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::time::Duration;
use thalweg_tls::{PeerPolicy, PeerTerms, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A server for `a.test`, and a connector that trusts it and asks for `host`.
fn pair(host: &str) -> (TlsAcceptor, Arc<Connector>) {
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let trust = Trust::Only(made.cert.pem().into_bytes().into());
    let terms = PeerTerms::new(PeerPolicy { trust, ..PeerPolicy::default() }).unwrap();
    let connector = Connector::new(&Arc::new(terms), host).unwrap();
    (TlsAcceptor::from(Arc::new(config)), Arc::new(connector))
}

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

async fn connected(size: usize) -> (Secure<DuplexStream>, TlsStream<DuplexStream>) {
    let (acceptor, connector) = pair("a.test");
    let (near, far) = duplex(size);
    let both = async { tokio::join!(Secure::connect(near, &connector, Offer::Http1), acceptor.accept(far)) };
    let (near, far) = timeout(LONG, both).await.unwrap();
    (near.unwrap(), far.unwrap())
}

#[tokio::test]
async fn bytes_go_both_ways_through_narrow_pipes() {
    for size in [1, 7, 4096, 1 << 20] {
        let question: Vec<u8> = (0..20_000).map(|at| (at % 251) as u8).collect();
        let answer: Vec<u8> = question.iter().rev().copied().collect();
        let (acceptor, connector) = pair("a.test");
        let (near, far) = duplex(size);
        let ask = async {
            let (mut reads, mut writes) =
                split(Secure::connect(near, &connector, Offer::Http1).await.unwrap());
            let mut got = Vec::new();
            // Both at once, as the server has tickets to give before it reads.
            let write = async {
                writes.write_all(&question).await.unwrap();
                writes.shutdown().await.unwrap();
            };
            let (read, ()) = tokio::join!(reads.read_to_end(&mut got), write);
            read.unwrap();
            got
        };
        let reply = async {
            let mut far = acceptor.accept(far).await.unwrap();
            let mut got = Vec::new();
            far.read_to_end(&mut got).await.unwrap();
            far.write_all(&answer).await.unwrap();
            far.shutdown().await.unwrap();
            got
        };
        let (got, asked) = timeout(LONG, async { tokio::join!(ask, reply) }).await.unwrap();
        assert!(got == answer && asked == question, "{size}");
    }
}

#[tokio::test]
async fn an_end_that_was_not_told_of_is_an_error() {
    let (mut near, mut far) = connected(4096).await;
    far.write_all(b"half").await.unwrap();
    far.flush().await.unwrap();
    drop(far);
    let mut got = Vec::new();
    let error = near.read_to_end(&mut got).await.unwrap_err();
    assert_eq!((error.kind(), &*got), (io::ErrorKind::UnexpectedEof, &b"half"[..]));
}

#[tokio::test]
async fn the_server_is_told_why_it_is_not_believed() {
    let (acceptor, connector) = pair("b.test");
    let (near, far) = duplex(1 << 16);
    let (near, far) = tokio::join!(Secure::connect(near, &connector, Offer::Http1), acceptor.accept(far));
    let words = "the server's certificate is for other names: it is not for b.test, but for a.test";
    assert_eq!(near.unwrap_err().to_string(), words);
    let alert = far.unwrap_err().to_string();
    assert!(alert.contains("BadCertificate") || alert.contains("CertificateUnknown"), "{alert}");
}
