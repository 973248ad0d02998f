//! The description of the API (OpenAPI 3.1), built from the table of operations.
//!
//! Served at `/api/v1/openapi.json` and committed as `docs/reference/openapi.json`, which
//! `cargo xtask gen` writes and checks. Schemas come from the types that are really sent and read.

use axum::http::StatusCode;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use thalweg_core::{FaultKind, RequestId};

use crate::control::CanaryOrder;
use crate::handlers::requests;
use crate::operation::{Access, Answer, Content, Operation, Precondition};
use crate::operations::operations;
use crate::problem::{Document, PROBLEM_TYPE};
use crate::query::{DURATION_FORMAT, Kind, Parameter};

/// The document, as text with a line feed at its end. The same on every call of one build.
pub fn document() -> String {
    let mut schemas = Schemas::new();
    let problem = schemas.answers.subschema_for::<Document>().to_value();
    let mut paths = Map::new();
    for operation in operations() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = describe(operation, &mut schemas, &problem);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Thalweg admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "On the unix socket no token is needed; on TCP a bearer token is. \
                Errors are problem documents (RFC 9457). Formats of its own: `thalweg-duration`, whole numbers with \
                units (us, ms, s, m, h, d), the largest first, as `1m30s`; `thalweg-network`, an address or a network \
                as `192.0.2.0/24`; `thalweg-destination`, `10.0.0.7:3000`, `https://10.0.0.7:8443` or \
                `service:checkout`; `thalweg-expiry`, a date or a time (RFC 3339) that is not over; \
                `thalweg-cached-url`, an http or https URL with its host and without a fragment; `thalweg-host`, a \
                host, perhaps with a port.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "http://127.0.0.1:9900", "description": "The usual `admin.address`." }],
        "security": [{ "token": [] }, { "session": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "thalweg_admin",
                    "description": "The cookie of a session (`begin_session`); `_` and the port of the `Host` follow \
                        its name. Changes need the field `X-Thalweg-Request: 1` beside it.",
                },
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`admin.token` may do everything, `admin.read_token` may GET and HEAD.",
                },
            },
            "schemas": schemas.take(),
        },
    });
    format!("{document:#}\n")
}

/// A list of entity tags (RFC 9110 §8.8.3) that are not empty.
const TAGS: &str = r#"^(W/)?"[!#-~]+"(, (W/)?"[!#-~]+")*$"#;

/// Schemas by direction: what is read and what is sent differ in which members must be there.
struct Schemas {
    bodies: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            bodies: settings().for_deserialize().into_generator(),
            answers: settings().for_serialize().into_generator(),
        }
    }

    fn take(mut self) -> Map<String, Value> {
        let mut all = self.bodies.take_definitions(true);
        all.extend(self.answers.take_definitions(true));
        all
    }
}

fn describe(operation: &Operation, schemas: &mut Schemas, problem: &Value) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": responses(operation, schemas, problem),
    });
    let parameters = parameters(operation);
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(content) = operation.body {
        described["requestBody"] =
            json!({ "required": true, "content": media(content, &mut schemas.bodies) });
    }
    match operation.access {
        Access::Open | Access::Login => described["security"] = json!([]),
        Access::Read => {}
        Access::Write => described["description"] = "Needs the write role.".into(),
    }
    described
}

fn media(content: Content, generator: &mut SchemaGenerator) -> Value {
    let schema = (content.schema)(generator).to_value();
    content
        .types
        .iter()
        .map(|media| ((*media).to_owned(), json!({ "schema": schema })))
        .collect::<Map<_, _>>()
        .into()
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let names = operation.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters = names.map(|name| in_path(operation, name)).collect::<Vec<_>>();
    parameters.extend(operation.query.iter().map(|parameter| {
        let mut described = optional(parameter, "query");
        if operation.needs.contains(&parameter.name) {
            described["required"] = true.into();
        }
        described
    }));
    parameters.extend(operation.fields.iter().map(|field| optional(field, "header")));
    if operation.precondition != Precondition::None {
        parameters.push(json!({
            "name": "If-Match",
            "in": "header",
            "required": operation.precondition == Precondition::Required,
            "description": "Entity tags; the change is made only on top of a state with one of them.",
            "schema": { "type": "string", "anyOf": [{ "const": "*" }, { "pattern": TAGS }] },
        }));
    }
    parameters
}

