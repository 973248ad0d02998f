//! Connections to the unix socket: which peers are served.

use axum::Router;
use rustix::process::Pid;
use tokio::net::UnixListener;
use tokio::sync::watch;

use super::Places;
use crate::auth::Peer;
use crate::socket::peer_allowed;

/// The routers for connecting processes.
pub(super) struct Peers {
    /// For processes of a user that may use the socket.
    pub(super) open: Router,
    /// For processes of other users.
    pub(super) closed: Router,
    /// Connections of this process are closed.
    pub(super) own_pid: Option<Pid>,
}

/// Serves connections until the thread is to end.
pub(super) async fn serve_unix(listener: UnixListener, peers: Peers, stopped: watch::Receiver<bool>) {
    let own = rustix::process::geteuid().as_raw();
    let places = Places::new(stopped);
    while let Some(accepted) = places.next(async || listener.accept().await).await {
        let Some((stream, _)) = accepted else { continue };
        // SO_PEERCRED: the process that connected and its user, as the kernel saw them then.
        let peer = stream.peer_cred().ok();
        // The peer is the proxy itself, so a route leads here, and its client may be anyone.
        let pid = peer.and_then(|peer| peer.pid()).and_then(Pid::from_raw);
        if peers.own_pid.is_some() && pid == peers.own_pid {
            continue;
        }
        let uid = peer.map(|peer| peer.uid());
        let allowed = uid.is_some_and(|uid| peer_allowed(uid, own));
        let router = if allowed { &peers.open } else { &peers.closed };
        places.serve(async { Some(stream) }, Peer::Unix { uid }, router).await;
    }
    places.empty().await;
}
