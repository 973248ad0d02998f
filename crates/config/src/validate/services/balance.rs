//! `balance`, `slow_start` and `panic_threshold`: how one endpoint is chosen.

use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::source::Span;
use crate::spec::{BalanceSpec, HashSpec, ServiceSpec, Spanned};
use crate::validate::key::key;
use crate::validate::{duration, percent};
use std::time::Duration;
use thalweg_balance::{BALANCERS, Balancer, RENDEZVOUS_ADVISED, balancer};
use thalweg_upstream::BalancePolicy;

/// The algorithm of `hash:` that is not named.
const KEYED_DEFAULT: &str = "ring";
/// How endpoints are chosen, of which there are `endpoints`.
pub(super) fn balance(spec: &ServiceSpec, endpoints: usize, problems: &mut Problems) -> BalancePolicy {
    let hour = Duration::from_secs(3600);
    let slow_start = duration(spec.slow_start.as_ref(), Duration::from_millis(100), hour, problems);
    let panic_threshold = percent(spec.panic_threshold.as_ref(), 0, 100, problems).unwrap_or_default();
    let policy = match &spec.balance {
        None => BalancePolicy::default(),
        Some(Spanned { value: BalanceSpec::Name(name), span }) => {
            let algorithm = by_name(&Spanned::new(*span, name.clone()), problems);
            BalancePolicy { algorithm, ..BalancePolicy::default() }
        }
        Some(Spanned { value: BalanceSpec::Hash(hash), span }) => {
            if let Some(slow_start) = &spec.slow_start {
                let message = "`slow_start` cannot be combined with `balance: { hash: … }`";
                let error = SpecError::new(Class::Invalid, slow_start.span, message)
                    .related(*span, "the key chooses the endpoint here")
                    .help("remove `slow_start`: keys would move to other endpoints while it lasts");
                problems.push(error);
            }
            by_key(hash, *span, endpoints, problems)
        }
    };
    BalancePolicy { slow_start, panic_threshold, ..policy }
}

fn by_name(name: &Spanned<String>, problems: &mut Problems) -> &'static Balancer {
    let found = balancer(name);
    if let Some(found) = found.filter(|found| !found.needs.key) {
        return found;
    }
    if found.is_some() || name.value == "hash" {
        let algorithm = match name.as_str() {
            KEYED_DEFAULT | "hash" => String::new(),
            other => format!(", algorithm: {other}"),
        };
        let message = format!("`{}` needs to know what of a request it goes by", name.value);
        let help = format!("write `balance: {{ hash: {{ on: client_ip{algorithm} }} }}`");
        problems.push(SpecError::value(name.span, "balancer", message).help(help));
    } else {
        unknown(name, |_| true, problems);
    }
    BalancePolicy::default().algorithm
}

fn by_key(spec: &HashSpec, span: Span, endpoints: usize, problems: &mut Problems) -> BalancePolicy {
    let default = Spanned::new(span, KEYED_DEFAULT.to_owned());
    let name = spec.algorithm.as_ref().unwrap_or(&default);
    let mut policy = BalancePolicy {
        key: Some(key(&spec.on, problems)),
        bounded_load: percent(spec.bounded_load.as_ref(), 101, 1000, problems),
        ..BalancePolicy::default()
    };
    match balancer(name) {
        Some(found) if found.needs.key => policy.algorithm = found,
        Some(_) => {
            let message = format!("`{}` does not go by a key", name.value);
            let help = format!("write `balance: {}`, without `hash`, or another algorithm", name.value);
            problems.push(SpecError::value(name.span, "balancer", message).help(help));
        }
        None => unknown(name, |entry| entry.needs.key, problems),
    }
    if name.value == "rendezvous" && endpoints > RENDEZVOUS_ADVISED {
        let message = format!(
            "`rendezvous` looks at every endpoint for every request; it is meant for up to {RENDEZVOUS_ADVISED}"
        );
        let warning = SpecError::new(Class::Warning, name.span, message)
            .label(format!("the service has {endpoints}"))
            .help("`ring` and `maglev` take as long with many endpoints as with few");
        problems.push(warning);
    }
    policy
}

fn unknown(name: &Spanned<String>, may_stand: fn(&Balancer) -> bool, problems: &mut Problems) {
    let names: Vec<&str> =
        BALANCERS.iter().filter(|entry| may_stand(entry)).map(|entry| entry.name).collect();
    let error = SpecError::value(name.span, "balancer", format!("unknown balancer `{}`", name.value))
        .class(Class::Unknown)
        .maybe_help(suggest(name, "balancers", &names));
    problems.push(error);
}
