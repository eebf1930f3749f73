//! The one table of what is served: dispatch, checks and the OpenAPI document come from it.

use parshall_control::snapshot as data;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::access::Need;
use crate::answer::{Answer, Problem};
use crate::app::App;
use crate::handlers::{self, CliAnswer, CliRequest, Health};
use crate::query::{Query, decoded};

/// What answers a request. It may wait for the router.
pub type Handler = fn(&App, &Query) -> Result<Answer, Problem>;

/// The schema of a type, entered into a generator's definitions.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A variable of the path or the query.
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// It stands in the path, and must be there.
    pub in_path: bool,
    /// Its schema.
    pub schema: SchemaOf,
    /// One sentence.
    pub help: &'static str,
}

/// The shape of an answer.
pub enum Shape {
    /// JSON of this schema.
    Json(SchemaOf),
    /// Text of these types.
    Text(&'static [&'static str]),
}

/// Something that is served.
pub struct Route {
    /// `GET` (then `HEAD` too) or `POST`.
    pub method: &'static str,
    /// Its path, with `{name}` for variables.
    pub path: &'static str,
    /// Its name in the description.
    pub id: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What it asks of the caller.
    pub need: Need,
    /// Its variables; those of the path in their order.
    pub params: &'static [Param],
    /// The body it takes.
    pub body: Option<SchemaOf>,
    /// What it answers.
    pub answer: Shape,
    /// Statuses it may answer with beside 200 and those of every route.
    pub problems: &'static [u16],
    /// What answers.
    pub handler: Handler,
}

fn of<T: JsonSchema>(g: &mut SchemaGenerator) -> Schema {
    g.subschema_for::<T>()
}

fn family(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "enum": ["ip4", "ip6"]})
}

fn text(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string"})
}

fn page_size(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "integer", "minimum": 1, "maximum": data::PAGE_MOST, "default": 100})
}

fn document(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "object"})
}

const fn get(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    schema: SchemaOf,
    handler: Handler,
) -> Route {
    Route {
        method: "GET",
        path,
        id,
        summary,
        need: Need::Read,
        params: &[],
        body: None,
        answer: Shape::Json(schema),
        problems: &[],
        handler,
    }
}

const fn param(name: &'static str, in_path: bool, schema: SchemaOf, help: &'static str) -> Param {
    Param {
        name,
        in_path,
        schema,
        help,
    }
}

/// Everything that is served.
pub const ROUTES: &[Route] = &[
    Route {
        need: Need::Nothing,
        problems: &[503],
        ..get(
            "/healthz",
            "health",
            "Whether the router answers",
            of::<Health>,
            handlers::health,
        )
    },
    Route {
        need: Need::Nothing,
        problems: &[503],
        ..get(
            "/readyz",
            "ready",
            "Whether the router forwards: it answers and every worker runs",
            of::<Health>,
            handlers::ready,
        )
    },
    Route {
        answer: Shape::Text(&["text/plain", "application/openmetrics-text"]),
        ..get(
            "/metrics",
            "metrics",
            "Metrics as Prometheus text, or as OpenMetrics when that is accepted",
            text,
            handlers::metrics,
        )
    },
    get(
        "/api/v1/openapi.json",
        "openapi",
        "This description",
        document,
        handlers::openapi,
    ),
    get(
        "/api/v1/version",
        "version",
        "Which program this is",
        of::<data::Version>,
        handlers::version,
    ),
    get(
        "/api/v1/snapshot",
        "snapshot",
        "Everything that is counted, of one moment",
        of::<data::Snapshot>,
        handlers::snapshot,
    ),
    get(
        "/api/v1/interfaces",
        "interfaces",
        "All interfaces with their counters",
        of::<Vec<data::Interface>>,
        handlers::interfaces,
    ),
    Route {
        params: &[param(
            "name",
            true,
            text,
            "The interface; a slash in it is written %2F",
        )],
        problems: &[404],
        ..get(
            "/api/v1/interfaces/{name}",
            "interface",
            "One interface",
            of::<data::Interface>,
            handlers::interface,
        )
    },
    get(
        "/api/v1/nodes",
        "nodes",
        "Graph nodes: calls, packets and clocks, by worker",
        of::<Vec<data::Node>>,
        handlers::nodes,
    ),
    get(
        "/api/v1/drops",
        "drops",
        "Dropped packets by node and reason",
        of::<Vec<data::Drop>>,
        handlers::drops,
    ),
    get(
        "/api/v1/workers",
        "workers",
        "Worker threads and their packet buffers",
        of::<Vec<data::Worker>>,
        handlers::workers,
    ),
    get(
        "/api/v1/sflow",
        "sflow",
        "The sFlow agent and its collectors",
        of::<data::Sflow>,
        handlers::sflow,
    ),
    get(
        "/api/v1/fib",
        "fib",
        "Sizes of the forwarding tables",
        of::<data::Fib>,
        handlers::fib,
    ),
    Route {
        params: &[
            param("family", true, family, "The family of the table"),
            param("table", true, of::<u32>, "Number of the table"),
            param(
                "after",
                false,
                text,
                "Prefix behind which the page begins: `next` of the page before",
            ),
            param("limit", false, page_size, "Most routes of the page"),
        ],
        problems: &[400, 404],
        ..get(
            "/api/v1/routes/{family}/{table}",
            "routes",
            "Routes of a table, a page at a time",
            of::<data::RoutePage>,
            handlers::routes,
        )
    },
    Route {
        params: &[param(
            "interface",
            false,
            text,
            "Only neighbours on this interface",
        )],
        problems: &[404],
        ..get(
            "/api/v1/neighbors",
            "neighbors",
            "Neighbours: ARP and IPv6 neighbour discovery",
            of::<Vec<data::NeighborEntry>>,
            handlers::neighbors,
        )
    },
    Route {
        method: "POST",
        need: Need::Command,
        body: Some(of::<CliRequest>),
        problems: &[400, 403, 413, 415, 422],
        ..get(
            "/api/v1/cli",
            "cli",
            "Give the router a command line; off unless the configuration turns it on",
            of::<CliAnswer>,
            handlers::cli,
        )
    },
];

