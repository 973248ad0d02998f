//! Trunks without a network: who gets a stream, who opens a connection, who waits.

use super::*;
use crate::simulation::Wire as Thread;
