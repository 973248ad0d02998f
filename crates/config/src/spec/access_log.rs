//! `access_log:` one line per exchange.

use super::short::SomeSpec;
use super::spanned::Spanned;
use super::statuses::StatusSpec;
use super::values::{DurationSpec, PercentSpec, SizeSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// `access_log:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `format` and `path`")]
pub struct AccessLogSpec {
    /// How a line looks: `json`, `combined`, `off`, or `{ text: "…" }` with placeholders.
    #[schemars(extend("x-default" = "json"))]
    pub format: Option<LogFormatSpec>,
    /// `stdout`, `stderr` or a file.
    #[schemars(extend("x-default" = "stdout"))]
    #[schemars(extend("x-api" = "reference"))]
    pub path: Option<Spanned<String>>,
    /// A receiver of syslog (RFC 5424), in place of `path`.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "setting"))]
    pub syslog: Option<Spanned<SyslogSpec>>,
    /// When a file moves on.
    #[schemars(extend("x-default-words" = "never"))]
    #[schemars(extend("x-api" = "setting"))]
    pub rotate: Option<Spanned<LogRotateSpec>>,
    /// Which exchanges have a line.
    #[schemars(extend("x-default-words" = "all"))]
    pub sample: Option<Spanned<LogSampleSpec>>,
}

/// How a line of the access log looks.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`json`, `combined`, `off` or `{ text: \"…\" }`")]
pub enum LogFormatSpec {
    /// One JSON object.
    Json,
    /// nginx's `combined`.
    Combined,
    /// Nothing is written.
    Off,
    /// A text with placeholders, at most 4096 bytes: `{client_ip} "{request}" {status}`. The guide has the list.
    Text(Spanned<String>),
}

/// `access_log.syslog:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `address`")]
pub struct SyslogSpec {
    /// `unix:/dev/log`, `udp://HOST:PORT` or `tcp://HOST:PORT`; the port is 514 unless it is written.
    #[schemars(extend("pattern" = r"^(unix:/.+|(udp|tcp)://[^/?#@]+)$", "examples" = ["unix:/dev/log", "udp://10.0.0.5:514"]))]
    #[schemars(extend("x-api" = "address"))]
    #[schemars(extend("x-shown" = true))]
    pub address: Spanned<String>,
    /// The facility.
    #[schemars(extend("x-default" = "local0"))]
    pub facility: Option<FacilitySpec>,
    /// What messages call the program: 1 to 48 printable characters without spaces.
    #[schemars(extend("x-default" = "thalweg", "pattern" = "^[!-~]{1,48}$"))]
    pub tag: Option<Spanned<String>>,
}

/// A facility of syslog (RFC 5424 §6.2.1).
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words are those of syslog")]
pub enum FacilitySpec {
    Kern = 0,
    User = 1,
    Mail = 2,
    Daemon = 3,
    Auth = 4,
    Syslog = 5,
    Lpr = 6,
    News = 7,
    Uucp = 8,
    Cron = 9,
    Authpriv = 10,
    Ftp = 11,
    #[default]
    Local0 = 16,
    Local1 = 17,
    Local2 = 18,
    Local3 = 19,
    Local4 = 20,
    Local5 = 21,
    Local6 = 22,
    Local7 = 23,
}

/// `access_log.rotate:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `size` or `every`")]
#[schemars(extend("minProperties" = 1))]
pub struct LogRotateSpec {
    /// Before the file would be larger, but for a batch of lines.
    #[schemars(extend("x-range" = ["64KiB", "1TiB"], "x-default-words" = "no bound"))]
    pub size: Option<Spanned<SizeSpec>>,
    /// When it is as old.
    #[schemars(extend("x-range" = ["1m", "365d"], "x-default-words" = "no bound"))]
    pub every: Option<Spanned<DurationSpec>>,
    /// Files kept beside the one that is written.
    #[schemars(extend("x-range" = [1, 1000], "x-default" = 7))]
    pub keep: Option<Spanned<u64>>,
}

/// `access_log.sample:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `share`")]
pub struct LogSampleSpec {
    /// The share of exchanges that have a line, in whole percent.
    #[schemars(extend("x-range" = ["0%", "100%"]))]
    pub share: Spanned<PercentSpec>,
    /// Which ones always have a line. What was not answered always has one.
    #[serde(default)]
    #[schemars(extend("x-default-words" = "statuses from 500 on"))]
    pub always: LogAlwaysSpec,
}

/// `access_log.sample.always:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `status` and `slower_than`")]
pub struct LogAlwaysSpec {
    /// Those with these statuses: `503`, `500-599` or `5xx`, one or a list.
    #[schemars(extend("x-default" = "5xx"))]
    pub status: Option<SomeSpec<StatusSpec>>,
    /// Those that took as long.
    #[schemars(extend("x-range" = ["1ms", "1d"], "x-default-words" = "however long"))]
    pub slower_than: Option<Spanned<DurationSpec>>,
}
