//! `discover`, `scheme`, `subset` and `prefer`.

use crate::diagnose::{Class, Problems, SpecError};
use crate::settings::Discover;
use crate::spec::{NamedSpec, PreferSpec, SchemeSpec, ServiceSpec, Spanned};
use crate::validate::percent;
use crate::validate::secret::{FilesAt, Secrets};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use thalweg_core::written::Partly;
use thalweg_upstream::{
    Address, DiscoverPolicy, Endpoint, EndpointLimits, LABEL, LABELS, Labels, Mode, PreferPolicy,
};

/// The share of a zone that has to be well, in percent.
const SPILL_OVER: u32 = 50;

/// Where further endpoints of a service come from: for its plan, and for who asks there.
pub(super) fn discover(
    spec: &ServiceSpec,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<(DiscoverPolicy, Discover)> {
    let Some(written) = &spec.discover else {
        let of_source = [
            ("scheme", spec.scheme.as_ref().map(|scheme| scheme.span)),
            ("subset", spec.subset.0.first().map(|(name, _)| name.span)),
        ];
        for (key, span) in of_source {
            let Some(span) = span else { continue };
            let message = format!("`{key}` is for endpoints that a source finds, and there is no `discover`");
            problems.push(SpecError::new(Class::Invalid, span, message).help(format!("remove `{key}`")));
        }
        return None;
    };
    let source = written.value.build(&FilesAt(secrets, written.span));
    let source = source.map_err(|message| problems.push(SpecError::value(written.span, "source", message)));
    let (source, subset) = (source.ok()?, labels(&spec.subset, problems));
    let scheme = match spec.scheme.as_ref().map(|scheme| scheme.value).unwrap_or_default() {
        SchemeSpec::Http => "http",
        SchemeSpec::Https => "https",
        SchemeSpec::Tcp => "tcp",
        SchemeSpec::Udp => "udp",
    };
    let id = thalweg_discovery::id(&*source);
    let words = Partly::of(thalweg_discovery::words(&*source), &id);
    let policy = DiscoverPolicy { source: words, scheme, subset };
    Some((policy, Discover { source, id, written: Vec::new(), is_added: false }))
}

/// In the place of endpoints that are not known yet, where it matters what is spoken with them.
pub(crate) fn stand_in(scheme: &str) -> Endpoint {
    Endpoint {
        url: format!("{scheme}://192.0.2.1:1").into(),
        address: Address::Socket(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 1))),
        weight: 1,
        tier: 0,
        mode: Mode::default(),
        labels: Labels::default(),
        limits: EndpointLimits::default(),
        is_added: false,
    }
}

/// Names and values.
pub(super) fn labels(spec: &NamedSpec<Spanned<String>>, problems: &mut Problems) -> Labels {
    if let Some((name, _)) = spec.0.get(LABELS) {
        let message = format!("an endpoint has at most {LABELS} labels");
        problems.push(SpecError::new(Class::Invalid, name.span, message));
    }
    for (name, value) in &spec.0 {
        for (what, text) in [("name", name), ("value", value)] {
            if text.len() > LABEL || (what == "name" && text.is_empty()) {
                let message = format!("the {what} of a label has 1 to {LABEL} bytes");
                problems.push(SpecError::value(text.span, "label", message));
            }
        }
    }
    spec.0.iter().map(|(name, value)| (name.value.as_str(), value.value.as_str())).collect()
}

/// Which endpoints are used rather than others.
pub(super) fn prefer(spec: Option<&Spanned<PreferSpec>>, problems: &mut Problems) -> Option<PreferPolicy> {
    let spec = &spec?.value;
    if spec.zone.is_empty() || spec.zone.len() > LABEL {
        let message = format!("a zone has 1 to {LABEL} bytes");
        problems.push(SpecError::value(spec.zone.span, "zone", message));
    }
    let spill_over = percent(spec.spill_over.as_ref(), 1, 100, problems).unwrap_or(SPILL_OVER);
    Some(PreferPolicy { zone: Arc::from(spec.zone.as_str()), spill_over })
}
