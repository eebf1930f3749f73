//! A feed: what it is of, how it fares, and the thread that serves it.

use std::fmt;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde::Serialize;

use super::{BgpShared, SourceId, load, station};

/// What a feed is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedSpec {
    /// A file of lines.
    File(PathBuf),
    /// An MRT file.
    Mrt(PathBuf),
    /// Routers that connect to this address and speak BMP.
    Bmp(SocketAddr),
}

impl FeedSpec {
    /// The word in commands.
    pub fn kind(&self) -> &'static str {
        match self {
            FeedSpec::File(_) => "file",
            FeedSpec::Mrt(_) => "mrt",
            FeedSpec::Bmp(_) => "bmp",
        }
    }
}

impl fmt::Display for FeedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeedSpec::File(p) => write!(f, "file {}", p.display()),
            FeedSpec::Mrt(p) => write!(f, "mrt {}", p.display()),
            FeedSpec::Bmp(a) => write!(f, "bmp listen {a}"),
        }
    }
}

/// How a feed fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeedState {
    /// Nothing was done yet.
    #[default]
    Idle,
    /// The file is being read.
    Loading,
    /// It was read to its end.
    Loaded,
    /// It could not be; what was read of it before is kept.
    Failed,
    /// Routers may connect.
    Listening,
}

/// What a feed has done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FeedStatus {
    /// How it fares.
    pub state: FeedState,
    /// Lines, MRT records or BMP messages.
    pub read: u64,
    /// Of these, how many were not understood, or of a kind that is not looked at.
    pub skipped: u64,
    /// Routes that found no room in the table.
    pub refused: u64,
    /// Milliseconds that reading the file took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The last thing that went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Routers connected, by address or the name they gave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<String>,
    /// Sources of its routes.
    #[serde(skip)]
    pub sources: Vec<SourceId>,
}

/// What a feed's threads share with control.
#[derive(Default)]
pub(super) struct Progress {
    status: Mutex<FeedStatus>,
    stop: AtomicBool,
}

impl Progress {
    /// The status, to read or change.
    pub fn status(&self) -> MutexGuard<'_, FeedStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Notes what went wrong.
    pub fn error(&self, what: impl ToString) {
        self.status().last_error = Some(what.to_string());
    }
    /// Whether the feed is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A feed.
pub struct Feed {
    /// What it is of.
    pub spec: FeedSpec,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
    waker: Option<station::Waker>,
}

impl Feed {
    /// One that does nothing.
    pub(super) fn idle(spec: &FeedSpec) -> Feed {
        Feed {
            spec: spec.clone(),
            progress: Arc::default(),
            thread: None,
            waker: None,
        }
    }

    /// Starts one.
    ///
    /// # Errors
    /// When the file cannot be opened, the address not be listened at, or the system has no thread left.
    pub(super) fn start(spec: &FeedSpec, shared: &Arc<BgpShared>) -> Result<Feed, String> {
        let mut feed = Feed::idle(spec);
        match spec {
            FeedSpec::File(_) | FeedSpec::Mrt(_) => feed.read(shared)?,
            FeedSpec::Bmp(address) => {
                let listener = TcpListener::bind(address)
                    .map_err(|e| format!("cannot listen for BMP at {address}: {e}"))?;
                let (waker, wake) = station::waker().map_err(|e| format!("no eventfd: {e}"))?;
                feed.progress.status().state = FeedState::Listening;
                let (shared, progress) = (shared.clone(), feed.progress.clone());
                feed.thread = Some(spawn("parshall-bmp", move || {
                    station::serve(&listener, &wake, &shared, &progress);
                })?);
                feed.waker = Some(waker);
            }
        }
        Ok(feed)
    }

    /// Reads the file again. Its routes are there until the new ones are.
    ///
    /// # Errors
    /// When it is not a file, is being read just now, or cannot be opened.
    pub(super) fn again(&mut self, shared: &Arc<BgpShared>) -> Result<(), String> {
        if matches!(self.spec, FeedSpec::Bmp(_)) {
            return Err(format!("{} is a feed already", self.spec));
        }
        if self.progress.status().state == FeedState::Loading {
            return Err(format!("{} is still being read", self.spec));
        }
        self.read(shared)
    }

    fn read(&mut self, shared: &Arc<BgpShared>) -> Result<(), String> {
        let (path, mrt) = match &self.spec {
            FeedSpec::File(p) => (p, false),
            FeedSpec::Mrt(p) => (p, true),
            FeedSpec::Bmp(_) => return Ok(()),
        };
        let file = File::open(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let name = self.spec.to_string();
        {
            let mut status = self.progress.status();
            *status = FeedStatus {
                state: FeedState::Loading,
                sources: status.sources.clone(),
                ..FeedStatus::default()
            };
        }
        let (shared, progress) = (shared.clone(), self.progress.clone());
        self.thread = Some(spawn("parshall-bgp", move || {
            load::run(file, mrt, name, &shared, &progress);
        })?);
        Ok(())
    }

    /// What it has done.
    pub fn status(&self) -> FeedStatus {
        self.progress.status().clone()
    }

    /// Ends it and takes its routes out, which goes on after this has returned.
    pub(super) fn stop(mut self, shared: &Arc<BgpShared>) {
        self.progress.stop.store(true, Ordering::Relaxed);
        let (thread, waker) = (self.thread.take(), self.waker.take());
        if let (Some(w), FeedSpec::Bmp(_)) = (&waker, &self.spec) {
            w.wake();
            // The one who listens ends at once and frees the address; sessions clear up behind themselves.
            thread.map(JoinHandle::join);
            return;
        }
        let (shared, progress) = (shared.clone(), self.progress.clone());
        let clear = move || {
            thread.map(JoinHandle::join);
            let sources = std::mem::take(&mut progress.status().sources);
            sources.into_iter().for_each(|s| shared.remove_source(s));
        };
        if let Err(e) = spawn("parshall-bgp", clear) {
            tracing::warn!("routes of {} stay in the BGP table: {e}", self.spec);
        }
    }
}

/// A thread of this name.
pub(super) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, String> {
    thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|e| format!("no thread for a BGP feed: {e}"))
}
