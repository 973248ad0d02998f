//! Where the proxies are that a bench compares, as arguments of its command line.

use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Proxies {
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    pub(crate) thalweg: Option<PathBuf>,
    /// The nginx to measure (default: the one in the search path); where the bench needs a backend, it is that too
    #[arg(long, default_value = "nginx")]
    pub(crate) nginx: PathBuf,
    /// The HAProxy to measure (default: the one in the search path)
    #[arg(long, default_value = "haproxy")]
    pub(crate) haproxy: PathBuf,
}
