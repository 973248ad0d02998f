//! Files in the format of `kubectl`: which API server, and what it is shown.
//!
//! What would run another program (`exec`, `auth-provider`) or act for somebody else is refused, with the remedy. Paths
//! in it begin at the directory of the file.

use super::api::{Api, Token};
use crate::flaw;
use crate::http_servers::server;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;
use std::sync::Arc;
use thalweg_filter::ConfigFiles;
use thalweg_tls::{Certificate, PeerPolicy, Trust};

/// Largest file, in bytes: of `kubectl`, and of certificates and keys.
const SIZE: usize = 1024 * 1024;

#[derive(Deserialize)]
struct KubeconfigSpec {
    #[serde(default)]
    clusters: Vec<KubeNamedClusterSpec>,
    #[serde(default)]
    contexts: Vec<KubeNamedContextSpec>,
    #[serde(default)]
    users: Vec<KubeNamedUserSpec>,
    #[serde(default, rename = "current-context")]
    current_context: String,
}

#[derive(Deserialize)]
struct KubeNamedClusterSpec {
    name: String,
    cluster: KubeClusterSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct KubeClusterSpec {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Deserialize)]
struct KubeNamedContextSpec {
    name: String,
    context: KubeContextSpec,
}

#[derive(Deserialize)]
struct KubeContextSpec {
    cluster: String,
    #[serde(default)]
    user: String,
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct KubeNamedUserSpec {
    name: String,
    #[serde(default)]
    user: KubeUserSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct KubeUserSpec {
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    username: Option<IgnoredAny>,
    exec: Option<IgnoredAny>,
    auth_provider: Option<IgnoredAny>,
    #[serde(rename = "as")]
    acts_as: Option<IgnoredAny>,
}

/// What a file says.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) api: Api,
    /// The namespace of the context.
    pub(super) namespace: Option<String>,
}

/// Reads the file; `context` is the one that is used, else the current one.
///
/// # Errors
/// A sentence that names what is wrong in it.
pub(super) fn read(path: &str, context: Option<&str>, files: &dyn ConfigFiles) -> Result<Login, String> {
    let text = files.read(path, SIZE)?;
    let folder = files.path(path).parent().map(Path::to_owned).unwrap_or_default();
    let beside = Beside { folder: &folder, files };
    parse(&text, context, &beside).map_err(|why| format!("`{path}`: {why}"))
}

fn parse(text: &[u8], context: Option<&str>, beside: &Beside<'_>) -> Result<Login, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the file is not UTF-8".to_owned())?;
    let file: KubeconfigSpec = serde_saphyr::from_str(text)
        .map_err(|error| format!("the file is no configuration of kubectl: {}", flaw::yaml(&error)))?;
    let chosen = context.unwrap_or(&file.current_context);
    if chosen.is_empty() {
        return Err("the file has no `current-context`; write `context`".to_owned());
    }
    let missing = |kind: &str, name: &str| format!("the file has no {kind} `{name}`");
    let context = file.contexts.into_iter().find(|named| named.name == chosen);
    let context = context.ok_or_else(|| missing("context", chosen))?.context;
    let cluster = file.clusters.into_iter().find(|named| named.name == context.cluster);
    let cluster = cluster.ok_or_else(|| missing("cluster", &context.cluster))?.cluster;
    let user = match context.user.as_str() {
        "" => KubeUserSpec::default(),
        name => {
            let user = file.users.into_iter().find(|named| named.name == name);
            user.ok_or_else(|| missing("user", name))?.user
        }
    };
    user.check()?;
    Ok(Login { api: api(&cluster, &user, beside)?, namespace: context.namespace })
}

impl KubeUserSpec {
    /// Refuses what cannot be done here.
    fn check(&self) -> Result<(), String> {
        let flaw = if self.exec.is_some() {
            "the user logs in by a program (`exec`), and none is run"
        } else if self.auth_provider.is_some() {
            "the user logs in by an `auth-provider`, which is not supported"
        } else if self.username.is_some() {
            "the user logs in by a name and a password, which Kubernetes does not take since 1.19"
        } else if self.acts_as.is_some() {
            "the user acts as another (`as`), which is not supported"
        } else {
            return Ok(());
        };
        Err(format!(
            "{flaw}; write a `token`, a `tokenFile` or a client certificate, such as those of a service account"
        ))
    }

    fn token(&self, beside: &Beside<'_>) -> Option<Token> {
        let text = || self.token.as_ref().filter(|token| !token.is_empty());
        match &self.token_file {
            Some(path) => Some(Token::File(beside.path(path))),
            None => text().map(|token| Token::Text(token.clone())),
        }
    }

