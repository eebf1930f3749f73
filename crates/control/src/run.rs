//! The control loop: requests, signals, events of workers, timers.
//!
//! Sleeps in poll(2) on a pipe that front ends and signals write to, for at most ten milliseconds: workers
//! have no way to wake it, and a neighbour that a packet waits for should be asked for soon.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parshall_command::{Request, Waker};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::ask::{Asker, Jobs, jobs};
use crate::router::Router;

/// Requests served before workers have their turn.
const TURN: usize = 64;

/// What ends the control loop's sleep.
pub struct Wakeup {
    woken: UnixStream,
    wake: Arc<UnixStream>,
    signals: UnixStream,
    /// Kept so that `signals` never reads as closed.
    raise: UnixStream,
    asker: Asker,
    jobs: Jobs,
}

impl Wakeup {
    /// Makes the descriptors, and takes over SIGINT and SIGTERM: they end the loop instead of the process.
    ///
    /// # Errors
    /// When the system refuses a descriptor.
    pub fn new() -> io::Result<Wakeup> {
        let wakeup = Wakeup::without_signals()?;
        for signal in [SIGINT, SIGTERM] {
            let raise = OwnedFd::from(wakeup.raise.try_clone()?);
            signal_hook::low_level::pipe::register(signal, raise)?;
        }
        Ok(wakeup)
    }

    /// Makes the descriptors and leaves signals alone.
    ///
    /// # Errors
    /// When the system refuses a descriptor.
    pub fn without_signals() -> io::Result<Wakeup> {
        let (woken, wake) = UnixStream::pair()?;
        let (signals, raise) = UnixStream::pair()?;
        for s in [&woken, &wake, &signals] {
            s.set_nonblocking(true)?;
        }
        let wake = Arc::new(wake);
        let (asker, jobs) = jobs(waker(&wake));
        Ok(Wakeup {
            woken,
            wake,
            signals,
            raise,
            asker,
            jobs,
        })
    }

    /// What front ends call after they have sent a request.
    pub fn waker(&self) -> Waker {
        waker(&self.wake)
    }

    /// What front ends ask the router itself with, while [`run`] runs.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Sleeps until something happens or the time is over. True = a signal came.
    fn wait(&mut self, most: Duration) -> bool {
        let mut fds = [
            PollFd::new(self.woken.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        // Rounded up: waking before the time would only mean to sleep again.
        let ms = u16::try_from(most.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        // An interrupted sleep is a short one.
        let _ = poll(&mut fds, PollTimeout::from(ms));
        drain(&self.woken);
        drain(&self.signals)
    }
}

fn waker(wake: &Arc<UnixStream>) -> Waker {
    let wake = wake.clone();
    // A full pipe is as good as one byte in it.
    Arc::new(move || drop((&*wake).write(&[1])))
}

/// Empties a pipe; says whether there was anything.
fn drain(mut stream: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut any = false;
    while matches!(stream.read(&mut bytes), Ok(n) if n > 0) {
        any = true;
    }
    any
}

/// Runs the router until somebody ends it, then shuts it down: the agent sends what it has, workers stop,
/// devices are released.
pub fn run(router: &mut Router, requests: &Receiver<Request>, wakeup: &mut Wakeup) {
    while !router.is_stopping() {
        let served = serve(router, requests).max(wakeup.jobs.serve(router, TURN));
        let busy = router.turn();
        if router.is_stopping() {
            break;
        }
        let most = if served == TURN || busy {
            Duration::ZERO
        } else {
            router.patience()
        };
        if wakeup.wait(most) {
            tracing::info!("ended by a signal");
            break;
        }
    }
    router.shut_down();
}

fn serve(router: &mut Router, requests: &Receiver<Request>) -> usize {
    let mut n = 0;
    while n < TURN {
        match requests.try_recv() {
            Ok(request) => request.serve(router),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
        }
        n += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;
    use parshall_command::{Reply, RequestKind};
    use std::sync::mpsc::channel;

    fn router() -> Router {
        let config = EngineConfig {
            buffers: 2048,
            interfaces: 8,
            ..EngineConfig::default()
        };
        Router::new(config).unwrap()
    }

    #[test]
    fn requests_are_answered_until_shutdown() {
        let mut wakeup = Wakeup::without_signals().unwrap();
        let (waker, (send, requests)) = (wakeup.waker(), channel());
        let asker = std::thread::spawn(move || {
            let ask = |line: &str| {
                let (request, reply) = Request::new(RequestKind::Execute { json: false }, line);
                send.send(request).unwrap();
                waker();
                reply.recv().unwrap()
            };
            let created = ask("create loopback interface");
            let wrong = ask("set interface state loop1 up");
            (created, wrong, ask("shutdown"))
        });
        let mut r = router();
        run(&mut r, &requests, &mut wakeup);
        let (created, wrong, bye) = asker.join().unwrap();
        assert_eq!(created, Reply::Text("loop0".into()));
        assert!(matches!(wrong, Reply::Error(e) if e.contains("did you mean loop0")));
        assert_eq!(bye, Reply::Text(String::new()));
        assert!(r.is_stopping());
    }

    #[test]
    fn jobs_run_in_the_routers_thread_until_it_ends() {
        let mut wakeup = Wakeup::without_signals().unwrap();
        let asker = wakeup.asker();
        let (_send, requests) = channel();
        let askers: Vec<_> = (0..4)
            .map(|_| {
                let asker = asker.clone();
                std::thread::spawn(move || {
                    let ask = || asker.ask(|r| r.run_line("create loopback interface", false));
                    (0..100).filter(|_| matches!(ask(), Some(Ok(_)))).count()
                })
            })
            .collect();
        let end = std::thread::spawn(move || {
            let made: usize = askers.into_iter().map(|a| a.join().unwrap()).sum();
            (
                made,
                asker.ask(|r| r.run_line("shutdown", false).is_ok()),
                asker,
            )
        });
        let mut r = router();
        run(&mut r, &requests, &mut wakeup);
        let (made, bye, asker) = end.join().unwrap();
        // Eight interfaces there can be, and local0 is one.
        assert_eq!((made, bye), (7, Some(true)));
        drop(wakeup);
        assert!(asker.ask(|_| ()).is_none());
    }

    #[test]
    fn a_signal_ends_the_loop() {
        let mut wakeup = Wakeup::without_signals().unwrap();
        let mut raise = wakeup.raise.try_clone().unwrap();
        let (_send, requests) = channel();
        raise.write_all(&[0]).unwrap();
        let mut r = router();
        run(&mut r, &requests, &mut wakeup);
        assert!(r.is_stopping());
    }
}
