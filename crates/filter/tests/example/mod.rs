//! `server_timing: edge`: tells the client how long the request took here and behind (Server-Timing).

use crate::{Filter, Hooks, RequestCx, ResponseCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Instant;

/// The name under which the time is told: letters, digits, `-` and `_`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ServerTimingSpec(String);

impl ServerTimingSpec {
    /// Checks the name.
    ///
    /// # Errors
    /// It is empty or has other characters.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if self.0.is_empty() || !self.0.bytes().all(is_plain) {
            return Err(format!("`{}` is no name; write letters, digits, `-` and `_`", self.0));
        }
        Ok(Arc::new(ServerTiming(self.0.as_str().into())))
    }
}

#[derive(Debug)]
struct ServerTiming(Box<str>);

impl Filter for ServerTiming {
    fn name(&self) -> &'static str {
        "server_timing"
    }

    fn argument(&self) -> String {
        self.0.to_string()
    }

    fn hooks(&self) -> Hooks {
        Hooks::BOTH
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        cx.remember(cx.facts.now);
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let Some(began) = cx.remembered::<Instant>() else { return };
        let took = cx.facts.now.saturating_duration_since(*began).as_millis();
        cx.fields.append("Server-Timing", format!("{};dur={took}", self.0).as_bytes());
    }
}
