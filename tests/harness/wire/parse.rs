//! From a `.wire` file to steps.

use std::time::Duration;

use super::pattern::Pattern;
use super::text;

/// One end of a connection, by its number in the transcript.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Who {
    /// The client's n-th connection; opened when first named.
    Client(usize),
    /// The n-th connection that the upstream accepted.
    Upstream(usize),
}

/// One section of a transcript.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Send bytes, one by one when there is a pace.
    Send(Who, Vec<u8>, Option<Duration>),
    /// Receive exactly this.
    Sees(Who, Pattern),
    /// End our side; the other direction stays.
    HalfClose(Who),
    /// Close both directions.
    Close(Who),
    /// Break the connection off.
    Reset(Who),
    /// The proxy ends the connection and sends nothing more before that.
    Closed(Who),
    /// The same, and it breaks it off.
    Broken(Who),
    /// The proxy makes the answer itself: status and fault; the flag says whether it then closes.
    Own(usize, u16, String, bool),
    /// Another exchange works on client connection 1.
    Open,
}

/// A file's content.
#[derive(Clone, Debug, Default)]
pub(super) struct Transcript {
    /// Top-level keys that replace those of the standard configuration.
    pub config: String,
    /// Files beside the configuration: their paths and what is in them.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// One entry per expected log record: keys and values as text, `-` for null or absent.
    pub log: Option<Vec<Vec<(String, String)>>>,
    /// Performed with whole sections only: the outcome depends on what arrives together.
    pub(super) whole: bool,
    /// Not performed through TLS: it is about plain HTTP.
    pub(super) plain: bool,
    /// Performed through TLS only: it is about that.
    pub(super) secure: bool,
    /// Whose certificate which client shows; the others show none. The listener verifies them.
    pub(super) certificates: Vec<(usize, String)>,
    /// Why it is not performed over HTTP/2.
    pub(super) http1: Option<String>,
    /// What the upstream sees beyond the steps may only be the beginning of a request.
    pub incomplete: bool,
    /// The fault that the last record names; `none` for none.
    pub fault: Option<String>,
}

impl Transcript {
    /// Parses a file.
    ///
    /// # Errors
    /// What is wrong with it, with the heading of the section.
    pub(super) fn parse(file: &str) -> Result<Self, String> {
        let mut transcript = Self::default();
        let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut described = false;
        for line in file.lines() {
            match (line.strip_prefix("--- "), sections.last_mut()) {
                (Some(heading), _) => sections.push((heading.trim_end(), Vec::new())),
                (None, Some((_, lines))) => lines.push(line),
                (None, None) => described |= !line.is_empty(),
            }
        }
        if !described {
            return Err("a transcript begins with a sentence that says what it is about".to_owned());
        }
        for (heading, lines) in sections {
            transcript.section(heading, &lines).map_err(|error| format!("--- {heading}: {error}"))?;
        }
        if !transcript
            .steps
            .iter()
            .any(|step| matches!(step, Step::Sees(..) | Step::Own(..) | Step::Closed(_) | Step::Broken(_)))
        {
            return Err("a transcript expects something".to_owned());
        }
        Ok(transcript)
    }

    fn section(&mut self, heading: &str, lines: &[&str]) -> Result<(), String> {
        let words: Vec<&str> = heading.split(' ').collect();
        let has_text = lines.iter().any(|line| !line.is_empty());
        match words.as_slice() {
            ["config"] => self.config.push_str(&(lines.join("\n") + "\n")),
            ["file", path] if is_inside(path) => {
                self.files.push(((*path).to_owned(), text::bytes(lines, false)?));
            }
            ["whole"] if !has_text => self.whole = true,
            ["plain"] if !has_text => self.plain = true,
            ["secure"] if !has_text => self.secure = true,
            ["certificates"] if has_text => self.certificates = certificates(lines)?,
            ["http1"] if has_text => self.http1 = Some(lines.join(" ")),
            ["upstream", "never", "completes"] if !has_text => self.incomplete = true,
            ["log"] => self.log = Some(log_records(lines)?),
            _ => {
                let step = step(&words, lines)?;
                if has_text && !matches!(step, None | Some(Step::Send(..) | Step::Sees(..))) {
                    return Err("this section has no text".to_owned());
                }
                match (step, words.as_slice()) {
                    (Some(step), _) => self.steps.push(step),
                    (None, ["fault", name]) if !has_text => self.fault = Some((*name).to_owned()),
                    _ => return Err("unknown section".to_owned()),
                }
            }
        }
        Ok(())
    }
}

