//! The metrics page: sums over workers of everything in the registry.
//!
//! Called by the admin thread for `GET /metrics`. Reading never disturbs a worker: cells are read
//! one by one while workers go on counting.

use std::sync::Arc;
use std::time::Duration;

use thalweg_core::units::duration_text;
use thalweg_core::{FaultKind, GRPC_STATUSES};

use crate::exposition::{Exposition, Form};
use crate::meter::{Counter, Gauge, Histogram, HistogramTotal};
use crate::meters::{
    ACME_RESULTS, CacheUse, DIRECTIONS, DROPS, EndpointMeters, FLOODS, FilterMeters, FilterOutcome,
    HANDSHAKE_RESULTS, Limit, ListenerMeters, TLS_VERSIONS, WorkerMeters,
};
use crate::names::{self, Metric};
use crate::process::ProcessFigures;
use crate::registry::{CacheDiskStanding, CacheStanding, Registry, Snapshot, SourceStanding};

impl Registry {
    /// The page in the Prometheus text format 0.0.4.
    pub fn render(&self) -> String {
        self.render_as(Form::Text)
    }

    /// The page in this form.
    pub fn render_as(&self, form: Form) -> String {
        if form == Form::OpenMetrics {
            self.want_exemplars();
        }
        let mut page = Exposition::new(form);
        page.head(&names::BUILD_INFO);
        page.sample(&names::BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1);
        self.render_listeners(&mut page);
        self.render_certificates(&mut page);
        self.render_routes(&mut page);
        self.render_cache(&mut page);
        self.render_endpoints(&mut page);
        self.render_services(&mut page);
        self.render_workers(&mut page);
        self.render_sources(&mut page);
        self.render_slos(&mut page);
        self.render_budget(&mut page);
        ProcessFigures::read().render(&mut page);
        self.prune();
        page.into_text()
    }

    fn render_listeners(&self, page: &mut Exposition) {
        let listeners = self.listeners.snapshot();
        counters(page, &names::CONNECTIONS_TOTAL, &listeners, |meters| &meters.connections);
        gauges(page, &names::CONNECTIONS_ACTIVE, &listeners, |meters| &meters.active);
        counters(page, &names::CONNECTIONS_REFUSED, &listeners, |meters| &meters.refused);
        outcomes(page, (&names::TLS_HANDSHAKES, &HANDSHAKE_RESULTS), &listeners, |meters| &meters.handshakes);
        outcomes(page, (&names::TLS_CONNECTIONS, &TLS_VERSIONS), &listeners, |meters| &meters.tls_versions);
        outcomes(page, (&names::DATAGRAMS, &DIRECTIONS), &listeners, |meters| &meters.datagrams);
        outcomes(page, (&names::DATAGRAMS_DROPPED, &DROPS), &listeners, |meters| &meters.dropped);
        outcomes(page, (&names::HTTP2_FLOODS, &FLOODS), &listeners, |meters| &meters.floods);
    }

    fn render_certificates(&self, page: &mut Exposition) {
        gauges(page, &names::TLS_NOT_AFTER, &self.certificates.snapshot(), |end| end);
    }

