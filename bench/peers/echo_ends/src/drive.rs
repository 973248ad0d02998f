//! The clients: they open all sessions, let them talk, and say what came of it.
//!
//! One thread for all of them. Nothing waits for long: when no session gets anything for [`PATIENCE`], those that wait
//! count as silent or lost.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::Mode;
use crate::outcome::Outcome;
use crate::poller::{Poller, Ready};
use crate::session::{Buffers, Script, Session, Stage};
use crate::targets::Targets;

/// Time without anything after which the rest is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sessions that are being opened at once: far fewer than any server has place for.
const OPENING: usize = 64;

/// When sessions talk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Gathering {
    /// When all of them stand; all stay until the last one is done.
    All,
    /// When they stand, so many at once, and each ends when it is done.
    AtOnce(usize),
}

/// What to do.
pub(crate) struct Drive {
    pub(crate) mode: Mode,
    pub(crate) proxy: SocketAddr,
    pub(crate) domain: String,
    pub(crate) targets: Targets,
    /// Sessions with each target.
    pub(crate) clients: usize,
    pub(crate) messages: u32,
    pub(crate) bytes: usize,
    pub(crate) gathering: Gathering,
}

/// All sessions.
struct Clients {
    proxy: SocketAddr,
    gathering: Gathering,
    total: usize,
    script: Script,
    poller: Poller,
    buffers: Buffers,
    /// In the order of their numbers; `None` once they are closed.
    sessions: Vec<Option<Session>>,
    opening: usize,
    talking: usize,
    outcome: Outcome,
}

impl Drive {
    /// Does it, and prints what came of it.
    pub(crate) fn run(self) -> io::Result<()> {
        let hosts = self.targets.seal(&self.domain)?;
        let total = hosts.len() * self.clients;
        let script = Script { mode: self.mode, hosts, messages: self.messages, bytes: self.bytes };
        let outcome = Outcome { sessions: total, ..Outcome::default() };
        let mut clients = Clients {
            proxy: self.proxy,
            gathering: self.gathering,
            total,
            buffers: Buffers::new(&script),
            script,
            poller: Poller::new()?,
            sessions: Vec::new(),
            opening: 0,
            talking: 0,
            outcome,
        };
        let outcome = match self.gathering {
            Gathering::All => clients.all()?,
            Gathering::AtOnce(most) => clients.in_turn(most)?,
        };
        println!("{outcome}");
        Ok(())
    }
}

impl Clients {
    /// Opens all, then lets all talk.
    fn all(&mut self) -> io::Result<Outcome> {
        let mut ready = Vec::new();
        while self.sessions.len() < self.total || self.opening > 0 {
            while self.sessions.len() < self.total && self.opening < OPENING {
                self.open()?;
            }
            if self.opening > 0 && !self.turn(&mut ready)? {
                break;
            }
        }
        // What did not come this far never will.
        self.outcome.silent = self.total - self.sessions.len() + self.opening;
        println!("READY");
        io::stdin().read_line(&mut String::new())?;
        let begin = Instant::now();
        for place in 0..self.sessions.len() {
            self.begin(place);
        }
        while self.talking > 0 && self.turn(&mut ready)? {}
        self.outcome.time = begin.elapsed();
        for place in 0..self.sessions.len() {
            self.close(place);
        }
        Ok(self.outcome)
    }

    /// Opens one after the other, so many at once.
    fn in_turn(&mut self, most: usize) -> io::Result<Outcome> {
        let (begin, mut ready) = (Instant::now(), Vec::new());
        while self.sessions.len() < self.total || self.opening + self.talking > 0 {
            while self.sessions.len() < self.total && self.opening + self.talking < most.max(1) {
                self.open()?;
            }
            if self.opening + self.talking > 0 && !self.turn(&mut ready)? {
                break;
            }
        }
        self.outcome.time = begin.elapsed();
        self.outcome.silent = self.total - self.sessions.len() + self.opening;
        for place in 0..self.sessions.len() {
            self.close(place);
        }
        Ok(self.outcome)
    }

    fn open(&mut self) -> io::Result<()> {
        let place = self.sessions.len();
        let number = u32::try_from(place).map_err(io::Error::other)?;
        let session = Session::open(number, self.proxy)?;
        self.sessions.push(None);
        match session.stage() {
            Stage::Greeting => {
                self.poller.add(session.stream(), place as u64)?;
                self.opening += 1;
            }
            _ => self.outcome.refused += 1,
        }
        self.sessions[place] = (session.stage() == Stage::Greeting).then_some(session);
        Ok(())
    }

    /// Waits for what is ready and lets it go on. Whether anything was.
    fn turn(&mut self, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let begin = Instant::now();
        self.poller.wait(Some(PATIENCE), ready)?;
        for &Ready { mark, ended } in ready.iter() {
            let place = mark as usize;
            let Some(session) = self.sessions[place].as_mut() else { continue };
            let before = session.stage();
            session.go_on(ended, &self.script, &mut self.buffers);
            let after = session.stage();
            self.count(place, before, after);
            if after == Stage::Ready && before != Stage::Ready && self.gathering != Gathering::All {
                self.begin(place);
            }
        }
        Ok(!ready.is_empty() || begin.elapsed() < PATIENCE)
    }

    fn begin(&mut self, place: usize) {
        let Some(session) = self.sessions[place].as_mut() else { return };
        if session.stage() == Stage::Ready {
            session.begin(&self.script, &mut self.buffers);
            let after = session.stage();
            self.count(place, Stage::Ready, after);
        }
    }

    /// Keeps the counts when a session comes from one stage to another.
    fn count(&mut self, place: usize, before: Stage, after: Stage) {
        if before == after {
            return;
        }
        match before {
            Stage::Greeting => self.opening -= 1,
            Stage::Talking => self.talking -= 1,
            _ => {}
        }
        match after {
            Stage::Ready => self.outcome.connected += 1,
            Stage::Talking => self.talking += 1,
            Stage::Refused => self.outcome.refused += 1,
            Stage::Broken => self.outcome.broken += 1,
            Stage::Greeting | Stage::Done | Stage::Lost => {}
        }
        let over = matches!(after, Stage::Done | Stage::Refused | Stage::Lost | Stage::Broken);
        let stays = after == Stage::Done && self.gathering == Gathering::All;
        if over && !stays {
            // Of one that never stood, nothing is lost.
            self.close_after(place, before == Stage::Greeting);
        }
    }

    fn close(&mut self, place: usize) {
        let greeting =
            self.sessions[place].as_ref().is_some_and(|session| session.stage() == Stage::Greeting);
        self.close_after(place, greeting);
    }

    fn close_after(&mut self, place: usize, never_stood: bool) {
        if let Some(session) = self.sessions[place].take()
            && !never_stood
        {
            self.outcome.lost += u64::from(self.script.messages - session.echoed());
        }
    }
}
