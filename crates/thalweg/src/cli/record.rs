//! `thalweg record FILE`: exchanges into an HTTP archive, as they end.

use super::watch::{WatchArgs, watch, watch_time};
use super::{AdminArgs, complain};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use thalweg_har as har;

/// Where to, and what.
#[derive(Args, Debug)]
#[command(
    after_help = "Credentials are redacted as `tap` does it; bodies are not recorded. Only the owner may read the file. \
                        It has its name once it is complete: also when Ctrl-C ends the recording. Exit codes: 0 written, \
                        1 not, 2 for a condition that is none."
)]
pub(crate) struct RecordArgs {
    /// The archive (HAR 1.2) to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    watch: WatchArgs,
    /// End after this time, at most 1h
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = watch_time)]
    time: Duration,
    /// End after so many exchanges
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The archive that is being written, under another name until it is complete.
struct Archive<'a> {
    part: PathBuf,
    file: &'a Path,
    writer: BufWriter<File>,
    count: u64,
}

impl<'a> Archive<'a> {
    fn create(file: &'a Path, force: bool) -> io::Result<Self> {
        if !force && file.exists() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "it is there already; --force replaces it",
            ));
        }
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        // What another recording has left there is no recording.
        let _ = fs::remove_file(&part);
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let mut writer = BufWriter::new(created);
        writer.write_all(har::beginning().as_bytes())?;
        Ok(Self { part, file, writer, count: 0 })
    }

    fn add(&mut self, entry: &str) -> io::Result<()> {
        let comma = if self.count > 0 { ",\n" } else { "" };
        self.count += 1;
        write!(self.writer, "{comma}{entry}")
    }

    /// Gives it its name.
    fn finish(mut self) -> io::Result<u64> {
        self.writer.write_all(har::end().as_bytes())?;
        self.writer.flush()?;
        fs::rename(&self.part, self.file)?;
        Ok(self.count)
    }
}

pub(crate) fn record(args: &RecordArgs) -> ExitCode {
    let path = match args.watch.path(true, args.time, None) {
        Ok(path) => path,
        Err(code) => return code,
    };
    let failed = |error: io::Error| {
        complain(format_args!("{}: {error}", args.file.display()));
        ExitCode::FAILURE
    };
    let mut archive = match Archive::create(&args.file, args.force) {
        Ok(archive) => archive,
        Err(error) => return failed(error),
    };
    let mut written = Ok(());
    let watched = watch(&args.admin, &path, |_, exchange| {
        // Connections are no exchanges of HTTP.
        let Some(entry) = har::entry(exchange) else { return ControlFlow::Continue(()) };
        written = archive.add(&entry.to_string());
        if written.is_err() || archive.count >= args.limit {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    match (watched, written) {
        (Ok(end), Ok(())) => match archive.finish() {
            Ok(count) => {
                let dropped = match end.dropped {
                    0 => String::new(),
                    dropped => format!("; {dropped} were dropped"),
                };
                complain(format_args!("{count} exchanges written to {}{dropped}", args.file.display()));
                ExitCode::SUCCESS
            }
            Err(error) => failed(error),
        },
        (watched, written) => {
            let _ = fs::remove_file(&archive.part);
            match (watched, written) {
                (Err(code), _) => code,
                (Ok(_), written) => failed(written.err().unwrap_or_else(|| io::ErrorKind::Other.into())),
            }
        }
    }
}
