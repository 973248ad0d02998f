//! `network: 10.0.0.0/8` in `any`: clients of these networks pass without a credential. Their address is that which
//! `trusted_proxies` let the proxy see.

use super::{Finding, Method};
use crate::{ConfigFiles, Identity, OneOrManySpec, RequestCx};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;

/// Networks that may be listed.
const NETWORKS: usize = 256;

/// Networks, one or a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct KnownNetworksSpec(OneOrManySpec<String>);

impl KnownNetworksSpec {
    pub(crate) fn build(&self, _files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
        let written = self.0.as_slice();
        if written.is_empty() || written.len() > NETWORKS {
            return Err(format!("`network` takes from 1 to {NETWORKS} networks"));
        }
        let networks = written.iter().map(|text| {
            let address = text.parse::<IpAddr>().map(IpNet::from);
            text.parse().or(address).map_err(|_| {
                format!("`{text}` is not a network; write an address with the length of its prefix, such as `10.0.0.0/8`")
            })
        });
        Ok(Arc::new(Network(networks.collect::<Result<_, _>>()?)))
    }
}

#[derive(Debug)]
struct Network(Box<[IpNet]>);

impl Method for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    fn argument(&self) -> String {
        self.0.iter().map(IpNet::to_string).collect::<Vec<_>>().join(" ")
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        match self.0.iter().any(|network| network.contains(&cx.facts.client_ip)) {
            true => Finding::Verified(Identity::new("network", "")),
            false => Finding::Absent,
        }
    }

    fn strip(&self, _cx: &mut RequestCx<'_>) {}
}
