//! `retry:` of the services and of the defaults that they inherit.

use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{GrpcStatusSpec, HedgeSpec, ListSpec, RetrySpec, Spanned, SwitchSpec};
use crate::validate::statuses::{RETRIED, statuses};
use crate::validate::{deadline, duration, number, percent};
use std::time::Duration;
use thalweg_upstream::{GrpcStatuses, HedgePolicy, RetryPolicy, Statuses};

/// Most attempts for one request.
const ATTEMPTS: u32 = 10;
/// Copies in percent of all requests, where it is not written.
const HEDGE_BUDGET: u32 = 5;

/// Retries as far as they are written at one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retries {
    attempts: Option<u32>,
    statuses: Option<Statuses>,
    grpc_statuses: Option<GrpcStatuses>,
    per_try_timeout: Option<Duration>,
    budget: Option<u32>,
    min_retries_per_second: Option<u32>,
    /// `Some(None)`: switched off here, whatever the defaults say.
    hedge: Option<Option<HedgePolicy>>,
}

impl Retries {
    /// Those of `retry:`.
    pub(crate) fn read(spec: &RetrySpec, problems: &mut Problems) -> Self {
        Self {
            attempts: number(spec.attempts.as_ref(), 1, ATTEMPTS, problems),
            statuses: spec.statuses.as_ref().map(|list| statuses(list, &RETRIED, problems)),
            grpc_statuses: spec.grpc_statuses.as_ref().map(grpc_statuses),
            per_try_timeout: deadline(spec.per_try_timeout.as_ref(), problems),
            budget: percent(spec.budget.as_ref(), 0, 1000, problems),
            min_retries_per_second: number(spec.min_retries_per_second.as_ref(), 0, 1_000_000, problems),
            hedge: spec.hedge.as_ref().and_then(|spec| hedge(spec, problems)),
        }
    }

    /// What the service says, then what the defaults say, then what is built in.
    pub(crate) fn resolve(&self, defaults: &Self) -> RetryPolicy {
        let built_in = RetryPolicy::default();
        RetryPolicy {
            attempts: self.attempts.or(defaults.attempts).unwrap_or(built_in.attempts),
            statuses: self.statuses.clone().or_else(|| defaults.statuses.clone()).unwrap_or_default(),
            grpc_statuses: self.grpc_statuses.or(defaults.grpc_statuses).unwrap_or_default(),
            per_try_timeout: self.per_try_timeout.or(defaults.per_try_timeout),
            budget: self.budget.or(defaults.budget).unwrap_or(built_in.budget),
            min_retries_per_second: self
                .min_retries_per_second
                .or(defaults.min_retries_per_second)
                .unwrap_or(built_in.min_retries_per_second),
            hedge: self.hedge.or(defaults.hedge).flatten(),
        }
    }
}

fn grpc_statuses(list: &ListSpec<GrpcStatusSpec>) -> GrpcStatuses {
    GrpcStatuses::new(list.items.iter().map(|status| status.value as u8))
}

fn hedge(spec: &Spanned<SwitchSpec<HedgeSpec>>, problems: &mut Problems) -> Option<Option<HedgePolicy>> {
    match &spec.value {
        SwitchSpec::Off => Some(None),
        SwitchSpec::On => {
            let error = SpecError::new(Class::Invalid, spec.span, "the key `after` is missing in `hedge`")
                .help(
                    "write `hedge: { after: 50ms }`, about the latency that 95 % of the requests stay below",
                );
            problems.push(error);
            None
        }
        SwitchSpec::With(spec) => {
            let (ms, minute) = (Duration::from_millis(1), Duration::from_secs(60));
            let budget = percent(spec.budget.as_ref(), 1, 100, problems).unwrap_or(HEDGE_BUDGET);
            let after = duration(Some(&spec.after), ms, minute, problems)?;
            Some(Some(HedgePolicy { after, budget }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_grpc_are_those_of_their_names() {
        let all = [GrpcStatusSpec::Cancelled, GrpcStatusSpec::Unavailable, GrpcStatusSpec::Unauthenticated];
        let set = GrpcStatuses::new(all.map(|status| status as u8));
        assert_eq!(set.to_string(), "[cancelled, unavailable, unauthenticated]");
    }

    #[test]
    fn a_service_inherits_key_by_key() {
        let hedge = HedgePolicy { after: Duration::from_millis(50), budget: 5 };
        let defaults = Retries {
            attempts: Some(4),
            statuses: Some(Statuses::new(vec![503..=503])),
            budget: Some(10),
            hedge: Some(Some(hedge)),
            ..Retries::default()
        };
        let own = Retries { attempts: Some(3), statuses: Some(Statuses::default()), ..Retries::default() };
        let expected = RetryPolicy { attempts: 3, budget: 10, hedge: Some(hedge), ..RetryPolicy::default() };
        assert_eq!(own.resolve(&defaults), expected);
        let without = Retries { hedge: Some(None), ..Retries::default() };
        assert_eq!(without.resolve(&defaults).hedge, None);
        assert_eq!(Retries::default().resolve(&Retries::default()), RetryPolicy::default());
    }
}
