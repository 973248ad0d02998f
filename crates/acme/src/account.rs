//! The account with an authority: one for all names that it is asked for, made with the first of them.

use std::path::Path;
use std::time::Duration;

use instant_acme::{Account, ExternalAccountKey, NewAccount};
use thalweg_tls::AcmePolicy;
use tokio::sync::Mutex;

use crate::authority_client::AuthorityClient;
use crate::failure::Failure;
use crate::storage::{AccountSpec, Archive};

/// How often it is looked whether another process has made the account.
const LOOK: Duration = Duration::from_millis(100);
/// How often that is looked.
const LOOKS: u32 = 600;

/// An authority, and our account with it.
pub(crate) struct Authority {
    pub(crate) archive: Archive,
    client: AuthorityClient,
    /// Locked while it is made or read, so that it is done once.
    account: Mutex<Option<Account>>,
}

impl Authority {
    /// That of a policy.
    pub(crate) fn new(state: &Path, policy: &AcmePolicy) -> Self {
        let client = AuthorityClient::new(policy.directory_ca.as_ref());
        Self { archive: Archive::of(state, policy), client, account: Mutex::new(None) }
    }

    /// The account: the one at hand, the one on disk, or a new one.
    pub(crate) async fn account(&self, policy: &AcmePolicy) -> Result<Account, Failure> {
        let mut known = self.account.lock().await;
        if let Some(account) = &*known {
            return Ok(account.clone());
        }
        let mut looks = 0;
        let _lease = loop {
            if let Some(lease) = self.archive.lease()? {
                break lease;
            }
            looks += 1;
            if looks == LOOKS {
                return Err(Failure::Other("another process makes an account and does not end".to_owned()));
            }
            tokio::time::sleep(LOOK).await;
        };
        let account = match self.archive.account()? {
            Some(kept) => self.take_up(kept, policy).await?,
            None => self.create(policy).await?,
        };
        Ok(known.insert(account).clone())
    }

    async fn take_up(&self, kept: AccountSpec, policy: &AcmePolicy) -> Result<Account, Failure> {
        let AccountSpec { email, credentials } = kept;
        let text = serde_json::to_value(&credentials).map_err(|error| Failure::Other(error.to_string()))?;
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        let account = builder.from_credentials(credentials).await?;
        if email != policy.email && account.update_contacts(&[&mailto(policy)]).await.is_ok() {
            // It is only told again what it was told.
            if let Ok(credentials) = serde_json::from_value(text) {
                self.archive.keep_account(&AccountSpec { email: policy.email.clone(), credentials })?;
            }
        }
        Ok(account)
    }

    async fn create(&self, policy: &AcmePolicy) -> Result<Account, Failure> {
        let binding = policy.eab.as_ref().map(|eab| ExternalAccountKey::new(eab.key_id.clone(), &eab.hmac));
        let mut tries = 0;
        let (account, credentials) = loop {
            let builder = Account::builder_with_http(Box::new(self.client.clone()));
            let contact = mailto(policy);
            let asked = NewAccount {
                contact: &[&contact],
                terms_of_service_agreed: true,
                only_return_existing: false,
            };
            match builder.create(&asked, policy.directory.text(), binding.as_ref()).await {
                Err(error) if Failure::is_bad_nonce(&error) && tries < crate::order::NONCES => tries += 1,
                done => break done?,
            }
        };
        self.archive.keep_account(&AccountSpec { email: policy.email.clone(), credentials })?;
        Ok(account)
    }

    /// The authority does not know the account, or has put an end to it: the next time one is asked for, it is a new
    /// one.
    pub(crate) async fn let_account_go(&self, gone: &Account) -> Result<(), Failure> {
        let mut known = self.account.lock().await;
        // Somebody else may have noticed before.
        if known.as_ref().is_some_and(|known| known.id() == gone.id()) {
            self.archive.set_account_aside(gone.id())?;
            *known = None;
        }
        Ok(())
    }
}

pub(crate) fn mailto(policy: &AcmePolicy) -> String {
    format!("mailto:{}", policy.email)
}
