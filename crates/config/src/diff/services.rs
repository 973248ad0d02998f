//! Services and their endpoints as objects.

use super::describe::{certificate_text, hash_key, named, queue};
use super::fields::{Fields, Times, list};
use super::{Object, ObjectKind};
use sha2::{Digest, Sha256};
use thalweg_tls::{PeerPolicy, Trust};
use thalweg_upstream::{
    AdaptivePolicy, BalancePolicy, BreakerPolicy, Check, DestinationPolicy, EjectionPolicy, Endpoint,
    EndpointLimits, HealthPolicy, HedgePolicy, HostRule, Mode, PoolPolicy, Protocol, ProxyProtocol,
    RetryPolicy, SameSite, Service, ServiceLimits, StaticAnswer, Statuses, StickyPolicy, WhenDown,
};

/// A service, then its endpoints.
pub(super) fn describe<'a>(service: &'a Service, objects: &mut Vec<Object<'a>>) {
    let Service {
        name,
        endpoints,
        balance,
        sticky,
        health,
        ejection,
        breaker,
        when_down,
        host,
        tls,
        protocol,
        send_proxy_protocol,
        retry,
        pool,
        limits,
        destinations,
    } = service;
    let summary = move || list(endpoints.iter().map(|endpoint| &endpoint.url));
    objects.push(named(ObjectKind::Service, name, summary, move |fields| {
        balancing(balance, fields);
        sticky.iter().for_each(|sticky| stickiness(sticky, fields));
        health.iter().for_each(|health| checks(health, fields));
        ejecting(ejection, fields);
        breaker.iter().for_each(|breaker| breaking(breaker, fields));
        outage(when_down, fields);
        match host {
            HostRule::Keep => fields.put("host", "keep"),
            HostRule::Endpoint => fields.put("host", "endpoint"),
            HostRule::Fixed(name) => fields.put("host", format_args!("\"{name}\"")),
        }
        tls.iter().for_each(|tls| security(tls.policy(), fields));
        let protocol = match protocol {
            Protocol::Auto => "auto",
            Protocol::Http1 => "http1",
            Protocol::Http2 => "http2",
        };
        fields.put("protocol", protocol);
        let told = send_proxy_protocol.map(|version| match version {
            ProxyProtocol::V1 => "v1",
            ProxyProtocol::V2 => "v2",
        });
        fields.maybe("send_proxy_protocol", told);
        retrying(retry, fields);
        pooling(pool, fields);
        bounds(limits, fields);
        if let Some(DestinationPolicy { max_in_flight, sources }) = destinations {
            fields.put("sealed.max_in_flight", max_in_flight);
            if !sources.is_empty() {
                fields.put("sealed.sources", list(&sources[..]));
            }
        }
    }));
    let mut times = Times::default();
    for endpoint in endpoints {
        // Should the same URL be there twice, both are told.
        let again = times.before(&endpoint.url);
        let mut object = self::endpoint(endpoint);
        object.id = format!("{} {again}", object.id).into();
        object.service = Some(name);
        objects.push(object);
    }
}

fn endpoint(endpoint: &Endpoint) -> Object<'_> {
    let Endpoint { url, address, weight, tier, mode, limits } = endpoint;
    named(
        ObjectKind::Endpoint,
        url,
        move || format!("weight {weight}"),
        move |fields| {
            fields.put("address", address);
            fields.put("weight", weight);
            fields.put("tier", tier);
            let mode = match mode {
                Mode::Ready => "ready",
                Mode::Draining => "draining",
                Mode::Maintenance => "maintenance",
            };
            fields.put("state", mode);
            let EndpointLimits { max_connections, max_in_flight } = limits;
            fields.maybe("max_connections", *max_connections);
            fields.maybe("max_in_flight", *max_in_flight);
        },
    )
}

fn balancing(policy: &BalancePolicy, fields: &mut Fields) {
    let BalancePolicy { algorithm, key, bounded_load, slow_start, panic_threshold } = policy;
    fields.put("balance", algorithm.name);
    fields.maybe("balance.on", key.as_ref().map(hash_key));
    fields.maybe("balance.bounded_load", bounded_load.map(|percent| format!("{percent}%")));
    fields.maybe_time("slow_start", *slow_start);
    fields.percent("panic_threshold", *panic_threshold);
}

fn stickiness(policy: &StickyPolicy, fields: &mut Fields) {
    let StickyPolicy { cookie, key, max_age, secure, same_site } = policy;
    fields.put("sticky.cookie", cookie);
    fields.secret("sticky.secret", format_args!("{key:?}"));
    fields.maybe_time("sticky.max_age", *max_age);
    fields.put("sticky.secure", secure);
    let same_site = match same_site {
        SameSite::Lax => "lax",
        SameSite::Strict => "strict",
        SameSite::None => "none",
    };
    fields.put("sticky.same_site", same_site);
}

