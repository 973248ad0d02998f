//! The admin tokens follow the configuration and its files: a reload takes other ones over.

use super::admin::Shared;
use crate::cli::complain;
use std::sync::Arc;
use thalweg_admin::{Token, Tokens};
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
        if old == new || old.address != new.address || old.token.is_some() != new.token.is_some() {
            return;
        }
        let replaced =
            of(new.token.as_ref()).and_then(|write| tokens.replace(write, of(new.read_token.as_ref())?));
        match replaced {
            Ok(()) => {
                old.token.clone_from(&new.token);
                old.read_token.clone_from(&new.read_token);
                complain("the admin tokens have changed");
            }
            Err(why) => complain(format_args!("the admin tokens stay as they are: {why}")),
        }
    }
}
