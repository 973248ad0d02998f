//! The only places that write to the terminal.

use std::fmt::Display;
use std::io::{self, Write};

/// A result, on stdout. A reader that has gone away is not an error.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// A message to the operator, on stderr.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "thalweg: {text}");
}

/// Text that stands for itself, on stderr.
pub(crate) fn print_error(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
