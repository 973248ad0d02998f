//! Spec → Plan: the sections are validated and joined; names become positions.
//!
//! Called by `load` once per configuration. A plan comes out only when nothing was wrong.

mod inherited;

use crate::diagnose::{Class, Problems, SpecError};
use crate::lint::{Subject, lint};
use crate::settings::Settings;
use crate::source::Span;
use crate::spec::{Declared, FileSpec, MatchSpec, OneOrMoreSpec, ProtocolSpec, SomeSpec};
use crate::validate::{
    self, Bounds, Chains, Context, Deadlines, FilterPlace, Link, Names, Retries, Secrets, Target, Traffic,
};
use inherited::{Inherited, cached, uncached};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;
use thalweg_filter::{Chain, Filter};
use thalweg_proxy::plan::{
    CallRoute, Escapes, Listener, ListenerProtocol, Plan, PlanSecrets, Route, SealedRoute, ServiceId, Split,
    Timeouts, To,
};
use thalweg_route::Table;
use thalweg_upstream::{Address, Endpoint, Service};

/// How long a connection may be silent where nothing is written: clients of databases keep theirs for the next
/// question.
const IDLE_CONNECTION: Duration = Duration::from_secs(10 * 60);

/// What a spec becomes.
pub(crate) struct Compiled {
    /// For the workers.
    pub(crate) plan: Plan,
    /// For the process around them.
    pub(crate) settings: Settings,
    /// Where the filters of each route stand.
    pub(crate) filters: Vec<Vec<FilterPlace>>,
}

/// Validates a spec and compiles it. `None` when `problems` holds an error.
pub(crate) fn compile(
    spec: &FileSpec,
    declared: &Declared,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Compiled> {
    let mut taken = Vec::new();
    let access = validate::access(spec, secrets, problems);
    let listeners = validate::listeners(spec, &mut taken, secrets, problems);
    let mut settings = validate::settings(spec, &mut taken, secrets, problems);
    let retries = Retries::read(&spec.defaults.retry, problems);
    let around = Context { secrets, retries: &retries };
    let named = validate::services(&spec.services, &around, &mut settings.discover, problems);
    let defaults = Deadlines::read(&spec.defaults.timeouts, true, problems);
    let bounds = Bounds::read(&spec.defaults.limits, problems);
    let client_timeouts = validate::client_timeouts(&spec.defaults.timeouts, problems);
    let limits = validate::limits(&spec.limits, problems);
    let requests = validate::requests(&spec.request_history, problems);
    let cache = validate::cache(spec, problems);
    let tracing = spec.tracing.as_ref().and_then(|spec| validate::tracing(spec, secrets, problems));
    let trusted_proxies = validate::trusted_proxies(&spec.trusted_proxies, problems);
    something_to_do(spec, declared, problems);

    let mut names = Names {
        listeners: positions(listeners.iter().map(|listener| &*listener.name)),
        connections: for_connections(&listeners),
        services: positions(named.iter().map(|(service, _)| &*service.name)),
        written_listeners: &declared.listeners,
        written_services: &declared.services,
        listener_places: &declared.listener_places,
        service_places: &declared.service_places,
        routes: HashMap::new(),
    };
    names.take_route_names(&spec.routes, problems);
    let chains = Chains::read(&spec.chains, declared, secrets, problems);
    let mut joined = Routes::new((defaults, bounds, retries), secrets);
    joined.inherited = Inherited::read(spec, &listeners, &chains, problems);
    joined.add(spec, (&names, &chains), &named, problems);
    let links = validate::connections(spec, &names, problems);
    joined.link(links, &names, &named, problems);
    let calls = joined.calls(declared, (&names, &named));
    joined.check_speech(&named, problems);
    warn_of_unused(spec, &chains, &joined.used, problems);
    let tests = validate::tests(&spec.tests, &joined.known(spec, declared), problems);
    settings.slos = validate::slos(&spec.slos, &joined.subjects(&named), problems);
    let tables = joined.tables(spec, problems);
    let (table, connections) = if problems.is_clean() { tables? } else { return None };
    let services = named.into_iter().map(|(service, _)| service).chain(joined.inline).map(Arc::new).collect();
    let shutdown = validate::shutdown(&spec.shutdown);
    let plan = Plan {
        listeners,
        table: table.into(),
        connections: connections.into(),
        routes: joined.routes,
        calls,
        services,
        trusted_proxies,
        access,
        limits,
        client_timeouts,
        shutdown,
        requests,
        cache,
        tracing,
        error_details: spec.error_details.unwrap_or(true),
        beside: settings.beside(),
        secrets: PlanSecrets::default(),
    };
    validate::run_tests(&tests, spec, &plan, problems);
    if !problems.is_clean() {
        return None;
    }
    lint(&Subject { spec, plan: &plan, matches: &joined.matches, now: SystemTime::now() }, problems);
    Some(Compiled { plan, settings, filters: joined.filters })
}

/// The positions of the listeners that take connections.
fn for_connections(listeners: &[Listener]) -> HashSet<u16> {
    (0..).zip(listeners).filter(|(_, it)| takes_connections(it)).map(|(at, _)| at).collect()
}

/// The routes, and what they bring along.
struct Routes<'s> {
    secrets: &'s Secrets<'s>,
    defaults: Deadlines,
    /// Filters that routes have beside their own.
    inherited: Inherited,
    /// Of the defaults.
    bounds: Bounds,
    /// Of the defaults.
    retries: Retries,
    matches: Vec<thalweg_route::RouteMatch>,
    routes: Vec<Route>,
    /// Where the filters of each route stand.
    filters: Vec<Vec<FilterPlace>>,
    /// Services of routes that list URLs or take labels; they follow the named ones.
    inline: Vec<Service>,
    /// Positions of services that a route goes to.
    used: HashSet<u32>,
    /// Of routes that take connections, and where these are written.
    links: Vec<thalweg_route::RouteMatch>,
    link_places: Vec<Span>,
    /// By route: where it is written where it goes, and what it takes; `None`: it goes nowhere.
    speech: Vec<Option<(Span, Traffic)>>,
    /// Services that filters send requests to, and where these are written.
    called: Vec<(Span, u32)>,
}

