//! One order, from the first word to the certificate (RFC 8555 §7.4).
//!
//! An order that was begun is gone on with, by whichever process: where it stands is asked of the authority, its key is
//! on disk. So neither a crash nor an outage costs one, and a nonce that is refused costs a request.

use std::time::{Duration, Instant};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, Error, Identifier, NewOrder, Order, OrderStatus,
};
use thalweg_tls::AcmePolicy;

use crate::account::{Authority, mailto};
use crate::challenge::{Shown, Stage, kind};
use crate::failure::Failure;
use crate::keys;
use crate::storage::{Drawer, OrderSpec};

/// How often a request is made again whose nonce was refused, each time three times over by the library.
pub(crate) const NONCES: u32 = 5;
/// The first pause between two looks at an order.
const LOOK: Duration = Duration::from_millis(250);
/// The longest one.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// How long an authority may take to check a name, and to issue.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Makes a request, again while its nonce is refused.
macro_rules! steadily {
    ($request:expr) => {{
        let mut tries = 0;
        loop {
            match $request.await {
                Err(error) if Failure::is_bad_nonce(&error) && tries < NONCES => tries += 1,
                done => break done,
            }
        }
    }};
}

/// What is ordered, and with what.
pub(crate) struct Ordering<'a> {
    pub(crate) authority: &'a Authority,
    pub(crate) policy: &'a AcmePolicy,
    pub(crate) name: &'a str,
    pub(crate) drawer: &'a Drawer,
    pub(crate) stage: &'a Stage,
    /// The certificate that the new one takes the place of.
    pub(crate) replaces: Option<CertificateIdentifier<'static>>,
}

/// A certificate that was issued: chain and key, PEM.
pub(crate) struct Paper {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Ordering<'_> {
    /// Orders, and waits for the certificate. `told` gets what is worth a line.
    pub(crate) async fn run(&self, told: &mut Vec<String>) -> Result<Paper, Failure> {
        let account = self.authority.account(self.policy).await?;
        let (mut order, key) = match self.begin(&account).await {
            Err(Failure::Authority(error)) if self.has_lost(&account, &error).await => {
                self.authority.let_account_go(&account).await?;
                // Orders belong to accounts.
                self.drawer.forget_order()?;
                told.push(format!(
                    "{}: the authority does not take our account any more; a new one is made",
                    self.policy.directory
                ));
                let account = self.authority.account(self.policy).await?;
                self.begin(&account).await?
            }
            begun => begun?,
        };
        match self.finish(&mut order, &key, told).await {
            Ok(chain) => Ok(Paper { chain, key }),
            Err(failure) => {
                // Nothing can become of it any more: the next attempt begins anew.
                if order.state().status == OrderStatus::Invalid {
                    self.drawer.forget_order()?;
                }
                Err(failure)
            }
        }
    }

    /// Whether the authority knows the account no longer.
    async fn has_lost(&self, account: &Account, error: &Error) -> bool {
        if Failure::is_account_gone(error) {
            return true;
        }
        // The order may have been refused for another reason; what concerns the account alone tells.
        let contact = mailto(self.policy);
        let still = async || steadily!(account.update_contacts(&[&contact]));
        Failure::is_unauthorized(error)
            && still()
                .await
                .is_err_and(|error| Failure::is_unauthorized(&error) || Failure::is_account_gone(&error))
    }

