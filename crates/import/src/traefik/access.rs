//! Middlewares that let requests pass or not.

use super::middleware::Chain;
use super::{Importer, Outcome, exact, get, is_on, lost, near, text, texts};
use crate::document::Node;
use crate::yaml::{Map, one, one_or_many};

impl Importer {
    pub(super) fn basic_auth(&mut self, node: &Node, chain: &mut Chain) -> Result<Outcome, String> {
        let mut basic = Map::default();
        let mut auth = Map::default();
        let mut outcome = exact();
        for (key, inner) in node.entries() {
            let told = match key.to_ascii_lowercase().as_str() {
                "users" => {
                    let mut users = Map::default();
                    let mut unknown = Vec::new();
                    for line in texts(Some(inner)) {
                        let (name, hash) = line.split_once(':').unwrap_or((&line, ""));
                        let hash = hash.replace("$$", "$");
                        if hash.starts_with("$2") {
                            users.put(name, hash);
                        } else {
                            unknown.push(name.to_owned());
                        }
                    }
                    if users.is_empty() {
                        return Err(
                            "passwords are checked by bcrypt alone: make new hashes, `thalweg hash-password`"
                                .to_owned(),
                        );
                    }
                    basic.put("users", users);
                    match unknown.is_empty() {
                        true => exact(),
                        false => lost(&format!(
                            "{} cannot log in: passwords are checked by bcrypt alone",
                            unknown.join(", ")
                        )),
                    }
                }
                "usersfile" => {
                    basic.put("file", inner.text());
                    near("passwords are checked by bcrypt alone; other hashes of the file let nobody in")
                }
                "realm" => {
                    auth.put("realm", inner.text());
                    exact()
                }
                "removeheader" => exact(),
                _ => {
                    outcome = near("the service is not told who it is; write `forward`");
                    lost("write `forward` at the filter `auth`")
                }
            };
            self.note(key, inner, told);
        }
        if basic.is_empty() {
            return Err("it has no users".to_owned());
        }
        let mut whole = one("basic", basic);
        whole.put("realm", auth.get("realm").cloned().unwrap_or_else(|| "traefik".into()));
        if !is_on(node, "removeHeader") {
            whole.put("keep_credentials", true);
        }
        chain.filters.push(one("auth", whole));
        Ok(outcome)
    }

    pub(super) fn forward_auth(&mut self, node: &Node, chain: &mut Chain) -> Result<Outcome, String> {
        let address = text(node, "address").ok_or("it has no address")?;
        let (scheme, rest) = address.split_once("://").ok_or("its address is no URL")?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let mut service = one("endpoints", vec![format!("{scheme}://{authority}")]).with("host", "endpoint");
        let mut forward = Map::default();
        for (key, inner) in node.entries() {
            let outcome = match key.to_ascii_lowercase().as_str() {
                "address" => exact(),
                "authresponseheaders" => {
                    forward.put("copy", texts(Some(inner)));
                    exact()
                }
                "authrequestheaders" => {
                    forward.put("fields", texts(Some(inner)));
                    exact()
                }
                "addauthcookiestoresponse" => {
                    forward.put("to_client", vec!["Set-Cookie"]);
                    near("all cookies of the answer go to the client")
                }
                "trustforwardheader" => near("`trusted_proxies` says whose forwarded fields are believed"),
                "tls" => {
                    let mut tls = Map::default();
                    for (name, value) in inner.entries() {
                        let key = match name.to_ascii_lowercase().as_str() {
                            "ca" => "ca",
                            "cert" => "cert",
                            "key" => "key",
                            "insecureskipverify" => {
                                if value.text() == "true" {
                                    tls.put("insecure_skip_verify", true);
                                }
                                self.note(name, value, exact());
                                continue;
                            }
                            _ => continue,
                        };
                        tls.put(key, value.text());
                        self.note(name, value, exact());
                    }
                    service.put("tls", tls);
                    exact()
                }
                _ => return Err(format!("`{key}` has no counterpart")),
            };
            self.note(key, inner, outcome);
        }
        let name = authority.replace([':', '[', ']'], "-").trim_matches('-').to_owned();
        let name = self.draft.service(&name, &service);
        let forward = one("service", name).with("path", path).with_all(&forward);
        chain.filters.push(one("auth", one("forward_auth", forward).with("keep_credentials", true)));
        Ok(near(
            "the service gets the usual fields of the request unless `authRequestHeaders` names them, and 5xx of it is 503",
        ))
    }

    pub(super) fn allow_list(&mut self, node: &Node, chain: &mut Chain) -> Result<Outcome, String> {
        let ranges = texts(get(node, "sourceRange"));
        super::condition::network_list(&ranges).ok_or("it names no networks")?;
        let mut access = one("allow", one_or_many(ranges));
        for (key, inner) in node.entries() {
            let outcome = match key.to_ascii_lowercase().as_str() {
                "sourcerange" => exact(),
                "rejectstatuscode" => match inner.text() {
                    "403" => exact(),
                    "404" => {
                        access.put("status", 404_u64);
                        exact()
                    }
                    _ => near("who is refused gets 403"),
                },
                _ => {
                    return Err(
                        "`ipStrategy`: write `trusted_proxies`, by which the client's address is found"
                            .to_owned(),
                    );
                }
            };
            self.note(key, inner, outcome);
        }
        chain.filters.push(one("access", access));
        Ok(exact())
    }
}
