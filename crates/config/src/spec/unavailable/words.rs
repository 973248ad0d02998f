//! The table.

use super::Means::{Called, Later, Renamed};
use super::Place::{
    AccessLog, Admin, Endpoint, Filter, Health, Limits, Listener, ListenerTls, Match, Retry, Route, Service,
    ServiceTls, TestExpect, Timeouts, Top,
};
use super::Row;

macro_rules! rows {
    ($( [$($at:ident),+] $($word:literal),+ => $means:expr; )*) => {
        &[ $( Row { at: &[$($at),+], words: &[$($word),+], means: $means }, )* ]
    };
}

const LISTENERS: &str = "docs/guide/configuration.md#listenersname";
const TLS: &str = "docs/guide/configuration.md#listenersnametls";
const ROUTES: &str = "docs/guide/configuration.md#routes";
const MATCH: &str = "docs/guide/configuration.md#routesmatch";
const TO: &str = "docs/guide/configuration.md#routesto";
const FILTERS: &str = "docs/guide/configuration.md#routesfilters";
const TRACING: &str = "docs/guide/traces.md";
const AUTH: &str = "docs/guide/authentication.md";
const EXT: &str = "docs/guide/ext.md";
const WASM: &str = "docs/guide/wasm.md";
const SERVICES: &str = "docs/guide/configuration.md#servicesname";
const DISCOVERY: &str = "docs/guide/discovery.md";
const SERVICE_TLS: &str = "docs/guide/configuration.md#servicesnametls";
const BALANCE: &str = "docs/guide/configuration.md#servicesnamebalance";
const HEALTH: &str = "docs/guide/configuration.md#servicesnamehealth";
const RETRY: &str = "docs/guide/configuration.md#servicesnameretry";
const TIMEOUTS: &str = "docs/guide/configuration.md#timeouts";
const LIMITS: &str = "docs/guide/configuration.md#limits";
const CACHE: &str = "docs/guide/cache.md";
const ACCESS: &str = "docs/guide/access.md";
const LOG: &str = "docs/guide/configuration.md#access_log";
const ADMIN: &str = "docs/guide/configuration.md#admin-and-metrics";
const SURVIVE: &str = "docs/guide/services-that-survive.md";