    /// The order that is under way, or a new one, with its key; both are on disk.
    async fn begin(&self, account: &Account) -> Result<(Order, String), Failure> {
        // One whose certificate is here was over when the process ended.
        if let Some(OrderSpec { url, key }) =
            self.drawer.order().filter(|kept| !self.drawer.has_come(&kept.key))
        {
            match steadily!(account.order(url.clone())) {
                Ok(mut order) => match order.state().status {
                    OrderStatus::Invalid => self.drawer.forget_order()?,
                    _ => return Ok((order, key)),
                },
                Err(error) if Failure::is_account_gone(&error) => return Err(error.into()),
                Err(error) if !Failure::is_answer(&error) => return Err(error.into()),
                // It may be another account's, which we had before: a new order tells whether this one is good.
                Err(_) => self.drawer.forget_order()?,
            }
        }
        let key = keys::generate(self.policy.key_type)?;
        let identifiers = [Identifier::Dns(self.name.to_owned())];
        let new = |replaces: Option<&CertificateIdentifier<'static>>| {
            let mut new = NewOrder::new(&identifiers);
            if let Some(replaces) = replaces {
                new = new.replaces(replaces.clone());
            }
            match &self.policy.profile {
                Some(profile) => new.profile(profile),
                None => new,
            }
        };
        let with = new(self.replaces.as_ref());
        let order = match steadily!(account.new_order(&with)) {
            // What it takes the place of is a hint: an authority that does not want it gets an order without.
            Err(error) if self.replaces.is_some() && Failure::may_mind_details(&error) => {
                let without = new(None);
                steadily!(account.new_order(&without))?
            }
            done => done?,
        };
        self.drawer.keep_order(&OrderSpec { url: order.url().to_owned(), key: key.clone() })?;
        Ok((order, key))
    }

    async fn finish(&self, order: &mut Order, key: &str, told: &mut Vec<String>) -> Result<String, Failure> {
        if order.state().status == OrderStatus::Pending {
            let mut shown = Vec::new();
            let checked = self.be_checked(order, &mut shown).await;
            for shown in shown {
                if let Err(failure) = self.stage.take_away(shown).await {
                    told.push(format!("what the check of `{}` needed stays behind: {failure}", self.name));
                }
            }
            checked?;
        }
        if order.state().status == OrderStatus::Ready {
            let request = keys::request(self.name, key)?;
            steadily!(order.finalize_csr(&request))?;
        }
        self.wait(order, |status| status == OrderStatus::Valid).await?;
        let chain = steadily!(order.certificate())?;
        chain.ok_or_else(|| Failure::Other("the authority has issued nothing".to_owned()))
    }

    /// Shows what the authority looks for, and waits until it has seen it.
    async fn be_checked(&self, order: &mut Order, shown: &mut Vec<Shown>) -> Result<(), Failure> {
        let mut tries = 0;
        'anew: loop {
            let mut authorizations = order.authorizations();
            while let Some(next) = authorizations.next().await {
                let mut authorization = match next {
                    Err(error) if Failure::is_bad_nonce(&error) && tries < NONCES => {
                        tries += 1;
                        continue 'anew;
                    }
                    next => next?,
                };
                match authorization.status {
                    AuthorizationStatus::Valid => continue,
                    AuthorizationStatus::Pending => {}
                    status => return Err(Failure::Other(format!("the name's authorization is {status:?}"))),
                }
                let mut challenge =
                    authorization.challenge(kind(self.policy.challenge)).ok_or_else(|| {
                        Failure::Other(format!("the authority offers no such challenge for `{}`", self.name))
                    })?;
                let (token, answer) = (challenge.token.clone(), challenge.key_authorization());
                shown.push(self.stage.show(self.policy, self.name, (&token, &answer)).await?);
                steadily!(challenge.set_ready())?;
            }
            break;
        }
        let settled =
            |status| matches!(status, OrderStatus::Ready | OrderStatus::Processing | OrderStatus::Valid);
        let done = self.wait(order, settled).await;
        match done {
            Err(failure) => Err(self.reason(order).await.unwrap_or(failure)),
            Ok(()) => Ok(()),
        }
    }

    /// Why the authority has not found what it looked for.
    async fn reason(&self, order: &mut Order) -> Option<Failure> {
        let mut authorizations = order.authorizations();
        let mut authorization = authorizations.next().await?.ok()?;
        steadily!(async { authorization.refresh().await.map(|_| ()) }).ok()?;
        let error = authorization.challenges.iter().find_map(|challenge| challenge.error.clone())?;
        Some(Failure::Authority(Error::Api(error)))
    }

    /// Looks at the order until it stands so.
    async fn wait(&self, order: &mut Order, is_there: impl Fn(OrderStatus) -> bool) -> Result<(), Failure> {
        let (begun, mut pause) = (Instant::now(), LOOK);
        while !is_there(order.state().status) {
            if order.state().status == OrderStatus::Invalid {
                return Err(match &order.state().error {
                    Some(problem) => Failure::Authority(Error::Api(problem.clone())),
                    None => Failure::Other("the authority has refused the order".to_owned()),
                });
            }
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Other(format!("the authority was not done within {PATIENCE:?}")));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(LOOK_MAX);
            steadily!(async { order.refresh().await.map(|_| ()) })?;
        }
        Ok(())
    }
}