    fn render_routes(&self, page: &mut Exposition) {
        let routes = self.routes.snapshot();
        page.head(&names::REQUESTS_TOTAL);
        for ([route], groups) in &routes {
            let mut totals = [0u64; 600];
            for group in groups {
                group.codes.each(|status, count| {
                    if let Some(total) = totals.get_mut(usize::from(status)) {
                        *total = total.wrapping_add(count);
                    }
                });
            }
            for (status, total) in totals.iter().enumerate().filter(|(_, total)| **total > 0) {
                page.sample(&names::REQUESTS_TOTAL, &[route, &status.to_string()], total);
            }
        }
        page.head(&names::GRPC_REQUESTS);
        for ([route], groups) in &routes {
            let mut totals = [0; GRPC_STATUSES.len()];
            groups.iter().for_each(|group| group.grpc.add_to(&mut totals));
            for (status, total) in GRPC_STATUSES.iter().zip(totals).filter(|(_, total)| *total > 0) {
                page.sample(&names::GRPC_REQUESTS, &[route, status], total);
            }
        }
        page.head(&names::REQUEST_DURATION);
        for ([route], groups) in &routes {
            let (mut total, mut exemplars) = (HistogramTotal::default(), std::array::from_fn(|_| None));
            for group in groups {
                group.duration.add_to(&mut total);
                group.exemplars.newest(&mut exemplars);
            }
            page.histogram_with(&names::REQUEST_DURATION, &[route], &total, &exemplars);
        }
        counters(page, &names::REQUEST_BYTES, &routes, |meters| &meters.bytes_in);
        counters(page, &names::RESPONSE_BYTES, &routes, |meters| &meters.bytes_out);
        let targets = self.targets.snapshot();
        page.head(&names::CANARY_REQUESTS);
        for ([route, service], _) in &targets {
            let totals = self.target_totals(route, service);
            let failed = totals.errors;
            page.sample(
                &names::CANARY_REQUESTS,
                &[route, service, "ok"],
                totals.requests().saturating_sub(failed),
            );
            page.sample(&names::CANARY_REQUESTS, &[route, service, "failed"], failed);
        }
        histograms(page, &names::CANARY_DURATION, &targets, |meters| &meters.duration);
        page.head(&names::FILTER_OUTCOMES);
        for ([route, filter], groups) in &self.filters.snapshot() {
            for outcome in FilterOutcome::ALL {
                let counter = |meters: &Arc<FilterMeters>| meters.outcomes[*outcome as usize].value();
                let total: u64 = groups.iter().map(counter).sum();
                if total > 0 {
                    page.sample(&names::FILTER_OUTCOMES, &[route, filter, outcome.name()], total);
                }
            }
        }
    }

    fn render_cache(&self, page: &mut Exposition) {
        type Figure = fn(&CacheStanding) -> u64;
        page.head(&names::CACHE_REQUESTS);
        for (route, totals) in self.cache_totals() {
            for (result, total) in CacheUse::ALL.iter().zip(totals).filter(|(_, total)| *total > 0) {
                page.sample(&names::CACHE_REQUESTS, &[&route, result.name()], total);
            }
        }
        let standing = self.cache();
        let figures: [(_, Figure); 13] = [
            (&names::CACHE_BYTES, |cache| cache.bytes),
            (&names::CACHE_LIMIT_BYTES, |cache| cache.limit_bytes),
            (&names::CACHE_OBJECTS, |cache| cache.objects),
            (&names::CACHE_FILLS_ACTIVE, |cache| cache.filling),
            (&names::CACHE_FILL_BYTES, |cache| cache.fill_bytes),
            (&names::CACHE_FILLS, |cache| cache.fills),
            (&names::CACHE_BROKEN, |cache| cache.broken),
            (&names::CACHE_STORED, |cache| cache.stored),
            (&names::CACHE_REJECTED, |cache| cache.rejected),
            (&names::CACHE_PASSED, |cache| cache.passed),
            (&names::CACHE_EVICTIONS, |cache| cache.evictions),
            (&names::CACHE_PURGED, |cache| cache.removed),
            (&names::CACHE_MADE_STALE, |cache| cache.made_stale),
        ];
        for (metric, figure) in figures {
            page.head(metric);
            if let Some(standing) = &standing {
                page.sample(metric, &[], figure(standing));
            }
        }
        render_disk(page, standing.and_then(|cache| cache.disk));
    }

