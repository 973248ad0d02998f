//! The terminal: taken, drawn on, and given back however `top` ends.

use ratatui::{DefaultTerminal, Frame};
use std::io;

/// The terminal while it is ours: raw, on its second screen. A panic gives it back before its message is written
/// (`ratatui::try_init` sees to that), the end of its life otherwise.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes it.
    pub(super) fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
