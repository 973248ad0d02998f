//! What is written of a limit, and what it becomes.

use super::shared::StoreSpec;
use super::{Costs, Limit, MAX_KEYS, RateLimit, Terms, Told, Unit};
use crate::limit_key::{KeySpec, MissingSpec, PrefixSpec};
use crate::{ConfigFiles, Filter, TemplateSpec};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_access::Rate;
use thalweg_core::units::{duration_text, parse_duration, parse_size};

/// Limits of one filter.
const LIMITS: usize = 8;
/// Plans of one limit.
const PLANS: usize = 64;

/// How often requests may come, for each key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `requests`, `per` and `key`")]
pub struct RateLimitSpec {
    /// Requests in each `per`.
    #[schemars(extend("x-range" = [1, 1_000_000_000_000_u64], "x-default-words" = "none: `bytes` is written"))]
    requests: Option<u64>,
    /// Bytes in each `per`, of bodies of requests and responses together, in place of `requests`: `10MB`.
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["10MB"]))]
    #[schemars(extend("x-default-words" = "none: `requests` is written"))]
    bytes: Option<String>,
    /// The time of `requests` or `bytes`.
    #[schemars(extend("x-range" = ["1ms", "31d"], "x-default" = "1s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["1s", "1h"]))]
    per: Option<String>,
    /// Requests, or bytes, that may come at once after a pause.
    #[schemars(extend("x-default-words" = "as many as in `per`"))]
    burst: Option<AmountSpec>,
    /// What is counted by.
    #[schemars(extend("x-default" = "client_ip"))]
    key: Option<KeySpec>,
    /// How many bits of addresses make a key.
    prefix: PrefixSpec,
    /// What becomes of requests without a key.
    #[schemars(extend("x-default" = "share"))]
    missing: Option<MissingSpec>,
    /// What a request costs: a number, or a text with placeholders that gives one.
    #[schemars(extend("x-default" = 1))]
    cost: Option<CostSpec>,
    /// Other values for clients of whom a filter before has verified a claim.
    #[schemars(extend("x-default-words" = "none"))]
    plans: Option<PlansSpec>,
    /// Several limits: all must admit a request, and none is spent if one does not. They take `key`, `prefix` and
    /// `missing` from the filter where they have none.
    #[schemars(extend("x-default-words" = "one, of the keys beside it"))]
    limits: Option<Vec<LimitSpec>>,
    /// Filters of the same name count together, wherever they stand.
    #[schemars(extend("x-default-words" = "each counts by itself"))]
    name: Option<String>,
    /// Keys that are remembered at a time, about, 64 bytes each.
    #[schemars(extend("x-range" = [1, 10_000_000], "x-default" = 100_000))]
    max_keys: Option<usize>,
    /// What clients are told: `RateLimit` and `RateLimit-Policy` (`draft`), `X-RateLimit-*` (`legacy`), `both`, or
    /// nothing but `Retry-After` (`none`).
    #[schemars(extend("x-default" = "draft"))]
    headers: ToldSpec,
    /// Whether requests that it would refuse pass; the access log says so.
    #[schemars(extend("x-default" = false))]
    dry_run: bool,
    /// Where the count is kept that several proxies share.
    #[schemars(extend("x-default-words" = "in this process"))]
    store: Option<StoreSpec>,
}

/// One of several limits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `requests` and `per`")]
pub(super) struct LimitSpec {
    /// Its name in `RateLimit`.
    #[schemars(extend("x-default-words" = "its `per`"))]
    name: Option<String>,
    /// Requests in each `per`.
    #[schemars(extend("x-range" = [1, 1_000_000_000_000_u64], "x-default-words" = "none: `bytes` is written"))]
    requests: Option<u64>,
    /// Bytes in each `per`, of bodies of requests and responses together, in place of `requests`.
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["10MB"]))]
    #[schemars(extend("x-default-words" = "none: `requests` is written"))]
    bytes: Option<String>,
    /// The time of `requests` or `bytes`.
    #[schemars(extend("x-range" = ["1ms", "31d"], "x-default" = "1s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["1s", "1h"]))]
    per: Option<String>,
    /// Requests, or bytes, that may come at once after a pause.
    #[schemars(extend("x-default-words" = "as many as in `per`"))]
    burst: Option<AmountSpec>,
    /// What is counted by.
    #[schemars(extend("x-default-words" = "that of the filter"))]
    key: Option<KeySpec>,
    /// How many bits of addresses make a key.
    #[schemars(extend("x-default-words" = "that of the filter"))]
    prefix: Option<PrefixSpec>,
    /// What becomes of requests without a key.
    #[schemars(extend("x-default-words" = "that of the filter"))]
    missing: Option<MissingSpec>,
    /// What a request costs: a number, or a text with placeholders that gives one.
    #[schemars(extend("x-default" = 1))]
    cost: Option<CostSpec>,
    /// Other values for clients of whom a filter before has verified a claim.
    #[schemars(extend("x-default-words" = "none"))]
    plans: Option<PlansSpec>,
}

