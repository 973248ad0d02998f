//! A stream of a client's HTTP/2 connection: one request.

use crate::exchange::outcome::Next;
use crate::serve::serve;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;

/// Serves the one request of a stream.
pub(crate) async fn serve_stream(worker: &Worker, mut client: Client, x: &mut Exchange) {
    if let Next::Tunnel(switched) = serve(worker, &mut client, x).await {
        worker.open_tunnel(client, x, *switched);
    }
    x.downward.release_buffers(&worker.warm.buffers);
    x.leave();
}
