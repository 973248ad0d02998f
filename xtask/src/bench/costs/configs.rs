//! The configurations: the usual one of each program, and what a feature adds to it.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;

use super::Peer;
use super::feature::Feature;
use crate::bench::configs;
use crate::bench::contestant::Place;
use crate::bench::tls::certificate::Certificate;

/// The field with a token that [`SECRET`] has signed with HS256.
pub(super) const TOKEN: &str = "authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEiLCJleHAiOjQxMDI0NDQ4MDAsInBsYW\
    4iOiJnb2xkIiwic2NvcGUiOiJyZWFkIn0.tqY-jCRQAMe0_PYBXQuixprWpmjle7BvCMEWYPM7aDk";
const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// The token of the admin address.
pub(super) const ADMIN_TOKEN: &str = "token-of-the-bench-0123456789";
/// `password`, as argon2id with little memory.
const PASSWORD: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
/// The key that clients send, as SHA-256.
const KEY: &str = "sha256:ea4077b0164c8917200d9dc8d373550f2188580bca03773ea22cdbf3db1026c8";

/// Where one stands, and what it may use.
pub(super) struct Site {
    pub(super) listen: SocketAddr,
    /// For metrics or the admin API.
    pub(super) side: SocketAddr,
    pub(super) folder: PathBuf,
    backend: SocketAddr,
    /// Takes traces.
    sink: SocketAddr,
    certificate: (String, String),
    /// Chain and key in one file.
    both: PathBuf,
}

impl Site {
    pub(super) fn new(place: &mut Place, certificate: &Certificate, sink: SocketAddr) -> Result<Self> {
        let folder = place.next_folder()?;
        let both = folder.join("both.pem");
        let [chain, key] = [&certificate.chain, &certificate.key].map(fs::read_to_string);
        fs::write(&both, chain? + &key?)?;
        fs::write(folder.join("users"), "ada:{PLAIN}password\n")?;
        let certificate = (certificate.chain.display().to_string(), certificate.key.display().to_string());
        let (listen, side, backend) = (place.address()?, place.address()?, place.backend);
        Ok(Self { listen, side, folder, backend, sink, certificate, both })
    }
}

/// The configuration of a program with a feature; `None` where it has no such feature.
pub(super) fn of(peer: Peer, feature: Feature, site: &Site) -> Option<String> {
    match peer {
        Peer::Thalweg => Some(thalweg(feature, site)),
        Peer::Nginx => nginx(feature, site),
        Peer::Haproxy => haproxy(feature, site),
    }
}

fn thalweg(feature: Feature, site: &Site) -> String {
    let Site { listen, side, sink, folder, backend, certificate: (chain, key), .. } = site;
    let filter = |text: &str| format!("    filters: [ {text} ]\n");
    let filters = match feature {
        Feature::Headers => filter(
            "headers: { request: { set: { X-Forwarded-Client: \"{client_ip}\" }, remove: [ X-Debug ] }, \
             response: { set: { X-Served-By: one } } }",
        ),
        Feature::Rewrite => filter("rewrite: { prefix: { from: /, to: /shop/ } }"),
        Feature::RateLimit => format!("    filters:\n{}", configs::RATE_LIMIT),
        Feature::Basic => filter(&format!("auth: {{ basic: {{ users: {{ ada: \"{PASSWORD}\" }} }} }}")),
        Feature::Jwt => {
            filter(&format!("auth: {{ jwt: {{ key: {{ secret: {{ value: \"{SECRET}\" }} }} }} }}"))
        }
        Feature::ApiKey => {
            filter(&format!("auth: {{ api_key: {{ keys: {{ acme: {{ hash: \"{KEY}\" }} }} }} }}"))
        }
        Feature::Compress => filter("compress: { algorithms: gzip, level: 5, min_length: 0B }"),
        Feature::Cache => filter("cache: { default_ttl: 1h }"),
        _ => String::new(),
    };
    let top = match feature {
        Feature::Cache => "cache: { memory: 16MiB }\n".to_owned(),
        Feature::Log => {
            format!("access_log: {{ format: json, path: \"{}/access.log\" }}\n", folder.display())
        }
        Feature::Traces => {
            format!("tracing: {{ endpoint: \"http://{sink}\", protocol: http, sample: 100% }}\n")
        }
        Feature::Metrics => format!("metrics: {{ address: \"{side}\" }}\n"),
        Feature::Dashboard => {
            format!("admin: {{ address: \"{side}\", token: {{ value: {ADMIN_TOKEN} }} }}\n")
        }
        _ => String::new(),
    };
    let listener = match feature {
        Feature::Tls | Feature::H2 => {
            format!(
                ", tls: {{ certificates: [ {{ cert: \"{chain}\", key: \"{key}\" }} ], min_version: \"1.3\" }}"
            )
        }
        Feature::H2c => ", h2c: true".to_owned(),
        _ => String::new(),
    };
    format!(
        "{top}listeners: {{ web: {{ address: \"{listen}\"{listener} }} }}\n\
         services: {{ one: {{ endpoints: [ \"http://{backend}\" ] }} }}\nroutes:\n  - to: one\n{filters}"
    )
}

