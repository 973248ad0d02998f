//! The members of a service as one worker sees them now, and the choice of one.
//!
//! An endpoint that is a host name has one member per resolved address. A member that refused or
//! did not accept a connection is set aside for a while that doubles up to [`ASIDE_MOST`]; when
//! every member is aside they are all tried all the same, so a service recovers by itself.

use crate::handover::Destination;
use crate::pool::{Pool, Wire};
use crate::service::{Address, Service};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_balance::{Balance, Candidate, NoLoads, Pick, Seed};
use thalweg_core::limits;
use thalweg_net::Socket;
use thalweg_net::connect::PeerAddress;

/// How long a member is set aside after its first failure to accept a connection.
const ASIDE_FIRST: Duration = Duration::from_secs(1);
/// And at most.
const ASIDE_MOST: Duration = Duration::from_secs(16);

/// What host names stood for when they were resolved last.
pub type Names = HashMap<Arc<str>, Vec<IpAddr>>;

/// One address of a service, with what one worker knows of it.
#[derive(Debug)]
pub struct Member<W: Wire = Socket> {
    /// Its position among the members, for the list of those tried.
    pub index: u32,
    /// The position of its endpoint in [`Service::endpoints`].
    pub endpoint: u32,
    /// Where to connect.
    pub address: PeerAddress,
    /// Its idle connections.
    pub pool: Rc<Pool<W>>,
    failures: Cell<u32>,
    aside_until: Cell<Option<Instant>>,
}

/// A service on one worker.
pub struct ServiceState<W: Wire = Socket> {
    /// What the configuration says of it.
    pub service: Arc<Service>,
    members: RefCell<Vec<Rc<Member<W>>>>,
    candidates: RefCell<Vec<Candidate>>,
    balancer: RefCell<Box<dyn Balance>>,
    /// Whether a member may be aside: only then are the candidates looked over before a pick.
    any_aside: Cell<bool>,
}

impl<W: Wire> ServiceState<W> {
    /// The state of a service; `seed` differs from worker to worker so that they start staggered.
    pub fn new(service: Arc<Service>, names: &Names, seed: Seed) -> Self {
        let balancer = (service.balance.new)(seed);
        let state = Self {
            service,
            members: RefCell::default(),
            candidates: RefCell::default(),
            balancer: RefCell::new(balancer),
            any_aside: Cell::new(false),
        };
        state.update(names);
        state
    }

    /// Takes over newly resolved addresses. Members that stay keep their connections.
    pub fn update(&self, names: &Names) {
        let addresses = addresses_of(&self.service, names);
        let mut members = self.members.borrow_mut();
        let unchanged = members.len() == addresses.len()
            && members.iter().zip(&addresses).all(|(m, (e, a))| m.endpoint == *e && m.address == *a);
        if unchanged && !members.is_empty() {
            return;
        }
        let mut known: HashMap<(u32, PeerAddress), Rc<Member<W>>> =
            members.drain(..).map(|member| ((member.endpoint, member.address.clone()), member)).collect();
        for (index, (endpoint, address)) in addresses.into_iter().enumerate() {
            let index = index as u32;
            let old = known.remove(&(endpoint, address.clone()));
            let pool = |address: &PeerAddress| {
                let (service, address) = (self.service.clone(), address.clone());
                Rc::new(Pool::new(Destination { service, endpoint, address }))
            };
            members.push(match old {
                Some(old) if old.index == index => old,
                old => Rc::new(Member {
                    index,
                    endpoint,
                    pool: old.as_ref().map_or_else(|| pool(&address), |old| old.pool.clone()),
                    address,
                    failures: Cell::new(old.as_ref().map_or(0, |old| old.failures.get())),
                    aside_until: Cell::new(old.and_then(|old| old.aside_until.get())),
                }),
            });
        }
        let mut candidates = self.candidates.borrow_mut();
        candidates.clear();
        let weight = |member: &Rc<Member<W>>| self.service.endpoints[member.endpoint as usize].weight;
        candidates.extend(members.iter().map(|m| Candidate { weight: weight(m), ready: true, id: 0 }));
        self.balancer.borrow_mut().rebuild(&candidates);
        self.any_aside.set(true);
    }

