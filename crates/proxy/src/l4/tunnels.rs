//! The tunnels of a worker.
//!
//! A tunnel needs no future: what it does next follows from its two flows alone. It is called as a task
//! is, by its owner number, and like there a panic costs one tunnel and not the worker.

use crate::exchange::outcome::STOPPED;
use crate::exchange::outcome::Switched;
use crate::l4::tunnel::{Cut, Tunnel};
use crate::state::exchange::{Client, Exchange};
use crate::state::token::Token;
use crate::state::worker::Worker;
use slab::Slab;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use thalweg_core::{Fault, FaultKind};
use thalweg_net::{Owner, prefetch};

/// All tunnels of a worker.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    /// A place is empty while its tunnel is polled.
    places: RefCell<Slab<Option<Box<Tunnel>>>>,
    /// Those that have used up their share of the turn.
    more: RefCell<Vec<u32>>,
}

impl Tunnels {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.borrow().len()
    }

    /// The numbers of all.
    pub(crate) fn all(&self) -> Vec<u32> {
        self.places.borrow().iter().map(|(index, _)| index as u32).collect()
    }

    /// Shows what is under way through each.
    pub(crate) fn look(&self, mut see: impl FnMut(&Client, &Exchange)) {
        let places = self.places.borrow();
        places.iter().filter_map(|(_, tunnel)| tunnel.as_ref()).for_each(|tunnel| {
            let (client, x) = tunnel.parts();
            see(client, x);
        });
    }

    /// Lets a tunnel go on in the next turn.
    pub(crate) fn go_on(&self, owner: Owner) {
        if let Token::Tunnel(tunnel) = Token::from(owner) {
            self.more.borrow_mut().push(tunnel);
        }
    }

    /// Whether tunnels are to go on without another event.
    pub(crate) fn have_more(&self) -> bool {
        !self.more.borrow().is_empty()
    }

    /// Takes those that are to go on into `list`, which is empty.
    pub(crate) fn take_more(&self, list: &mut Vec<u32>) {
        std::mem::swap(&mut *self.more.borrow_mut(), list);
    }

    /// Asks for the memory of a tunnel that is polled next.
    pub(crate) fn expect_next(&self, tunnel: u32) {
        if let Some(Some(tunnel)) = self.places.borrow().get(tunnel as usize) {
            prefetch(&**tunnel);
        }
    }

    fn take(&self, tunnel: u32) -> Option<Box<Tunnel>> {
        self.places.borrow_mut().get_mut(tunnel as usize)?.take()
    }

    fn put_back(&self, index: u32, tunnel: Box<Tunnel>) {
        if let Some(place) = self.places.borrow_mut().get_mut(index as usize) {
            *place = Some(tunnel);
        }
    }
}

impl Worker {
    /// Makes a tunnel of an exchange.
    pub(crate) fn open_tunnel(&self, client: Client, x: &mut Exchange, switched: Switched) {
        let index = self.tunnels.places.borrow_mut().insert(None) as u32;
        let tunnel = Tunnel::new(client, x, switched, Token::Tunnel(index).into());
        self.tunnels.put_back(index, tunnel);
        self.poll_tunnel(index);
    }

    /// Moves what can be moved through a tunnel.
    pub(crate) fn poll_tunnel(&self, index: u32) {
        let Some(mut tunnel) = self.tunnels.take(index) else { return };
        let outcome = match catch_unwind(AssertUnwindSafe(|| tunnel.poll(self))) {
            Ok(Poll::Pending) => return self.tunnels.put_back(index, tunnel),
            Ok(Poll::Ready(outcome)) => Some(outcome),
            Err(_) => None,
        };
        self.end_tunnel(index, tunnel, outcome);
    }

    /// Ends what is left when the time of a stop is over.
    pub(crate) fn end_tunnels(&self) {
        for index in self.tunnels.all() {
            if let Some(tunnel) = self.tunnels.take(index) {
                let fault = Fault::new(FaultKind::ProxyStopped, STOPPED);
                self.end_tunnel(index, tunnel, Some(Err(fault.into())));
            }
        }
    }

    /// Whose poll said how it ended, or panicked.
    fn end_tunnel(&self, index: u32, tunnel: Box<Tunnel>, outcome: Option<Result<(), Cut>>) {
        self.tunnels.places.borrow_mut().try_remove(index as usize);
        let has_panicked = outcome.is_none();
        // Dropping what panicked may panic again; that must not end the worker either.
        let ended = catch_unwind(AssertUnwindSafe(|| match outcome {
            Some(outcome) => tunnel.end(self, outcome),
            None => drop(tunnel),
        }));
        if has_panicked || ended.is_err() {
            self.note_panic();
        }
    }
}
