//! What a front end (socket, file, configuration) and the owner of the state say to each other.
//!
//! A front end sends a [`Request`] over a plain channel and wakes the owner with a [`Waker`]; the owner,
//! from its own loop, calls [`Request::serve`] with its [`Shell`]. No lock is shared and neither side
//! waits on the other's socket: a front end that goes away leaves a reply that nobody reads.

use crate::complete::Candidate;
use serde_json::Value;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Makes the owner look at its request channel: typically a write to an eventfd it polls.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Who asks, and what comes with the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asking {
    /// The user, as the system says; `None` where that is not known.
    pub who: Option<String>,
    /// A text that the command is about, such as a configuration.
    pub input: Option<String>,
}

/// The owner of the state, as a front end sees it.
pub trait Shell: Send {
    /// Executes one command line. With `json` the reply is [`Reply::Data`] where the command has any.
    fn execute(&mut self, line: &str, json: bool) -> Reply;

    /// The same, with what is known of the one who asks.
    fn execute_for(&mut self, line: &str, json: bool, _asking: &Asking) -> Reply {
        self.execute(line, json)
    }

    /// What may stand at byte `cursor` of `line`.
    fn complete(&mut self, line: &str, cursor: usize) -> Vec<Candidate>;

    /// The text for `?` behind `line`.
    fn help(&mut self, line: &str) -> String;
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It worked; what to print, which may be nothing.
    Text(String),
    /// It worked; the result as data.
    Data(Value),
    /// Completions.
    Candidates(Vec<Candidate>),
    /// It did not work, and why; nothing was half-applied.
    Error(String),
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Execute the line.
    Execute {
        /// Answer as data.
        json: bool,
    },
    /// Complete the line.
    Complete {
        /// Byte offset of the cursor.
        cursor: usize,
    },
    /// Explain the line.
    Help,
}

/// One question on its way to the owner, with the way back.
#[derive(Debug)]
pub struct Request {
    /// What is asked.
    pub kind: RequestKind,
    /// The line it is asked about.
    pub line: String,
    /// Who asks, and what comes with it.
    pub asking: Asking,
    reply: SyncSender<Reply>,
}

impl Request {
    /// A request and the end on which its one reply arrives. If the owner goes away, receiving fails.
    pub fn new(kind: RequestKind, line: impl Into<String>) -> (Request, Receiver<Reply>) {
        let (reply, receiver) = sync_channel(1);
        (
            Request {
                kind,
                line: line.into(),
                asking: Asking::default(),
                reply,
            },
            receiver,
        )
    }

    /// The same, asked by somebody.
    #[must_use]
    pub fn asked_by(self, asking: Asking) -> Request {
        Request { asking, ..self }
    }

    /// Asks `shell` and answers.
    pub fn serve(self, shell: &mut dyn Shell) {
        let reply = match self.kind {
            RequestKind::Execute { json } => shell.execute_for(&self.line, json, &self.asking),
            RequestKind::Complete { cursor } => {
                Reply::Candidates(shell.complete(&self.line, cursor))
            }
            RequestKind::Help => Reply::Text(shell.help(&self.line)),
        };
        self.answer(reply);
    }

    /// Answers. Never blocks: the channel has room for exactly this reply.
    pub fn answer(self, reply: Reply) {
        // The asker may have hung up; then nobody wants the reply.
        let _ = self.reply.try_send(reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;
    impl Shell for Echo {
        fn execute(&mut self, line: &str, json: bool) -> Reply {
            if json {
                Reply::Data(Value::from(line))
            } else {
                Reply::Text(line.to_owned())
            }
        }
        fn complete(&mut self, line: &str, cursor: usize) -> Vec<Candidate> {
            vec![Candidate {
                text: line.to_owned(),
                help: String::new(),
                start: cursor,
            }]
        }
        fn help(&mut self, line: &str) -> String {
            format!("help {line}")
        }
    }

    #[test]
    fn requests_are_answered_once() {
        for (kind, want) in [
            (
                RequestKind::Execute { json: false },
                Reply::Text("x".into()),
            ),
            (
                RequestKind::Execute { json: true },
                Reply::Data(Value::from("x")),
            ),
            (RequestKind::Help, Reply::Text("help x".into())),
        ] {
            let (request, receiver) = Request::new(kind, "x");
            request.serve(&mut Echo);
            assert_eq!(receiver.recv(), Ok(want));
            assert!(receiver.recv().is_err());
        }
    }

    #[test]
    fn an_asker_that_left_does_no_harm() {
        let (request, receiver) = Request::new(RequestKind::Complete { cursor: 0 }, "x");
        drop(receiver);
        request.serve(&mut Echo);
    }
}
