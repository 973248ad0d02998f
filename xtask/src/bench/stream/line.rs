//! The long link: two namespaces and a line between them that delays, paces and loses packets.
//!
//! The near namespace holds the client, the far one the origin; a proxy stands in either. The line is
//! `bench/peers/delay_line` over one TUN device on each side. Everything vanishes with us: the devices with the line,
//! the line and the namespaces with their standard input.

use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result};

use super::Stream;
use crate::bench::contestant::Place;
use crate::bench::namespace::Namespace;
use crate::bench::{LOAD_CPU, PROXY_CPU};

/// The address of the far side on the link.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
/// The address of the near side.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);
/// Packets that a device holds for the line: enough that none is lost before it.
const DEVICE_QUEUE: usize = 10_000;

/// Priority of the line among real-time processes: any is above all others.
const PRIORITY: &str = "1";

/// The link, up.
pub(crate) struct Line {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    pub(crate) far: Rc<Namespace>,
    pub(crate) near: Rc<Namespace>,
}

/// Packets in both directions since the last seed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Packets {
    pub(crate) passed: u64,
    /// Lost by the drop pattern.
    pub(crate) dropped: u64,
    /// Lost because the queue in front of the link was full.
    pub(crate) overflowed: u64,
}

impl Line {
    /// Makes both sides and the line between them.
    pub(crate) fn new(args: &Stream, program: &Path, drop: f64, folder: &Path) -> Result<Self> {
        let (far, near) = (Rc::new(Namespace::new()?), Rc::new(Namespace::new()?));
        if let Some(name) = &args.congestion {
            for side in [&far, &near] {
                side.set("tcp_congestion_control", name)
                    .with_context(|| format!("{name} is not in tcp_allowed_congestion_control"))?;
            }
        }
        let place = Place::within(folder.join("line"), far.clone())?;
        // Like hardware, the line does not wait for a CPU that others are busy on.
        let mut command = place.command(&format!("{PROXY_CPU},{LOAD_CPU}"), "chrt".as_ref());
        command.args(["--fifo", PRIORITY]).arg(program);
        command.args(["far", "near"]).args([args.delay, args.rate].map(|number| number.to_string()));
        let command = command.arg(drop.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let to = child.stdin.take().context("the line has no input")?;
        let from = BufReader::new(child.stdout.take().context("the line has no output")?);
        let mut line = Self { child, to, from, far, near };
        if line.read()?.trim() != "ready" {
            anyhow::bail!("the delay line does not start");
        }
        line.far.ip(&format!("link set near netns {}", line.near.pid()))?;
        for (side, device, address) in [(&line.far, "far", FAR), (&line.near, "near", NEAR)] {
            side.ip(&format!("addr add {address}/30 dev {device}"))?;
            side.ip(&format!("link set {device} mtu 1500 txqueuelen {DEVICE_QUEUE} up"))?;
        }
        Ok(line)
    }

    fn read(&mut self) -> Result<String> {
        let mut text = String::new();
        self.from.read_line(&mut text)?;
        Ok(text)
    }

    /// Starts the drop pattern anew; what went over the line since the last time.
    pub(crate) fn seed(&mut self, seed: u64) -> Result<Packets> {
        writeln!(self.to, "seed {seed}")?;
        let text = self.read()?;
        parse(&text).with_context(|| format!("the delay line said {text:?}"))
    }
}

fn parse(text: &str) -> Option<Packets> {
    let words = text.strip_prefix("COUNTS ")?.split_whitespace();
    let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let &[passed, dropped, overflowed] = numbers.as_slice() else { return None };
    Some(Packets { passed, dropped, overflowed })
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_the_line_are_read() {
        let packets = Packets { passed: 30, dropped: 2, overflowed: 1 };
        assert_eq!(parse("COUNTS 30 2 1\n"), Some(packets));
        assert_eq!(parse("COUNTS 30 2\n"), None);
        assert_eq!(parse("ready\n"), None);
    }
}