/// A number of requests, or a size.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of requests, or a size such as `10MB`")]
pub(super) enum AmountSpec {
    /// Requests.
    Number(u64),
    /// Bytes.
    Size(String),
}

/// What a request costs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number, or a text with placeholders that gives one")]
pub(super) enum CostSpec {
    /// A number.
    Number(u64),
    /// A text that gives one.
    Template(TemplateSpec),
}

/// What clients are told.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToldSpec {
    /// `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers).
    #[default]
    Draft,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    Legacy,
    /// All of these.
    Both,
    /// None of these.
    None,
}

/// Values by the value of a claim: `{ claim: plan, gold: { requests: 1000 }, default: { requests: 10 } }`.
#[derive(Clone, Debug)]
pub(super) struct PlansSpec {
    claim: String,
    plans: BTreeMap<String, PlanSpec>,
}

/// The values of a plan.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `requests`")]
pub(super) struct PlanSpec {
    /// Requests in each `per`.
    #[schemars(extend("x-range" = [1, 1_000_000_000_000_u64], "x-default-words" = "none: `bytes` is written"))]
    requests: Option<u64>,
    /// Bytes in each `per`, in place of `requests`.
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["10MB"]))]
    #[schemars(extend("x-default-words" = "none: `requests` is written"))]
    bytes: Option<String>,
    /// The time of `requests` or `bytes`.
    #[schemars(extend("x-range" = ["1ms", "31d"], "x-default-words" = "that of the limit"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["1s", "1h"]))]
    per: Option<String>,
    /// Requests, or bytes, that may come at once after a pause.
    #[schemars(extend("x-default-words" = "as many as in `per`"))]
    burst: Option<AmountSpec>,
    /// Whether nothing of this plan is counted.
    #[schemars(extend("x-default" = false))]
    unlimited: bool,
}

impl<'de> Deserialize<'de> for PlansSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByClaim)
    }
}

struct ByClaim;

impl<'de> Visitor<'de> for ByClaim {
    type Value = PlansSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with `claim`, and plans by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PlansSpec, A::Error> {
        let (mut claim, mut plans) = (None, BTreeMap::new());
        while let Some(name) = map.next_key::<String>()? {
            if name == "claim" {
                claim = Some(map.next_value()?);
            } else {
                plans.insert(name, map.next_value()?);
            }
        }
        let claim = claim.ok_or_else(|| A::Error::missing_field("claim"))?;
        Ok(PlansSpec { claim, plans })
    }
}

impl JsonSchema for PlansSpec {
    fn schema_name() -> Cow<'static, str> {
        "PlansSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let plan = generator.subschema_for::<PlanSpec>();
        json_schema!({
            "type": "object",
            "description": "Values by the value of a claim; `default` is for all others.",
            "properties": {
                "claim": { "type": "string", "description": "The name of the claim." },
            },
            "required": ["claim"],
            "additionalProperties": plan,
        })
    }
}

impl RateLimitSpec {
    /// Checks the limits.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        let own = LimitSpec {
            name: None,
            requests: self.requests,
            bytes: self.bytes.clone(),
            per: self.per.clone(),
            burst: self.burst.clone(),
            cost: self.cost.clone(),
            plans: self.plans.clone(),
            ..LimitSpec::default()
        };
        let has_own = own.has_values() || own.plans.is_some() || own.cost.is_some();
        let limits = match &self.limits {
            None => vec![own.build(self)?],
            Some(_) if has_own => {
                return Err(
                    "with `limits`, each of them has its own `requests`, `per`, `burst`, `cost` and `plans`"
                        .into(),
                );
            }
            Some(limits) if limits.is_empty() || limits.len() > LIMITS => {
                return Err(format!("`limits` has 1 to {LIMITS} limits"));
            }
            Some(limits) => limits.iter().map(|limit| limit.build(self)).collect::<Result<_, _>>()?,
        };
        let max_keys = self.max_keys.unwrap_or(MAX_KEYS);
        if !(1..=10_000_000).contains(&max_keys) {
            return Err("`max_keys` must be from 1 to 10000000".into());
        }
        let is_of_place = limits.iter().all(|limit| limit.key.is_of_place());
        let (draft, legacy) = match self.headers {
            _ if self.dry_run => (false, false),
            ToldSpec::Draft => (true, false),
            ToldSpec::Legacy => (false, true),
            ToldSpec::Both => (true, true),
            ToldSpec::None => (false, false),
        };
        if self.name.as_ref().is_some_and(|name| name.is_empty() || name.len() > 64) {
            return Err("`name` has 1 to 64 bytes".into());
        }
        if self.store.is_some() && limits.iter().any(|limit| limit.unit == Unit::Bytes) {
            return Err(
                "`bytes` are counted by each proxy for itself: leave out `store`, or count `requests`".into(),
            );
        }
        let max_keys = if is_of_place { max_keys.min(super::PLACES) } else { max_keys };
        let store = self.store.as_ref().map(|store| store.build(files, max_keys)).transpose()?;
        Ok(Arc::new(RateLimit {
            limits: limits.into(),
            name: self.name.as_deref().map(Into::into),
            max_keys,
            store,
            told: Told { draft, legacy },
            is_dry_run: self.dry_run,
            table: OnceLock::new(),
        }))
    }
}

