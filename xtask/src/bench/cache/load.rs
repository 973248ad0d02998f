//! The load for hits: wrk, which asks for one object after the other.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::bench::layout::Layout;
use crate::bench::load::wrk::{self, Outcome};
use crate::command::output;

/// Requests for `COUNT` objects below `PREFIX`, made once.
const SCRIPT: &str = "
local requests, at = {}, 0
init = function(args)
  for i = 0, COUNT - 1 do requests[i] = wrk.format(\"GET\", PREFIX .. i) end
end
request = function()
  at = (at + 1) % COUNT
  return requests[at]
end
";

/// What to ask for.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) layout: Layout,
    pub(super) connections: usize,
    pub(super) seconds: u64,
    /// Objects are the numbers below this.
    pub(super) prefix: &'a str,
    pub(super) count: usize,
}

impl Load<'_> {
    /// Runs wrk to its end; `folder` is for its script.
    pub(super) fn run(&self, address: SocketAddr, folder: &Path) -> Result<Outcome> {
        let script = folder.join("objects.lua");
        let head = format!("local COUNT, PREFIX = {}, \"{}\"\n", self.count, self.prefix);
        fs::write(&script, head + SCRIPT + wrk::SCRIPT)?;
        let mut command = Command::new("taskset");
        command.args(["-c", self.layout.load_cpus(), "wrk", "-t1", "--latency", "-s"]).arg(script);
        command.arg(format!("-c{}", self.connections)).arg(format!("-d{}s", self.seconds));
        let text = output(command.arg(format!("http://{address}/")))?;
        wrk::parse(&text).with_context(|| format!("wrk said:\n{text}"))
    }
}
