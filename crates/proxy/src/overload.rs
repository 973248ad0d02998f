//! What is done when there is too much: admission of exchanges, slow clients, minimum transfer rates.

pub(crate) mod admission;
pub(crate) mod min_rate;
pub(crate) mod slow_clients;