/// Every row. Words in lower case with `_`.
pub(super) const WORDS: &[Row] = rows! {
    // Renamed.
    [Top] "requests" => Renamed("`request_history`");
    [Retry] "per_try" => Renamed("`per_try_timeout`");
    [Retry] "min_per_second" => Renamed("`min_retries_per_second`");
    [Health] "before_traffic" => Renamed("`initial: unhealthy` for `before_traffic: true`, `initial: healthy` for `false`");
    [Listener] "responses" => Renamed("`expected_responses`");

    // Features to come.
    [Top] "dynamic_resources", "xds", "ingress_class" => Later(None);
    [Top] "providers", "provider" => Called("`route_sources`, as in `route_sources: [ { docker: {} } ]`", DISCOVERY);
    [Listener, ListenerTls, Top] "http3", "quic", "h3" => Later(None);
    [Route] "retry", "retries", "attempts" => Later(Some("write `retry` at the service"));
    [Top, Route, Filter, Service, Listener] "rate_limits", "ratelimit", "rate_limiting", "limit_req", "limit_req_zone", "local_ratelimit", "stick_table"
        => Called("the filter `rate_limit`, as in `filters: [ { rate_limit: { requests: 100, per: 1s, key: client_ip } } ]`", FILTERS);
    [Top, Route, Service, Listener] "rate_limit"
        => Called("it in `filters`, as in `filters: [ { rate_limit: { requests: 100, per: 1s, key: client_ip } } ]`", FILTERS);
    [Limits] "rate", "requests_per_second", "rps", "rate_limit", "max_rate"
        => Called("the filter `rate_limit`, as in `filters: [ { rate_limit: { requests: 100, per: 1s, key: client_ip } } ]`", FILTERS);
    [Route, Service, Listener] "cache" => Called("it in `filters`, as in `filters: [ { cache: {} } ]`", CACHE);
    [Top, Route, Filter, Service, Listener] "caching", "proxy_cache", "proxy_cache_path", "proxy_cache_valid", "http_cache", "souin"
        => Called("the filter `cache`, as in `filters: [ { cache: {} } ]`", CACHE);
    [Top, Route, Service, Listener] "maintenance", "maintenance_mode" => Called("it in `filters`, as in `filters: [ { maintenance: { on: true } } ]`", FILTERS);
    [Filter] "maintenance_mode" => Called("the filter `maintenance`, as in `filters: [ { maintenance: { on: true } } ]`", FILTERS);
    [Route, Service] "fault", "fault_injection" => Called("the filter `fault`, as in `filters: [ { fault: { share: 1%, delay: 2s } } ]`", FILTERS);
    [Filter] "fault_injection", "chaos" => Called("the filter `fault`, as in `filters: [ { fault: { share: 1%, delay: 2s } } ]`", FILTERS);
    [Top, Route, Service, Listener] "throttle", "bandwidth" => Called("the filter `throttle`, as in `filters: [ { throttle: { response: 512KB/s } } ]`", FILTERS);
    [Top, Route, Filter, Service, Listener] "limit_rate", "limit_rate_after", "proxy_limit_rate", "bwlim", "bandwidth_limit" => Called("the filter `throttle`, as in `filters: [ { throttle: { response: 512KB/s } } ]`", FILTERS);
    [Route, Filter, Service] "proxy_redirect", "proxy_cookie_path", "proxy_cookie_domain", "proxy_pass_reverse" => Called("the filter `map_back`, as in `filters: [ { map_back: true } ]`", FILTERS);
    [Route] "request_id" => Called("it in `filters`, as in `filters: [ { request_id: {} } ]`", FILTERS);
    [Top, Route, Filter, Service, Listener] "compression", "compressor", "gzip", "brotli", "zstd", "deflate", "encode"
        => Called("the filter `compress`, as in `filters: [ { compress: {} } ]`", FILTERS);
    [Top, Route, Service, Listener] "compress" => Called("it in `filters`, as in `filters: [ { compress: {} } ]`", FILTERS);
    [Top, Route, Filter, Service, Listener] "basic_auth", "basicauth", "auth_basic", "users_file", "auth_basic_user_file", "htpasswd"
        => Called("the filter `auth`, as in `filters: [ { auth: { basic: { file: users.htpasswd } } } ]`", AUTH);
    [Top, Route, Filter, Service, Listener] "key_auth", "api_key", "api_keys"
        => Called("the filter `auth`, as in `filters: [ { auth: { api_key: { file: keys.txt } } } ]`", AUTH);
    [Top, Route, Filter, Service, Listener] "secure_link", "secure_link_md5", "secure_link_secret", "signed_url"
        => Called("the filter `auth`, as in `filters: [ { auth: { signed_url: { secrets: { a: { file: link.key } } } } } ]`", AUTH);
    [Top, Route, Service, Listener] "auth"
        => Called("it in `filters`, as in `filters: [ { auth: { basic: { file: users.htpasswd } } } ]`", AUTH);
    [Top, Route, Filter, Service, Listener] "jwt", "jwt_auth", "jwt_authn", "auth_jwt", "auth_jwt_key_file", "auth_jwt_key_request"
        => Called("the filter `auth`, as in `filters: [ { auth: { jwt: { jwks_url: \"https://id.example.com/keys\" } } } ]`", AUTH);
    [Top, Route, Filter, Service, Listener] "oidc", "oauth", "oauth2", "openid_connect", "auth_oidc"
        => Called("the filter `auth`, as in `filters: [ { auth: { oidc: { providers: { corp: { issuer: \"https://id.example.com\", client_id: shop } }, secret: { file: session.key } } } } ]`", AUTH);
    [Top, Route, Filter, Service, Listener] "forward_auth", "forwardauth", "auth_request", "ext_authz", "external_auth"
        => Called("the filter `auth`, as in `filters: [ { auth: { forward_auth: { service: judge } } } ]`", AUTH);
    [Top, Route, Filter, Service, Listener] "digest_auth",
        "authentication", "authorization", "ldap", "rbac"
        => Later(Some("the filter `auth` has `basic`, `api_key`, `jwt`, `oidc`, `forward_auth`, `mtls` and `signed_url`, and `tls.client_auth` of a listener asks clients for certificates"));
    [Top, Route, Filter, Service, Listener] "allow", "deny", "access_list", "acl", "acls", "ip_allow_list", "ip_white_list", "ip_restriction", "whitelist", "blacklist",
        "allow_list", "deny_list", "geoip", "geo", "http_access", "ip_filter"
        => Called("`access`, as in `access: { deny: [ 192.0.2.0/24 ] }` of a listener or in `filters`", ACCESS);
    [Top, Route, Service] "access" => Called("it in `filters` or at a listener, as in `filters: [ { access: { deny: [ 192.0.2.0/24 ] } } ]`", ACCESS);
    [Top, Route, Filter, Service, Listener] "ban", "banning", "fail2ban", "crowdsec", "geo_block", "blocklist", "block_list", "blocked"
        => Called("`bans` and `lists` at the top, as in `bans: { logins: { status: 401, after: 10 } }`", ACCESS);
    [Top, Route] "cors" => Called("it in `filters`, as in `filters: [ { cors: { origins: \"https://app.example.com\" } } ]`", FILTERS);
    [Top, Route, Filter, Service, Listener] "header", "add_header", "add_headers", "set_header", "set_headers", "remove_header", "remove_headers", "request_header",
        "request_headers", "response_header", "response_headers", "proxy_set_header", "proxy_hide_header", "header_up", "header_down", "custom_request_headers", "http_request",
        "http_response", "request_headers_to_add", "response_headers_to_add", "request_headers_to_remove", "response_headers_to_remove"
        => Called("the filter `headers`, as in `filters: [ { headers: { request: { set: { X-A: \"1\" } } } } ]`", FILTERS);
    [Top, Route, Service, Listener] "headers"
        => Called("the filter `headers`, as in `filters: [ { headers: { request: { set: { X-A: \"1\" } } } } ]`", FILTERS);
    [Top, Route, Filter, Service, Listener] "secure_headers" => Called("the filter `security_headers`, as in `filters: [ { security_headers: {} } ]`", FILTERS);
    [Top, Route, Service, Listener] "security_headers" => Called("it in `filters`, as in `filters: [ { security_headers: {} } ]`", FILTERS);
    [Route, Filter, Service] "redirects", "redir", "return", "redirect_scheme", "redirect_regex"
        => Called("the filter `redirect`, as in `filters: [ { redirect: \"https://www.example.com{path}\" } ]`", FILTERS);
    [Route, Service] "redirect" => Called("it in `filters`, as in `filters: [ { redirect: \"https://www.example.com{path}\" } ]`", FILTERS);
    [Route, Filter] "response", "static_response", "fixed_response", "direct_response", "status" => Called("the filter `respond`, as in `filters: [ { respond: 404 } ]`", FILTERS);
    [Route] "respond" => Called("it in `filters`, as in `filters: [ { respond: 404 } ]`", FILTERS);
    [Route, Filter, Service] "sub_filter", "replace_response", "response_body_rewrite", "body_rewrite"
        => Called("the filter `substitute`, as in `filters: [ { substitute: { rules: [ { text: a, to: b } ] } } ]`", FILTERS);
    [Top, Route, Filter, Service] "rewrites", "url_rewrite", "prefix_rewrite", "regex_rewrite", "rewrite_path", "replace_path", "replace_path_regex", "replace_prefix",
        "add_prefix", "path_rewrite", "url_rewriting"
        => Called("the filter `rewrite`, as in `filters: [ { rewrite: { prefix: { from: /old, to: /new } } } ]`", FILTERS);
    [Top, Route, Service] "rewrite" => Called("it in `filters`, as in `filters: [ { rewrite: { prefix: { from: /old, to: /new } } } ]`", FILTERS);
    [Route, Filter, Service] "mirroring", "shadow", "request_mirror", "request_mirror_policies"
        => Called("the filter `mirror`, as in `filters: [ { mirror: shadow } ]`", FILTERS);
    [Route, Service] "mirror" => Called("it in `filters`, as in `filters: [ { mirror: shadow } ]`", FILTERS);
    [Top, Route, Service, Filter] "root", "alias", "file_server", "static", "static_files", "try_files", "index", "autoindex"
        => Called("the filter `files`, as in `filters: [ { files: ./public } ]`", FILTERS);
    [Top, Route, Service] "files" => Called("it in `filters`, as in `filters: [ { files: ./public } ]`", FILTERS);
    [Top, Route, Service, Filter] "php_fastcgi", "fastcgi_pass", "uwsgi_pass"
        => Later(Some("put a web server behind this proxy and name it as an endpoint"));
    [Top, Route, Service, Filter] "error_page", "errors", "errorfile", "errorfiles", "handle_errors", "custom_errors", "intercept"
        => Called("the filter `error_pages`, as in `filters: [ { error_pages: { pages: { 404: { html: { file: 404.html } } } } } ]`", FILTERS);
    [Top, Route, Service, Listener] "error_pages" => Called("it in `filters`, as in `filters: [ { error_pages: { pages: { 404: { html: { file: 404.html } } } } } ]`", FILTERS);
    [Route, Service] "buffer" => Called("it in `filters`, as in `filters: [ { buffer: {} } ]`", FILTERS);
    [Route, Filter, Service] "buffering", "request_buffering", "proxy_request_buffering" => Called("the filter `buffer`, as in `filters: [ { buffer: {} } ]`", FILTERS);
    [Route, Filter, Service] "proxy_buffering" => Later(Some("bodies of responses are relayed as they come; the filter `buffer` is for those of requests"));
    [Top, Route, Filter, Service] "lua", "plugins", "plugin", "ext_proc", "script", "njs"
        => Called("the filter `ext`, as in `filters: [ { ext: { service: decider } } ]`", EXT);
    [Top, Route, Service] "ext" => Called("it in `filters`, as in `filters: [ { ext: { service: decider } } ]`", EXT);
    [Top, Route, Service] "wasm" => Called("it in `filters`, as in `filters: [ { wasm: { module: filter.wasm } } ]`", WASM);
    [Top, Route, Filter, Service] "waf", "modsecurity" => Later(None);
    [Top, Listener, Route] "trace", "opentelemetry", "otel", "otlp", "telemetry", "zipkin", "jaeger"
        => Called("`tracing` at the top, as in `tracing: { endpoint: \"http://127.0.0.1:4318\" }`", TRACING);
    [Listener, Route] "tracing" => Called("it at the top: it is for all routes", TRACING);
    [Service] "discovery", "discovery_type", "service_discovery", "dns", "consul", "consul_catalog", "etcd", "eureka", "kubernetes", "k8s", "docker", "nacos",
        "zookeeper", "dynamic", "resolver"
        => Called("`discover`, as in `discover: { dns: { name: app.internal, port: 8080 } }`", SERVICES);
    [Top] "discover", "discovery", "consul", "etcd", "eureka", "kubernetes", "k8s", "docker", "resolver", "resolvers", "dns"
        => Called("`discover` of a service, as in `services: { app: { discover: { dns: { name: app.internal, port: 8080 } } } }`", SERVICES);
    [ListenerTls] "ocsp", "ocsp_stapling", "ssl_stapling", "stapling" => Later(None);
    [ListenerTls] "alpn", "alpn_protocols" => Later(Some("HTTP/2 and HTTP/1.1 are offered by themselves"));
    [Retry] "backoff", "retry_back_off", "initial_interval", "delay" => Later(Some("another attempt is made at once, on another endpoint"));
    [AccessLog] "fields", "filter", "filters", "condition", "if" => Called("the filter `log`, as in `filters: [ { log: { share: 10% } } ]`", FILTERS);
    [TestExpect] "headers_added", "headers_removed", "redirect" => Later(None);

    // Other names: the top.
    [Top] "server", "servers", "frontend", "frontends", "entry_points", "entrypoints", "listen", "listener", "bind", "binds", "http", "https", "sites", "site", "port", "ports",
        "address", "static_resources", "stream", "tcp", "udp", "gateways", "host"
        => Called("`listeners`, as in `listeners: { web: { address: \":8080\" } }`", LISTENERS);
    [Top] "location", "locations", "router", "routers", "route", "rules", "rule", "vhosts", "virtual_host", "virtual_hosts", "hosts", "ingress", "handle", "handle_path", "paths",
        "proxy_pass", "reverse_proxy", "to", "match", "http_routes", "route_config", "domains"
        => Called("`routes`, as in `routes: [ { match: { path: /a/* }, to: a } ]`", ROUTES);
    [Top] "upstream", "upstreams", "backend", "backends", "cluster", "clusters", "pools", "pool", "target_groups", "targets", "load_balancer", "load_balancers", "service",
        "endpoints"
        => Called("`services`, as in `services: { a: { endpoints: [ \"http://10.0.0.1:8080\" ] } }`", SERVICES);
    [Top] "middlewares", "middleware", "filter_chains", "filter_chain", "http_filters", "filters", "chain", "snippets"
        => Called("`chains`, as in `chains: { common: [ { hsts: {} } ] }`, or `filters` of a route", FILTERS);
    [Top] "worker_processes", "worker_threads", "threads", "nbthread", "nbproc", "concurrency", "runtime" => Called("`workers`", "docs/guide/configuration.md#top-level");
    [Top] "log", "logs", "logging", "access_logs", "error_log", "accesslog" => Called("`access_log`, as in `access_log: { format: json }`", LOG);
    [Top] "tls", "ssl", "certificate", "certificates", "certificates_resolvers", "acme", "letsencrypt", "email", "auto_https"
        => Called("`tls` at a listener, as in `tls: { cert: site.pem, key: site.key }`", TLS);
    [Top] "api", "dashboard", "admin_api", "control" => Called("`admin`", ADMIN);
    [Top] "stats", "status", "prometheus", "stub_status" => Called("`metrics`, as in `metrics: { address: \"127.0.0.1:9901\" }`", ADMIN);
    [Top] "timeout", "timeouts", "retries", "retry" => Called("`defaults`, as in `defaults: { timeouts: { connect: 2s } }`", TIMEOUTS);
    [Top] "maxconn", "worker_connections", "max_connections", "max_clients" => Called("`limits`, as in `limits: { max_connections: 10000 }`", LIMITS);
    [Top] "set_real_ip_from", "real_ip", "trusted_ips", "forwarded_headers", "use_remote_address", "xff_num_trusted_hops" => Called("`trusted_proxies`", "docs/guide/configuration.md#trusted_proxies");
    [Top] "import", "imports", "includes", "conf_d" => Called("`include`", "docs/guide/configuration.md#several-files");
    [Top] "env", "vars", "variables", "environment" => Called("`${NAME}` where the value belongs", "docs/guide/configuration.md#variables");
    [Top] "health", "health_check", "health_checks" => Called("`health` at a service", HEALTH);
    [Top] "data_dir", "storage", "state_dir" => Called("`state`, as in `state: { path: /var/lib/thalweg }`", "docs/guide/configuration.md#state");
    [Top] "group", "uid", "gid", "run_as" => Called("`user`, as in `user: thalweg:thalweg`", "docs/guide/configuration.md#top-level");
    [Top] "slo", "objectives", "service_levels" => Called("`slos`, as in `slos: { checkout: { route: checkout, target: 99.9% } }`", "docs/guide/configuration.md#slosname");
    [Top] "hooks", "notifications", "alerts", "webhook" => Called("`webhooks`", "docs/guide/configuration.md#webhooks");
    [Top] "global", "globals", "main", "events", "core" => Called("its settings at the top level", "docs/guide/configuration.md#top-level");

    // Other names: listeners.
    [Listener] "listen", "bind", "port", "ip", "addr", "socket_address" => Called("`address`, as in `address: \":8080\"`", LISTENERS);
    [Listener] "ssl", "certificate", "certificates", "cert", "key", "ssl_certificate", "ssl_certificate_key", "acme", "https", "transport_socket"
        => Called("`tls`, as in `tls: { cert: site.pem, key: site.key }`", TLS);
    [Listener] "server_name", "host", "hosts", "hostname", "routes", "route", "locations", "location", "match", "virtual_hosts", "domains"
        => Called("it at the route: `routes: [ { match: { host: … } } ]`", MATCH);
    [Listener] "service", "upstream", "backend", "default_backend", "use_backend", "proxy_pass", "reverse_proxy", "target", "cluster", "endpoints"
        => Called("`routes` for requests, or `to` with `protocol: tcp`", LISTENERS);
    [Listener] "redirect", "redirect_to_https", "http_to_https", "https_redirect", "force_https", "redirect_scheme", "return" => Called("`redirect_https: true`", LISTENERS);
    [Listener] "http2", "h2" => Called("`tls`, with which HTTP/2 is offered, or `h2c: true`", LISTENERS);
    [Listener] "type", "mode" => Called("`protocol`, as in `protocol: tcp`", LISTENERS);
    [Listener] "max_connections", "maxconn" => Called("`limits: { max_connections: … }`", LISTENERS);
    [Listener] "accept_proxy", "proxy", "send_proxy" => Called("`proxy_protocol: { from: [ 10.0.0.0/8 ] }`", LISTENERS);
    [Listener] "timeout", "timeouts" => Called("`defaults: { timeouts: … }`", TIMEOUTS);
    [Listener] "access_log", "log" => Called("`access_log` at the top", LOG);
    [Listener] "middlewares", "filter_chains" => Called("`filters`", FILTERS);

    [ListenerTls] "certificate", "crt", "cert_file", "certfile", "ssl_certificate", "certificate_file", "fullchain", "pem", "cert_chain" => Called("`cert`", TLS);
    [ListenerTls] "private_key", "key_file", "keyfile", "ssl_certificate_key", "keyfile_path" => Called("`key`", TLS);
    [ListenerTls] "ciphers", "cipher_suites", "ssl_ciphers", "ciphersuites" => Called("`suites`", TLS);
    [ListenerTls] "protocols", "versions", "ssl_protocols", "version" => Called("`min_version` and `max_version`", TLS);
    [ListenerTls] "curves", "ecdh_curve", "ssl_ecdh_curve", "curve_preferences" => Called("`groups`", TLS);
    [ListenerTls] "ca", "ca_file", "client_ca", "client_ca_file", "mtls", "client_certificate", "ssl_client_certificate", "verify_client", "ssl_verify_client", "verify"
        => Called("`client_auth: { ca: clients.pem }`", "docs/guide/configuration.md#client-certificates");
    [ListenerTls] "session_tickets", "session_timeout", "session_cache", "ssl_session_cache", "ssl_session_timeout" => Called("`tickets`", TLS);
    [ListenerTls] "strict_sni", "sni_strict" => Called("`unknown_name: refuse`", TLS);
    [ListenerTls] "letsencrypt", "auto", "automatic", "cert_resolver", "resolver" => Called("`acme: { email: … }`", "docs/guide/certificates.md");
    [ListenerTls] "internal", "self_signed" => Called("`local: true`", "docs/guide/certificates.md");

    // Other names: routes.
    [Route] "host", "hosts", "hostname", "hostnames", "domain", "domains", "server_name", "path", "paths", "path_prefix", "prefix", "location", "uri", "path_regex", "methods",
        "method", "query", "rule", "rules", "when", "predicates", "matches", "client", "from", "source"
        => Called("`match`, as in `match: { host: a.example.com, path: /a/* }`", MATCH);
    [Route] "service", "services", "backend", "backends", "backend_refs", "upstream", "upstreams", "proxy_pass", "reverse_proxy", "proxy", "cluster", "clusters", "target", "targets",
        "forward", "forward_to", "endpoints", "endpoint", "destination", "dest", "url", "urls", "servers", "server", "use_backend", "default_backend", "use", "weighted_clusters"
        => Called("`to`, with the name of a service or a list of URLs", TO);
    [Route] "middlewares", "middleware", "handle", "steps", "http_filters", "strip_prefix", "strip_path", "hsts", "grpc_web", "chain", "chains", "filter"
        => Called("`filters`, as in `filters: [ { strip_prefix: /a } ]`", FILTERS);
    [Route] "entry_points", "entrypoints", "listener", "listen" => Called("`listeners`, as in `listeners: [ web ]`", ROUTES);
    [Route] "timeout", "proxy_read_timeout", "proxy_connect_timeout", "idle_timeout", "read_timeout", "request_timeout" => Called("`timeouts`", TIMEOUTS);
    [Route] "client_max_body_size", "max_body", "max_body_size", "max_request_body_size" => Called("`limits: { max_body: 10MiB }`", LIMITS);
    [Route] "weight", "weights", "split" => Called("`to: [ { service: a, weight: 95 }, { service: b, weight: 5 } ]`", TO);
    [Route] "health", "health_check", "balance", "load_balancing", "lb_policy", "sticky", "sticky_session" => Called("it at the service", SERVICES);
    [Route] "priority" => Called("nothing: the more exact route is taken first, then file order", ROUTES);
    [Route] "tls", "ssl" => Called("`tls` at the listener", TLS);
    [Route] "websocket", "websockets", "upgrade", "upgrade_configs", "enable_websocket" => Called("nothing: WebSockets pass by themselves", ROUTES);
    [Route] "id", "title" => Called("`name`", ROUTES);

    [Match] "method" => Called("`methods`", MATCH);
    [Match] "hosts", "hostname", "hostnames", "domain", "domains", "server_name", "authority" => Called("`host`", MATCH);
    [Match] "paths", "uri", "url", "location", "prefix", "path_prefix", "starts_with", "path_separated_prefix" => Called("`path`, as in `path: /a/*`", MATCH);
    [Match] "regex", "path_regexp", "safe_regex", "path_reg" => Called("`path_regex`", MATCH);
    [Match] "header" => Called("`headers`", MATCH);
    [Match] "queries", "query_params", "query_parameters", "query_string", "params", "args" => Called("`query`", MATCH);
    [Match] "client_ip", "remote_ip", "remote_addr", "ip", "ips", "source", "source_ip", "src", "cidr", "from" => Called("`client`", MATCH);
    [Match] "cookie", "cookies" => Called("`headers: { cookie: { contains: … } }`", MATCH);
    [Match] "scheme", "protocol", "port" => Called("`listeners` at the route", ROUTES);
    [Match] "not", "any", "or", "and", "expression", "rule" => Later(Some("write one route for each case"));

    // Other names: services.
    [Service] "server", "servers", "host_list", "hosts", "url", "urls", "target", "targets", "upstream", "upstreams", "backend", "backends", "addresses", "address", "members",
        "nodes", "to", "load_assignment", "lb_endpoints", "endpoint", "instances"
        => Called("`endpoints`, as in `endpoints: [ \"http://10.0.0.1:8080\" ]`", SERVICES);
    [Service] "lb", "lb_policy", "load_balancing", "load_balancer", "algorithm", "policy", "strategy", "balancer", "balancing", "lb_algorithm" => Called("`balance`", BALANCE);
    [Service] "ip_hash", "hash" => Called("`balance: { hash: { on: client_ip } }`", BALANCE);
    [Service] "least_conn", "least_connections", "least_request" => Called("`balance: least_requests`", BALANCE);
    [Service] "health_check", "health_checks", "healthcheck", "check", "checks", "httpchk", "active_health", "health_uri", "probe" => Called("`health`, as in `health: /healthz`", HEALTH);
    [Service] "outlier_detection", "passive_health", "passive_health_check", "max_fails", "fail_timeout" => Called("`ejection`", SURVIVE);
    [Service] "circuit_breaker", "circuit_breakers" => Called("`breaker`", SURVIVE);
    [Service] "sticky_session", "sticky_sessions", "session_affinity", "stick", "cookie", "affinity" => Called("`sticky`", "docs/guide/configuration.md#servicesnamesticky");
    [Service] "retries", "retry_policy", "proxy_next_upstream", "tries", "attempts" => Called("`retry`, as in `retry: { attempts: 2 }`", RETRY);
    [Service] "keepalive", "keep_alive", "connection_pool", "pooling", "max_idle" => Called("`pool`", "docs/guide/configuration.md#servicesnamepool");
    [Service] "timeout", "connect_timeout", "read_timeout" => Called("`timeouts`, as in `timeouts: { connect: 2s }`", TIMEOUTS);
    [Service] "maxconn", "max_conns", "max_connections", "max_in_flight" => Called("`limits: { max_connections: … }`", "docs/guide/configuration.md#limits-of-routes-services-and-endpoints");
    [Service] "host_header", "pass_host_header", "preserve_host", "host_rewrite" => Called("`host`", SERVICES);
    [Service] "ssl", "transport_socket", "servers_transport", "insecure_skip_verify", "ca" => Called("`tls`, and `https://` in the URLs", SERVICE_TLS);
    [Service] "http2", "h2", "h2c", "type" => Called("`protocol`, as in `protocol: http2`", "docs/guide/configuration.md#servicesnameprotocol");
    [Service] "proxy_protocol", "send_proxy", "send_proxy_v2" => Called("`send_proxy_protocol`", SERVICES);
    [Service] "fallback", "failover" => Called("`when_down`, or endpoints with `tier: 1`", SURVIVE);
    [Service] "middlewares" => Called("`filters`", FILTERS);
    [Service] "weight", "weights" => Called("`weight` at the endpoint or in `to` of a route", TO);

    [ServiceTls] "verify", "skip_verify", "insecure", "tls_insecure_skip_verify", "proxy_ssl_verify" => Called("`insecure_skip_verify`", SERVICE_TLS);
    [ServiceTls] "sni", "servername", "server_names", "proxy_ssl_name" => Called("`server_name`", SERVICE_TLS);
    [ServiceTls] "ca_file", "cafile", "root_ca", "root_cas", "trusted_ca", "trusted_certificate" => Called("`ca`", SERVICE_TLS);
    [ServiceTls] "certificate", "cert_file", "client_cert", "certfile" => Called("`cert`", SERVICE_TLS);
    [ServiceTls] "private_key", "key_file", "client_key", "keyfile" => Called("`key`", SERVICE_TLS);

    [Endpoint] "address", "host", "server", "addr", "uri", "target", "upstream", "port" => Called("`url`, as in `url: \"http://10.0.0.1:8080\"`", SERVICES);
    [Endpoint] "priority" => Called("`tier`", SERVICES);
    [Endpoint] "down", "disabled", "enabled" => Called("`weight: 0`", SERVICES);
    [Endpoint] "maxconn", "max_conns" => Called("`max_connections`", SERVICES);

    [Health] "uri", "url", "http_path", "endpoint", "health_uri" => Called("`path`", HEALTH);
    [Health] "fall", "fails", "max_fails", "unhealthy_threshold", "failure_threshold" => Called("`unhealthy_after`", HEALTH);
    [Health] "rise", "passes", "healthy_threshold", "success_threshold" => Called("`healthy_after`", HEALTH);
    [Health] "status", "statuses", "expected_status", "expect_status", "expected_statuses", "match", "codes" => Called("`expect`, as in `expect: [ 200 ]`", HEALTH);
    [Health] "inter", "every", "period" => Called("`interval`", HEALTH);
    [Health] "http", "http_health_check" => Called("`path`, as in `path: /healthz`", HEALTH);
    [Health] "scheme", "host", "hostname" => Called("`headers: { host: … }`; the scheme is that of the endpoint's URL", HEALTH);
    [Health] "type", "protocol" => Called("`path`, `grpc: {}` or `tcp: true`", HEALTH);

    [Retry] "retries", "max_retries", "num_retries", "tries", "max", "count", "max_attempts" => Called("`attempts`, which counts the first one too", RETRY);
    [Retry] "on", "retry_on", "conditions", "status_codes", "codes", "retriable_status_codes" => Called("`statuses`, as in `statuses: [ 503 ]`", RETRY);
    [Retry] "timeout", "try_timeout" => Called("`per_try_timeout`", RETRY);

    [Timeouts] "read", "response", "proxy_read", "read_timeout", "server", "proxy_read_timeout", "response_header" => Called("`first_byte`, and `idle` between two bytes", TIMEOUTS);
    [Timeouts] "send", "write", "send_timeout", "stream_idle", "tunnel" => Called("`idle`", TIMEOUTS);
    [Timeouts] "total", "overall", "timeout", "route" => Called("`request`", TIMEOUTS);
    [Timeouts] "client_header", "read_header", "header", "headers", "http_request", "request_headers" => Called("`head` in `defaults`", TIMEOUTS);
    [Timeouts] "keepalive", "http_keep_alive", "client", "idle_connection" => Called("`keep_alive` in `defaults`", TIMEOUTS);
    [Timeouts] "connect_timeout", "dial", "proxy_connect" => Called("`connect`", TIMEOUTS);

    [Limits] "client_max_body_size", "max_body_size", "body", "body_size", "max_request_bytes" => Called("`max_body` in `limits` of a route or of `defaults`", "docs/guide/configuration.md#limits-of-routes-services-and-endpoints");
    [Limits] "maxconn", "max_conns", "connections", "max_clients" => Called("`max_connections`", LIMITS);
    [Limits] "max_requests", "max_pending_requests", "concurrency", "in_flight" => Called("`max_in_flight`", LIMITS);
    [Limits] "max_header_size", "header_size", "large_client_header_buffers", "max_headers" => Called("`max_head` and `max_fields` in `limits` at the top", LIMITS);

    [Admin] "port", "listen", "bind", "host", "addr" => Called("`address`, as in `address: \"127.0.0.1:9900\"`", ADMIN);
    [Admin] "password", "secret", "api_key", "auth", "basic_auth" => Called("`token: { file: … }`", ADMIN);
    [AccessLog] "file", "output", "target", "file_path", "destination" => Called("`path`", LOG);
    [AccessLog] "template", "log_format", "pattern" => Called("`format`, as in `format: { text: \"{client_ip} {status}\" }`", LOG);
    [AccessLog] "sampling", "sampling_rate", "sample_rate" => Called("`sample`, as in `sample: { share: 1% }`", LOG);
    [AccessLog] "rotation", "roll", "rolling", "roll_size", "max_size", "logrotate" => Called("`rotate`, as in `rotate: { size: 100MiB, keep: 10 }`", LOG);
    [AccessLog] "enabled", "off", "disabled" => Called("`format: \"off\"`", LOG);
    [AccessLog] "type", "encoding", "encoder" => Called("`format`", LOG);
};