    fn certificate(&self, beside: &Beside<'_>) -> Result<Option<Arc<Certificate>>, String> {
        let own = ("client-certificate", &self.client_certificate_data, &self.client_certificate);
        let key = ("client-key", &self.client_key_data, &self.client_key);
        match (beside.either(own)?, beside.either(key)?) {
            (None, None) => Ok(None),
            (Some(chain), Some(key)) => {
                let certificate = Certificate::read(&chain, &key);
                Ok(Some(Arc::new(certificate.map_err(|why| format!("the client certificate: {why}"))?)))
            }
            _ => Err("`client-certificate` and `client-key` belong together".to_owned()),
        }
    }
}

fn api(cluster: &KubeClusterSpec, user: &KubeUserSpec, beside: &Beside<'_>) -> Result<Api, String> {
    if cluster.proxy_url.is_some() {
        return Err("the cluster is behind a proxy (`proxy-url`), which is not supported".to_owned());
    }
    let (to, prefix) = server(&cluster.server)?;
    let ca = ("certificate-authority", &cluster.certificate_authority_data, &cluster.certificate_authority);
    let trust = match (beside.either(ca)?, cluster.insecure_skip_tls_verify) {
        (_, true) => Trust::InsecureSkipVerify,
        (Some(pem), false) => Trust::Only(pem.into()),
        (None, false) => Trust::System,
    };
    let policy = PeerPolicy {
        trust,
        server_name: cluster.tls_server_name.clone().filter(|name| !name.is_empty()),
        certificate: user.certificate(beside)?,
        ..PeerPolicy::default()
    };
    Ok(Api::new(cluster.server.clone(), (to, prefix), policy, user.token(beside)))
}

/// Files that are named in a file.
struct Beside<'a> {
    folder: &'a Path,
    files: &'a dyn ConfigFiles,
}

impl Beside<'_> {
    fn path(&self, written: &str) -> std::path::PathBuf {
        self.folder.join(written)
    }

    /// What stands in the file, or in the file that is named there.
    fn either(
        &self,
        (key, data, path): (&str, &Option<String>, &Option<String>),
    ) -> Result<Option<Vec<u8>>, String> {
        let is_there = |text: &&String| !text.is_empty();
        if let Some(data) = data.as_ref().filter(is_there) {
            let data: String = data.split_ascii_whitespace().collect();
            return STANDARD.decode(data).map(Some).map_err(|_| format!("`{key}-data` is not base64"));
        }
        let Some(path) = path.as_ref().filter(is_there) else { return Ok(None) };
        self.files.read(&self.path(path).to_string_lossy(), SIZE).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Folder;

    impl ConfigFiles for Folder {
        fn path(&self, written: &str) -> PathBuf {
            Path::new("/conf").join(written)
        }

        fn read(&self, written: &str, _limit: usize) -> Result<Vec<u8>, String> {
            match written {
                "/home/.kube/ca.crt" => Ok(b"roots".to_vec()),
                _ => Err(format!("`{written}` is not there")),
            }
        }

        fn variable(&self, _name: &str) -> Option<String> {
            None
        }
    }

    fn login(user: &str, cluster: &str, context: Option<&str>) -> Result<Login, String> {
        let text = format!(
            "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: one\n\
             clusters: [{{ name: c, cluster: {cluster} }}]\nusers: [{{ name: u, user: {user} }}]\n\
             contexts:\n- {{ name: one, context: {{ cluster: c, user: u, namespace: shop }} }}\n\
             - {{ name: two, context: {{ cluster: other, user: u }} }}\n"
        );
        parse(text.as_bytes(), context, &Beside { folder: Path::new("/home/.kube"), files: &Folder })
    }

    const PLAIN: &str = "{ server: 'https://10.0.0.1:6443/prefix' }";

    #[test]
    fn a_context_names_the_server_the_namespace_and_the_user() {
        let login =
            login("{ token: s3cret }", "{ server: 'https://a:6443/x', certificate-authority: ca.crt }", None);
        let login = login.unwrap();
        assert_eq!(login.namespace.as_deref(), Some("shop"));
        assert_eq!(login.api.place(), "https://a:6443/x");
        let shown = format!("{:?} {}", login, login.api.group());
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn what_another_program_would_do_is_refused_with_the_remedy() {
        for (user, word) in [
            ("{ exec: { apiVersion: client.authentication.k8s.io/v1, command: aws } }", "`exec`"),
            ("{ auth-provider: { name: gcp } }", "`auth-provider`"),
            ("{ username: a, password: b }", "password"),
            ("{ token: t, as: admin }", "`as`"),
        ] {
            let why = login(user, PLAIN, None).unwrap_err();
            assert!(why.contains(word) && why.contains("service account"), "{why}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (user, cluster, context, word) in [
            ("{}", PLAIN, Some("three"), "no context `three`"),
            ("{}", PLAIN, Some("two"), "no cluster `other`"),
            ("{}", "{ server: 10.0.0.1 }", None, "`10.0.0.1`"),
            ("{}", "{ server: 'https://a', proxy-url: 'http://p' }", None, "`proxy-url`"),
            ("{}", "{ server: 'https://a', certificate-authority: none }", None, "/home/.kube/none"),
            ("{}", "{ server: 'https://a', certificate-authority-data: '?' }", None, "not base64"),
            ("{ client-certificate-data: YQ== }", PLAIN, None, "belong together"),
            ("{ client-certificate-data: YQ==, client-key-data: YQ== }", PLAIN, None, "client certificate:"),
        ] {
            let why = login(user, cluster, context).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
        let nothing = parse(b"{}", None, &Beside { folder: Path::new("/"), files: &Folder }).unwrap_err();
        assert!(nothing.contains("current-context"), "{nothing}");
    }
}