impl<'s> Routes<'s> {
    /// None yet.
    fn new((defaults, bounds, retries): (Deadlines, Bounds, Retries), secrets: &'s Secrets<'s>) -> Self {
        Self {
            secrets,
            defaults,
            inherited: Inherited::default(),
            bounds,
            retries,
            matches: Vec::new(),
            routes: Vec::new(),
            filters: Vec::new(),
            inline: Vec::new(),
            used: HashSet::new(),
            links: Vec::new(),
            link_places: Vec::new(),
            speech: Vec::new(),
            called: Vec::new(),
        }
    }

    /// What objectives may be about.
    fn subjects<'a>(&'a self, named: &'a [(Service, Deadlines)]) -> validate::Subjects<'a> {
        let services = named.iter().map(|(service, _)| service).chain(&self.inline);
        validate::Subjects {
            routes: self.routes.iter().map(|route| &*route.name).collect(),
            services: services.map(|service| &*service.name).collect(),
        }
    }

    /// What tests may refer to.
    fn known<'a>(&'a self, spec: &FileSpec, declared: &'a Declared) -> validate::Known<'a> {
        let own = self.inline.iter().map(|service| &*service.name);
        validate::Known {
            listeners: &declared.listeners,
            routes: self.routes.iter().map(|route| &*route.name).collect(),
            services: declared.services.iter().map(String::as_str).chain(own).collect(),
            incomplete: spec.routes.written > spec.routes.items.len(),
        }
    }

