//! The engine that joins the parts: from an accepted connection to the last byte of its answers.
//!
//! Start at [`serve`](serve/index.html): it is the table of contents of the product, one call per
//! phase, one file per phase. Around it: [`plan`] is what the configuration compiles to, `worker`
//! the thread that runs exchanges, `fleet` all workers together; [`explain`] asks the first phases what they would do.
#![forbid(unsafe_code)]

pub mod budget;
pub mod explain;
pub mod plan;

mod clients;
mod current;
mod decisions;
mod fleet;
mod laggards;
mod listeners;
mod load;
mod owner;
mod pace;
mod parked;
mod pressure;
mod sealed;
mod seats;
mod view;
mod warm;
mod worker;

mod converse;
mod credentials;
mod door;
mod doors;
mod exchange;
mod h2;
mod handshake;
mod handshakes;
mod secure;
pub mod serve;

mod admit;
mod answer;
mod await_place;
mod await_response;
mod await_stream;
mod challenge;
mod choose;
mod compose;
mod connect;
mod connection;
mod connection_place;
mod enter;
mod filter_request;
mod filter_response;
mod find_route;
mod forward;
mod grpc;
mod hedge;
mod introduction;
mod misdirected;
mod peer_tls;
mod pipes;
mod record;
mod redirect_https;
mod relay;
mod request_key;
mod respond;
mod ring;
mod sticky;
mod trial;
mod tunnel;
mod tunnels;
mod udp;
mod unseal;

pub use budget::{Allowance, Budget};
pub use challenge::Challenges;
pub use decisions::{Decision, DecisionAttempt, Inquiry, Notable, Recalled};
pub use fleet::{Bound, Fleet, FleetOptions, OpenDoors, StartError, open_doors};
pub use plan::Plan;
