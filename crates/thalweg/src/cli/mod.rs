//! The command line: one file per verb.
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0 ok, 1 invalid configuration or
//! failed start, 2 usage, 3 forced end before the drain had finished, 4 an import with losses.

mod api;
mod block;
mod canary;
mod check;
mod completions;
mod credentials;
mod decision;
mod demo;
mod diagnostics;
mod drain;
mod explain;
mod health;
mod import;
mod init;
mod list;
mod maintenance;
mod one_liner;
mod output;
mod plan;
mod problem;
mod purge;
mod record;
mod reload;
mod replay;
mod run;
mod schema;
mod seal;
mod status;
mod stop;
mod tap;
mod top;
mod upgrade;
mod version;
mod wait;
mod watch;

use clap::{Args, Parser, Subcommand};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_admin::{Answer, Call, CallError, SocketPlace, StreamEnd, StreamEvent, Target, Token};

pub(crate) use check::show;
pub(crate) use output::{complain, print_error, say, say_document};

/// A reverse proxy, load balancer and API gateway that explains itself.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the proxy
    Run(run::RunArgs),
    /// Ask five questions and write a configuration
    Init(init::InitArgs),
    /// Check a configuration file and say everything that is wrong with it
    Check(check::CheckArgs),
    /// Say which route takes a request, why the others do not, and where it goes
    Explain(explain::ExplainArgs),
    /// Try it: sample services, a proxy in front of them, and URLs to open
    Demo(demo::DemoArgs),
    /// Say how the running proxy stands: its services and endpoints, their health, what is in flight
    Status(status::StatusArgs),
    /// Watch exchanges as they end: filtered, sampled, without credentials
    Tap(tap::TapArgs),
    /// Write exchanges into a file as they end (HAR), without credentials and bodies
    Record(record::RecordArgs),
    /// Send recorded exchanges again, to another server, and say what differs
    Replay(replay::ReplayArgs),
    /// Watch routes, services, endpoints and connections in the terminal: rates, errors, latencies
    Top(top::TopArgs),
    /// Say whether the running proxy is ready for traffic
    Health(health::HealthArgs),
    /// Say what a reload would change in the running proxy
    Plan(plan::PlanArgs),
    /// Have the running proxy read its configuration again, or bring an earlier one back
    Reload(reload::ReloadArgs),
    /// Show the canary of a route, or have it start, pause, resume, promote or roll back
    Canary(canary::CanaryArgs),
    /// Give an endpoint nothing new and let what is in flight finish, or undo that
    Drain(drain::DrainArgs),
    /// Turn the filter `maintenance` of a route on or off
    Maintenance(maintenance::MaintenanceArgs),
    /// Put an address or a network into a list of the running proxy: its requests and connections are refused
    Block(block::BlockArgs),
    /// Take an address or a network out of a list again
    Unblock(block::UnblockArgs),
    /// Take stored responses of the cache away, or make them stale: by URL, prefix, host or tag
    Purge(purge::PurgeArgs),
    /// Have a new process, of a new binary, take over from the running one: no connection is refused
    Upgrade(upgrade::UpgradeArgs),
    /// Have the running proxy finish what it does and end
    Stop(stop::StopArgs),
    /// Print a host name that leads to a destination: its first label says, sealed, where to
    Seal(seal::SealArgs),
    /// Say where a sealed label leads, and until when
    Unseal(seal::UnsealArgs),
    /// Print the hash of a password, read from standard input, for `basic` of the filter `auth`
    HashPassword(credentials::HashPasswordArgs),
    /// Make an API key and print its hash for `api_key` of the filter `auth`
    HashKey(credentials::HashKeyArgs),
    /// Sign a link for `signed_url` of the filter `auth`
    SignUrl(credentials::SignUrlArgs),
    /// Call any operation of the admin API by its name, or list them
    Api(api::ApiArgs),
    /// Turn the configuration of another proxy into Thalweg's, with a report of what was lost
    Import(import::ImportArgs),
    /// List what can be named in a configuration
    List(list::ListArgs),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print what makes a shell complete this command line
    Completions(completions::CompletionsArgs),
    /// Print the version
    Version(version::VersionArgs),
}

