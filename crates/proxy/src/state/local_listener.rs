//! A listener on one worker: where its connections are counted, and which plan holds for them.
//!
//! `listener/acceptors.rs` makes a listener for each listener when a plan arrives; every client connection holds its
//! own. A request is routed and filtered by the [`Standing`] of its listener: a plan and the listener's position in
//! it, which are set and dropped together. When a new plan lacks the listener, the last plan with it stays in use for
//! a moment ([`LocalListener::forget`]). After that its connections have no standing, and their requests are refused
//! with 421, because no other plan has filters for them.

use crate::plan::{
    ListenAddress, Listener, ListenerLimits, ListenerProtocol, ListenerTls, ProxyProtocolPolicy,
};
use crate::state::client_limits::Prefix;
use crate::state::labels::Label;
use crate::state::listener_sockets::ListenerState;
use crate::state::load::Loads;
use crate::state::local_plan::LocalPlan;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_access::rules::AddressRules;
use thalweg_core::Fault;
use thalweg_observe::ListenerMeters;

/// The refusal of a request whose listener was removed, so that its filters are not known (RFC 9110 §15.5.20).
pub(crate) const LISTENER_GONE: Fault =
    Fault::request(421, "the listener of the connection is gone; connect again");

/// The plan in use for a listener, and the listener's position in that plan. A position means nothing in another
/// plan, so neither is kept without the other.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) view: Rc<LocalPlan>,
    pub(crate) position: u16,
}

/// What the clients of a listener speak.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerTransport {
    pub(crate) protocol: ListenerProtocol,
    /// Whose words about clients come before all else.
    pub(crate) proxy_protocol: Option<Arc<ProxyProtocolPolicy>>,
    /// What they shake hands on; `None`: they speak in the clear, or not with us.
    pub(crate) tls: Option<Arc<ListenerTls>>,
    /// Who may connect; `None`: the listener does not say.
    pub(crate) access: Option<Arc<AddressRules>>,
}

/// A listener on one worker.
#[derive(Debug)]
pub(crate) struct LocalListener {
    loads: Arc<Loads>,
    worker: usize,
    pub(crate) state: Arc<ListenerState>,
    pub(crate) meters: Arc<ListenerMeters>,
    /// What it is called in decision records.
    pub(crate) label: Label,
    /// `None`: it has no plan yet, or none any more.
    standing: RefCell<Option<Standing>>,
    limits: Cell<ListenerLimits>,
    /// What its clients speak, also when it is gone.
    spoken: RefCell<ListenerTransport>,
    /// It is a path and no address.
    is_unix: Cell<bool>,
    /// HTTP/2 may begin on a plain connection.
    h2c: Cell<bool>,
    /// A client that has ended its sending side still gets its answer.
    half_close: Cell<bool>,
    /// Whoever comes in the clear is sent to TLS.
    redirects: Cell<bool>,
    is_leaving: Cell<bool>,
}

impl LocalListener {
    /// A listener that no plan has; [`Self::hold`] gives it its place in one.
    pub(crate) fn new(loads: &Arc<Loads>, worker: usize, state: &Arc<ListenerState>) -> Rc<Self> {
        Rc::new(Self {
            loads: loads.clone(),
            worker,
            meters: state.meters.get(worker).cloned().unwrap_or_default(),
            label: Rc::new(state.name.clone()),
            state: state.clone(),
            standing: RefCell::default(),
            limits: Cell::default(),
            spoken: RefCell::default(),
            is_unix: Cell::new(false),
            h2c: Cell::new(false),
            half_close: Cell::new(false),
            redirects: Cell::new(false),
            is_leaving: Cell::new(true),
        })
    }

    /// Sets the plan, which has the listener at this position.
    pub(crate) fn hold(&self, view: &Rc<LocalPlan>, position: u16, listener: &Listener) {
        self.standing.replace(Some(Standing { view: view.clone(), position }));
        self.limits.set(listener.limits);
        self.speak(ListenerTransport {
            protocol: listener.protocol,
            proxy_protocol: listener.proxy_protocol.clone(),
            tls: listener.tls.clone(),
            access: listener.access.clone(),
        });
        self.is_unix.set(matches!(listener.address, ListenAddress::Unix(_)));
        self.h2c.set(listener.h2c);
        self.half_close.set(listener.allow_half_close);
        self.redirects.set(listener.redirect_https);
        self.is_leaving.set(false);
    }

