//! The description of the API (OpenAPI 3.1), made from the table of routes and from the types that are serialized.
//!
//! Schemas are JSON Schema 2020-12, which is OpenAPI 3.1's own dialect, so `schemars` writes them as they are.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::access::Need;
use crate::answer::{JSON, Problem};
use crate::routes::{ROUTES, Route, Shape};

const ABOUT: &str = "What a running router counts and knows, and its command line. Counters count from the start of the \
    router or the making of an interface. Answers may be a second old. Every problem is told as RFC 9457 has it.";

/// The whole description.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|s| {
            s.definitions_path = "/components/schemas".into();
            s.meta_schema = None;
        })
        .for_serialize();
    let mut g = settings.into_generator();
    let problem = g.subschema_for::<Problem>().to_value();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        item[route.method.to_lowercase()] = operation(route, &mut g, &problem);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Parshall",
            "description": ABOUT,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": g.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &Route, g: &mut SchemaGenerator, problem: &Value) -> Value {
    let mut responses = Map::new();
    responses.insert("200".into(), good(route, g));
    // Every route can fail in these ways.
    let always: &[u16] = match route.need {
        Need::Nothing => &[408, 503],
        _ => &[401, 408, 421, 503],
    };
    let mut statuses: Vec<u16> = always.iter().chain(route.problems).copied().collect();
    statuses.sort_unstable();
    statuses.dedup();
    for status in statuses {
        let about = Problem::new(status, "").title;
        let content = json!({Problem::CONTENT_TYPE: {"schema": problem}});
        responses.insert(
            status.to_string(),
            json!({"description": about, "content": content}),
        );
    }
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "responses": responses,
    });
    if !route.params.is_empty() {
        let each = route.params.iter().map(|p| {
            let place = if p.in_path { "path" } else { "query" };
            json!({
                "name": p.name, "in": place, "required": p.in_path, "description": p.help,
                "schema": (p.schema)(g).to_value(),
            })
        });
        operation["parameters"] = each.collect();
    }
    if let Some(schema) = route.body {
        let schema = schema(g).to_value();
        operation["requestBody"] = json!({"required": true, "content": {JSON: {"schema": schema}}});
    }
    operation["security"] = match route.need {
        Need::Nothing => json!([]),
        // The UNIX socket and a router without a token ask for none.
        Need::Read | Need::Command => json!([{}, {"token": []}]),
    };
    operation
}

fn good(route: &Route, g: &mut SchemaGenerator) -> Value {
    let content: Map<String, Value> = match &route.answer {
        Shape::Json(schema) => [(JSON.to_owned(), json!({"schema": schema(g).to_value()}))]
            .into_iter()
            .collect(),
        Shape::Text(types) => {
            let each = types
                .iter()
                .map(|t| ((*t).to_owned(), json!({"schema": {"type": "string"}})));
            each.collect()
        }
    };
    json!({"description": "It worked", "content": content})
}

/// The description as the reference page.
pub fn page() -> String {
    let mut out = String::from(
        "# HTTP API\n\nMade from the table that requests are served from. The router describes it itself, as OpenAPI 3.1 at\n\
         `/api/v1/openapi.json`, with the shape of every answer. The server is off until the configuration has a section\n\
         `http` ([Configuration](configuration.md)); how to set it up is in\n\
         [Monitor with Prometheus](../how-to/monitor-with-prometheus.md).\n\n\
         - Who may read: whoever reaches the listener; with `token-file`, who shows the token (`Authorization: Bearer`).\n\
         - Who may give commands: nobody; with `commands: true`, who shows the token or may open the UNIX socket.\n\
         - On the loopback the Host header is an address or `localhost`, so that no web page reads the router by another name.\n\
         - Answers are at most a second old. Problems are told as `application/problem+json` (RFC 9457).\n\n\
         | request | answer |\n|---|---|\n",
    );
    for r in ROUTES {
        out += &format!("| `{} {}` | {} |\n", r.method, r.path, r.summary);
    }
    out += "\n## Parameters\n\n| request | parameter | in | what it says |\n|---|---|---|---|\n";
    for (r, p) in ROUTES
        .iter()
        .flat_map(|r| r.params.iter().map(move |p| (r, p)))
    {
        let place = if p.in_path { "path" } else { "query" };
        out += &format!("| `{}` | `{}` | {place} | {} |\n", r.path, p.name, p.help);
    }
    out
}
