//! What a provider says of itself (OpenID Connect Discovery 1.0 §3).

use crate::jwt::object;
use serde_json::Value;
use thalweg_http::HttpUrl;

/// A provider's endpoints.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// As tokens have it.
    pub issuer: String,
    /// Where browsers go to log in.
    pub authorization: HttpUrl,
    /// Where codes become tokens.
    pub token: HttpUrl,
    /// Where its keys are.
    pub keys: HttpUrl,
    /// Where browsers go to log out.
    pub end_session: Option<HttpUrl>,
    /// Whether a client sends its secret in the form rather than in `Authorization`.
    pub secret_in_form: bool,
    /// Whether callbacks name the issuer (RFC 9207).
    pub names_itself: bool,
}

impl Metadata {
    /// Reads the document of `issuer`. Endpoints without TLS are allowed where the issuer itself has none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &[u8], issuer: &str) -> Result<Self, String> {
        let document = object(text).map_err(|why| format!("it has {why}"))?;
        let is_plain = issuer.starts_with("http://");
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        let url = |name: &str| match text(name) {
            None => Ok(None),
            Some(written) => match HttpUrl::parse(written) {
                Ok(url) if url.tls() || is_plain => Ok(Some(url)),
                Ok(_) => Err(format!("its `{name}` is without TLS")),
                Err(why) => Err(format!("its `{name}` is no URL: {why}")),
            },
        };
        let needed = |name: &str| url(name)?.ok_or_else(|| format!("it has no `{name}`"));
        // Discovery §4.3: exactly the issuer that was asked, or it speaks for another.
        match text("issuer") {
            Some(named) if named == issuer => {}
            Some(_) => {
                return Err(
                    "it names another issuer; `issuer` must be written exactly as it stands there".into()
                );
            }
            None => return Err("it has no `issuer`".into()),
        }
        let list = |name: &str| document.get(name).and_then(Value::as_array);
        let supports = |name: &str| {
            list("token_endpoint_auth_methods_supported")
                .is_some_and(|methods| methods.iter().any(|method| method == name))
        };
        let no_pkce = list("code_challenge_methods_supported")
            .is_some_and(|known| !known.iter().any(|it| it == "S256"));
        if no_pkce {
            return Err("it does not know PKCE with S256".into());
        }
        Ok(Self {
            issuer: issuer.to_owned(),
            authorization: needed("authorization_endpoint")?,
            token: needed("token_endpoint")?,
            keys: needed("jwks_uri")?,
            end_session: url("end_session_endpoint")?,
            secret_in_form: supports("client_secret_post") && !supports("client_secret_basic"),
            names_itself: document.get("authorization_response_iss_parameter_supported")
                == Some(&Value::Bool(true)),
        })
    }
}