impl LimitSpec {
    fn has_values(&self) -> bool {
        self.requests.is_some() || self.bytes.is_some() || self.per.is_some() || self.burst.is_some()
    }

    fn build(&self, filter: &RateLimitSpec) -> Result<Limit, String> {
        let per = self.per.as_deref().map_or(Ok(Duration::from_secs(1)), parse_duration)?;
        let text = duration_text(per);
        let name = self.name.clone().unwrap_or_else(|| text.clone());
        if name.is_empty()
            || name.len() > 64
            || !name.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte))
        {
            return Err("`name` of a limit has 1 to 64 characters, without quotes".into());
        }
        let base = PlanSpec {
            requests: self.requests,
            bytes: self.bytes.clone(),
            per: None,
            burst: self.burst.clone(),
            unlimited: false,
        };
        let base = match &self.plans {
            Some(plans) if self.requests.is_none() && self.bytes.is_none() => {
                match plans.plans.get("default") {
                    Some(default) => default.clone(),
                    None => {
                        return Err(
                            "`plans` without `default` needs `requests` for clients without a plan".into()
                        );
                    }
                }
            }
            _ => base,
        };
        let unit = if base.bytes.is_some() { Unit::Bytes } else { Unit::Requests };
        let mut terms = vec![base.build(unit, (per, &name))?];
        let mut plans = Vec::new();
        if let Some(written) = &self.plans {
            if written.plans.len() > PLANS || written.claim.is_empty() {
                return Err(format!("`plans` has the name of a claim, and at most {PLANS} plans"));
            }
            for (plan, values) in &written.plans {
                let built = values
                    .build(unit, (per, &name))
                    .map_err(|error| format!("the plan `{plan}`: {error}"))?;
                if plan == "default" {
                    terms[0] = built;
                    continue;
                }
                plans.push((plan.as_str().into(), terms.len() as u16));
                terms.push(built);
            }
        }
        let key = self.key.clone().or_else(|| filter.key.clone()).unwrap_or_else(KeySpec::client_ip);
        let prefix = self.prefix.as_ref().unwrap_or(&filter.prefix);
        let purpose = format!("{unit:?} per {text}");
        Ok(Limit {
            key: key.build(prefix, &purpose)?,
            unit,
            terms: terms.into(),
            claim: self.plans.as_ref().map(|plans| plans.claim.as_str().into()),
            plans: plans.into(),
            cost: self.cost(unit)?,
            missing: self.missing.or(filter.missing).unwrap_or_default(),
            name: name.into(),
        })
    }

    fn cost(&self, unit: Unit) -> Result<Costs, String> {
        Ok(match &self.cost {
            Some(_) if unit == Unit::Bytes => {
                return Err("`cost` is for `requests`: bytes are what a request costs".into());
            }
            None => Costs::Fixed(1),
            Some(CostSpec::Number(cost)) => Costs::Fixed(*cost),
            Some(CostSpec::Template(text)) => {
                let template = text.build()?;
                match template.constant().map(str::parse::<u64>) {
                    None if template.uses_status() => {
                        return Err("`{status}` is not known when a request is counted".into());
                    }
                    None => Costs::Template(template),
                    Some(Ok(number)) => Costs::Fixed(number),
                    Some(Err(_)) => {
                        return Err("`cost` is a number, or a text with placeholders that gives one".into());
                    }
                }
            }
        })
    }
}

impl PlanSpec {
    /// `None`: nothing is counted.
    fn build(&self, unit: Unit, (per, name): (Duration, &str)) -> Result<Option<Terms>, String> {
        if self.unlimited {
            return match (&self.requests, &self.bytes) {
                (None, None) => Ok(None),
                _ => Err("`unlimited` and a limit are one too many".into()),
            };
        }
        let per = self.per.as_deref().map_or(Ok(per), parse_duration)?;
        let units = match (unit, self.requests, &self.bytes) {
            (Unit::Requests, Some(requests), None) => requests,
            (Unit::Bytes, None, Some(size)) => parse_size(size)?,
            (_, Some(_), Some(_)) => {
                return Err("`requests` and `bytes` are two limits: write `limits`, a list".into());
            }
            (Unit::Requests, ..) => return Err("`requests` says how many may come in `per`".into()),
            (Unit::Bytes, ..) => return Err("`bytes` says how many may come in `per`, such as `10MB`".into()),
        };
        let burst = match (unit, &self.burst) {
            (_, None) => units,
            (Unit::Requests, Some(AmountSpec::Number(number))) => *number,
            (Unit::Bytes, Some(AmountSpec::Size(size))) => parse_size(size)?,
            (Unit::Requests, Some(_)) => return Err("`burst` is a number of requests".into()),
            (Unit::Bytes, Some(_)) => return Err("`burst` is a size, such as `10MB`".into()),
        };
        Rate::new(units, per, burst).map(|rate| Some(Terms::new(rate, unit, name)))
    }
}