    /// Whether no address is known: every endpoint is a name that has never been resolved.
    pub fn is_unresolved(&self) -> bool {
        self.members.borrow().is_empty()
    }

    /// Chooses a member that is not in `tried`; `None` when all have been.
    pub fn pick(&self, now: Instant, tried: &[u32]) -> Option<Rc<Member<W>>> {
        if self.any_aside.get() {
            self.look_over(now);
        }
        let members = self.members.borrow();
        let candidates = self.candidates.borrow();
        let pick = Pick { candidates: &candidates, tried, hash: 0, bounded_load: None, loads: &NoLoads };
        if let Some(index) = self.balancer.borrow_mut().pick(&pick) {
            return members.get(index as usize).cloned();
        }
        // None is ready: rather one that was set aside than none.
        let untried = members.iter().filter(|m| !tried.contains(&m.index));
        let able = untried.filter(|m| self.service.endpoints[m.endpoint as usize].weight > 0);
        able.min_by_key(|m| m.aside_until.get()).cloned()
    }

    /// As [`Self::pick`], among members that have room; `None` also when those in good standing have none:
    /// one that was set aside is chosen only when all are. Looks at every member.
    pub fn pick_with_room(
        &self,
        now: Instant,
        tried: &[u32],
        room: impl Fn(&Member<W>) -> bool,
    ) -> Option<Rc<Member<W>>> {
        let members = self.members.borrow();
        let mut candidates = self.candidates.borrow_mut();
        for (candidate, member) in candidates.iter_mut().zip(members.iter()) {
            candidate.ready = member.aside_until.get().is_none_or(|until| until <= now) && room(member);
        }
        // What was noted here holds for this pick only.
        self.any_aside.set(true);
        let pick = Pick { candidates: &candidates, tried, hash: 0, bounded_load: None, loads: &NoLoads };
        if let Some(index) = self.balancer.borrow_mut().pick(&pick) {
            return members.get(index as usize).cloned();
        }
        let untried = members.iter().filter(|m| !tried.contains(&m.index));
        let able = untried.filter(|m| self.service.endpoints[m.endpoint as usize].weight > 0);
        if able.clone().any(|m| m.aside_until.get().is_none_or(|until| until <= now)) {
            return None;
        }
        able.filter(|m| room(m)).min_by_key(|m| m.aside_until.get()).cloned()
    }

    /// The member of this endpoint that has been in good standing longest, if it takes requests at all.
    pub fn member_of(&self, endpoint: u32) -> Option<Rc<Member<W>>> {
        let weight = self.service.endpoints.get(endpoint as usize)?.weight;
        let members = self.members.borrow();
        let of = members.iter().filter(|member| member.endpoint == endpoint && weight > 0);
        of.min_by_key(|member| member.aside_until.get()).cloned()
    }

    /// The member refused or did not accept a connection. Says whether it was in good standing.
    pub fn failed(&self, member: &Member<W>, now: Instant) -> bool {
        if member.aside_until.get().is_some_and(|until| until > now) {
            // One bad moment that several exchanges met, not several bad moments.
            return false;
        }
        let failures = member.failures.get();
        member.failures.set(failures.saturating_add(1));
        let aside = ASIDE_FIRST.saturating_mul(1 << failures.min(8)).min(ASIDE_MOST);
        member.aside_until.set(Some(now + aside));
        self.any_aside.set(true);
        failures == 0
    }

    /// The member accepted a connection. Says whether it had failed before.
    pub fn accepted(&self, member: &Member<W>) -> bool {
        let failed = member.failures.replace(0) > 0;
        if failed {
            member.aside_until.set(None);
            self.any_aside.set(true);
        }
        failed
    }

    /// Closes idle connections that have ended or passed their deadline.
    pub fn sweep(&self) {
        self.members.borrow().iter().for_each(|member| member.pool.sweep());
    }

    /// Closes one idle connection to make room; says whether there was one.
    pub fn evict(&self) -> bool {
        self.members.borrow().iter().any(|member| member.pool.evict())
    }