impl Cli {
    /// Does what the verb says.
    pub(crate) fn run(self) -> ExitCode {
        match self.verb {
            Verb::Run(args) => run::run(&args),
            Verb::Init(args) => init::init(&args),
            Verb::Check(args) => check::check(&args),
            Verb::Explain(args) => explain::explain(&args),
            Verb::Demo(args) => demo::demo(&args),
            Verb::Status(args) => status::status(&args),
            Verb::Tap(args) => tap::tap(&args),
            Verb::Record(args) => record::record(&args),
            Verb::Replay(args) => replay::replay(&args),
            Verb::Top(args) => top::top(&args),
            Verb::Health(args) => health::health(&args),
            Verb::Plan(args) => plan::plan(&args),
            Verb::Reload(args) => reload::reload(&args),
            Verb::Canary(args) => canary::canary(&args),
            Verb::Drain(args) => drain::drain(&args),
            Verb::Maintenance(args) => maintenance::maintenance(&args),
            Verb::Block(args) => block::block(&args),
            Verb::Unblock(args) => block::unblock(&args),
            Verb::Purge(args) => purge::purge(&args),
            Verb::Upgrade(args) => upgrade::upgrade(&args),
            Verb::Stop(args) => stop::stop(&args),
            Verb::Seal(args) => seal::seal(&args),
            Verb::Unseal(args) => seal::unseal(&args),
            Verb::HashPassword(args) => credentials::password(&args),
            Verb::HashKey(args) => credentials::key(&args),
            Verb::SignUrl(args) => credentials::sign(&args),
            Verb::Api(args) => api::api(&args),
            Verb::Import(args) => import::import(&args),
            Verb::List(args) => list::list(&args),
            Verb::Schema => schema::schema(),
            Verb::Completions(args) => completions::completions(&args),
            Verb::Version(args) => version::version(&args),
        }
    }
}

/// How a verb reaches the running proxy.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminArgs {
    /// Where the admin API is: `http://127.0.0.1:9900`, `https://host:9900` or `unix:/path`; default:
    /// $THALWEG_ADMIN_SOCKET, else the place where `run` of this user puts its socket
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// File with the token for an http or https address
    #[arg(long, value_name = "FILE", requires = "admin")]
    token_file: Option<PathBuf>,
    /// PEM file of whom to trust at an https address; default: whom the system trusts
    #[arg(long, value_name = "FILE", requires = "admin")]
    ca: Option<PathBuf>,
}

impl AdminArgs {
    /// Calls the admin API without a body; an error is a sentence for people.
    fn call(&self, method: &str, path: &str) -> Result<Answer, String> {
        self.call_with(Call { method, path, fields: &[], body: &[] })
    }

    /// Calls the admin API; an error is a sentence for people.
    fn call_with(&self, call: Call<'_>) -> Result<Answer, String> {
        let (target, place) = self.target()?;
        self.send(&target, call)?.map_err(|error| sentence(&error, place.as_ref()))
    }

    /// Hears the events of a stream of the admin API until `hear` breaks; an error is a sentence for people.
    fn listen(
        &self,
        path: &str,
        hear: impl FnMut(StreamEvent) -> ControlFlow<()>,
    ) -> Result<StreamEnd, String> {
        let (target, place) = self.target()?;
        let token = self.token()?;
        let call = Call { method: "GET", path, fields: &[], body: &[] };
        let streamed = thalweg_admin::stream_with(&target, token.as_ref(), call, hear);
        streamed.map_err(|error| sentence(&error, place.as_ref()))
    }

    fn token(&self) -> Result<Option<Token>, String> {
        let token = self.token_file.as_deref().map(Token::from_file).transpose();
        token.map_err(|error| error.to_string())
    }

    /// The one place that is asked, and the rule by which it was found. Nobody else is asked when nobody answers.
    fn target(&self) -> Result<(Target, Option<SocketPlace>), String> {
        let Some(text) = &self.admin else {
            let place = SocketPlace::from_environment();
            place.check().map_err(|error| {
                format!(
                    "the admin socket {} is not used: {error}\n  help: {}",
                    place.path.display(),
                    place.help()
                )
            })?;
            return Ok((Target::Socket(place.path.clone()), Some(place)));
        };
        match Target::parse(text)? {
            Target::Tls(authority, _) => Ok((Target::Tls(authority, self.ca.clone()), None)),
            _ if self.ca.is_some() => Err("--ca is for an https address".into()),
            target => Ok((target, None)),
        }
    }

    fn send(&self, target: &Target, call: Call<'_>) -> Result<Result<Answer, CallError>, String> {
        Ok(thalweg_admin::call_with(target, self.token()?.as_ref(), call))
    }
}

/// Why there is no answer; where nobody listens at the place that was found by a rule, how another one is named.
fn sentence(error: &CallError, place: Option<&SocketPlace>) -> String {
    match place {
        Some(place) if error.nobody_there() => format!("{error}\n  help: {}", place.help()),
        _ => error.to_string(),
    }
}
