//! The filters of a plan as a whole, and what of them outlives it.

use crate::plan::{Plan, Route};
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_access::rules::{AddressRules, AddressSet};
use thalweg_filter::{Chain, Filter, Upkeep, list_upkeep};

impl Plan {
    /// The live state of filters that stand where they stood in `former` goes on: those of routes of the same name.
    pub(crate) fn adopt_filters(&self, former: &Self) {
        let known: HashMap<&str, &Route> = former.routes.iter().map(|route| (&*route.name, route)).collect();
        for route in &self.routes {
            if let Some(former) = known.get(&*route.name) {
                route.adopt_filters(former);
            }
        }
    }
}

impl Plan {
    /// The filters of all its routes; those of several are named as often.
    pub(crate) fn all_filters(&self) -> impl Iterator<Item = &Arc<dyn Filter>> {
        self.routes.iter().flat_map(Route::all_filters)
    }
}

impl Plan {
    /// What runs beside the workers for it: of its filters, and of its lists of addresses.
    pub(crate) fn upkeep(&self) -> impl Iterator<Item = Arc<dyn Upkeep>> {
        let of_rules = |rules: &Arc<AddressRules>| {
            rules.deny.has_sources() || rules.allow.as_ref().is_some_and(AddressSet::has_sources)
        };
        let of_listeners = self.listeners.iter().filter_map(|listener| listener.access.as_ref());
        let has_lists = self.access.has_sources() || of_listeners.into_iter().any(of_rules);
        let of_filters = self.all_filters().filter_map(|filter| filter.upkeep());
        of_filters.chain(has_lists.then(list_upkeep))
    }
}

impl Route {
    /// All filters that take part in it: its own, and those that it has in their place somewhere.
    pub fn all_filters(&self) -> impl Iterator<Item = &Arc<dyn Filter>> {
        let variants = self.filter_variants.iter().map(|variant| &variant.chain);
        std::iter::once(&self.filters).chain(variants).flat_map(Chain::steps).map(|step| &step.filter)
    }

    /// Each filter takes over the state of the one before a reload that has its name and argument, or else of the next
    /// one with its name that nobody else has taken.
    fn adopt_filters(&self, former: &Self) {
        let mut left: Vec<_> = distinct(former.all_filters());
        let mut take = |is_it: &dyn Fn(&Arc<dyn Filter>) -> bool| {
            let at = left.iter().position(|old| is_it(old))?;
            Some(left.remove(at))
        };
        let mut changed = Vec::new();
        for filter in distinct(self.all_filters()) {
            let is_same = |old: &Arc<dyn Filter>| {
                old.name() == filter.name()
                    && (Arc::ptr_eq(old, filter) || old.argument() == filter.argument())
            };
            match take(&is_same) {
                Some(old) if Arc::ptr_eq(old, filter) => {}
                Some(old) => filter.adopt(&**old),
                None => changed.push(filter),
            }
        }
        for filter in changed {
            if let Some(old) = take(&|old| old.name() == filter.name()) {
                filter.adopt(&**old);
            }
        }
    }
}

/// Each of them once, in their order.
fn distinct<'a>(filters: impl Iterator<Item = &'a Arc<dyn Filter>>) -> Vec<&'a Arc<dyn Filter>> {
    let mut all: Vec<&Arc<dyn Filter>> = Vec::new();
    for filter in filters {
        if !all.iter().any(|known| Arc::ptr_eq(known, filter)) {
            all.push(filter);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Escapes, RouteLimits, ServiceId, Timeouts, To};
    use std::sync::Mutex;
    use thalweg_filter::{Hooks, Step};

    /// A filter whose state is where it comes from.
    #[derive(Debug)]
    struct Remembers {
        name: &'static str,
        argument: &'static str,
        state: Mutex<String>,
    }

    impl Filter for Remembers {
        fn name(&self) -> &'static str {
            self.name
        }

        fn argument(&self) -> String {
            self.argument.into()
        }

        fn hooks(&self) -> Hooks {
            Hooks::REQUEST
        }

        fn adopt(&self, former: &dyn Filter) {
            let former = former as &dyn std::any::Any;
            let former = former.downcast_ref::<Self>().unwrap();
            self.state.lock().unwrap().clone_from(&former.state.lock().unwrap());
        }
    }

    fn filter(name: &'static str, argument: &'static str, state: &str) -> Arc<Remembers> {
        Arc::new(Remembers { name, argument, state: Mutex::new(state.into()) })
    }

    fn route(filters: &[&Arc<Remembers>]) -> Route {
        let steps = filters.iter().map(|filter| Step::always((*filter).clone()));
        Route {
            name: "r".into(),
            matches: "r".into(),
            conceals: false,
            filters: Chain::new(steps.collect()),
            filter_variants: Arc::new([]),
            patterns: Arc::new([]),
            to: To::Service(ServiceId(0)),
            canary: None,
            choices: Arc::new([]),
            timeouts: Timeouts::default(),
            service_timeouts: Arc::new([]),
            limits: RouteLimits::default(),
            allow_encoded: Escapes::NONE,
        }
    }

    #[test]
    fn a_filter_goes_on_where_the_same_one_stood_or_else_one_of_its_kind() {
        let old = [filter("a", "1", "first"), filter("a", "2", "second"), filter("b", "1", "other")];
        let new = [filter("a", "3", ""), filter("a", "2", ""), filter("c", "1", ""), filter("a", "4", "")];
        route(&new.each_ref()).adopt_filters(&route(&old.each_ref()));
        let states = new.each_ref().map(|filter| filter.state.lock().unwrap().clone());
        assert_eq!(states, ["first", "second", "", ""]);
    }
}
