//! The user that the proxy becomes.

use super::{Subject, place};
use thalweg_config::settings::Settings;
use thalweg_config::{Class, SpecError};
use thalweg_net::machine::{self, Identity};

pub(super) fn check(subject: &Subject<'_>) -> Vec<SpecError> {
    let (settings, place) = (&subject.loaded.settings, place(subject.places.user));
    let found = |message: String| SpecError::warning("user", place, message);
    match identity(settings) {
        None => Vec::new(),
        Some(Err(why)) => {
            let help = "create it, write another one, or check with `--offline` where the file is for another machine";
            vec![found(why).class(Class::Invalid).help(help)]
        }
        Some(Ok(identity)) => {
            let ourselves = rustix::process::geteuid().as_raw();
            let refused = ourselves != 0 && ourselves != identity.uid;
            let warning = || found("only root can become another user".to_owned());
            refused.then(|| warning().help("start the proxy as root, or remove `user`")).into_iter().collect()
        }
    }
}

/// The user that is written, as this machine knows it; `None` where none is written.
pub(super) fn identity(settings: &Settings) -> Option<Result<Identity, String>> {
    let user = settings.user.as_ref()?;
    let text = user.group.as_ref().map_or(user.user.clone(), |group| format!("{}:{group}", user.user));
    Some(machine::identity(&text).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_does_not_exist_is_an_error() {
        let found_for = |user: &str| {
            let text = format!(
                "user: \"{user}\"\nlisteners: {{ web: {{ address: \":8080\" }} }}\nroutes: [ {{ to: [ \"http://127.0.0.1:1\" ] }} ]\n"
            );
            let loaded = thalweg_config::check_text("a.yaml", &text, &|_| None).unwrap();
            check(&Subject { loaded: &loaded, places: &loaded.places })
        };
        let found = found_for("no-such-user-here");
        assert_eq!(found.len(), 1);
        assert!(found[0].class == Class::Invalid && found[0].message.contains("no known user"), "{found:?}");
        assert!(found_for("root:no-such-group")[0].message.contains("no known group"));
        let ourselves = rustix::process::geteuid().as_raw().to_string();
        assert_eq!(found_for(&ourselves), []);
    }
}