    fn render_endpoints(&self, page: &mut Exposition) {
        let endpoints = self.endpoints.snapshot();
        counters(page, &names::UPSTREAM_REQUESTS, &endpoints, |meters| &meters.requests);
        page.head(&names::UPSTREAM_CONNECTS);
        for ([service, endpoint], groups) in &endpoints {
            let ok: u64 = groups.iter().map(|meters| meters.connects.value()).sum();
            let failed: u64 = groups.iter().map(|meters| meters.connect_failures.value()).sum();
            page.sample(&names::UPSTREAM_CONNECTS, &[service, endpoint, "ok"], ok);
            page.sample(&names::UPSTREAM_CONNECTS, &[service, endpoint, "failed"], failed);
        }
        page.head(&names::UPSTREAM_TLS);
        for ([service, endpoint], groups) in &endpoints {
            let total = |counter: fn(&EndpointMeters) -> &Counter| -> u64 {
                groups.iter().map(|meters| counter(meters).value()).sum()
            };
            let totals = [
                ("full", total(|meters| &meters.tls_full)),
                ("resumed", total(|meters| &meters.tls_resumed)),
                ("failed", total(|meters| &meters.tls_failed)),
            ];
            if totals.iter().any(|(_, total)| *total > 0) {
                for (result, total) in totals {
                    page.sample(&names::UPSTREAM_TLS, &[service, endpoint, result], total);
                }
            }
        }
        counters(page, &names::UPSTREAM_REUSED, &endpoints, |meters| &meters.reused);
        counters(page, &names::UPSTREAM_RETRIES, &endpoints, |meters| &meters.retries);
        counters(page, &names::UPSTREAM_HEDGES, &endpoints, |meters| &meters.hedges);
        counters(page, &names::UPSTREAM_HEDGES_WON, &endpoints, |meters| &meters.hedges_won);
        histograms(page, &names::UPSTREAM_RESPONSE, &endpoints, |meters| &meters.response);
        histograms(page, &names::UPSTREAM_CONNECT_DURATION, &endpoints, |meters| &meters.connect);
        counters(page, &names::UPSTREAM_ERRORS, &endpoints, |meters| &meters.errors);
        counters(page, &names::UPSTREAM_REQUEST_BYTES, &endpoints, |meters| &meters.bytes_in);
        counters(page, &names::UPSTREAM_RESPONSE_BYTES, &endpoints, |meters| &meters.bytes_out);
        counters(page, &names::ENDPOINT_EJECTIONS, &self.ejections.snapshot(), |ejections| ejections);
        gauges(page, &names::ENDPOINT_UP, &self.ups.snapshot(), |up| up);
        gauges(page, &names::ENDPOINT_LIMIT, &self.endpoint_limits.snapshot(), |limit| limit);
    }

    fn render_services(&self, page: &mut Exposition) {
        let services = self.services.snapshot();
        gauges(page, &names::SERVICE_ACTIVE, &services, |meters| &meters.active);
        gauges(page, &names::SERVICE_QUEUED, &services, |meters| &meters.queued);
        histograms(page, &names::SERVICE_DURATION, &services, |meters| &meters.duration);
        counters(page, &names::SERVICE_ERRORS, &services, |meters| &meters.errors);
        histograms(page, &names::QUEUE_WAIT, &services, |meters| &meters.wait);
        gauges(page, &names::BREAKER_STATE, &self.breakers.snapshot(), |state| state);
        counters(page, &names::BREAKER_REFUSED, &services, |meters| &meters.refused);
    }