    /// What its clients speak, also where no plan says it any more.
    pub(crate) fn speak(&self, spoken: ListenerTransport) {
        self.spoken.replace(spoken);
    }

    /// What its clients speak, for another worker.
    pub(crate) fn spoken(&self) -> ListenerTransport {
        self.spoken.borrow().clone()
    }

    /// Marks the listener as removed from the current plan; its connections still use the last plan with it.
    pub(crate) fn leave(&self) {
        self.is_leaving.set(true);
    }

    /// Drops the last plan, so that long-lived connections do not keep plans alive.
    pub(crate) fn forget(&self) {
        self.standing.take();
    }

    /// The plan and position that route and filter requests of its connections; `None`: they are refused.
    pub(crate) fn standing(&self) -> Option<Standing> {
        self.standing.borrow().clone()
    }

    /// Whether its connections are closed after the exchange that is under way.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// Its connections at the same time; `None`: no bound.
    pub(crate) fn most(&self) -> Option<usize> {
        self.limits.get().max_connections
    }

    /// Its bounds, those of the last plan that had it.
    pub(crate) fn limits(&self) -> ListenerLimits {
        self.limits.get()
    }

    /// What its clients speak.
    pub(crate) fn protocol(&self) -> ListenerProtocol {
        self.spoken.borrow().protocol
    }

    /// What a peer is to say of its client first; `None`: nothing.
    pub(crate) fn introduces(&self, peer: IpAddr) -> Option<Arc<ProxyProtocolPolicy>> {
        let spoken = self.spoken.borrow();
        let policy = spoken.proxy_protocol.as_ref()?;
        policy.from.iter().any(|net| net.contains(&peer)).then(|| policy.clone())
    }

    /// Why the address may not connect here, as far as the listener says.
    pub(crate) fn refusal(&self, address: IpAddr) -> Option<String> {
        self.spoken.borrow().access.as_ref()?.refusal(address)
    }

    /// What its clients shake hands on; `None`: they speak plainly.
    pub(crate) fn tls(&self) -> Option<Arc<ListenerTls>> {
        self.spoken.borrow().tls.clone()
    }

    /// Whether its clients shake hands.
    pub(crate) fn is_secure(&self) -> bool {
        self.spoken.borrow().tls.is_some()
    }

    /// Whether its clients come through a unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        self.is_unix.get()
    }

    /// Whether a client may begin to speak HTTP/2 on a plain connection.
    pub(crate) fn speaks_h2c(&self) -> bool {
        self.h2c.get()
    }

    /// Whether a client that has ended its sending side still gets its answer.
    pub(crate) fn allows_half_close(&self) -> bool {
        self.half_close.get()
    }

    /// Whether whoever comes in the clear is sent to TLS.
    pub(crate) fn redirects(&self) -> bool {
        self.redirects.get()
    }

    /// Whether it has as many connections as it may.
    pub(crate) fn is_crowded(&self) -> bool {
        self.state.is_crowded(self.most())
    }
}

/// A place for a client connection, counted while it is taken. Two pointers: every connection has one.
#[derive(Debug)]
pub(crate) enum ConnectionGuard {
    /// Of a connection.
    Own {
        /// Where it came in.
        local_listener: Rc<LocalListener>,
        /// The client among whose connections it is counted, where these have a bound.
        client: Option<Box<Prefix>>,
    },
    /// Of a stream of a connection that has its own.
    Guest(Rc<LocalListener>),
}

impl ConnectionGuard {
    /// The place of a connection that has been counted for its worker, listener and client.
    pub(crate) fn new(local_listener: Rc<LocalListener>, client: Option<Box<Prefix>>) -> Self {
        local_listener.meters.connections.add(1);
        local_listener.meters.active.add(1);
        Self::Own { local_listener, client }
    }

    /// The place of a stream of this connection: it is not counted.
    pub(crate) fn guest(&self) -> Self {
        match self {
            Self::Own { local_listener, .. } | Self::Guest(local_listener) => {
                Self::Guest(local_listener.clone())
            }
        }
    }

    /// Where it came in.
    pub(crate) fn listener(&self) -> &LocalListener {
        match self {
            Self::Own { local_listener, .. } | Self::Guest(local_listener) => local_listener,
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let Self::Own { local_listener, client } = self else { return };
        let LocalListener { loads, worker, state, .. } = &**local_listener;
        loads.leave(*worker, state, client.take().map(|client| *client));
        local_listener.meters.active.sub(1);
    }
}
