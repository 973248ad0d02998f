//! `thalweg init`: five questions, and a file.
//!
//! An answer is checked as soon as it is there, with the loader that reads files. On a terminal a wrong one is asked
//! for again; from a pipe it ends the verb.

use super::{complain, print_error, say};
use clap::Args;
use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use thalweg_config::{Arguments, Https};

/// Longest answer, in bytes.
const LINE: u64 = 64 * 1024;
/// What the file says of itself.
const HEAD: &str =
    "# Made by `thalweg init`. What else can be said: docs/guide/configuration.md and `thalweg schema`.\n#\n";

/// Where the file goes.
#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// The file to write; one that exists is left as it is
    #[arg(value_name = "FILE", default_value = "thalweg.yaml")]
    file: PathBuf,
}

/// A question: its text, the answer to an empty line, and what an answer changes.
struct Question {
    text: &'static str,
    default: &'static str,
    take: fn(&mut Arguments, &str) -> Result<(), &'static str>,
}

const QUESTIONS: [Question; 5] = [
    Question {
        text: "Where do clients connect? An address to listen on",
        default: ":8080",
        take: |arguments, answer| {
            arguments.listen = words(answer);
            Ok(())
        },
    },
    Question {
        text: "Where do requests go? One URL or several, with blanks between them",
        default: "http://127.0.0.1:9001",
        take: |arguments, answer| {
            arguments.to = words(answer);
            Ok(())
        },
    },
    Question {
        text: "Which path says whether an endpoint is well? Empty: it is not asked",
        default: "",
        take: |arguments, answer| {
            arguments.health = (!answer.is_empty()).then(|| answer.to_owned());
            Ok(())
        },
    },
    Question {
        text: "HTTPS? `local` for localhost; an e-mail address and host names for Let's Encrypt, for example \
               ops@example.com www.example.com; empty: no",
        default: "",
        take: |arguments, answer| {
            arguments.https = https(answer)?;
            Ok(())
        },
    },
    Question {
        text: "A line on standard output for each request? `json`, `combined` or `off`",
        default: "json",
        take: |arguments, answer| {
            arguments.access_log = (answer != "off").then(|| answer.to_owned());
            Ok(())
        },
    },
];

pub(crate) fn init(args: &InitArgs) -> ExitCode {
    match write(&args.file) {
        Ok(()) => {
            let file = args.file.display();
            say(format_args!(
                "{file} is written. Next:\n\n  thalweg check {file}\n  thalweg run --config {file}"
            ));
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn write(file: &Path) -> Result<(), String> {
    // Told before the questions are asked.
    if file.symlink_metadata().is_ok() {
        return Err(exists(file));
    }
    let arguments = ask()?;
    let new = OpenOptions::new().write(true).create_new(true).open(file);
    let mut new = new.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(file),
        _ => format!("cannot write {}: {error}", file.display()),
    })?;
    let text = format!("{HEAD}{}{}", next_steps(file), arguments.file().text());
    let written = new.write_all(text.as_bytes()).and_then(|()| new.sync_all());
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn exists(file: &Path) -> String {
    format!("{} exists and is left as it is\n  help: name another one, `thalweg init FILE`", file.display())
}

fn next_steps(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    // A file may be called anything; a comment must stay one.
    let name: String = name.chars().filter(|character| !character.is_control()).collect();
    format!("#   thalweg check {name}\n#   thalweg run --config {name}\n")
}

/// Asks everything.
fn ask() -> Result<Arguments, String> {
    let input = io::stdin();
    let again = input.is_terminal();
    let mut input = input.lock();
    // What is not asked yet is as if every answer was empty, so that each answer is checked by itself.
    let mut arguments = Arguments::default();
    for question in &QUESTIONS {
        (question.take)(&mut arguments, question.default)?;
    }
    for (at, question) in QUESTIONS.iter().enumerate() {
        loop {
            let answer = answer(question, at, &mut input)?;
            if !again {
                // No terminal has shown it.
                print_error(&answer);
            }
            let before = arguments.clone();
            let Err(why) = accept(&mut arguments, question, &answer) else { break };
            if !again {
                return Err(format!("question {}: {why}", at + 1));
            }
            print_error(format_args!("  {why}"));
            arguments = before;
        }
    }
    Ok(arguments)
}

/// The answer to a question, or its default.
fn answer(question: &Question, at: usize, input: &mut impl BufRead) -> Result<String, String> {
    let default =
        if question.default.is_empty() { String::new() } else { format!(" [{}]", question.default) };
    // Without a line break: the answer stands behind it.
    let _ = write!(io::stderr(), "{}. {}{default}: ", at + 1, question.text);
    let mut line = String::new();
    let read = input.by_ref().take(LINE).read_line(&mut line);
    let read = read.map_err(|error| format!("cannot read the answer from standard input: {error}"))?;
    if read == 0 {
        print_error("");
        return Err(format!(
            "standard input ended before question {} was answered; no file is written",
            at + 1
        ));
    }
    let answer = line.trim();
    Ok(if answer.is_empty() { question.default } else { answer }.to_owned())
}

/// Takes an answer, or says what is wrong with it.
fn accept(arguments: &mut Arguments, question: &Question, answer: &str) -> Result<(), String> {
    (question.take)(arguments, answer)?;
    let Err(report) = arguments.file().load(&|name| std::env::var(name).ok()) else { return Ok(()) };
    let told = report.errors.iter().map(|error| match &error.help {
        Some(help) => format!("{}\n  help: {help}", error.message),
        None => error.message.clone(),
    });
    Err(told.collect::<Vec<_>>().join("\n  "))
}

/// `local`, or an e-mail address and host names.
fn https(answer: &str) -> Result<Option<Https>, &'static str> {
    let mut words = words(answer);
    match words.as_slice() {
        [] => Ok(None),
        [word] if word == "local" => Ok(Some(Https::Local)),
        [email, _, ..] if email.contains('@') => {
            let email = words.remove(0);
            Ok(Some(Https::Acme { email, domains: words }))
        }
        _ => Err("write `local`, or an e-mail address and at least one host name"),
    }
}

fn words(answer: &str) -> Vec<String> {
    answer.split([' ', ',', '\t']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