/// Whether a path stays in the directory that it begins in.
fn is_inside(path: &str) -> bool {
    path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

/// The step that a heading announces; `None` when it is not a step.
fn step(words: &[&str], lines: &[&str]) -> Result<Option<Step>, String> {
    let (who, words) = match words {
        ["open"] => return Ok(Some(Step::Open)),
        ["refused" | "answered", ..] => (Who::Client(1), words),
        ["client", rest @ ..] => numbered(rest, Who::Client),
        ["upstream", rest @ ..] => numbered(rest, Who::Upstream),
        _ => return Ok(None),
    };
    let step = match words {
        [] => Step::Send(who, text::bytes(lines, false)?, None),
        ["raw"] => Step::Send(who, text::bytes(lines, true)?, None),
        ["every", pace] => Step::Send(who, text::bytes(lines, false)?, Some(milliseconds(pace)?)),
        ["every", pace, "raw"] => Step::Send(who, text::bytes(lines, true)?, Some(milliseconds(pace)?)),
        ["sees"] => Step::Sees(who, Pattern::new(&text::pieces(lines, false)?)?),
        ["sees", "raw"] => Step::Sees(who, Pattern::new(&text::pieces(lines, true)?)?),
        ["half-close"] => Step::HalfClose(who),
        ["close"] => Step::Close(who),
        ["reset"] => Step::Reset(who),
        ["closed"] => Step::Closed(who),
        ["broken"] => Step::Broken(who),
        [verb @ ("refused" | "answered"), status, fault] => {
            let Who::Client(number) = who else { return Err("only a client is answered".to_owned()) };
            let status = status.parse().map_err(|_| format!("not a status: {status}"))?;
            Step::Own(number, status, (*fault).to_owned(), *verb == "refused")
        }
        _ => return Err("unknown section".to_owned()),
    };
    Ok(Some(step))
}

fn numbered<'a, 'b>(words: &'a [&'b str], who: fn(usize) -> Who) -> (Who, &'a [&'b str]) {
    match words.split_first().and_then(|(word, rest)| Some((word.parse().ok()?, rest))) {
        Some((number, rest)) => (who(number), rest),
        None => (who(1), words),
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").and_then(|number| number.parse().ok());
    number.map(Duration::from_millis).ok_or_else(|| format!("not in milliseconds: {text}"))
}

fn certificates(lines: &[&str]) -> Result<Vec<(usize, String)>, String> {
    let lines = lines.iter().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (number, name) = line.split_once(' ').ok_or_else(|| format!("not NUMBER NAME: {line}"))?;
            let number = number.parse().map_err(|_| format!("not the number of a client: {number}"))?;
            Ok((number, name.to_owned()))
        })
        .collect()
}

fn log_records(lines: &[&str]) -> Result<Vec<Vec<(String, String)>>, String> {
    let lines = lines.iter().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            line.split_whitespace()
                .map(|pair| {
                    let (key, value) =
                        pair.split_once('=').ok_or_else(|| format!("not key=value: {pair}"))?;
                    Ok((key.to_owned(), value.to_owned()))
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_become_steps_in_file_order() {
        let file = "About.\n\n--- client\nGET /\\\n--- upstream 2 sees\n{any}\n--- upstream 2 every 5ms raw\nab\n\
                    --- client closed\n\n--- refused 400 http_request_error\n--- fault none\n";
        let transcript = Transcript::parse(file).unwrap();
        assert!(matches!(&transcript.steps[0], Step::Send(Who::Client(1), bytes, None) if bytes == b"GET /"));
        assert!(matches!(&transcript.steps[1], Step::Sees(Who::Upstream(2), _)));
        assert!(matches!(&transcript.steps[2], Step::Send(_, _, Some(_))));
        assert!(matches!(&transcript.steps[3], Step::Closed(Who::Client(1))));
        assert!(matches!(&transcript.steps[4], Step::Own(1, 400, _, true)));
        assert_eq!(transcript.fault.as_deref(), Some("none"));
    }

    #[test]
    fn mistakes_in_a_file_are_told() {
        for bad in [
            "--- client\nx\n",
            "About.\n--- client\nx\n",
            "About.\n--- oops\n",
            "About.\n--- client closed\ntext\n",
            "About.\n--- refused many http_request_error\n",
            "About.\n--- http1\n--- client closed\n",
            "About.\n--- file ../a\n--- client closed\n",
        ] {
            assert!(Transcript::parse(bad).is_err(), "{bad:?}");
        }
    }
}
