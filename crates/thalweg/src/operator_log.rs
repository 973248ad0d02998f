//! Lines of the running proxy for its operator, on stderr: time, level, object, message.
//!
//! Written by the control thread and what it starts; messages of verbs, and errors before the proxy runs, are for the
//! person at the terminal and go through `cli`. A message names its object first, as in "service `shop`, endpoint
//! http://10.0.0.1:80: it is used again"; the line has that as `service=shop endpoint=http://10.0.0.1:80`, and the
//! rest.
//!
//! Messages quote untrusted input. Invariant: a message is one line, without control characters that act on a
//! terminal (`printable`), and without values that no display shows (`concealed`).

use crate::concealed::hide;
use crate::printable;
use jiff::Timestamp;
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_core::{Level, Notice};

/// Lines are JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Objects that a message may begin with. Names of all but the last stand in backticks.
const OBJECTS: [&str; 5] = ["service", "listener", "route", "host", "endpoint"];

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum LineFormat {
    /// `2026-11-24T12:00:00.123Z INFO ready`.
    #[default]
    Plain,
    /// One object on each line: `time`, `level`, `message`, and the object that it is about.
    Json,
}

/// The word for it in a line.
fn word(level: Level) -> &'static str {
    match level {
        Level::Info => "INFO",
        Level::Warn => "WARN",
    }
}

/// From now on lines have this form.
pub(crate) fn set_format(format: LineFormat) {
    IS_JSON.store(format == LineFormat::Json, Ordering::Relaxed);
}

/// Ordinary life: something began, changed or ended as it should.
pub(crate) fn info(text: impl Display) {
    write(Level::Info, &text.to_string());
}

/// Somebody may have to act.
pub(crate) fn warn(text: impl Display) {
    write(Level::Warn, &text.to_string());
}

/// What somebody else has to say, who knows how much it asks for.
pub(crate) fn notice(notice: &Notice) {
    write(notice.level, &notice.text);
}

/// Several lines that belong together, such as a diagnostic: as they are, or as one message of JSON.
pub(crate) fn block(text: &str) {
    if IS_JSON.load(Ordering::Relaxed) {
        write(Level::Warn, text);
    } else {
        print(&printable::lines(&hide(text)));
    }
}

/// The same with colours, for a terminal.
pub(crate) fn styled_block(text: &str) {
    if IS_JSON.load(Ordering::Relaxed) {
        write(Level::Warn, text);
    } else {
        print(&printable::styled_lines(&hide(text)));
    }
}

fn write(level: Level, text: &str) {
    let time = format!("{:.3}", Timestamp::now());
    print(&line(&time, level, &hide(text), IS_JSON.load(Ordering::Relaxed)));
}

fn line(time: &str, level: Level, text: &str, is_json: bool) -> String {
    let line = if is_json {
        json(time, level, text)
    } else {
        // On a terminal, help has a line of its own.
        plain(time, level, &text.replace("\n  help: ", "; help: "))
    };
    printable::line(&line).into_owned()
}

/// At once: another process may write to the same place.
fn print(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn plain(time: &str, level: Level, text: &str) -> String {
    let (objects, message) = split(text);
    let mut line = format!("{time} {} ", word(level));
    for (kind, name) in objects {
        let is_word = !name.is_empty() && !name.contains([' ', '"', '=']);
        let name = if is_word { name.to_owned() } else { Value::from(name).to_string() };
        line.push_str(&format!("{kind}={name} "));
    }
    line.push_str(message);
    line
}

fn json(time: &str, level: Level, text: &str) -> String {
    let (objects, message) = split(text);
    let level = word(level).to_ascii_lowercase();
    let pairs = [("time", time), ("level", &level)].into_iter().chain(objects).chain([("message", message)]);
    let pairs: Vec<_> = pairs.map(|(key, value)| format!("\"{key}\":{}", Value::from(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// The objects that a message begins with, and the rest of it; no object where they are not followed by a colon.
fn split(text: &str) -> (Vec<(&'static str, &str)>, &str) {
    let (mut objects, mut rest) = (Vec::new(), text);
    loop {
        let found =
            OBJECTS.iter().find_map(|kind| Some((*kind, rest.strip_prefix(kind)?.strip_prefix(' ')?)));
        let Some((kind, behind)) = found else { return (Vec::new(), text) };
        let (name, behind) = match behind.strip_prefix('`') {
            Some(quoted) => match quoted.split_once('`') {
                Some(parts) => parts,
                None => return (Vec::new(), text),
            },
            None => {
                let end = behind.find([',', ' ']).unwrap_or(behind.len());
                let end = behind.find(": ").map_or(end, |colon| end.min(colon));
                behind.split_at(end)
            }
        };
        objects.push((kind, name));
        if let Some(message) = behind.strip_prefix(": ") {
            return (objects, message);
        }
        match behind.strip_prefix(", ") {
            Some(more) => rest = more,
            // ` at 10.0.0.1:80` and the like belong to the message.
            None if behind.starts_with(' ') => return (objects, &behind[1..]),
            None => return (Vec::new(), text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_level_object_and_message() {
        for (text, expected) in [
            ("ready", "T INFO ready"),
            (
                "service `s`: all 2 endpoints are down (2 unhealthy)",
                "T INFO service=s all 2 endpoints are down (2 unhealthy)",
            ),
            (
                "service `s`, endpoint http://[::1]:80: the check failed: refused",
                "T INFO service=s endpoint=http://[::1]:80 the check failed: refused",
            ),
            (
                "service `s`, endpoint http://a.test:80 at 10.0.0.1:80: it is used again",
                "T INFO service=s endpoint=http://a.test:80 at 10.0.0.1:80: it is used again",
            ),
            ("route `the split`: the weights are set", "T INFO route=\"the split\" the weights are set"),
            ("listener `web` keeps its certificates: bad", "T INFO listener=web keeps its certificates: bad"),
            ("services are many", "T INFO services are many"),
        ] {
            assert_eq!(plain("T", Level::Info, text), expected);
        }
        assert_eq!(
            json("T", Level::Warn, "service `s`: \"down\""),
            r#"{"time":"T","level":"warn","service":"s","message":"\"down\""}"#
        );
    }

    #[test]
    fn what_others_say_makes_no_line_and_commands_no_terminal() {
        let forged = "service `s`, endpoint http://a\n2026-11-24T12:00:00.123Z INFO ready\u{1b}[2J\u{9b}1A\u{202e}: down";
        let written = |is_json| line("T", Level::Warn, forged, is_json);
        assert_eq!(
            written(false),
            r"T WARN service=s endpoint=http://a\u000a2026-11-24T12:00:00.123Z INFO ready\u001b[2J\u009b1A\u202e: down"
        );
        let object: Value = serde_json::from_str(&written(true)).unwrap();
        assert!(object["endpoint"].as_str().unwrap().starts_with("http://a\n2026"), "{object}");
        assert!(!written(true).contains(|c: char| c.is_control() || c == '\u{202e}'), "{}", written(true));
        let help = line("T", Level::Warn, "it is late\n  help: wait", false);
        assert_eq!(help, "T WARN it is late; help: wait");
    }
}
