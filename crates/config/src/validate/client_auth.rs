//! `client_auth:` files of authorities and of revoked certificates are read here, and what is wrong with one is told at
//! the line that names it.

use super::secret::Secrets;
use super::tls::file;
use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{ClientAuthModeSpec, ClientAuthSpec, CrlUnknownSpec, ForwardSpec, ListSpec, Spanned};
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_tls::{ClientAuth, ClientAuthError, ClientMode, ClientPolicy, Told};

/// Most files of revoked certificates.
const LISTS: usize = 100;

/// What a listener asks of clients. What certificates have in common is read, and complained about, once.
#[derive(Default)]
pub(super) struct ClientAuths(HashMap<String, Option<Arc<ClientAuth>>>);

impl ClientAuths {
    /// Reads the files. `None` when something keeps it from being used.
    pub(super) fn read(
        &mut self,
        spec: &ClientAuthSpec,
        secrets: &Secrets<'_>,
        problems: &mut Problems,
    ) -> Option<Arc<ClientAuth>> {
        // Without the places.
        let paths = |list: &Spanned<ListSpec<String>>| {
            list.value.items.iter().map(|path| path.value.clone()).collect::<Vec<_>>()
        };
        let forward = spec.forward.as_ref().map(|list| told(list, &mut Problems::default()));
        let unknown = spec.crl_unknown.map(|unknown| unknown.value);
        let key =
            format!("{:?}", (spec.mode, &spec.ca.value, spec.crl.as_ref().map(paths), unknown, forward));
        self.0.entry(key).or_insert_with(|| read(spec, secrets, problems)).clone()
    }
}

fn read(spec: &ClientAuthSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<Arc<ClientAuth>> {
    let authorities = file(&spec.ca, "the CA file", secrets, problems);
    let revocations = spec.crl.as_ref().map_or(Some(Vec::new()), |list| lists(list, secrets, problems));
    let told = match &spec.forward {
        Some(list) => told(list, problems),
        None => Some(Told { subject: true, ..Told::default() }),
    };
    if let (Some(unknown), None) = (&spec.crl_unknown, &spec.crl) {
        let message = "`crl_unknown` means nothing without `crl`";
        let error = SpecError::new(Class::Invalid, unknown.span, message);
        problems.push(error.help("add `crl: [ revoked.pem ]`, or remove the key"));
        return None;
    }
    let policy = ClientPolicy {
        mode: match spec.mode {
            Some(ClientAuthModeSpec::Optional) => ClientMode::Optional,
            Some(ClientAuthModeSpec::Required) | None => ClientMode::Required,
        },
        authorities: authorities?.into(),
        revocations: revocations?,
        allow_unknown: spec.crl_unknown.is_some_and(|unknown| unknown.value == CrlUnknownSpec::Allow),
        told: told?,
    };
    let flaw = match ClientAuth::new(policy) {
        Ok(auth) => return Some(Arc::new(auth)),
        Err(flaw) => flaw,
    };
    let (path, what, help) = match &flaw {
        ClientAuthError::Authorities(_) => {
            (&spec.ca, "the CA file", "a PEM file with the certificates of authorities is needed")
        }
        ClientAuthError::Revocations(at, _) => {
            let written = spec.crl.as_ref().and_then(|list| list.value.items.get(*at));
            let help = "a PEM file is needed; `openssl crl -inform DER -in FILE -out NEW` makes one of a file in DER";
            (written.unwrap_or(&spec.ca), "the CRL file", help)
        }
    };
    let message = format!("{} {flaw}", secrets.shown(what, path));
    problems.push(SpecError::new(Class::Invalid, path.span, message).help(help));
    None
}

fn lists(
    list: &Spanned<ListSpec<String>>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Vec<Arc<[u8]>>> {
    if list.value.written == 0 {
        let error = SpecError::new(Class::Invalid, list.span, "an empty list revokes nothing");
        problems.push(error.help("remove `crl`: nothing is looked up then"));
        return None;
    }
    if let Some(extra) = list.value.items.get(LISTS) {
        let message = format!("there are at most {LISTS} files of revoked certificates");
        problems.push(SpecError::new(Class::Invalid, extra.span, message));
        return None;
    }
    let read = list.value.items.iter().map(|path| file(path, "the CRL file", secrets, problems));
    // Each of them is looked at, also behind one that is wrong.
    let read: Vec<_> = read.collect();
    let whole = read.len() == list.value.written;
    read.into_iter().map(|file| file.map(Arc::from)).collect::<Option<Vec<_>>>().filter(|_| whole)
}

fn told(list: &Spanned<ListSpec<ForwardSpec>>, problems: &mut Problems) -> Option<Told> {
    let mut told = Told::default();
    for word in &list.value.items {
        let part = match word.value {
            ForwardSpec::Subject => &mut told.subject,
            ForwardSpec::San => &mut told.names,
            ForwardSpec::Fingerprint => &mut told.fingerprint,
            ForwardSpec::Certificate => &mut told.certificate,
        };
        if std::mem::replace(part, true) {
            let error = SpecError::new(Class::Invalid, word.span, "this part is listed twice");
            problems.push(error.help("remove one of the two"));
        }
    }
    (list.value.items.len() == list.value.written).then_some(told)
}
