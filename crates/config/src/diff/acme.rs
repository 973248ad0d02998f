//! What is asked of an authority, as fields of a listener.

use super::fields::{Fields, list};
use thalweg_tls::{AcmeChallenge, AcmePolicy, DnsHook, DnsHookBy, OnDemandPolicy};

/// Every key of `tls.acme`.
pub(super) fn acme(policy: &AcmePolicy, fields: &mut Fields) {
    let AcmePolicy {
        email,
        challenge,
        domains,
        directory,
        directory_ca,
        key_type,
        eab,
        dns,
        on_demand,
        profile,
    } = policy;
    fields.put("tls.acme.email", email);
    let challenge = match challenge {
        AcmeChallenge::Http => "http",
        AcmeChallenge::TlsAlpn => "tls_alpn",
        AcmeChallenge::Dns => "dns",
    };
    fields.put("tls.acme.challenge", challenge);
    fields.put("tls.acme.domains", list(domains));
    fields.behind("tls.acme.directory", directory, directory.text());
    if let Some(pem) = directory_ca {
        fields.secret("tls.acme.directory_ca", pem.escape_ascii());
    }
    fields.put("tls.acme.key_type", key_type.name());
    if let Some(eab) = eab {
        fields.put("tls.acme.eab.key_id", &eab.key_id);
        fields.secret("tls.acme.eab.hmac", eab.hmac.escape_ascii());
    }
    dns.iter().for_each(|hook| dns_hook(hook, fields));
    if let Some(OnDemandPolicy { allow, ask, per_hour }) = on_demand {
        fields.put("tls.acme.on_demand.allow", list(allow));
        if let Some(ask) = ask {
            fields.behind("tls.acme.on_demand.ask", ask, ask.text());
        }
        fields.put("tls.acme.on_demand.per_hour", per_hour);
    }
    fields.maybe("tls.acme.profile", profile.as_ref());
}

/// Arguments of a program are often secret, as paths of URLs are.
fn dns_hook(hook: &DnsHook, fields: &mut Fields) {
    let DnsHook { by, timeout, propagation } = hook;
    match by {
        DnsHookBy::Exec(command) => {
            let program = command.first().map(String::as_str).unwrap_or_default();
            fields.behind("tls.acme.dns.exec", program, format_args!("{command:?}"));
        }
        DnsHookBy::Webhook { url, secret } => {
            fields.behind("tls.acme.dns.webhook.url", url, url.text());
            if let Some(secret) = secret {
                fields.secret("tls.acme.dns.webhook.secret", secret.reveal().escape_ascii());
            }
        }
    }
    fields.time("tls.acme.dns.timeout", *timeout);
    fields.time("tls.acme.dns.propagation", *propagation);
}
