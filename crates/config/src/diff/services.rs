//! Services and their endpoints as objects.

use super::describe::{certificate_text, named};
use super::fields::{Fields, Times, list};
use super::{Object, ObjectKind};
use sha2::{Digest, Sha256};
use thalweg_tls::{PeerPolicy, Trust};
use thalweg_upstream::{Endpoint, Service};

/// A service, then its endpoints.
pub(super) fn describe<'a>(service: &'a Service, objects: &mut Vec<Object<'a>>) {
    let endpoints = &service.endpoints;
    let summary = move || list(endpoints.iter().map(|endpoint| &endpoint.url));
    objects.push(named(ObjectKind::Service, &service.name, summary, move |fields| {
        service_fields(service, fields)
    }));
    let mut times = Times::default();
    for endpoint in endpoints {
        // Should the same URL be there twice, both are told.
        let again = times.before(&endpoint.url);
        let mut object = self::endpoint(endpoint);
        object.id = format!("{} {again}", object.id).into();
        object.service = Some(&service.name);
        objects.push(object);
    }
}

/// Everything but its endpoints.
pub(super) fn service_fields(service: &Service, fields: &mut Fields) {
    fields.all("", service);
    service.tls.iter().for_each(|tls| security(tls.policy(), fields));
}

fn endpoint(endpoint: &Endpoint) -> Object<'_> {
    let summary = move || format!("weight {}", endpoint.weight);
    named(ObjectKind::Endpoint, &endpoint.url, summary, move |fields| fields.all("", endpoint))
}

fn security(policy: &PeerPolicy, fields: &mut Fields) {
    // What is agreed on above TLS is not configured.
    let PeerPolicy { trust, server_name, certificate, min_version, resumption } = policy;
    match trust {
        Trust::System => fields.put("tls.ca", "system"),
        Trust::Only(pem) => {
            let digest: String = Sha256::digest(pem).iter().map(|byte| format!("{byte:02x}")).collect();
            fields.behind("tls.ca", format_args!("sha256 {}…", &digest[..16]), &digest);
        }
        Trust::InsecureSkipVerify => {}
    }
    fields.maybe("tls.server_name", server_name.as_ref());
    if let Some(certificate) = certificate {
        let text = certificate_text(certificate);
        fields.behind("tls.cert", text, format_args!("{:?}", certificate.whole_digest()));
    }
    fields.put("tls.min_version", min_version);
    fields.put("tls.resumption", resumption);
    fields.put("tls.insecure_skip_verify", *trust == Trust::InsecureSkipVerify);
}
