//! What answers each route. Handlers run in threads that may wait for the router.

use parshall_control::snapshot::{PAGE_MOST, Snapshot};
use parshall_control::{Family, IpNet, Output};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{Answer, Problem};
use crate::app::App;
use crate::expose::Format;
use crate::query::{Query, shown};

/// How the router is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

/// A command line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CliRequest {
    /// The line, as `parshall ctl` takes it.
    pub line: String,
    /// Answer as data, where the command has any.
    #[serde(default)]
    pub json: bool,
}

/// What a command answered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CliAnswer {
    /// What it prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The same as data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

type Answered = Result<Answer, Problem>;

fn well() -> Answered {
    Answer::json(&Health {
        status: "ok".into(),
    })
}

/// `GET /healthz`
pub fn health(app: &App, _: &Query) -> Answered {
    app.ask(|_| ())?;
    well()
}

/// `GET /readyz`
pub fn ready(app: &App, _: &Query) -> Answered {
    if app.ask(|r| r.is_healthy() && !r.is_stopping())? {
        well()
    } else {
        Err(Problem::new(
            503,
            "a worker thread has ended, or the router is about to",
        ))
    }
}

/// `GET /metrics`
pub fn metrics(app: &App, query: &Query) -> Answered {
    let format = Format::accepted(&query.accept);
    let text = crate::metrics::text(&*app.snapshot()?, format);
    Ok(Answer::text(format.content_type(), text))
}

/// `GET /api/v1/openapi.json`
pub fn openapi(_: &App, _: &Query) -> Answered {
    Answer::json(&crate::openapi::document())
}

fn part<T: Serialize>(app: &App, of: impl FnOnce(&Snapshot) -> &T) -> Answered {
    Answer::json(of(&*app.snapshot()?))
}

/// `GET /api/v1/version`
pub fn version(app: &App, _: &Query) -> Answered {
    part(app, |s| &s.version)
}

/// `GET /api/v1/snapshot`
pub fn snapshot(app: &App, _: &Query) -> Answered {
    part(app, |s| s)
}

/// `GET /api/v1/interfaces`
pub fn interfaces(app: &App, _: &Query) -> Answered {
    part(app, |s| &s.interfaces)
}

/// `GET /api/v1/interfaces/{name}`
pub fn interface(app: &App, query: &Query) -> Answered {
    let name = query.path.first().map_or("", String::as_str);
    let snapshot = app.snapshot()?;
    let found = snapshot.interfaces.iter().find(|i| i.name == name);
    let none = || Problem::new(404, format!("no interface is called {}", shown(name)));
    Answer::json(found.ok_or_else(none)?)
}

/// `GET /api/v1/nodes`
pub fn nodes(app: &App, _: &Query) -> Answered {
    part(app, |s| &s.nodes)
}

/// `GET /api/v1/drops`
pub fn drops(app: &App, _: &Query) -> Answered {
    part(app, |s| &s.drops)
}

/// `GET /api/v1/workers`
pub fn workers(app: &App, _: &Query) -> Answered {
    part(app, |s| &s.workers)
}

/// `GET /api/v1/sflow`
pub fn sflow(app: &App, _: &Query) -> Answered {
    part(app, |s| &s.sflow)
}

/// `GET /api/v1/fib`
pub fn fib(app: &App, _: &Query) -> Answered {
    part(app, |s| &s.fib)
}

/// `GET /api/v1/routes/{family}/{table}`
pub fn routes(app: &App, query: &Query) -> Answered {
    let wrong = |detail: String| Problem::new(400, detail);
    let word = query.path.first().map_or("", String::as_str);
    let family = match word {
        "ip4" => Family::Ip4,
        "ip6" => Family::Ip6,
        _ => {
            return Err(wrong(format!(
                "the family is ip4 or ip6, not `{}`",
                shown(word)
            )));
        }
    };
    let number = query.path.get(1).map_or("", String::as_str);
    let table: u32 = number
        .parse()
        .map_err(|_| wrong(format!("`{}` is not the number of a table", shown(number))))?;
    let limit = query
        .parsed::<usize>("limit", "a number of routes")?
        .unwrap_or(100);
    if !(1..=PAGE_MOST).contains(&limit) {
        return Err(wrong(format!("`limit` is from 1 to {PAGE_MOST}")));
    }
    let after = query
        .get("after")
        .map(|text| prefix(text, family))
        .transpose()?;
    let page = app.ask(move |r| r.route_page(family, table, after, limit))?;
    Answer::json(&page.map_err(|e| Problem::new(404, e.to_string()))?)
}

/// A prefix of this family.
fn prefix(text: &str, family: Family) -> Result<IpNet, Problem> {
    let parsed = text.split_once('/').and_then(|(addr, len)| {
        let (addr, len): (std::net::IpAddr, u8) = (addr.parse().ok()?, len.parse().ok()?);
        (Family::of(addr) == family && len <= family.bits()).then(|| IpNet::new(addr, len))
    });
    let wrong = || format!("`after` is a prefix of the family, not `{}`", shown(text));
    parsed.ok_or_else(|| Problem::new(400, wrong()))
}

/// `GET /api/v1/neighbors`
pub fn neighbors(app: &App, query: &Query) -> Answered {
    let only = query.get("interface").map(str::to_owned);
    let all = app.ask(move |r| r.neighbor_entries(only.as_deref()))?;
    Answer::json(&all.map_err(|e| Problem::new(404, e.to_string()))?)
}

/// `POST /api/v1/cli`
pub fn cli(app: &App, query: &Query) -> Answered {
    let request: CliRequest = serde_json::from_slice(&query.body)
        .map_err(|e| Problem::new(400, format!("the body is no command: {e}")))?;
    tracing::info!("command over HTTP: {}", shown(&request.line));
    let done = app.ask(move |r| r.run_line(&request.line, request.json))?;
    let (text, data) = match done.map_err(|e| Problem::new(422, e.to_string()))? {
        Output::Done => (Some(String::new()), None),
        Output::Text(text) => (Some(text), None),
        Output::Data(data) => (None, Some(data)),
    };
    Answer::json(&CliAnswer { text, data })
}
