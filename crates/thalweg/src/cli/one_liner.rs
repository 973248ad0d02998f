//! The options of `run` that take the place of a file.

use clap::Args;
use thalweg_config::{Arguments, ArgumentsFile, Loaded, Report};

/// One route to one service. All that an option says is checked as in a file; values may have `${NAME}`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Without a file")]
pub(crate) struct OneLinerArgs {
    /// An address to listen on, for example :8080 (may be given several times)
    #[arg(long, value_name = "ADDRESS", requires = "to")]
    listen: Vec<String>,
    /// Where requests go, for example http://127.0.0.1:9001 (may be given several times)
    #[arg(long, value_name = "URL", requires = "listen")]
    to: Vec<String>,
    /// Which endpoint takes a request: a name that `list balancers` prints, hash:client_ip or hash:path
    #[arg(long, value_name = "NAME", requires = "to")]
    balance: Option<String>,
    /// The path that health checks ask for; endpoints that fail them are left out until they pass again
    #[arg(long, value_name = "PATH", requires = "to")]
    health: Option<String>,
    /// The time between two health checks; default: 5s
    #[arg(long, value_name = "DURATION", requires = "health")]
    health_interval: Option<String>,
    /// Failed health checks in a row after which an endpoint is left out; default: 3
    #[arg(long, value_name = "N", requires = "health")]
    health_failures: Option<String>,
    /// Attempts for one request, the first among them; default: 2
    #[arg(long, value_name = "N", requires = "to")]
    retry: Option<String>,
    /// Cache responses, for this long where they do not say it themselves
    #[arg(long, value_name = "TTL", requires = "to")]
    cache: Option<String>,
    /// Refuse a network or an address (may be given several times)
    #[arg(long, value_name = "CIDR", requires = "to")]
    block: Vec<String>,
    /// Requests that each client may make in a time, for example 100/1s
    #[arg(long, value_name = "N/DURATION", requires = "to", value_parser = rate)]
    rate_limit: Option<(String, String)>,
    /// Where events are posted to, for example an endpoint that is down (may be given several times)
    #[arg(long, value_name = "URL", requires = "to")]
    webhook: Vec<String>,
    /// Write a line for each request to standard output: json or combined
    #[arg(long, value_name = "FORMAT", requires = "to")]
    access_log: Option<String>,
    /// Print the file that says the same, and end
    #[arg(long, requires = "to")]
    pub(super) print_config: bool,
}

impl OneLinerArgs {
    /// Whether a file says what to run.
    pub(super) fn is_empty(&self) -> bool {
        self.listen.is_empty()
    }

    /// The file that says the same, and what it is.
    pub(super) fn load(&self) -> (ArgumentsFile, Result<Loaded, Report>) {
        let file = self.arguments().file();
        let loaded = file.load(&|name| std::env::var(name).ok());
        (file, loaded)
    }

    fn arguments(&self) -> Arguments {
        Arguments {
            listen: self.listen.clone(),
            to: self.to.clone(),
            balance: self.balance.clone(),
            health: self.health.clone(),
            health_interval: self.health_interval.clone(),
            health_failures: self.health_failures.clone(),
            retry: self.retry.clone(),
            cache: self.cache.clone(),
            block: self.block.clone(),
            rate_limit: self.rate_limit.clone(),
            access_log: self.access_log.clone(),
            webhook: self.webhook.clone(),
            https: None,
        }
    }
}

/// Requests and time.
fn rate(text: &str) -> Result<(String, String), String> {
    let (requests, per) = text.split_once('/').ok_or("write requests and time, for example 100/1s")?;
    Ok((requests.to_owned(), per.to_owned()))
}
