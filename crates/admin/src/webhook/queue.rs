//! The events that wait for one webhook.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::events::{KEPT_ENDPOINTS, Published};

/// A queue that drops its oldest when it is full, by events or by the endpoint states in them.
#[derive(Debug)]
pub(super) struct Queue {
    size: usize,
    events: VecDeque<Arc<Published>>,
    endpoints: usize,
}

impl Queue {
    /// `size` events, at least one.
    pub(super) fn new(size: usize) -> Self {
        Self { size: size.max(1), events: VecDeque::new(), endpoints: 0 }
    }

    /// Takes in an event and returns how many had to go.
    pub(super) fn push(&mut self, event: Arc<Published>) -> u64 {
        self.endpoints += event.event.endpoints.len();
        self.events.push_back(event);
        let mut dropped = 0;
        while self.events.len() > 1 && (self.events.len() > self.size || self.endpoints > KEPT_ENDPOINTS) {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    /// The oldest.
    pub(super) fn pop(&mut self) -> Option<Arc<Published>> {
        let event = self.events.pop_front()?;
        self.endpoints -= event.event.endpoints.len();
        Some(event)
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::{event, with_endpoints};

    fn published(id: u64, endpoints: usize) -> Arc<Published> {
        Arc::new(Published { id, event: with_endpoints(event("x"), endpoints) })
    }

    #[test]
    fn the_oldest_go_when_it_is_full() {
        let mut queue = Queue::new(2);
        let dropped: Vec<_> = (1..=4).map(|id| queue.push(published(id, 0))).collect();
        assert_eq!(dropped, [0, 0, 1, 1]);
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|event| event.id).collect();
        assert_eq!(left, [3, 4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn endpoint_states_are_bounded_too_but_one_event_always_fits() {
        let mut queue = Queue::new(100);
        assert_eq!(queue.push(published(1, KEPT_ENDPOINTS)), 0);
        assert_eq!(queue.push(published(2, 1)), 1);
        assert_eq!(queue.push(published(3, KEPT_ENDPOINTS + 1)), 1);
        assert_eq!((queue.len(), queue.pop().map(|event| event.id)), (1, Some(3)));
        assert_eq!(queue.endpoints, 0);
    }

    #[test]
    fn there_is_room_for_one_at_least() {
        let mut queue = Queue::new(0);
        assert_eq!((queue.push(published(1, 0)), queue.push(published(2, 0))), (0, 1));
    }
}