/// A parameter of the path.
fn in_path(operation: &Operation, name: &str) -> Value {
    let about = match name {
        "id" if operation.path == requests::ONE => "Its id, as in `X-Request-Id`.",
        "id" => "Its id, or its percent-encoded URL.",
        "order" => "What it is to do.",
        _ => "Its name in the configuration, percent-encoded.",
    };
    let mut schema = json!({ "type": "string", "minLength": 1 });
    if operation.path == requests::ONE {
        schema["pattern"] = "^[A-Za-z0-9_.:+/=-]+$".into();
        schema["maxLength"] = RequestId::LEN.into();
    }
    if name == "order" {
        schema["enum"] = CanaryOrder::ALL.iter().map(|order| order.name()).collect();
    }
    json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema })
}

/// A parameter that may be left out.
fn optional(parameter: &Parameter, place: &str) -> Value {
    let schema = match parameter.kind {
        Kind::Flag => json!({ "type": "boolean", "default": false }),
        Kind::Duration(_) => {
            json!({ "type": "string", "format": DURATION_FORMAT, "examples": ["30s", "1m30s"] })
        }
        Kind::Count(most) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
        Kind::Between(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Number => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        Kind::Text(most) => json!({ "type": "string", "minLength": 1, "maxLength": most }),
        Kind::Texts(most) => json!({ "type": "array", "items": { "type": "string", "maxLength": most } }),
        Kind::Status => json!({ "type": "string", "pattern": "^([1-5][0-9][0-9]|[1-5]xx)$" }),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Fault => {
            json!({ "type": "string", "enum": FaultKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>() })
        }
    };
    json!({ "name": parameter.name, "in": place, "description": parameter.about, "schema": schema })
}

fn responses(operation: &Operation, schemas: &mut Schemas, problem: &Value) -> Value {
    let mut responses = Map::new();
    for answer in operation.answers {
        responses.insert(answer.status.to_string(), success(answer, schemas));
    }
    for status in refusals(operation) {
        let phrase = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        responses.insert(
            status.to_string(),
            json!({
                "description": phrase.unwrap_or("Error"),
                "content": { (PROBLEM_TYPE): { "schema": problem } },
            }),
        );
    }
    // By the HTTP library, before anything of ours reads the request.
    responses.insert("431".into(), json!({ "description": "The head of the request has more than 64 KiB." }));
    responses.into()
}

fn success(answer: &Answer, schemas: &mut Schemas) -> Value {
    let mut described = json!({ "description": answer.when });
    if let Some(content) = answer.content {
        described["content"] = media(content, &mut schemas.answers);
    }
    let mut headers = Map::new();
    if answer.tagged {
        headers.insert(
            "ETag".into(),
            json!({ "description": "For `If-Match`.", "schema": { "type": "string" } }),
        );
    }
    if answer.status == 201 {
        let about = "Path of what was made.";
        headers.insert("Location".into(), json!({ "description": about, "schema": { "type": "string" } }));
    }
    if !headers.is_empty() {
        described["headers"] = headers.into();
    }
    described
}

/// Every status from 400 on that the operation may answer with.
fn refusals(operation: &Operation) -> Vec<u16> {
    let mut statuses = operation.refusals.to_vec();
    if operation.access != Access::Open {
        statuses.extend([400, 401, 403, 429]);
    }
    if operation.precondition != Precondition::None {
        statuses.push(412);
    }
    if operation.precondition == Precondition::Required {
        statuses.push(428);
    }
    if operation.body.is_some() {
        statuses.extend([408, 413, 415]);
    }
    let waits_or_asks = operation.access != Access::Read || operation.id == "audit";
    if waits_or_asks {
        statuses.push(503);
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}
