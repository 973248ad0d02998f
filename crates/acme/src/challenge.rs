//! What an authority looks for to see that a name is ours, shown where it looks, and taken away again.

use std::sync::Arc;

use instant_acme::{ChallengeType, KeyAuthorization};
use thalweg_tls::IssuedStore;
use thalweg_tls::{AcmeChallenge, AcmePolicy, DnsHook};

use crate::failure::Failure;
use crate::{dns, keys};
use thalweg_client::HttpClient;

/// Tells the listeners for plain HTTP what the authority is to be answered: a token, and the answer, or that there is
/// none any more (RFC 8555 §8.3).
pub type HttpAnswers = Arc<dyn Fn(&str, Option<&str>) + Send + Sync>;

/// Where challenges are shown.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) http: HttpAnswers,
    pub(crate) issued_store: Arc<IssuedStore>,
    /// For hooks that are called.
    pub(crate) client: HttpClient,
}

/// Something that is shown.
pub(crate) enum Shown {
    Http { token: String },
    TlsAlpn { name: String },
    Dns { record: String, value: String, hook: DnsHook },
}

/// What the authority calls it.
pub(crate) fn kind(challenge: AcmeChallenge) -> ChallengeType {
    match challenge {
        AcmeChallenge::Http => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn => ChallengeType::TlsAlpn01,
        AcmeChallenge::Dns => ChallengeType::Dns01,
    }
}

impl Stage {
    /// Shows what the authority looks for. When this returns it can look.
    pub(crate) async fn show(
        &self,
        policy: &AcmePolicy,
        name: &str,
        (token, authorization): (&str, &KeyAuthorization),
    ) -> Result<Shown, Failure> {
        match policy.challenge {
            AcmeChallenge::Http => {
                (self.http)(token, Some(authorization.as_str()));
                Ok(Shown::Http { token: token.to_owned() })
            }
            AcmeChallenge::TlsAlpn => {
                let (chain, key) = keys::proof(name, authorization)?;
                let shown = self.issued_store.challenge(name, chain.as_bytes(), key.as_bytes());
                shown.map_err(|flaw| Failure::Other(format!("a certificate of our own {flaw}")))?;
                Ok(Shown::TlsAlpn { name: name.to_owned() })
            }
            AcmeChallenge::Dns => {
                let hook = policy.dns.clone();
                let hook = hook.ok_or_else(|| Failure::Other("there is no hook for the DNS".to_owned()))?;
                // RFC 8555 §8.4: the same record for a name and for the wildcard below it.
                let record = format!("_acme-challenge.{}", name.strip_prefix("*.").unwrap_or(name));
                let value = authorization.dns_value();
                dns::call(&self.client, &hook, (dns::SET, &record, &value)).await?;
                tokio::time::sleep(hook.propagation).await;
                Ok(Shown::Dns { record, value, hook })
            }
        }
    }

    /// Shows it no longer. What goes wrong with that does no harm to the order.
    pub(crate) async fn take_away(&self, shown: Shown) -> Result<(), Failure> {
        match shown {
            Shown::Http { token } => (self.http)(&token, None),
            Shown::TlsAlpn { name } => self.issued_store.end_challenge(&name),
            Shown::Dns { record, value, hook } => {
                dns::call(&self.client, &hook, (dns::UNSET, &record, &value)).await?;
            }
        }
        Ok(())
    }
}
