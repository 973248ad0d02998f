//! A real terminal: a pane of tmux, with a server of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::find_or_skip;

/// How often the screen is looked at: tmux tells nobody when a pane changes.
const LOOK: Duration = Duration::from_millis(20);

/// A pane.
#[derive(Debug)]
pub struct Tmux {
    program: PathBuf,
    socket: PathBuf,
}

impl Tmux {
    /// Runs a line of the shell on a terminal of this size, in `directory`. `None`: there is no tmux, which has been
    /// told.
    ///
    /// # Panics
    /// When tmux does not start, or is missing in CI.
    pub fn start(directory: &Path, (width, height): (u16, u16), line: &str) -> Option<Self> {
        let program = find_or_skip("tmux")?;
        let pane = Self { program, socket: directory.join("tmux.sock") };
        let (width, height) = (width.to_string(), height.to_string());
        let mut command = pane.command();
        command.args(["-u", "-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, line]);
        let started = command.current_dir(directory).output().unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Some(pane)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-S").arg(&self.socket).env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Presses keys, by the names that tmux has for them.
    pub fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// Gives the terminal another size.
    pub fn resize(&self, (width, height): (u16, u16)) {
        let (width, height) = (width.to_string(), height.to_string());
        self.run(&["resize-window", "-x", &width, "-y", &height]);
    }

    /// What is on the screen, with escapes for colours where `has_styles`.
    pub fn screen(&self, has_styles: bool) -> String {
        let styles: &[&str] = if has_styles { &["-e"] } else { &[] };
        let shown = self.run(&[&["capture-pane", "-p"], styles].concat());
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    /// Waits until the screen is so, and gives it.
    ///
    /// # Panics
    /// When it is not in time.
    pub fn wait(&self, what: &str, limit: Duration, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + limit;
        loop {
            let screen = self.screen(false);
            if is_so(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "{what} is not to be seen within {limit:?}:\n{screen}");
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
