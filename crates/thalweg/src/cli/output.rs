//! The only functions that write to the terminal. The text may contain untrusted input: see `printable`.

use crate::printable;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// A result, on stdout. A reader that has gone away is not an error.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stdout(), "{}", printable::lines(&text.to_string()));
}

/// Writes a document to stdout: unchanged for a file or pipe, made printable for a terminal.
pub(crate) fn say_document(text: &str) {
    if io::stdout().is_terminal() {
        return say(text);
    }
    let _ = writeln!(io::stdout(), "{text}");
}

/// A message to the operator, on stderr.
pub(crate) fn complain(text: impl Display) {
    print_error(format_args!("thalweg: {text}"));
}

/// Text that stands for itself, on stderr.
pub(crate) fn print_error(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", printable::lines(&text.to_string()));
}