    fn render_workers(&self, page: &mut Exposition) {
        let gauge = |cell: fn(&WorkerMeters) -> &Gauge| -> i64 {
            self.workers().iter().map(|worker| cell(worker).value()).sum()
        };
        let counter = |cell: &dyn Fn(&WorkerMeters) -> &Counter| -> u64 {
            self.workers().iter().map(|worker| cell(worker).value()).sum()
        };
        page.single(&names::CONNECTIONS_IDLE, gauge(|worker| &worker.idle_connections));
        page.single(&names::REQUESTS_ACTIVE, gauge(|worker| &worker.active_exchanges));
        page.single(&names::UPSTREAM_IDLE, gauge(|worker| &worker.upstream_idle));
        page.head(&names::FAULTS);
        for kind in FaultKind::ALL {
            let labels = [kind.name(), kind.rule().side.name()];
            page.sample(&names::FAULTS, &labels, counter(&|worker| &worker.faults[*kind as usize]));
        }
        page.head(&names::LIMIT_HITS);
        for limit in Limit::ALL {
            let names = if *limit == Limit::Series { self.refused_names() } else { 0 };
            let hits = counter(&|worker| &worker.limits[*limit as usize]);
            page.sample(&names::LIMIT_HITS, &[limit.name()], hits + names);
        }
        let log = self.log();
        page.head(&names::LOG_DROPPED);
        page.sample(&names::LOG_DROPPED, &["queue_full"], counter(&|worker| &worker.log_dropped));
        page.sample(&names::LOG_DROPPED, &["write_failed"], log.lost.value());
        page.single(&names::LOG_ERRORS, log.errors.value());
        page.head(&names::ACME_ORDERS);
        for (result, count) in ACME_RESULTS.iter().zip(self.acme().counts()) {
            page.sample(&names::ACME_ORDERS, &[result], count);
        }
        let reloads = self.reloads();
        let [succeeded, failed, rolled_back] = reloads.counts();
        page.head(&names::CONFIG_RELOADS);
        page.sample(&names::CONFIG_RELOADS, &["ok"], succeeded);
        page.sample(&names::CONFIG_RELOADS, &["failed"], failed);
        page.sample(&names::CONFIG_RELOADS, &["rolled_back"], rolled_back);
        page.single(&names::CONFIG_LAST_OK, u8::from(reloads.last_succeeded()));
        page.single(&names::CONFIG_LAST_SUCCESS, reloads.last_success());
        page.single(&names::PLANS_ALIVE, reloads.plans_alive.value());
        let webhooks = self.webhooks();
        page.head(&names::WEBHOOK_DELIVERIES);
        page.sample(&names::WEBHOOK_DELIVERIES, &["delivered"], webhooks.delivered.value());
        page.sample(&names::WEBHOOK_DELIVERIES, &["given_up"], webhooks.given_up.value());
        page.sample(&names::WEBHOOK_DELIVERIES, &["dropped"], webhooks.dropped.value());
        page.single(&names::WEBHOOK_RETRIES, webhooks.retries.value());
        let traces = self.traces();
        page.head(&names::SPANS);
        page.sample(&names::SPANS, &["exported"], traces.exported.value());
        page.sample(&names::SPANS, &["failed"], traces.failed.value());
        page.sample(&names::SPANS, &["dropped"], counter(&|worker| &worker.spans_dropped));
        page.single(&names::PANICS, counter(&|worker| &worker.panics));
        page.head(&names::WORKER_LAG);
        for (number, worker) in self.workers().iter().enumerate() {
            page.sample(&names::WORKER_LAG, &[&number.to_string()], worker.lag_us.value() as f64 / 1e6);
        }
    }

    fn render_sources(&self, page: &mut Exposition) {
        let sources = self.sources();
        type Figure = fn(&SourceStanding) -> Option<f64>;
        let figures: [(&Metric, Figure); 5] = [
            (&names::SOURCE_FAILING, |it| Some(f64::from(u8::from(it.is_failing)))),
            (&names::SOURCE_AGE, |it| it.age.map(|age| age.as_secs_f64())),
            (&names::SOURCE_ENDPOINTS, |it| it.endpoints.map(|count| count as f64)),
            (&names::SOURCE_UPDATES, |it| Some(it.updates as f64)),
            (&names::SOURCE_FAILURES, |it| Some(it.failures as f64)),
        ];
        for (metric, figure) in figures {
            page.head(metric);
            for source in &sources {
                if let Some(value) = figure(source) {
                    page.sample(metric, &[&source.service, source.source], value);
                }
            }
        }
    }

    fn render_slos(&self, page: &mut Exposition) {
        let slos = self.slos();
        page.head(&names::SLO_BUDGET_LEFT);
        for slo in &slos {
            page.sample(&names::SLO_BUDGET_LEFT, &[&slo.policy.name], slo.budget_left);
        }
        page.head(&names::SLO_BURN_RATE);
        for slo in &slos {
            for (window, rate) in slo.burn {
                let window = duration_text(Duration::from_secs(window));
                page.sample(&names::SLO_BURN_RATE, &[&slo.policy.name, &window], rate);
            }
        }
        page.head(&names::SLO_BURNING);
        for slo in &slos {
            page.sample(&names::SLO_BURNING, &[&slo.policy.name], u8::from(slo.is_burning));
        }
    }

    fn render_budget(&self, page: &mut Exposition) {
        let budget = self.budget();
        let figures = [
            (&names::BUDGET_DESCRIPTORS, &budget.descriptors),
            (&names::BUDGET_CONNECTIONS, &budget.connections),
            (&names::BUDGET_UPSTREAM_CONNECTIONS, &budget.upstream_connections),
            (&names::BUDGET_REQUESTS, &budget.requests),
            (&names::BUDGET_BODIES, &budget.bodies),
            (&names::BUDGET_BUFFER_BYTES, &budget.buffer_bytes),
            (&names::BUDGET_MEMORY, &budget.memory_bytes),
        ];
        for (metric, gauge) in figures.into_iter().filter(|(_, gauge)| gauge.value() != 0) {
            page.single(metric, gauge.value());
        }
        page.single(&names::MEMORY_USED, budget.memory_used.value());
        page.single(&names::HELD_BYTES, budget.held_bytes.value());
        page.single(&names::BUDGET_STATE, budget.state.value());
        page.single(&names::SATURATION, budget.saturation_ppm.value() as f64 / 1e6);
    }
}

