//! Texts with a notation of their own, as far as a pattern can tell; the parser has the last word.
//!
//! A pattern may let pass what the parser refuses, never the reverse. Fields that the specs hold as a plain
//! `String` name one of these with `#[schemars(with = …)]`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::borrow::Cow;
use thalweg_balance::BALANCERS;
use thalweg_core::EventKind;
use thalweg_tls::{Group, Suite};

/// A schema that is written by hand, under a name of its own.
macro_rules! written {
    ($($(#[doc = $doc:literal])+ $name:ident: $schema:expr;)*) => { $(
        $(#[doc = $doc])+
        pub(crate) enum $name {}

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let description = concat!($($doc),+).trim();
                let mut schema: Schema = $schema;
                schema.insert("description".to_owned(), description.into());
                schema
            }
        }
    )* };
}

/// White space as Rust trims it: what ECMA-262 calls `\s` is without U+0085.
macro_rules! space {
    () => {
        r"[\s\u0085]*"
    };
}

written! {
    /// A duration: whole numbers with a unit, large to small, such as `250ms`, `5s` or `1h30m`.
    Duration: text(
        concat!("^", space!(), "([0-9]+(us|ms|[smhd]))+", space!(), "$"),
        &["250ms", "5s", "1h30m"],
    );
    /// A size in bytes, such as `64KiB` (of 1024) or `10MB` (of 1000).
    Size: text(
        concat!("^", space!(), "[0-9]+", space!(), "([KMGT]i?)?B", space!(), "$"),
        &["64KiB", "10MB"],
    );
    /// A share in whole percent, such as `20%`.
    Share: text(concat!("^", space!(), "[0-9]+", space!(), "%", space!(), "$"), &["20%"]);
    /// A share with up to three decimals, such as `99.9%`.
    Goal: text(
        concat!("^", space!(), "[0-9]+(\\.[0-9]{1,3})?", space!(), "%", space!(), "$"),
        &["99.9%"],
    );
    /// Where to listen: `:8080`, `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`.
    ListenAddress: text("^unix:/|:[0-9]+$", &[":8080", "127.0.0.1:8080", "[::1]:8080", "unix:/run/app.sock"]);
    /// Where a service is reached: `http://host:port`, `https://host:port`, `tcp://host:port` (whole connections),
    /// `udp://host:port` (datagrams) or `unix:/path`.
    EndpointUrl: text(
        "^[Hh][Tt][Tt][Pp][Ss]?://|^[Tt][Cc][Pp]://|^[Uu][Dd][Pp]://|^unix:/",
        &["http://127.0.0.1:9001", "https://app.internal", "tcp://10.0.0.9:5432", "udp://10.0.0.2:53", "unix:/run/app.sock"],
    );
    /// Who is told: `http://…` or `https://…`.
    WebhookUrl: text("^[Hh][Tt][Tt][Pp][Ss]?://", &["https://ops.example.com/hook"]);
    /// A network such as `10.0.0.0/8`, or one address.
    Network: text("^[0-9A-Fa-f:.]+(/[0-9]+)?$", &["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]);
    /// A network with a port or a range of ports; IPv6 in brackets.
    NetworkWithPorts: text(
        r"^([0-9.]+(/[0-9]+)?|\[[0-9A-Fa-f:.]+(/[0-9]+)?\]):[0-9]+(-[0-9]+)?$",
        &["10.0.0.0/8:1024-65535", "192.0.2.10:443", "[2001:db8::/32]:443"],
    );
    /// An address.
    IpAddress: text("^[0-9A-Fa-f:.]+$", &["10.0.0.5", "2001:db8::5"]);
    /// 64 bytes as hexadecimal digits.
    SealDigits: text("^[0-9A-Fa-f]{128}$", &[]);
    /// A path: it begins with `/`.
    Path: text("^/", &["/", "/products/*"]);
    /// A method, in upper case.
    Method: text("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", &["GET", "POST"]);
    /// `user` or `user:group`.
    UserName: text("^[-_.$@0-9A-Za-z]+(:[-_.$@0-9A-Za-z]+)?$", &["www-data", "thalweg:thalweg"]);
    /// A balancer that goes by no key; `thalweg list balancers` says what they do.
    BalancerName: words(BALANCERS.iter().filter(|entry| !entry.needs.key).map(|entry| entry.name));
    /// A balancer that goes by a key; `thalweg list balancers` says what they do.
    KeyedBalancerName: words(BALANCERS.iter().filter(|entry| entry.needs.key).map(|entry| entry.name));
    /// An event; docs/reference/events.md says what they mean.
    EventName: words(EventKind::ALL.iter().map(|kind| kind.name()));
    /// A cipher suite by its IANA name.
    SuiteName: words(Suite::ALL.iter().copied());
    /// A key exchange group of TLS.
    GroupName: words(Group::ALL.iter().copied());
}

/// A text of this form.
fn text(pattern: &str, examples: &[&str]) -> Schema {
    json_schema!({ "type": "string", "pattern": pattern, "examples": examples })
}

/// One of these words.
fn words<'a>(words: impl Iterator<Item = &'a str>) -> Schema {
    json_schema!({ "type": "string", "enum": words.collect::<Vec<_>>() })
}

/// A whole number, from 0 on.
pub(crate) fn whole() -> Value {
    serde_json::json!({ "type": "integer", "minimum": 0 })
}