    fn add<'a>(
        &mut self,
        spec: &'a FileSpec,
        (names, chains): (&Names<'_>, &Chains<'a>),
        named: &[(Service, Deadlines)],
        problems: &mut Problems,
    ) {
        for (position, spec) in spec.routes.items.iter().enumerate() {
            let name = names.of_route(spec, position);
            let checked = validate::route(spec, names, chains, problems);
            let leads = spec.to.as_ref().filter(|_| !matches!(checked.target, Target::Nowhere));
            self.speech.push(leads.map(|to| (to.span, Traffic::Requests)));
            let to = self.to(checked.target, (&name, names), named, problems);
            let patterns = checked.matches.paths().flatten().cloned().collect();
            let inherits = spec.inherit.unwrap_or(true);
            let (filters, places) = self.inherited.base(inherits, (checked.filters, checked.filter_places));
            let on = (inherits, &checked.matches.listeners[..]);
            let is_sealed = matches!(to, To::Sealed(_));
            validate::caches((&filters, &places), is_sealed, problems);
            let choices = match to {
                // Whatever a filter chooses, another one answers.
                To::Nowhere => Arc::default(),
                _ => choices(self.inherited.all(&filters), names),
            };
            let chosen = choices.iter().map(|(_, service)| *service);
            self.used.extend(chosen.clone().map(|service| service.0));
            let services: Vec<_> = to.services().chain(chosen).collect();
            let filter_variants = self.inherited.variants(on, &filters, &services);
            let service_name = |id: ServiceId| service_name(named, &self.inline, id);
            let (filters, filter_variants) = match is_sealed {
                true => uncached(filters, filter_variants),
                false => cached((filters, filter_variants), &name, &services, &service_name),
            };
            self.filters.push(places);
            self.matches.push(checked.matches);
            let timeouts = self.timeouts((checked.deadlines, Timeouts::default()), (&to, &choices), named);
            self.routes.push(Route {
                name,
                matches: in_words(&spec.r#match),
                conceals: conceals(&spec.r#match),
                filters,
                filter_variants,
                patterns,
                to,
                canary: checked.canary,
                choices,
                timeouts: timeouts.0,
                service_timeouts: timeouts.1,
                limits: checked.bounds.resolve(self.bounds),
                allow_encoded: validate::encoded(&spec.allow_encoded),
            });
        }
    }
}

impl Routes<'_> {
    /// What a target becomes.
    fn to(
        &mut self,
        target: Target<'_>,
        (name, names): (&str, &Names<'_>),
        named: &[(Service, Deadlines)],
        problems: &mut Problems,
    ) -> To {
        match target {
            Target::Service(position) => {
                self.used.insert(position);
                To::Service(ServiceId(position))
            }
            Target::Split(parts, key) => {
                self.used.extend(parts.iter().map(|part| part.service));
                let parts = parts.iter().map(|part| (ServiceId(part.service), part.weight)).collect();
                To::Split(Split { parts, key })
            }
            Target::Urls(urls, span) => {
                let label = label(name, names);
                let service = validate::inline(&label, (urls, span), &self.retries, problems);
                self.inline.push(service);
                To::Service(ServiceId(position_of(named.len() + self.inline.len() - 1)))
            }
            Target::Sealed(spec, span) => {
                let (label, around) = (label(name, names), (names, &self.retries));
                match validate::sealed(&label, (spec, span), around, self.secrets, problems) {
                    Some((route, service)) => {
                        self.used.extend(route.named.iter().map(|service| service.0));
                        self.inline.push(service);
                        let service = ServiceId(position_of(named.len() + self.inline.len() - 1));
                        To::Sealed(Arc::new(SealedRoute { service, ..route }))
                    }
                    None => To::Nowhere,
                }
            }
            Target::Nowhere => To::Nowhere,
        }
    }

    /// Deadlines towards the services of a route: those that the route says, then the service, the defaults and what
    /// is built in. Of a route to one service they are that one's; else those that a service does not say, and
    /// what holds for services that say any.
    fn timeouts(
        &self,
        (own, built_in): (Deadlines, Timeouts),
        (to, choices): (&To, &[(Arc<str>, ServiceId)]),
        named: &[(Service, Deadlines)],
    ) -> (Timeouts, Arc<[(ServiceId, Timeouts)]>) {
        let of = |service: ServiceId| {
            let deadlines = named.get(service.0 as usize).map(|(_, deadlines)| *deadlines);
            Deadlines::resolve(&[own, deadlines.unwrap_or_default(), self.defaults], built_in)
        };
        if let (To::Service(service), []) = (to, choices) {
            return (of(*service), Arc::default());
        }
        let any = Deadlines::resolve(&[own, self.defaults], built_in);
        let differs = |service: ServiceId| Some((service, of(service))).filter(|(_, own)| *own != any);
        let services = to.services().chain(choices.iter().map(|(_, service)| *service));
        (any, services.filter_map(differs).collect())
    }

    /// What finds them: those of requests, and those of connections.
    fn tables(&self, spec: &FileSpec, problems: &mut Problems) -> Option<(Table, Table)> {
        let of_routes = spec.routes.items.iter().map(|route| route.span).collect::<Vec<_>>();
        let mut build = |matches: &[thalweg_route::RouteMatch], places: &[Span]| {
            let flaw = |error: thalweg_route::BuildError| {
                let span = places.get(error.route).copied().unwrap_or_default();
                if problems.is_clean() {
                    problems.push(SpecError::value(span, "route", error.reason));
                }
            };
            Table::build(matches).map_err(flaw).ok()
        };
        Some((build(&self.matches, &of_routes)?, build(&self.links, &self.link_places)?))
    }

    /// Adds routes that take connections, behind all others.
    fn link(
        &mut self,
        links: Vec<Link<'_>>,
        names: &Names<'_>,
        named: &[(Service, Deadlines)],
        problems: &mut Problems,
    ) {
        for link in links {
            let mut name = link.name;
            while self.routes.iter().any(|route| *route.name == *name) {
                name.insert_str(0, "listener ");
            }
            self.speech.push((!matches!(link.target, Target::Nowhere)).then_some((link.span, link.traffic)));
            let to = self.to(link.target, (&name, names), named, problems);
            self.links.push(link.matches);
            self.link_places.push(link.span);
            self.filters.push(Vec::new());
            let built_in = match link.traffic {
                Traffic::Datagrams => Timeouts::default(),
                _ => Timeouts { idle: IDLE_CONNECTION, ..Timeouts::default() },
            };
            let timeouts = self.timeouts((Deadlines::default(), built_in), (&to, &[]), named);
            self.routes.push(self.bare_route(name.into(), link.in_words.into(), to, timeouts));
        }
    }

    /// A route that nobody has written as one: it has no filters, and goes by the defaults.
    fn bare_route(
        &self,
        name: Arc<str>,
        matches: Arc<str>,
        to: To,
        (timeouts, service_timeouts): (Timeouts, Arc<[(ServiceId, Timeouts)]>),
    ) -> Route {
        Route {
            name,
            matches,
            conceals: false,
            filters: Chain::default(),
            filter_variants: Arc::new([]),
            patterns: Arc::new([]),
            to,
            canary: None,
            choices: Arc::new([]),
            timeouts,
            service_timeouts,
            limits: Bounds::default().resolve(self.bounds),
            allow_encoded: Escapes::NONE,
        }
    }

    /// Routes of requests that filters send to services by themselves.
    fn calls(
        &mut self,
        declared: &Declared,
        (names, named): (&Names<'_>, &[(Service, Deadlines)]),
    ) -> Vec<CallRoute> {
        let filters = self.routes.iter().flat_map(Route::all_filters);
        let called: BTreeSet<_> = filters.flat_map(|filter| filter.calls()).collect();
        let mut calls = Vec::new();
        for name in called {
            let Some(position) = names.services.get(&*name).copied() else { continue };
            let to = To::Service(ServiceId(position));
            self.used.insert(position);
            let written = declared.services.iter().position(|known| *known == *name);
            if let Some(span) = written.and_then(|at| declared.service_places.get(at)) {
                self.called.push((*span, position));
            }
            let timeouts = self.timeouts((Deadlines::default(), Timeouts::default()), (&to, &[]), named);
            let name = format!("calls to {name}").into();
            let route = self.bare_route(name, "requests of filters".into(), to, timeouts);
            calls.push(CallRoute { service: ServiceId(position), route });
        }
        calls
    }

    /// What goes to `tcp://` endpoints are connections, to `udp://` endpoints datagrams, and nothing else goes there.
    fn check_speech(&self, named: &[(Service, Deadlines)], problems: &mut Problems) {
        let routes = self.routes.iter().zip(&self.speech).filter_map(|(route, speech)| {
            let (span, traffic) = (*speech)?;
            Some((span, traffic, route.all_services().collect::<Vec<_>>()))
        });
        let called = self.called.iter();
        let called = called.map(|(span, service)| (*span, Traffic::Requests, vec![ServiceId(*service)]));
        for (span, traffic, services) in routes.chain(called) {
            let services = services.iter().filter_map(|service| match named.get(service.0 as usize) {
                Some((service, _)) => Some(service),
                None => self.inline.get(service.0 as usize - named.len()),
            });
            for service in services {
                if traffic != Traffic::Requests && service.limits.adaptive.is_some() {
                    let message = format!(
                        "`limits.adaptive` of the service `{}` goes by answers, and connections have none",
                        service.name
                    );
                    let error =
                        SpecError::new(Class::Invalid, span, message).help("write `max_in_flight` instead");
                    problems.push(error);
                }
                let found = service.discover.as_ref().map(|policy| validate::stand_in(policy.scheme));
                let mut wrong =
                    service.endpoints.iter().chain(&found).filter(|endpoint| !takes(endpoint, traffic));
                let Some(wrong) = wrong.next() else { continue };
                let (message, help) = match traffic {
                    Traffic::Datagrams => (
                        format!("datagrams go to `udp://` endpoints, not to `{}`", wrong.url),
                        "write `udp://host:port`",
                    ),
                    Traffic::Connections => (
                        format!("connections go to `tcp://` endpoints, not to `{}`", wrong.url),
                        "write `tcp://host:port`; requests go to `http://` endpoints through `routes`",
                    ),
                    Traffic::Requests if wrong.takes_datagrams() => (
                        format!("requests cannot go to `{}`: it takes datagrams", wrong.url),
                        "write `http://host:port`, or take datagrams with a listener of `protocol: udp`",
                    ),
                    Traffic::Requests => (
                        format!("requests cannot go to `{}`: it is not an HTTP endpoint", wrong.url),
                        "write `http://host:port`, or take connections with a listener of `protocol: tcp`",
                    ),
                };
                problems.push(SpecError::new(Class::Invalid, span, message).help(help));
            }
        }
    }
}

/// The services that filters may choose.
fn choices<'f>(
    filters: impl Iterator<Item = &'f Arc<dyn Filter>>,
    names: &Names<'_>,
) -> Arc<[(Arc<str>, ServiceId)]> {
    let named: BTreeSet<_> = filters.flat_map(|filter| filter.choices()).collect();
    let known = named.into_iter().filter_map(|name| Some((ServiceId(*names.services.get(&*name)?), name)));
    known.map(|(service, name)| (name, service)).collect()
}

/// What the service of a route is called that has one of its own.
fn label(route: &str, names: &Names<'_>) -> Arc<str> {
    let mut label = route.to_owned();
    while names.services.contains_key(label.as_str()) {
        label.insert_str(0, "route ");
    }
    label.into()
}

/// Whether an endpoint is for that. A unix socket may take requests or connections.
fn takes(endpoint: &Endpoint, traffic: Traffic) -> bool {
    match traffic {
        Traffic::Datagrams => endpoint.takes_datagrams(),
        Traffic::Connections => endpoint.takes_connections() || matches!(endpoint.address, Address::Unix(_)),
        Traffic::Requests => !endpoint.takes_connections() && !endpoint.takes_datagrams(),
    }
}

/// What a route matches, for people.
fn in_words(spec: &MatchSpec) -> Arc<str> {
    let mut words: Vec<String> = Vec::new();
    if let Some(hosts) = &spec.host {
        let hosts = OneOrMoreSpec::list(hosts.clone());
        words.push(hosts.items.iter().map(|host| host.value.clone()).collect::<Vec<_>>().join(","));
    }
    let texts = |paths: &SomeSpec<String>| {
        paths.items.iter().map(|path| path.value.clone()).collect::<Vec<_>>().join(",")
    };
    let path = spec.path.as_ref().map(|paths| texts(&paths.value));
    let regex = spec.path_regex.as_ref().map(|path| format!("~{}", path.value));
    words.push(path.or(regex).unwrap_or_else(|| "/*".into()));
    let methods: Vec<_> = spec.methods.items.iter().map(|method| method.value.clone()).collect();
    words.extend((!methods.is_empty()).then(|| methods.join(",")));
    let further = spec.headers.0.len() + spec.query.0.len() + spec.client.items.len();
    words.extend((further > 0).then(|| format!("and {further} more")));
    words.join(" ").into()
}

/// Whether a condition on a field or parameter came from the environment.
fn conceals(spec: &MatchSpec) -> bool {
    spec.headers.0.iter().chain(&spec.query.0).any(|(_, spec)| spec.span.filled || spec.value.is_filled())
}

fn position_of(index: usize) -> u32 {
    // Far fewer than 2³² nodes fit into a configuration.
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn takes_connections(listener: &Listener) -> bool {
    listener.protocol != ListenerProtocol::Http
}

/// Positions by name.
fn positions<'a, N: TryFrom<usize>>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, N> {
    names.enumerate().filter_map(|(at, name)| N::try_from(at).ok().map(|at| (name, at))).collect()
}

/// A proxy needs a way in and a way out.
fn something_to_do(spec: &FileSpec, declared: &Declared, problems: &mut Problems) {
    let top = Span { end: 0, start: 0, ..declared.root };
    // A file that was cut off lacks what would follow.
    let end = Span { start: declared.root.end, ..declared.root };
    let note = |error: SpecError| match declared.root.range().is_empty() {
        true => error,
        false => error.related(end, "the file ends here"),
    };
    if declared.listeners.is_empty() && !declared.broken.contains("listeners") {
        let error = SpecError::new(Class::Invalid, top, "there are no listeners")
            .help("add `listeners: { web: { address: \":8080\" } }`");
        problems.push(note(error));
    }
    let takes_requests = spec.listeners.0.iter().any(|(_, spec)| spec.protocol == ProtocolSpec::Http);
    let has_routes = spec.routes.written > 0 || spec.route_sources.written > 0;
    let has_no_way = !has_routes && (takes_requests || spec.listeners.0.is_empty());
    if has_no_way && !declared.broken.contains("routes") {
        let error = SpecError::new(Class::Invalid, top, "there are no routes")
            .help("add `routes: [ { to: [ \"http://127.0.0.1:9001\" ] } ]`");
        problems.push(note(error));
    }
}

/// The name of a service: named ones come first.
fn service_name(named: &[(Service, Deadlines)], inline: &[Service], id: ServiceId) -> Option<Arc<str>> {
    let at = id.0 as usize;
    let known = named.get(at).map(|(service, _)| service);
    known.or_else(|| inline.get(at.checked_sub(named.len())?)).map(|service| service.name.clone())
}

/// Of chains and services that no route names. Where there are sources of routes, documents may name them.
fn warn_of_unused(spec: &FileSpec, chains: &Chains<'_>, used: &HashSet<u32>, problems: &mut Problems) {
    if spec.route_sources.written > 0 {
        return;
    }
    chains.warn_of_unused(&spec.chains, problems);
    for (position, (name, _)) in spec.services.0.iter().enumerate() {
        if !used.contains(&position_of(position)) {
            let message = format!("no route goes to the service `{}`", name.value);
            problems.push(SpecError::warning("service_unused", name.span, message));
        }
    }
}
