//! How front ends do things with the router itself: not a line of text but a job that runs in its thread.
//!
//! An [`Asker`] sends a closure, the control loop runs it between two of its turns, and what it returns comes
//! back. The queue is bounded: askers wait for the router, never the router for them.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use parshall_command::Waker;

use crate::router::Router;

/// Jobs that may wait; whoever asks for more waits too.
const WAITING: usize = 256;

/// Something to do with the router, in its thread.
type Job = Box<dyn FnOnce(&mut Router) + Send>;

/// Asks the router. Each front end has a clone.
#[derive(Clone)]
pub struct Asker {
    jobs: SyncSender<Job>,
    waker: Waker,
}

impl Asker {
    /// Runs `job` in the router's thread and returns what it did; `None` when the router has ended. A job should be
    /// short: while it runs nothing else is served.
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Router) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = sync_channel(1);
        let job = move |router: &mut Router| {
            // The asker may have given up; then nobody wants the answer.
            let _ = reply.send(job(router));
        };
        self.jobs.send(Box::new(job)).ok()?;
        (self.waker)();
        answer.recv().ok()
    }
}

/// The router's end.
pub(crate) struct Jobs(Receiver<Job>);

impl Jobs {
    /// Runs at most `most` of the jobs that wait, and says how many there were.
    pub fn serve(&self, router: &mut Router, most: usize) -> usize {
        for served in 0..most {
            match self.0.try_recv() {
                Ok(job) => job(router),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return served,
            }
        }
        most
    }
}

/// Both ends; `waker` ends the sleep of the loop that serves.
pub(crate) fn jobs(waker: Waker) -> (Asker, Jobs) {
    let (send, receive) = sync_channel(WAITING);
    let asker = Asker { jobs: send, waker };
    (asker, Jobs(receive))
}
