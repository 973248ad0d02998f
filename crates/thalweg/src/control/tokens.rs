//! The admin tokens and the certificate of the admin listener follow the configuration and its files: a reload takes
//! other ones over.

use super::admin::Shared;
use crate::operator_log::{info, warn};
use std::sync::Arc;
use thalweg_admin::{AdminTls, Token, Tokens};
use thalweg_config::Settings;

/// A token of the configuration as the admin API knows it.
///
/// # Errors
/// It is none.
pub(super) fn of(token: Option<&thalweg_config::settings::Token>) -> Result<Option<Token>, String> {
    token.map(|token| Token::new(token.reveal())).transpose()
}

impl Shared {
    /// Remembers what the admin listener asks for.
    pub(super) fn keep_tokens(&self, tokens: Option<&Arc<Tokens>>) {
        if let Some(tokens) = tokens {
            let _ = self.tokens.set(tokens.clone());
        }
    }

    /// Takes over other tokens of the same listener, and notes them in `running`. A token for everything that is there
    /// for the first time, or not any more, waits for a restart: without one, that of the state directory holds.
    pub(super) fn take_tokens(&self, running: &mut Settings, new: &Settings) {
        let (Some(tokens), Some(old), Some(new)) = (self.tokens.get(), &mut running.admin, &new.admin) else {
            return;
        };
        let is_same = old.token == new.token && old.read_token == new.read_token;
        if is_same || old.address != new.address || old.token.is_some() != new.token.is_some() {
            return;
        }
        let replaced =
            of(new.token.as_ref()).and_then(|write| tokens.replace(write, of(new.read_token.as_ref())?));
        match replaced {
            Ok(()) => {
                old.token.clone_from(&new.token);
                old.read_token.clone_from(&new.read_token);
                info("the admin tokens have changed");
            }
            Err(why) => warn(format_args!("the admin tokens stay as they are: {why}")),
        }
    }

    /// Remembers what the admin listener shakes hands on.
    pub(super) fn keep_admin_tls(&self, tls: Option<&Arc<AdminTls>>) {
        if let Some(tls) = tls {
            let _ = self.admin_tls.set(tls.clone());
        }
    }

    /// Takes over another certificate of the same listener, and notes it in `running`. TLS that is there for the first
    /// time, or not any more, waits for a restart.
    pub(super) fn take_admin_tls(&self, running: &mut Settings, new: &Settings) {
        let (Some(tls), Some(old), Some(new)) = (self.admin_tls.get(), &mut running.admin, &new.admin) else {
            return;
        };
        let (true, Some(old), Some(new)) = (old.address == new.address, &mut old.tls, &new.tls) else {
            return;
        };
        if old.acceptor != new.acceptor {
            tls.replace(new.acceptor.clone());
            info("the certificate of the admin listener has changed");
        }
        old.clone_from(new);
    }
}
