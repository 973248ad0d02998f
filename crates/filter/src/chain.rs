//! The filters of a route towards one of its services, as they are called.

use crate::fields::FieldView;
use crate::filter::{Fetched, JobResult};
use crate::identity::Identity;
use crate::request::EndCx;
use crate::when::When;
use crate::{CacheRule, Facts, Filter, Hooks, Moves, RequestCx, ResponseCx, TrailerRule, Verdict, map_back};
use std::fmt;
use std::sync::Arc;
use thalweg_core::Fault;

/// A filter of a chain, and when it is called.
#[derive(Clone, Debug)]
pub struct Step {
    /// The filter.
    pub filter: Arc<dyn Filter>,
    /// All must fit; none: always.
    pub when: Vec<Arc<When>>,
    /// The digests of both as written; `None`: they are not from a configuration.
    pub written: Option<Written>,
}

/// Digests of a filter and its conditions as written. Within one process equal texts have equal digests, also across
/// configurations.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Written {
    /// Of the filter's name and its whole argument, secrets included.
    pub argument: [u8; 32],
    /// Of its conditions in their order; zeros: none.
    pub when: [u8; 32],
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written")
    }
}

impl Step {
    /// A filter that is always called.
    pub fn always(filter: Arc<dyn Filter>) -> Self {
        Self { filter, when: Vec::new(), written: None }
    }

    /// Whether no request passes it.
    pub fn answers(&self) -> bool {
        self.when.is_empty() && self.filter.answers()
    }

    /// The word in the configuration.
    pub fn name(&self) -> &'static str {
        self.filter.name()
    }

    /// The filter's argument, and its condition, on one line.
    pub fn argument(&self) -> String {
        let mut text = self.filter.argument();
        for (at, when) in self.when.iter().enumerate() {
            text.push_str(if at == 0 { " when " } else { " and " });
            text.push_str(&when.to_string());
        }
        text
    }
}

/// Filters in their order.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    steps: Arc<[Step]>,
    /// What each of them takes part in.
    each: Arc<[Hooks]>,
    hooks: Hooks,
    /// The first one that bridges gRPC-Web.
    bridge: Option<usize>,
    /// Those that cache, by their positions; `None`: none does.
    caches: Option<Arc<[CacheStep]>>,
    /// The rule for dropped request trailers; `None`: all trailers are forwarded.
    trailers: Option<Arc<TrailerRule>>,
}

/// A filter that caches: its position, and how.
type CacheStep = (usize, Arc<CacheRule>);

impl Chain {
    /// These filters; where one moves requests and none says anything of the way back, one more for that.
    pub fn new(mut steps: Vec<Step>) -> Self {
        steps.retain(|step| step.filter.moves() != Moves::BackImplied);
        let any = |moves| steps.iter().any(|step| step.filter.moves() == moves);
        if any(Moves::Request) && !any(Moves::Back) {
            steps.push(Step::always(map_back::implied()));
        }
        let each: Arc<[Hooks]> = steps.iter().map(|step| step.filter.hooks()).collect();
        let hooks = each.iter().fold(Hooks::NONE, |all, own| all | *own);
        let bridge = steps.iter().position(|step| step.filter.bridges_grpc_web());
        let verifies = steps.iter().any(|step| step.filter.verifies());
        let rules = (0..).zip(&steps).filter_map(|(at, step)| Some((at, step.filter.cache()?)));
        let rules = rules.map(|(at, rule)| (at, if verifies { rule.behind_auth() } else { rule }));
        let caches: Arc<[_]> = rules.collect();
        let caches = (!caches.is_empty()).then_some(caches);
        let own = steps.iter().flat_map(|step| step.filter.own_fields());
        let trailers = TrailerRule::new(own, steps.iter().any(|step| step.filter.may_own_others()));
        Self { steps: steps.into(), each, hooks, bridge, caches, trailers: trailers.map(Arc::new) }
    }

