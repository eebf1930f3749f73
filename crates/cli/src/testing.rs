//! A router for tests: a real server on a real socket with a few commands behind it.

use crate::server::{CliServer, ServerConfig};
use parshall_command::{Candidate, CommandSpec, CommandTable, NoNames, Reply, Request, Shell};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the commands of the test router do.
#[derive(Clone, Copy)]
enum Does {
    Version,
    Silent,
    Fail,
    Big,
    Block,
}

struct FakeShell(CommandTable<Does>);

impl FakeShell {
    fn new() -> FakeShell {
        let spec = |pattern, handler| CommandSpec {
            pattern,
            help: "Help",
            detail: "",
            params: &[],
            handler,
        };
        let specs = vec![
            spec("show version", Does::Version),
            spec("silent", Does::Silent),
            spec("fail", Does::Fail),
            spec("big", Does::Big),
            spec("block <text:block>", Does::Block),
        ];
        FakeShell(CommandTable::new(specs).expect("patterns"))
    }
}

impl Shell for FakeShell {
    fn execute(&mut self, line: &str, json: bool) -> Reply {
        let found = match self.0.parse(line, &NoNames) {
            Ok(found) => found,
            Err(error) => return Reply::Error(error.render()),
        };
        match found.spec.handler {
            Does::Version if json => Reply::Data(serde_json::json!({"version": 1})),
            Does::Version => Reply::Text("version 1".into()),
            Does::Silent => Reply::Text(String::new()),
            Does::Fail => Reply::Error("it fails".into()),
            Does::Big => Reply::Text("x".repeat(8 << 20)),
            Does::Block => Reply::Text(found.args.get::<String>("text").unwrap_or_default()),
        }
    }

    fn complete(&mut self, line: &str, cursor: usize) -> Vec<Candidate> {
        self.0.complete(line, cursor, &NoNames)
    }

    fn help(&mut self, line: &str) -> String {
        self.0.help(line, &NoNames)
    }
}

/// A running test router.
pub(crate) struct Router {
    pub(crate) server: CliServer,
    pub(crate) woken: Arc<AtomicUsize>,
    dir: tempfile::TempDir,
    owner: Option<JoinHandle<()>>,
}

impl Router {
    pub(crate) fn start() -> Router {
        Router::with(|_| {})
    }

    /// A router whose server configuration is changed by `change`.
    pub(crate) fn with(change: impl FnOnce(&mut ServerConfig)) -> Router {
        let (mut router, requests) = Router::unanswered(change);
        router.owner = Some(std::thread::spawn(move || {
            let mut shell = FakeShell::new();
            for request in requests {
                request.serve(&mut shell);
            }
        }));
        router
    }

    /// A router whose requests the test answers itself.
    pub(crate) fn unanswered(
        change: impl FnOnce(&mut ServerConfig),
    ) -> (Router, Receiver<Request>) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut config = ServerConfig::new(dir.path().join("cli.sock"), None);
        change(&mut config);
        let woken = Arc::new(AtomicUsize::new(0));
        let counter = woken.clone();
        let waker = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let (server, requests) = CliServer::start(config, waker).expect("a server");
        (
            Router {
                server,
                woken,
                dir,
                owner: None,
            },
            requests,
        )
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("cli.sock")
    }

    /// Waits until that many clients are connected; a minute is for machines that are very busy.
    pub(crate) fn wait_for_clients(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.server.clients() != count {
            assert!(
                Instant::now() < deadline,
                "{} clients, not {count}",
                self.server.clients()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.server.stop();
    }
}
