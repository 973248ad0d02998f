//! The keys that a provider publishes at a URL.

use crate::jwt::KeySet;
use crate::remote::{Remote, Say, Times, keep};
use crate::{Digest, digest, web};
use std::sync::Arc;
use std::time::Instant;
use thalweg_client::HttpClient;
use thalweg_http::HttpUrl;

/// Keys at a URL.
#[derive(Debug)]
pub struct Jwks {
    url: HttpUrl,
    client: HttpClient,
    keys: Remote<KeySet>,
}

impl Jwks {
    /// Nothing is fetched yet.
    pub fn new(url: HttpUrl, client: HttpClient, times: Times) -> Self {
        Self { url, client, keys: Remote::new(times) }
    }

    /// Where they are.
    pub fn url(&self) -> &HttpUrl {
        &self.url
    }

    /// The keys, where they were fetched and are not too old.
    pub fn current(&self, now: Instant) -> Option<Arc<KeySet>> {
        self.keys.current(now)
    }

    /// What is known of them.
    pub fn remote(&self) -> &Remote<KeySet> {
        &self.keys
    }

    /// Fetches them, unless somebody has since `asked`. Cancel-safe.
    ///
    /// # Errors
    /// Why they cannot be had.
    pub async fn refresh(&self, asked: Instant) -> Result<(), String> {
        self.keys.refresh(asked, || fetch(&self.client, &self.url)).await
    }

    /// Refreshes them whenever that is due. Never ends. Cancel-safe.
    pub async fn keep(self: Arc<Self>, say: Say) {
        let what = format!("auth: the set of keys at {}", self.url);
        keep(what, |now| self.keys.due(now), |asked| self.refresh(asked), say).await;
    }
}

/// Fetches a set of keys.
pub(crate) async fn fetch(client: &HttpClient, url: &HttpUrl) -> Result<(KeySet, Digest), String> {
    let body = web::get(client, url).await?;
    let keys = KeySet::jwks(&body).map_err(|why| format!("the keys at {url} cannot be used: {why}"))?;
    Ok((keys, digest(&[&body])))
}
