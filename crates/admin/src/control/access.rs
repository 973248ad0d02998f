//! Lists of addresses that are changed while the proxy runs.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

/// A network that is to be in a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewAddress {
    /// A network such as `192.0.2.0/24`, or an address.
    pub network: String,
    /// How long; `None`: until it is taken out.
    pub time: Option<Duration>,
    /// Why, for those who read the list, logs and events; may be empty.
    pub reason: String,
}

/// A list.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AddressList {
    /// Its name.
    pub name: String,
    /// What the configuration puts into it, as it is written there; empty: nothing.
    pub configured: String,
    /// How many networks were added while the proxy runs and are in it now.
    pub added: usize,
}

/// All lists.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AddressLists {
    /// In the order of the configuration.
    pub lists: Vec<AddressList>,
}

/// A list with the networks that were added to it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AddressListContents {
    /// Its name.
    pub name: String,
    /// What the configuration puts into it, as it is written there; empty: nothing.
    pub configured: String,
    /// Networks that were added while the proxy runs, in their order.
    pub entries: Vec<AddressEntry>,
}

/// A network that was added to a list.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AddressEntry {
    /// The network, or the address.
    pub network: String,
    /// Why; empty where nobody said.
    pub reason: String,
    /// Since when, in seconds since the Unix epoch.
    pub since: u64,
    /// Until when, likewise; absent: until it is taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The ban that has put it there, by its name in `bans`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ban: Option<String>,
}

/// What a change has made of an entry.
#[derive(Clone, Debug)]
pub struct AddressChanged {
    /// Before; `None`: it was not there.
    pub before: Option<AddressEntry>,
    /// After; `None`: it is not there any more.
    pub after: Option<AddressEntry>,
}
