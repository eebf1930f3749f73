//! One request: its checks, its body, its handler, its answer. Everything of it is bounded in size and time.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::access::Origin;
use crate::answer::{Answer, JSON, Problem};
use crate::app::App;
use crate::query::{Query, pairs};
use crate::routes::{self, Route};

/// Largest body of a request.
const MAX_BODY: usize = 64 << 10;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long the router may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// What a connection has to serve requests with.
#[derive(Clone)]
pub struct Server {
    /// What all share.
    pub app: Arc<App>,
    /// Requests that may wait for the router at once.
    pub waiting: Arc<Semaphore>,
}

impl Server {
    /// Answers one request.
    pub async fn serve(&self, origin: Origin, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match self.answer(origin, request).await {
            Ok(answer) => response(200, answer.content_type, answer.body),
            Err(problem) => refusal(&problem),
        }
    }

    async fn answer(&self, origin: Origin, request: Request<Incoming>) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        let (route, path) = routes::find(head.method.as_str(), head.uri.path())?;
        let host = text(&head.headers, header::HOST).or_else(|| head.uri.host());
        let authorization = head
            .headers
            .get(header::AUTHORIZATION)
            .map(HeaderValue::as_bytes);
        self.app
            .rules
            .check(route.need, origin, host, authorization)?;
        let mut query = Query {
            path,
            pairs: pairs(head.uri.query().unwrap_or(""))?,
            accept: text(&head.headers, header::ACCEPT).unwrap_or("").to_owned(),
            body: Vec::new(),
        };
        if route.body.is_some() {
            let kind = text(&head.headers, header::CONTENT_TYPE).unwrap_or("");
            // A form of a web page in somebody's browser cannot send this type.
            if kind.split(';').next().map(str::trim) != Some(JSON) {
                return Err(Problem::new(
                    415,
                    format!("the body is {JSON}: say so in Content-Type"),
                ));
            }
            query.body = read(body).await?;
        }
        self.handle(route, query).await
    }

    /// Runs the handler where it may wait, and waits for it for a while.
    async fn handle(&self, route: &'static Route, query: Query) -> Result<Answer, Problem> {
        let busy = || Problem::new(503, "the router is busy; ask again later");
        let app = self.app.clone();
        let work = async {
            let permit = self
                .waiting
                .clone()
                .acquire_owned()
                .await
                .map_err(|_| busy())?;
            let job = move || {
                // Held for as long as the thread is, whoever still waits for it.
                let _permit = permit;
                (route.handler)(&app, &query)
            };
            let failed = |_| Problem::new(500, "the handler failed");
            tokio::task::spawn_blocking(job).await.map_err(failed)?
        };
        timeout(ANSWER_TIME, work).await.map_err(|_| busy())?
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

async fn read(body: Incoming) -> Result<Vec<u8>, Problem> {
    let whole = timeout(BODY_TIME, Limited::new(body, MAX_BODY).collect()).await;
    let whole = whole.map_err(|_| Problem::new(408, "the body took too long"))?;
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| match e.is::<LengthLimitError>() {
        true => Problem::new(413, format!("a body has at most {MAX_BODY} bytes")),
        false => Problem::new(400, format!("the body broke off: {e}")),
    };
    Ok(whole.map_err(failed)?.to_bytes().to_vec())
}

fn response(status: u16, content_type: &str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let builder = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Fails only for a status or header that is none; these are constants.
    builder
        .body(Full::new(Bytes::from(body)))
        .unwrap_or_default()
}

fn refusal(problem: &Problem) -> Response<Full<Bytes>> {
    let mut response = response(problem.status, Problem::CONTENT_TYPE, problem.body());
    let headers = response.headers_mut();
    if problem.status == 401 {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(Ok(allow)) = problem.allow.as_deref().map(HeaderValue::from_str) {
        headers.insert(header::ALLOW, allow);
    }
    response
}
