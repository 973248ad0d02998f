//! What the engine gave out of a connection, and what becomes of it when the engine has panicked.
//!
//! A panic within the engine poisons its lock, and from then on every call of what it gave out panics too, drops
//! included: in a drop that is part of a panic, this would end the process. So nothing of a broken engine is called any
//! more, and it is forgotten instead of dropped. That leaks the memory of one engine for each panic.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Whether the engine of a connection has panicked.
#[derive(Clone, Debug, Default)]
pub(super) struct RelayError(Rc<Cell<bool>>);

impl RelayError {
    pub(super) fn get(&self) -> bool {
        self.0.get()
    }

    pub(super) fn set(&self) {
        self.0.set(true);
    }
}

/// Something that the engine gave out.
#[derive(Debug)]
pub(super) struct Guarded<T> {
    /// There until the drop.
    of: Option<T>,
    engine: RelayError,
}

impl<T> Guarded<T> {
    pub(super) fn new(of: T, engine: &RelayError) -> Self {
        Self { of: Some(of), engine: engine.clone() }
    }

    /// To call it; `None`: its engine has panicked.
    pub(super) fn get(&self) -> Option<&T> {
        self.of.as_ref().filter(|_| !self.engine.get())
    }

    /// To call it; `None`: its engine has panicked.
    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        self.of.as_mut().filter(|_| !self.engine.get())
    }
}

impl<T: Clone> Guarded<T> {
    /// Another handle; `None`: its engine has panicked.
    pub(super) fn again(&self) -> Option<Self> {
        Some(Self::new(self.get()?.clone(), &self.engine))
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let of = self.of.take();
        if self.engine.get() {
            std::mem::forget(of);
        } else if catch_unwind(AssertUnwindSafe(|| drop(of))).is_err() {
            // The panic was in an exchange that called the engine: the rest is forgotten.
            self.engine.set();
        }
    }
}

#[cfg(test)]
mod tests;