fn checks(policy: &HealthPolicy, fields: &mut Fields) {
    let HealthPolicy {
        check,
        port,
        interval,
        interval_down,
        timeout,
        unhealthy_after,
        healthy_after,
        starts_unhealthy,
    } = policy;
    match check {
        Check::Tcp => fields.put("health", "tcp"),
        Check::Grpc { service } => {
            fields.put("health", "grpc");
            fields.maybe("health.grpc.service", (!service.is_empty()).then_some(service));
        }
        Check::Http { path, method, headers, expect, body } => {
            fields.put("health", "http");
            fields.put("health.path", path);
            fields.put("health.method", method);
            // Their values may be credentials.
            for (at, (name, value)) in headers.iter().enumerate() {
                fields.secret(format!("health.headers[{at}] ({name})"), value);
            }
            fields.put("health.expect", expect);
            fields.maybe("health.body", body.as_ref().map(|body| body.as_str()));
        }
    }
    fields.maybe("health.port", *port);
    fields.time("health.interval", *interval);
    fields.maybe_time("health.interval_down", *interval_down);
    fields.time("health.timeout", *timeout);
    fields.put("health.unhealthy_after", unhealthy_after);
    fields.put("health.healthy_after", healthy_after);
    fields.put("health.initial", if *starts_unhealthy { "unhealthy" } else { "healthy" });
}

fn ejecting(policy: &EjectionPolicy, fields: &mut Fields) {
    let EjectionPolicy {
        consecutive,
        statuses,
        failures,
        success_rate,
        latency,
        min_requests,
        window,
        time,
        max_time,
        max_share,
    } = policy;
    let percent = |value: Option<u32>| value.map(|value| format!("{value}%"));
    fields.put("ejection.consecutive", consecutive);
    some_statuses("ejection.statuses", statuses, fields);
    fields.maybe("ejection.failures", percent(*failures));
    fields.maybe("ejection.success_rate", success_rate.map(|tenths| f64::from(tenths) / 10.0));
    fields.maybe("ejection.latency", percent(*latency));
    fields.put("ejection.min_requests", min_requests);
    fields.time("ejection.window", *window);
    fields.time("ejection.time", *time);
    fields.time("ejection.max_time", *max_time);
    fields.percent("ejection.max_share", *max_share);
}

fn some_statuses(name: &'static str, statuses: &Statuses, fields: &mut Fields) {
    fields.maybe(name, (!statuses.is_empty()).then_some(statuses));
}

fn breaking(policy: &BreakerPolicy, fields: &mut Fields) {
    let BreakerPolicy { failures, window, min_requests, open, trials } = policy;
    fields.percent("breaker.failures", *failures);
    fields.time("breaker.window", *window);
    fields.put("breaker.min_requests", min_requests);
    fields.time("breaker.open", *open);
    fields.put("breaker.trials", trials);
}

fn outage(policy: &WhenDown, fields: &mut Fields) {
    match policy {
        WhenDown::Error => fields.put("when_down", "error"),
        WhenDown::TryAll => fields.put("when_down", "try_all"),
        WhenDown::Answer(StaticAnswer { status, content_type, body }) => {
            fields.put("when_down", "answer");
            fields.put("when_down.status", status);
            fields.put("when_down.content_type", content_type);
            fields.put("when_down.body", body);
        }
    }
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

fn retrying(policy: &RetryPolicy, fields: &mut Fields) {
    let RetryPolicy {
        attempts,
        statuses,
        grpc_statuses,
        per_try_timeout,
        budget,
        min_retries_per_second,
        hedge,
    } = policy;
    fields.put("retry.attempts", attempts);
    some_statuses("retry.statuses", statuses, fields);
    fields.maybe("retry.grpc_statuses", (!grpc_statuses.is_empty()).then_some(grpc_statuses));
    fields.maybe_time("retry.per_try_timeout", *per_try_timeout);
    fields.percent("retry.budget", *budget);
    fields.put("retry.min_retries_per_second", min_retries_per_second);
    if let Some(HedgePolicy { after, budget }) = hedge {
        fields.time("retry.hedge.after", *after);
        fields.percent("retry.hedge.budget", *budget);
    }
}

fn pooling(policy: &PoolPolicy, fields: &mut Fields) {
    let PoolPolicy { max_idle, idle, max_age, max_requests } = policy;
    fields.or("pool.max_idle", *max_idle, "auto");
    fields.time("pool.idle", *idle);
    fields.time("pool.max_age", *max_age);
    fields.maybe("pool.max_requests", (*max_requests != u32::MAX).then_some(max_requests));
}

fn bounds(limits: &ServiceLimits, fields: &mut Fields) {
    let ServiceLimits { max_connections, max_in_flight, adaptive, queue: policy } = limits;
    fields.maybe("limits.max_connections", *max_connections);
    fields.maybe("limits.max_in_flight", *max_in_flight);
    if let Some(AdaptivePolicy { min, max, tolerance }) = adaptive {
        fields.put("limits.adaptive.min", min);
        fields.put("limits.adaptive.max", max);
        fields.percent("limits.adaptive.tolerance", *tolerance);
    }
    queue(*policy, fields);
}
