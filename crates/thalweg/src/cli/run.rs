//! `thalweg run`: the proxy, with a file or with what the command line says ([`OneLinerArgs`]).

use super::check::{locate, show};
use super::one_liner::OneLinerArgs;
use super::{complain, say};
use crate::control::{RunOptions, start};
use crate::operator_log::{LineFormat, set_format};
use clap::Args;
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
    /// How the lines on stderr look
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: LineFormat,
    // Last: the heading of these holds for all that follow.
    #[command(flatten)]
    one_liner: OneLinerArgs,
}

pub(crate) fn run(args: &RunArgs) -> ExitCode {
    set_format(args.log_format);
    let (loaded, file) = if args.one_liner.is_empty() {
        let Some(path) = locate(args.config.as_deref()) else { return ExitCode::FAILURE };
        (load_file(&path), Some(path))
    } else {
        let file = args.one_liner.arguments().file();
        let loaded = file.load(&|name| std::env::var(name).ok());
        if let (true, Ok(loaded)) = (args.one_liner.print_config, &loaded) {
            show(&loaded.warnings, false);
            say(file.text().trim_end());
            return ExitCode::SUCCESS;
        }
        (loaded, None)
    };
    match loaded {
        Ok(loaded) => {
            let admin_socket = args.admin_socket.clone();
            run_loaded(loaded, RunOptions { file, admin_socket, watch: args.watch, quiet: false })
        }
        Err(report) => {
            show(&report, false);
            ExitCode::FAILURE
        }
    }
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
            Ok((control, admin)) => {
                let code = control.run().await;
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
