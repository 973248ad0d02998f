//! Directives without the secrets that stand in them, for the report.
//!
//! A report is sent around; the files that it is about hold passwords and tokens. Called by [`crate::report`] with
//! every directive of every original. Invariant: of a directive that seems to hold a secret, only its name is shown,
//! and the name of the field or variable that it sets.

use thalweg_core::credentials::may_be_secret;

/// Directives whose arguments are secrets.
const SECRETS: &[&str] = &["secure_link_md5", "secure_link_secret"];
/// What authentication schemes begin with.
const SCHEMES: &[&str] = &["basic", "bearer", "digest", "token", "negotiate"];

/// A directive on one line, or its name alone where the rest may be or contain a secret.
pub(crate) fn without_secrets(directive: &str) -> String {
    let words: Vec<&str> = directive.split_whitespace().collect();
    let Some((name, arguments)) = words.split_first() else { return String::new() };
    let ends = if directive.ends_with("{ … }") { " { … }" } else { "" };
    if !arguments.is_empty() && SECRETS.contains(name) {
        return format!("{name} …{ends}");
    }
    // `proxy_set_header X-Token "…"` and `set $token …`: what follows the name is its value.
    let names_secret = |at: &usize| may_be_secret(bare(arguments[*at])) && is_name(bare(arguments[*at]));
    let is_value = |at: usize| arguments.get(at + 1).is_some_and(|value| !is_reference(value));
    if let Some(at) = (0..arguments.len()).filter(names_secret).find(|at| is_value(*at)) {
        return format!("{name} {} …{ends}", arguments[..=at].join(" "));
    }
    match arguments.iter().any(|word| holds_secret(bare(word))) || has_scheme(arguments) {
        true => format!("{name} …{ends}"),
        false => directive.to_owned(),
    }
}

/// A word without quotes and the sign of a variable.
fn bare(word: &str) -> &str {
    word.trim_matches(['"', '\'', ';']).trim_start_matches(['$', '(', '+', '-'])
}

/// Whether a word is the name of a field or a variable, rather than a path, a size or an expression.
fn is_name(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Whether a value only names where it comes from: `$http_authorization`, `{env.TOKEN}`, `{ … }`, an option.
fn is_reference(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'', ';']);
    let is_variable = value.strip_prefix('$').is_some_and(|name| is_name(name.trim_matches(['{', '}'])));
    is_variable || value.starts_with('{') || value.starts_with("%[") || value.is_empty()
}

/// A hash of a password, a URL with a user, or a parameter of a query with the name and the value of a secret.
fn holds_secret(word: &str) -> bool {
    let is_hash = ["2a$", "2b$", "2y$", "argon2"].iter().any(|start| word.starts_with(start));
    let authority = word.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    let parameters = word.split_once('?').into_iter().flat_map(|(_, query)| query.split('&'));
    let mut pairs = parameters.filter_map(|pair| pair.split_once('='));
    is_hash
        || authority.is_some_and(|authority| authority.contains('@'))
        || pairs.any(|(name, value)| may_be_secret(name) && !is_reference(value))
}

/// `Bearer` with a value behind it.
fn has_scheme(arguments: &[&str]) -> bool {
    arguments.windows(2).any(|pair| {
        let is_scheme = SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(bare(pair[0])));
        is_scheme && pair[0].starts_with(['"', '\'']) && !is_reference(pair[1])
    })
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn of_a_directive_with_a_secret_only_the_name_is_shown() {
        for (directive, shown) in [
            (r#"proxy_set_header Authorization "Bearer hunter2""#, "proxy_set_header Authorization …"),
            ("proxy_set_header X-Api-Key hunter2", "proxy_set_header X-Api-Key …"),
            ("proxy_pass http://ada:hunter2@10.0.0.1:80/", "proxy_pass …"),
            (r#"secure_link_md5 "$secure_link_expires$uri hunter2""#, "secure_link_md5 …"),
            ("return 301 https://a.test/?token=hunter2", "return …"),
            ("set $api_token hunter2", "set $api_token …"),
            (r#"http-request set-header X-A "Basic hunter2""#, "http-request …"),
            ("header_up Authorization hunter2", "header_up Authorization …"),
            ("ada $2a$14$hunter2", "ada …"),
            ("user ada password $5$hunter2", "user ada password …"),
        ] {
            assert_eq!(without_secrets(directive), shown);
        }
    }

    #[test]
    fn other_directives_are_shown_as_they_are() {
        for directive in [
            "proxy_set_header Authorization $http_authorization",
            r#"proxy_set_header Connection """#,
            "proxy_set_header Host $host",
            "proxy_pass http://127.0.0.1:9001",
            "ssl_certificate_key /etc/ssl/a.key",
            "auth_basic_user_file /etc/nginx/users",
            "return 301 https://$host$request_uri",
            "location /token { … }",
            "basicauth /admin { … }",
            "user nobody",
            "add_header Set-Cookie $cookie",
            "",
        ] {
            assert_eq!(without_secrets(directive), directive);
        }
    }
}
