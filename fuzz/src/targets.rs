//! The table of targets. A new one is a file in `targets/`, a line here, a line in `smoke.rs` and a file of seeds.

mod access_log;
mod api_body;
mod authority;
mod body;
mod cache;
mod client_hello;
mod condition;
mod config;
mod engine_vs_hyper;
mod framing_rules;
mod h2_head;
mod h2_meter;
mod har;
mod jute;
mod jwt;
mod oidc;
mod proxy_protocol;
mod proxy_tlvs;
mod request_head;
mod response_head;
mod route;
mod sealed;
mod signed_url;
mod target;
mod units;

/// Longest input, in bytes, where a target does not say otherwise.
const BYTES: usize = 4096;
/// Longest input of `body`, whose bounds cannot be set lower.
const BODY_BYTES: usize = 20 * 1024;

/// A function to fuzz, and what it is fuzzed with.
#[derive(Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Checks one input; panics when a property does not hold.
    pub run: fn(&[u8]),
    /// Its packs in `seeds/`, without the extension.
    pub packs: &'static [&'static str],
    /// Folders with further seeds, one per file, from the root of the workspace.
    pub folders: &'static [&'static str],
    /// Its file in `dictionaries/`, without the extension.
    pub dictionary: &'static str,
    /// Longest input.
    pub bytes: usize,
}

impl Target {
    const fn new(name: &'static str, run: fn(&[u8]), packs: &'static [&'static str]) -> Self {
        Self { name, run, packs, folders: &[], dictionary: "http", bytes: BYTES }
    }

    const fn words(self, dictionary: &'static str) -> Self {
        Self { dictionary, ..self }
    }
}

/// Every target, by name.
pub const TARGETS: &[Target] = &[
    Target::new("access_log", access_log::fuzz, &["access_log"]),
    Target::new("api_body", api_body::fuzz, &["api_body"]).words("api_body"),
    Target::new("authority", authority::fuzz, &["authority"]),
    Target { bytes: BODY_BYTES, ..Target::new("body", body::fuzz, &["body"]) },
    Target::new("cache", cache::fuzz, &["cache"]).words("cache"),
    Target::new("client_hello", client_hello::fuzz, &["client_hello"]),
    Target::new("condition", condition::fuzz, &["condition"]).words("condition"),
    Target {
        folders: &["examples", "tests/config/good", "tests/config/bad"],
        ..Target::new("config", config::fuzz, &["config"]).words("config")
    },
    Target::new("engine_vs_hyper", engine_vs_hyper::fuzz, &["requests"]),
    Target::new("framing_rules", framing_rules::fuzz, &["requests", "responses"]),
    Target::new("h2_head", h2_head::fuzz, &["h2_head"]),
    Target::new("h2_meter", h2_meter::fuzz, &["h2_meter"]),
    Target::new("har", har::fuzz, &["har"]).words("har"),
    Target::new("jute", jute::fuzz, &["jute"]).words("jute"),
    Target::new("jwt", jwt::fuzz, &["jwt"]).words("jwt"),
    Target::new("oidc", oidc::fuzz, &["oidc"]).words("oidc"),
    Target::new("proxy_protocol", proxy_protocol::fuzz, &["proxy_protocol"]).words("proxy_protocol"),
    Target::new("proxy_tlvs", proxy_tlvs::fuzz, &["proxy_tlvs"]).words("proxy_protocol"),
    Target::new("request_head", request_head::fuzz, &["requests"]),
    Target::new("response_head", response_head::fuzz, &["responses"]),
    Target::new("route", route::fuzz, &["route"]).words("route"),
    Target::new("sealed", sealed::fuzz, &["sealed"]),
    Target::new("signed_url", signed_url::fuzz, &["signed_url"]).words("signed_url"),
    Target::new("target", target::fuzz, &["target"]),
    Target::new("units", units::fuzz, &["units"]).words("units"),
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