    /// The filters of several lists, one after the other. Of those that cache only the ones in the last list that has
    /// any do, the closest to the service. The others keep their places: an exchange may go on in another chain that
    /// begins with the same lists, and finds there what it knows by position.
    pub fn joined(lists: &[&[Step]]) -> Self {
        let caches = |list: &&[Step]| list.iter().any(|step| step.filter.cache().is_some());
        let closest = lists.iter().rposition(caches).unwrap_or(0);
        let implied = |step: &&Step| step.filter.moves() == Moves::BackImplied;
        let kept = lists.iter().take(closest).flat_map(|list| list.iter()).filter(|step| !implied(step));
        let first = kept.count();
        let whole = Self::new(lists.concat());
        let rules = whole.caches.iter().flat_map(|rules| rules.iter()).filter(|(at, _)| *at >= first);
        let caches: Arc<[_]> = rules.cloned().collect();
        Self { caches: (!caches.is_empty()).then_some(caches), ..whole }
    }

    /// The same filters, which cache in this space unless they name one: the name of a route. `service`: where requests
    /// of the route may go to several, the one that those of this chain go to; what they store is kept apart.
    #[must_use]
    pub fn cached_in(self, route: &str, service: Option<&str>) -> Self {
        let place = |(at, rule): &(usize, Arc<CacheRule>)| (*at, rule.placed(route, service));
        let caches = self.caches.as_ref().map(|rules| rules.iter().map(place).collect());
        Self { caches, ..self }
    }

    /// The same filters, of which none caches: it is not known where the requests of this chain go.
    #[must_use]
    pub fn uncached(self) -> Self {
        Self { caches: None, ..self }
    }

    /// Whether a filter caches, for some requests at least.
    #[inline]
    pub fn has_cache(&self) -> bool {
        self.caches.is_some()
    }

    /// What may be cached, and how, whichever the request.
    pub fn caches(&self) -> impl Iterator<Item = &Arc<CacheRule>> {
        self.caches.iter().flat_map(|rules| rules.iter()).map(|(_, rule)| rule)
    }

    /// How the response to a request is cached, once all filters have been called with it: by the first filter that
    /// caches and whose condition fits. `fields` are those that go upstream.
    #[inline]
    pub fn cache_for(
        &self,
        facts: &Facts<'_>,
        fields: FieldView<'_>,
        identity: Option<&Identity>,
    ) -> Option<&Arc<CacheRule>> {
        let rules = self.caches.as_deref()?;
        let fits = |(at, _): &&(usize, Arc<CacheRule>)| {
            self.steps.get(*at).is_some_and(|step| step.applies_to(facts, fields, identity))
        };
        rules.iter().find(fits).map(|(_, rule)| rule).filter(|rule| rule.suits(facts))
    }