/// The route for a method and a path, with the values of the path's variables.
pub fn find(method: &str, path: &str) -> Result<(&'static Route, Vec<String>), Problem> {
    let method = if method == "HEAD" { "GET" } else { method };
    let mut allowed: Vec<&str> = Vec::new();
    for route in ROUTES {
        let Some(values) = matched(route.path, path) else {
            continue;
        };
        if route.method == method {
            let values: Result<_, _> = values.into_iter().map(decoded).collect();
            return Ok((route, values?));
        }
        allowed.push(route.method);
        if route.method == "GET" {
            allowed.push("HEAD");
        }
    }
    if allowed.is_empty() {
        return Err(Problem::new(
            404,
            "there is nothing here; what there is, /api/v1/openapi.json tells",
        ));
    }
    let allow = allowed.join(", ");
    let mut problem = Problem::new(405, format!("this takes {allow}"));
    problem.allow = Some(allow);
    Err(problem)
}

/// Values of the variables, when the path is this one.
fn matched<'p>(pattern: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    let mut values = Vec::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(values),
            (Some(w), Some(g)) if w.starts_with('{') && !g.is_empty() => values.push(g),
            (Some(w), Some(g)) if w == g => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_or_refused_with_what_is_allowed() {
        let (route, values) = find("GET", "/api/v1/interfaces/memif0%2F0").unwrap();
        assert_eq!(
            (route.id, values),
            ("interface", vec!["memif0/0".to_owned()])
        );
        assert_eq!(find("HEAD", "/metrics").unwrap().0.id, "metrics");
        let status = |method, path| find(method, path).err().map(|p| (p.status, p.allow));
        assert_eq!(status("GET", "/"), Some((404, None)));
        assert_eq!(status("GET", "/metrics/"), Some((404, None)));
        assert_eq!(status("GET", "/api/v1/interfaces/"), Some((404, None)));
        assert_eq!(
            status("DELETE", "/metrics"),
            Some((405, Some("GET, HEAD".into())))
        );
        assert_eq!(
            status("GET", "/api/v1/cli"),
            Some((405, Some("POST".into())))
        );
        assert_eq!(status("GET", "/api/v1/interfaces/%ff"), Some((400, None)));
    }

    #[test]
    fn variables_of_a_path_are_described_in_their_order() {
        for route in ROUTES {
            let named = route
                .path
                .split('/')
                .filter_map(|w| w.strip_prefix('{')?.strip_suffix('}'));
            let described = route.params.iter().filter(|p| p.in_path).map(|p| p.name);
            assert!(named.eq(described), "{}", route.path);
        }
    }
}