fn nginx(feature: Feature, site: &Site) -> Option<String> {
    let Site { listen, folder, backend, certificate: (chain, key), .. } = site;
    let files = folder.display();
    let location = match feature {
        Feature::Headers => {
            "proxy_set_header X-Forwarded-Client $remote_addr; proxy_set_header X-Debug \"\"; \
             add_header X-Served-By one;"
                .to_owned()
        }
        Feature::Rewrite => "rewrite ^/(.*)$ /shop/$1 break;".to_owned(),
        Feature::RateLimit => "limit_req zone=all burst=1000000 nodelay;".to_owned(),
        Feature::Basic => format!("auth_basic bench; auth_basic_user_file {files}/users;"),
        Feature::ApiKey => "if ($http_x_api_key != key-of-the-bench-0123456789) { return 401; }".to_owned(),
        Feature::Compress => {
            "gzip on; gzip_comp_level 5; gzip_min_length 0; gzip_types text/plain; gzip_proxied any;"
                .to_owned()
        }
        Feature::Cache => "proxy_cache all; proxy_cache_valid 200 1h;".to_owned(),
        Feature::Log => format!("access_log {files}/access.log all buffer=64k flush=1s;"),
        Feature::Plain | Feature::Tls | Feature::H2 | Feature::H2c => String::new(),
        Feature::Jwt | Feature::Traces | Feature::Metrics | Feature::Dashboard => return None,
    };
    let http = match feature {
        Feature::RateLimit => "limit_req_zone $binary_remote_addr zone=all:1m rate=1000000r/s;".to_owned(),
        Feature::Cache => {
            format!("proxy_cache_path {files}/cache keys_zone=all:1m max_size=16m use_temp_path=off;")
        }
        Feature::Log => {
            "log_format all escape=json '{\"time\":\"$time_iso8601\",\"client\":\"$remote_addr\",\
             \"method\":\"$request_method\",\"host\":\"$host\",\"path\":\"$request_uri\",\"status\":$status,\
             \"bytes\":$body_bytes_sent,\"seconds\":$request_time,\"upstream\":\"$upstream_addr\"}';"
                .to_owned()
        }
        _ => String::new(),
    };
    let tls = format!(
        " backlog=4096; ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;\n"
    );
    let listens = match feature {
        Feature::Tls => format!("    listen {listen} ssl{tls}"),
        Feature::H2 => format!("    listen {listen} ssl http2{tls}"),
        Feature::H2c => format!("    listen {listen} http2 backlog=4096;\n"),
        _ => format!("    listen {listen} backlog=4096;\n"),
    };
    let more = format!("{location}\n      ");
    let text = configs::nginx_proxy_that(folder, &listens, &[*backend], configs::USUAL, &more);
    Some(text.replacen("  upstream backend {", &format!("  {http}\n  upstream backend {{"), 1))
}

fn haproxy(feature: Feature, site: &Site) -> Option<String> {
    let (top, front) = match feature {
        Feature::Plain | Feature::Tls | Feature::H2 | Feature::H2c | Feature::Cache => ("", String::new()),
        Feature::Headers => (
            "",
            "  http-request set-header X-Forwarded-Client %[src]\n  http-request del-header X-Debug\n  \
             http-response set-header X-Served-By one\n"
                .to_owned(),
        ),
        Feature::Rewrite => ("", "  http-request set-path /shop%[path]\n".to_owned()),
        Feature::RateLimit => (
            "",
            "  stick-table type ip size 1k expire 10s store http_req_rate(1s)\n  http-request track-sc0 src\n  \
             http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000 }\n"
                .to_owned(),
        ),
        Feature::Basic => (
            "userlist all\n  user ada insecure-password password\n",
            "  http-request auth unless { http_auth(all) }\n".to_owned(),
        ),
        Feature::Jwt => (
            "",
            format!(
                "  http-request set-var(txn.bearer) http_auth_bearer\n  \
                 http-request set-var(txn.alg) var(txn.bearer),jwt_header_query('$.alg')\n  \
                 http-request deny deny_status 401 unless {{ var(txn.alg) -m str HS256 }}\n  \
                 http-request deny deny_status 401 unless {{ var(txn.bearer),jwt_verify(txn.alg,\"{SECRET}\") 1 }}\n"
            ),
        ),
        Feature::ApiKey => {
            ("", "  http-request deny deny_status 401 unless { req.hdr(x-api-key) -m str key-of-the-bench-0123456789 }\n".to_owned())
        }
        Feature::Compress => {
            ("", "  filter compression\n  compression algo gzip\n  compression type text/plain\n".to_owned())
        }
        Feature::Log | Feature::Traces | Feature::Metrics | Feature::Dashboard => return None,
    };
    let bind = match feature {
        Feature::Tls => format!(" ssl crt {} alpn http/1.1 ssl-min-ver TLSv1.3", site.both.display()),
        Feature::H2 => format!(" ssl crt {} alpn h2,http/1.1 ssl-min-ver TLSv1.3", site.both.display()),
        Feature::H2c => " proto h2".to_owned(),
        _ => String::new(),
    };
    let mut text = configs::haproxy(site.listen, site.backend)
        .replacen("defaults\n", &format!("{top}defaults\n"), 1)
        .replacen(" backlog 4096\n", &format!(" backlog 4096{bind}\n"), 1)
        .replacen("  default_backend", &format!("{front}  default_backend"), 1);
    if feature == Feature::Cache {
        // It stores nothing without a lifetime.
        text = text.replacen("  default_backend", "  http-request cache-use all\n  default_backend", 1)
            + "  http-response set-header Cache-Control max-age=3600\n  http-response cache-store all\n\
               cache all\n  total-max-size 16\n  max-age 3600\n";
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        let [listen, side, backend, sink] = [1, 2, 3, 4].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let certificate = ("chain.pem".to_owned(), "key.pem".to_owned());
        Site { listen, side, folder: "folder".into(), backend, sink, certificate, both: "both.pem".into() }
    }

    #[test]
    fn each_feature_changes_the_plain_configuration() {
        for peer in Peer::ALL {
            let plain = of(peer, Feature::Plain, &site()).unwrap();
            for feature in Feature::ALL.into_iter().filter(|feature| *feature != Feature::Plain) {
                let text = of(peer, feature, &site());
                assert!(text.is_none_or(|text| text != plain), "{peer:?} {feature:?}");
            }
        }
    }
}
