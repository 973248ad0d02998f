//! `thalweg run`: the proxy, with a file or with what the command line says ([`OneLinerArgs`]).

use super::check::{locate, show};
use super::one_liner::OneLinerArgs;
use super::{complain, say_document};
use crate::control::{RunOptions, start};
use crate::handover::{Parent, VARIABLE};
use crate::operator_log::{LineFormat, set_format};
use crate::service_manager;
use crate::supervisor::supervise;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_config::{Loaded, load_file};

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The configuration; default: $THALWEG_CONFIG, ./thalweg.yaml, the XDG configuration directory,
    /// /etc/thalweg/thalweg.yaml
    #[arg(short, long, value_name = "FILE", conflicts_with = "OneLinerArgs")]
    config: Option<PathBuf>,
    /// Reload when the configuration file has changed
    #[arg(long, conflicts_with = "OneLinerArgs")]
    watch: bool,
    /// Another place for the admin socket; default: $THALWEG_ADMIN_SOCKET, the XDG runtime directory, for root
    /// /run/thalweg, else a private directory below the temporary one
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<PathBuf>,
    /// Run the proxy as a child and start it again when it crashes: `always`, `never`, or `auto`: as the first process
    /// of a container, and where systemd does not watch. Default: $THALWEG_SUPERVISE, else auto
    #[arg(long, value_name = "WHEN", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "always")]
    supervise: Option<Supervise>,
    /// How the lines on stderr look
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: LineFormat,
    // Last: the heading of these holds for all that follow.
    #[command(flatten)]
    one_liner: OneLinerArgs,
}

/// When a supervisor runs the proxy.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Supervise {
    Auto,
    Always,
    Never,
}

impl Supervise {
    /// What the environment says.
    fn from_environment() -> Self {
        let said = std::env::var("THALWEG_SUPERVISE").ok();
        said.and_then(|said| Self::from_str(&said, true).ok()).unwrap_or(Self::Auto)
    }

    /// Whether this process is to be a supervisor.
    fn applies(self) -> bool {
        let is_child = std::env::var_os(VARIABLE).is_some();
        !is_child
            && match self {
                Self::Always => true,
                Self::Never => false,
                Self::Auto => std::process::id() == 1 || !service_manager::is_there(),
            }
    }
}

pub(crate) fn run(args: &RunArgs) -> ExitCode {
    set_format(args.log_format);
    // Not under a supervisor, which would print it, too.
    if args.one_liner.print_config {
        return print_config(&args.one_liner);
    }
    if args.supervise.unwrap_or_else(Supervise::from_environment).applies() {
        return supervise();
    }
    let parent = match Parent::find() {
        Ok(parent) => parent,
        Err(why) => {
            complain(why);
            return ExitCode::FAILURE;
        }
    };
    let (loaded, file) = if args.one_liner.is_empty() {
        let Some(path) = locate(args.config.as_deref()) else { return ExitCode::FAILURE };
        (load_file(&path), Some(path))
    } else {
        (args.one_liner.load().1, None)
    };
    match loaded {
        Ok(loaded) => {
            let admin_socket = args.admin_socket.clone();
            run_loaded(loaded, RunOptions { file, admin_socket, watch: args.watch, quiet: false, parent })
        }
        Err(report) => {
            show(&report, false);
            parent
                .successor
                .inspect(|successor| successor.fail("its configuration has mistakes; they are told above"));
            ExitCode::FAILURE
        }
    }
}

/// Prints the file that says the same as the options.
fn print_config(options: &OneLinerArgs) -> ExitCode {
    let (file, loaded) = options.load();
    let is_in_order = loaded.is_ok();
    show(&loaded.map_or_else(|report| report, |loaded| loaded.warnings), false);
    if !is_in_order {
        return ExitCode::FAILURE;
    }
    say_document(file.text().trim_end());
    ExitCode::SUCCESS
}

/// Runs a configuration to its end.
pub(crate) fn run_loaded(loaded: Loaded, options: RunOptions) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(async {
        match start(loaded, options).await {
            Ok((control, mut admin)) => {
                let code = control.run(&mut admin).await;
                admin.shutdown();
                code
            }
            Err(text) => {
                complain(text);
                ExitCode::FAILURE
            }
        }
    });
    // The end does not wait for a merge of documents or a file that is read.
    runtime.shutdown_background();
    code
}
