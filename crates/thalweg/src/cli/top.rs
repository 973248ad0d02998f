//! `thalweg top`: routes, services, endpoints and connections of the running proxy, in the terminal.
//!
//! ```text
//! threads: keys ─┐
//!       samples ─┼─► Message ─► Top::handle ─► view::draw
//!       signals ─┘
//! ```
//!
//! `sample` asks the admin API, `rows` makes tables of two samples, `state` is what keys change, `view` draws. All but
//! `screen` are free of the terminal, so that they are tested without one.

mod exposition;
mod rows;
mod sample;
mod screen;
mod state;
mod view;

use super::{AdminArgs, complain};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use sample::Sample;
use screen::Screen;
use state::Top;
use std::env;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use thalweg_core::units::parse_duration;
use tokio::signal::unix::{SignalKind, signal};

/// Messages that wait to be handled; who has another one waits.
const WAITING: usize = 64;
/// The shortest and the longest time between two samples.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));

/// Whom to ask, and how often.
#[derive(Args, Debug)]
#[command(
    after_help = "Keys: 1 to 4 or Tab choose the view, left and right the column to sort by, r reverses, / filters by \
                        name, p pauses, up, down and the page keys scroll, q ends. Without colours where NO_COLOR is set."
)]
pub(crate) struct TopArgs {
    /// The time between two samples, 200ms to 1m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What happens.
enum Message {
    Key(KeyEvent),
    /// The terminal has another size, or its keys cannot be read any more.
    Redraw,
    Sampled(Result<Sample, String>),
    /// A signal says to end.
    End,
}

fn interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if (INTERVALS.0..=INTERVALS.1).contains(&time) => Ok(time),
        _ => Err("write a time from 200ms to 1m".into()),
    }
}

pub(crate) fn top(args: &TopArgs) -> ExitCode {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        complain(
            "top needs a terminal\n  help: `thalweg status --json` is for programs, and so is `/metrics`",
        );
        return ExitCode::FAILURE;
    }
    // Before the screen is taken: who cannot be reached is said where it stays to be read.
    let first = match Sample::take(&args.admin) {
        Ok(sample) => sample,
        Err(error) => {
            complain(error);
            return ExitCode::FAILURE;
        }
    };
    match run(args, first) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("the terminal: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &TopArgs, first: Sample) -> io::Result<()> {
    let has_colors = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut top = Top::new(has_colors);
    top.sampled(Ok(first));
    let (sender, messages) = sync_channel(WAITING);
    let is_paused = Arc::new(AtomicBool::new(false));
    let mut screen = Screen::take()?;
    let (keys, samples) = (sender.clone(), sender.clone());
    let (admin, interval, pause) = (args.admin.clone(), args.interval, is_paused.clone());
    // They wait for what may not come: nobody joins them, they end with the process.
    thread::spawn(move || read_keys(&keys));
    thread::spawn(move || hear_signals(&sender));
    thread::spawn(move || sample(&admin, (interval, &pause), &samples));
    show(&mut screen, &mut top, &messages, &is_paused)
}

/// Draws after each message, until one says to end.
fn show(
    screen: &mut Screen,
    top: &mut Top,
    messages: &Receiver<Message>,
    is_paused: &AtomicBool,
) -> io::Result<()> {
    loop {
        screen.draw(|frame| view::draw(top, frame))?;
        // The senders live as long as their threads do.
        let Ok(message) = messages.recv() else { return Ok(()) };
        match message {
            Message::Key(key) => top.handle(key),
            Message::Sampled(sample) => top.sampled(sample),
            Message::Redraw => {}
            Message::End => return Ok(()),
        }
        if top.has_ended() {
            return Ok(());
        }
        is_paused.store(top.is_paused(), Relaxed);
    }
}

fn read_keys(messages: &SyncSender<Message>) {
    loop {
        let message = match event::read() {
            Ok(Event::Key(key)) if key.kind == KeyEventKind::Release => continue,
            Ok(Event::Key(key)) => Message::Key(key),
            Ok(_) => Message::Redraw,
            // The terminal is gone.
            Err(_) => Message::End,
        };
        let is_over = matches!(message, Message::End);
        if messages.send(message).is_err() || is_over {
            return;
        }
    }
}

fn sample(admin: &AdminArgs, (interval, is_paused): (Duration, &AtomicBool), messages: &SyncSender<Message>) {
    loop {
        thread::sleep(interval);
        let message = match is_paused.load(Relaxed) {
            // Says whether anybody listens.
            true => Message::Redraw,
            false => Message::Sampled(Sample::take(admin)),
        };
        if messages.send(message).is_err() {
            return;
        }
    }
}

/// Ends `top` as `q` does: the terminal must be given back.
fn hear_signals(messages: &SyncSender<Message>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)] = kinds.map(signal) else { return };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        let _ = messages.send(Message::End);
    });
}

#[cfg(test)]
mod tests;