/// One counter of every series of a family, summed over workers.
/// What the cache has on a disk, where one is configured.
fn render_disk(page: &mut Exposition, disk: Option<CacheDiskStanding>) {
    type Figure = fn(&CacheDiskStanding) -> u64;
    page.head(&names::CACHE_DISK_CONDITION);
    if let Some(disk) = &disk {
        page.sample(&names::CACHE_DISK_CONDITION, &[disk.condition], 1);
    }
    let figures: [(_, Figure); 12] = [
        (&names::CACHE_DISK_BYTES, |disk| disk.bytes),
        (&names::CACHE_DISK_LIMIT_BYTES, |disk| disk.limit_bytes),
        (&names::CACHE_DISK_OBJECTS, |disk| disk.objects),
        (&names::CACHE_DISK_HITS, |disk| disk.hits),
        (&names::CACHE_DISK_BUSY, |disk| disk.busy),
        (&names::CACHE_DISK_WRITTEN, |disk| disk.written),
        (&names::CACHE_DISK_DROPPED, |disk| disk.dropped),
        (&names::CACHE_DISK_EVICTIONS, |disk| disk.evictions),
        (&names::CACHE_DISK_REWRITTEN, |disk| disk.kept),
        (&names::CACHE_DISK_PURGED, |disk| disk.removed),
        (&names::CACHE_DISK_DAMAGED, |disk| disk.damaged),
        (&names::CACHE_DISK_ERRORS, |disk| disk.errors),
    ];
    for (metric, figure) in figures {
        page.head(metric);
        if let Some(disk) = &disk {
            page.sample(metric, &[], figure(disk));
        }
    }
}

fn counters<M, const N: usize>(
    page: &mut Exposition,
    metric: &Metric,
    series: &Snapshot<M, N>,
    cell: impl Fn(&M) -> &Counter,
) {
    page.head(metric);
    for (names, groups) in series {
        let total: u64 = groups.iter().map(|meters| cell(meters).value()).sum();
        page.sample(metric, &names.each_ref().map(String::as_str), total);
    }
}

/// Counters of every listener by what they counted, summed over workers; those at 0 are left out.
fn outcomes<const N: usize>(
    page: &mut Exposition,
    (metric, words): (&Metric, &[&str; N]),
    series: &Snapshot<ListenerMeters, 1>,
    cells: impl Fn(&ListenerMeters) -> &[Counter; N],
) {
    page.head(metric);
    for ([listener], groups) in series {
        for (at, word) in words.iter().enumerate() {
            let total: u64 = groups.iter().map(|meters| cells(meters)[at].value()).sum();
            if total > 0 {
                page.sample(metric, &[listener, word], total);
            }
        }
    }
}

/// One gauge of every series of a family, summed over workers.
fn gauges<M, const N: usize>(
    page: &mut Exposition,
    metric: &Metric,
    series: &Snapshot<M, N>,
    cell: impl Fn(&M) -> &Gauge,
) {
    page.head(metric);
    for (names, groups) in series {
        let total: i64 = groups.iter().map(|meters| cell(meters).value()).sum();
        page.sample(metric, &names.each_ref().map(String::as_str), total);
    }
}

/// One histogram of every series of a family, summed over workers.
fn histograms<M, const N: usize>(
    page: &mut Exposition,
    metric: &Metric,
    series: &Snapshot<M, N>,
    cell: impl Fn(&M) -> &Histogram,
) {
    page.head(metric);
    for (names, groups) in series {
        let mut total = HistogramTotal::default();
        groups.iter().map(Arc::as_ref).for_each(|meters| cell(meters).add_to(&mut total));
        page.histogram(metric, &names.each_ref().map(String::as_str), &total);
    }
}

#[cfg(test)]
mod tests;