    /// The filters, in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Fields of requests that hold credentials because a filter reads them there, by name.
    pub fn credential_fields(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| step.filter.credential_fields())
    }

    /// The rule for dropped request trailers; `None`: all trailers are forwarded.
    pub fn trailers(&self) -> Option<&Arc<TrailerRule>> {
        self.trailers.as_ref()
    }

    /// Whether those that the admin API turns on and off are on; `None`: there is none.
    pub fn is_on(&self) -> Option<bool> {
        let mut switches = self.steps.iter().filter_map(|step| step.filter.is_on());
        let first = switches.next()?;
        Some(first || switches.any(|is_on| is_on))
    }

    /// The same filters, those turned on or off that can be.
    #[must_use]
    pub fn switched(&self, on: bool) -> Self {
        let steps = self.steps.iter().map(|step| match step.filter.switched(on) {
            None => step.clone(),
            Some(filter) => Step { filter, ..step.clone() },
        });
        Self { caches: self.caches.clone(), ..Self::new(steps.collect()) }
    }

    /// Whether a filter takes part on this side.
    #[inline]
    pub fn has(&self, hook: Hooks) -> bool {
        self.hooks.contains(hook)
    }

    /// The position of the filter that bridges gRPC-Web.
    pub fn bridge(&self) -> Option<usize> {
        self.bridge
    }

    /// Calls the filters from `from` on, until one does not let the request go on or has chosen another service, whose
    /// chain it is then to go on in. Gives the position of the filter that does not, or of the next one. `seen` is told
    /// of each that was called, by its position and what is there then.
    pub fn on_request(
        &self,
        from: usize,
        cx: &mut RequestCx<'_>,
        seen: &mut dyn FnMut(usize, &mut RequestCx<'_>),
    ) -> (usize, Verdict) {
        for (at, (step, hooks)) in self.steps.iter().zip(&*self.each).enumerate().skip(from) {
            if !hooks.contains(Hooks::REQUEST) || !step.applies_to_request(cx) {
                continue;
            }
            cx.at = at as u16;
            let verdict = step.filter.on_request(cx);
            seen(at, cx);
            if !matches!(verdict, Verdict::Continue) {
                return (at, verdict);
            }
            if cx.outcome.service.is_some() {
                return (at + 1, verdict);
            }
        }
        (self.steps.len(), Verdict::Continue)
    }

    /// Goes on with the filter at `at`, which has waited, and those behind it.
    pub fn resume(
        &self,
        at: usize,
        cx: &mut RequestCx<'_>,
        got: JobResult,
        seen: &mut dyn FnMut(usize, &mut RequestCx<'_>),
    ) -> (usize, Verdict) {
        let Some(step) = self.steps.get(at) else { return (at, Verdict::Continue) };
        cx.at = at as u16;
        let verdict = step.filter.resume(cx, got);
        seen(at, cx);
        match verdict {
            Verdict::Continue if cx.outcome.service.is_none() => self.on_request(at + 1, cx, seen),
            Verdict::Continue => (at + 1, Verdict::Continue),
            verdict => (at, verdict),
        }
    }

    /// Calls the filters that have remembered something, from the last one to the first.
    pub fn on_end(&self, cx: &mut EndCx<'_>) {
        for (at, step) in self.steps.iter().enumerate().rev() {
            if step.filter.hooks().contains(Hooks::END) && cx.states.has(at as u16) {
                cx.at = at as u16;
                step.filter.on_end(cx);
            }
        }
    }

    /// Calls the filters from the last one to the first; one that replaces the response, or waits, is the last that is
    /// called.
    pub fn on_response(&self, cx: &mut ResponseCx<'_>, seen: &mut dyn FnMut(usize, &mut ResponseCx<'_>)) {
        self.on_response_below(self.steps.len(), cx, seen);
    }

    /// The same from the filter before `below` on.
    pub fn on_response_below(
        &self,
        below: usize,
        cx: &mut ResponseCx<'_>,
        seen: &mut dyn FnMut(usize, &mut ResponseCx<'_>),
    ) {
        for (at, (step, hooks)) in self.steps.iter().zip(&*self.each).enumerate().take(below).rev() {
            if !hooks.contains(Hooks::RESPONSE) || !step.applies_to_response(cx) {
                continue;
            }
            cx.at = at as u16;
            step.filter.on_response(cx);
            seen(at, cx);
            if cx.outcome.replaced.is_some() || cx.outcome.waits.is_some() {
                return;
            }
        }
    }

    /// Goes on with the filter at `at`, for which the response has waited, and those before it.
    pub fn resume_response(
        &self,
        at: usize,
        cx: &mut ResponseCx<'_>,
        got: Result<Fetched, Fault>,
        seen: &mut dyn FnMut(usize, &mut ResponseCx<'_>),
    ) {
        let Some(step) = self.steps.get(at) else { return };
        cx.at = at as u16;
        step.filter.resume_response(cx, got);
        seen(at, cx);
        if cx.outcome.replaced.is_none() && cx.outcome.waits.is_none() {
            self.on_response_below(at, cx, seen);
        }
    }
}

impl Step {
    fn applies_to_request(&self, cx: &RequestCx<'_>) -> bool {
        self.when.is_empty() || self.applies_to(&cx.facts, cx.fields.view(), cx.identity())
    }

    fn applies_to(&self, facts: &Facts<'_>, fields: FieldView<'_>, identity: Option<&Identity>) -> bool {
        self.when.iter().all(|when| {
            !when.is_about_response() && self.fits(when, facts, fields) && when.fits_identity(identity)
        })
    }

    /// Whether a request matches. For a filter that says so, one matching reading of the path is enough.
    fn fits(&self, when: &When, facts: &Facts<'_>, fields: FieldView<'_>) -> bool {
        match facts.readings {
            Some(_) if self.filter.fits_any_reading() => when.fits_in_some_reading(facts, fields),
            _ => when.fits_request(facts, fields),
        }
    }

    fn applies_to_response(&self, cx: &ResponseCx<'_>) -> bool {
        let fits = |when: &Arc<When>| {
            self.fits(when, &cx.facts, cx.request)
                && when.fits_identity(cx.identity)
                && when.fits_response(cx.status, cx.fields.view())
        };
        self.when.is_empty() || self.when.iter().all(fits)
    }
}