    /// Closes one idle connection to this endpoint; says whether there was one.
    pub fn evict_from(&self, endpoint: u32) -> bool {
        let members = self.members.borrow();
        members.iter().any(|member| member.endpoint == endpoint && member.pool.evict())
    }

    /// Lets idle connections go to those who wait for one, or else for their places; of this endpoint, or of
    /// whichever.
    pub fn give_way(&self, endpoint: Option<u32>) {
        let members = self.members.borrow();
        let of = members.iter().filter(|member| endpoint.is_none_or(|wanted| member.endpoint == wanted));
        of.clone().for_each(|member| member.pool.hand_over());
        of.for_each(|member| member.pool.give_way());
    }

    /// Idle connections now.
    pub fn idle(&self) -> usize {
        self.members.borrow().iter().map(|member| member.pool.len()).sum()
    }

    fn look_over(&self, now: Instant) {
        let mut candidates = self.candidates.borrow_mut();
        let mut any = false;
        for (candidate, member) in candidates.iter_mut().zip(self.members.borrow().iter()) {
            candidate.ready = member.aside_until.get().is_none_or(|until| until <= now);
            any |= !candidate.ready;
        }
        self.any_aside.set(any);
    }
}

impl<W: Wire> std::fmt::Debug for ServiceState<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceState").field("service", &self.service.name).finish_non_exhaustive()
    }
}

