//! Why a module could not be called, in words for the operator.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use wasmtime::Trap;

/// A call that failed. The module's instance is gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure(Cow<'static, str>);

impl Failure {
    /// Another reason.
    pub fn other(why: &'static str) -> Self {
        Self(why.into())
    }

    pub(crate) fn new(why: impl Into<Cow<'static, str>>) -> Self {
        Self(why.into())
    }

    /// What an error of the engine says. `refused_memory`: the module has asked for more memory than it may have.
    pub(crate) fn of(error: &wasmtime::Error, refused_memory: bool) -> Self {
        let memory =
            if refused_memory { ", after it was refused more memory than `memory` allows" } else { "" };
        if let Some(exit) = error.downcast_ref::<Exit>() {
            return Self::new(format!("the module has ended itself with the status {}", exit.0));
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Self::new(format!("the module has used up its fuel{memory}")),
            Some(trap) => Self::new(format!("the module has crashed: {trap}{memory}")),
            None => Self::new(format!("the module cannot go on: {}{memory}", error.root_cause())),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The module has called `proc_exit` with this status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit(pub(crate) i32);

impl Display for Exit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "exit with the status {}", self.0)
    }
}

impl std::error::Error for Exit {}