/// Every address of every endpoint, in order, each once per endpoint.
fn addresses_of(service: &Service, names: &Names) -> Vec<(u32, PeerAddress)> {
    let mut all = Vec::with_capacity(service.endpoints.len());
    for (index, endpoint) in service.endpoints.iter().enumerate() {
        let index = index as u32;
        match &endpoint.address {
            Address::Socket(address) => all.push((index, PeerAddress::Tcp(*address))),
            Address::Unix(path) => all.push((index, PeerAddress::Unix(path.clone()))),
            Address::Name { host, port } => {
                let ips = names.get(host).map(Vec::as_slice).unwrap_or_default();
                all.extend(ips.iter().map(|ip| (index, PeerAddress::Tcp(SocketAddr::new(*ip, *port)))));
            }
        }
    }
    all.truncate(limits::ENDPOINTS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Connection, OpenCount};
    use crate::service::{Endpoint, EndpointLimits, HostRule, PoolPolicy, RetryPolicy, ServiceLimits};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use thalweg_net::{Owner, Reactor};

    const HOST: &str = "app.test";

    /// A service of one host name.
    fn service() -> Arc<Service> {
        let endpoint = Endpoint {
            url: "http://app.test:80".into(),
            address: Address::Name { host: HOST.into(), port: 80 },
            weight: 1,
            limits: EndpointLimits::default(),
        };
        Arc::new(Service {
            name: "s".into(),
            endpoints: vec![endpoint],
            balance: thalweg_balance::balancer("round_robin").unwrap(),
            host: HostRule::Keep,
            retry: RetryPolicy::default(),
            pool: PoolPolicy::default(),
            limits: ServiceLimits::default(),
        })
    }

    /// What the host name stands for: 192.0.2.x for every x.
    fn names(last: &[u8]) -> Names {
        let ips = last.iter().map(|last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, *last))).collect();
        Names::from([(HOST.into(), ips)])
    }

    fn state(last: &[u8]) -> ServiceState {
        ServiceState::new(service(), &names(last), Seed(0))
    }

    fn member(state: &ServiceState, last: u8) -> Rc<Member> {
        let address = PeerAddress::Tcp(SocketAddr::from(([192, 0, 2, last], 80)));
        state.members.borrow().iter().find(|member| member.address == address).unwrap().clone()
    }

    /// How often each of so many picks takes the member.
    fn picks(state: &ServiceState, now: Instant, of: &Member) -> usize {
        (0..8).filter(|_| state.pick(now, &[]).unwrap().address == of.address).count()
    }

    /// An open connection, and its other end.
    fn connection() -> (Connection, TcpStream) {
        let reactor = Rc::new(Reactor::new().unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::accepted(&reactor, listener.accept().unwrap().0.into(), Owner(0)).unwrap();
        (Connection::new(socket, Instant::now(), &OpenCount::default()), other)
    }

    #[test]
    fn a_member_that_stays_keeps_its_idle_connections_when_the_list_shifts() {
        let state = state(&[1, 2, 3]);
        let (idle, _other) = connection();
        member(&state, 2).pool.put(idle, &state.service.pool, Owner(0));
        for shifted in [&[2, 3][..], &[4, 1, 2], &[5, 6, 7, 8, 2]] {
            state.update(&names(shifted));
            assert_eq!((state.idle(), member(&state, 2).pool.len()), (1, 1), "{shifted:?}");
            let indices: Vec<_> = state.members.borrow().iter().map(|member| member.index).collect();
            assert_eq!(indices, (0..shifted.len() as u32).collect::<Vec<_>>(), "{shifted:?}");
        }
        assert!(member(&state, 2).pool.take(&state.service.pool, Instant::now(), true).is_some());
    }

    #[test]
    fn a_connection_comes_back_to_its_member_although_the_list_has_shifted_meanwhile() {
        let state = state(&[1, 2]);
        // An exchange under way holds the member as it was when it was picked.
        let (held, (busy, _other)) = (member(&state, 2), connection());
        state.update(&names(&[3, 1, 2]));
        held.pool.put(busy, &state.service.pool, Owner(0));
        assert_eq!(member(&state, 2).pool.len(), 1);
    }

    #[test]
    fn the_connections_of_a_member_that_goes_are_closed() {
        let state = state(&[1, 2]);
        let (idle, _other) = connection();
        member(&state, 2).pool.put(idle, &state.service.pool, Owner(0));
        state.update(&names(&[1]));
        assert_eq!(state.idle(), 0);
    }

    #[test]
    fn several_failures_at_once_set_a_member_aside_for_the_first_time_only_once() {
        let state = state(&[1, 2]);
        let (bad, now) = (member(&state, 1), Instant::now());
        assert!(state.failed(&bad, now), "it was in good standing");
        for _ in 0..5 {
            assert!(!state.failed(&bad, now), "one bad moment");
        }
        let almost = now + ASIDE_FIRST - Duration::from_millis(1);
        assert_eq!(picks(&state, almost, &bad), 0);
        assert_eq!(picks(&state, now + ASIDE_FIRST, &bad), 4, "aside for longer than the first time");
    }

    #[test]
    fn a_member_that_fails_again_afterwards_is_set_aside_for_twice_as_long_up_to_a_bound() {
        let state = state(&[1, 2]);
        let (bad, mut now, mut aside) = (member(&state, 1), Instant::now(), ASIDE_FIRST);
        for _ in 0..8 {
            state.failed(&bad, now);
            assert_eq!(picks(&state, now + aside - Duration::from_millis(1), &bad), 0, "{aside:?}");
            now += aside;
            assert_eq!(picks(&state, now, &bad), 4, "{aside:?}");
            aside = (aside * 2).min(ASIDE_MOST);
        }
        assert!(state.accepted(&bad), "it had failed before");
        assert!(state.failed(&bad, now), "it was in good standing again");
    }

    #[test]
    fn a_member_set_aside_is_not_chosen_because_the_others_are_full() {
        let state = state(&[1, 2]);
        let (bad, good, now) = (member(&state, 1), member(&state, 2), Instant::now());
        state.failed(&bad, now);
        assert!(state.pick_with_room(now, &[], |m| m.index == bad.index).is_none());
        assert!(state.pick_with_room(now, &[], |_| true).is_some_and(|m| m.index == good.index));
        let rest = state.pick_with_room(now, &[good.index], |_| true);
        assert!(rest.is_some_and(|m| m.index == bad.index), "rather one that was set aside than none");
    }

    #[test]
    fn a_member_set_aside_stays_so_when_the_list_shifts() {
        let state = state(&[1, 2]);
        let now = Instant::now();
        state.failed(&member(&state, 2), now);
        state.update(&names(&[3, 1, 2]));
        assert_eq!(picks(&state, now, &member(&state, 2)), 0);
    }
}
