//! Which function serves which message, and what such a function may say.
//!
//! A handler gets the router and the decoded message. Most answer once; dumps answer with any number of messages, page by page, so that
//! neither the router's thread nor memory is taken for long.

use std::sync::Arc;

use parshall_control::{Error, Interface, IpNet, Router};
use parshall_vpp_wire::{DecodeError, Lead, MESSAGES, Message, error_reply, frame};

use crate::retval;

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// VPP's number.
    pub retval: i32,
    /// In words, for the log.
    pub why: String,
}

impl Refusal {
    pub fn new(retval: i32, why: impl Into<String>) -> Refusal {
        Refusal {
            retval,
            why: why.into(),
        }
    }
    /// For what is not there yet.
    pub fn unimplemented(what: &str) -> Refusal {
        Refusal::new(
            retval::UNIMPLEMENTED,
            format!("{what} cannot be done by the API yet"),
        )
    }
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Refusal {
        Refusal::new(retval::of(&e), e.to_string())
    }
}

/// The refusal of a message that has a number of its own for something that is there already.
pub(crate) fn if_exists(retval: i32) -> impl Fn(Error) -> Refusal {
    move |e| match e {
        Error::Exists(_) | Error::InterfaceExists(_) => Refusal::new(retval, e.to_string()),
        e => e.into(),
    }
}

/// The same for something that is needed elsewhere.
pub(crate) fn if_in_use(retval: i32) -> impl Fn(Error) -> Refusal {
    move |e| match e {
        Error::InUse(_) => Refusal::new(retval, e.to_string()),
        e => e.into(),
    }
}

/// What a handler returns.
pub(crate) type Done<T> = Result<T, Refusal>;

/// Where a dump goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Cursor {
    /// At the beginning.
    #[default]
    Start,
    /// After an index.
    After(u32),
    /// After a route.
    Route(IpNet),
}

/// Frames on their way to a client, all with one context.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub context: u32,
    pub bytes: Vec<u8>,
}

impl Answers {
    pub fn send<M: Message>(&mut self, message: &M) {
        let lead = Lead {
            client_index: 0,
            context: self.context,
        };
        self.raw(&message.encode(lead));
    }
    pub fn raw(&mut self, message: &[u8]) {
        self.bytes.extend(frame(message));
    }
}

/// One page of an answer: says where the next one begins, if there is one.
pub(crate) type Page =
    dyn Fn(&mut Router, Cursor, &mut Answers) -> Done<Option<Cursor>> + Send + Sync;

type Decode = Box<dyn Fn(&[u8]) -> Result<(Lead, Arc<Page>), DecodeError> + Send + Sync>;

/// Handlers by message number.
pub(crate) struct Registry {
    entries: Vec<Option<Decode>>,
}

impl Registry {
    pub fn new() -> Registry {
        Registry {
            entries: std::iter::repeat_with(|| None)
                .take(MESSAGES.len() + 1)
                .collect(),
        }
    }

    /// The handler of a message.
    pub fn get(&self, id: u16) -> Option<&Decode> {
        self.entries.get(usize::from(id))?.as_ref()
    }

    fn put<M: Message + Send + Sync + 'static>(
        &mut self,
        serve: impl Fn(&mut Router, &M, Cursor, &mut Answers) -> Done<Option<Cursor>>
        + Send
        + Sync
        + Clone
        + 'static,
    ) {
        let decode = move |bytes: &[u8]| {
            let (lead, message) = M::decode(bytes)?;
            let serve = serve.clone();
            let page: Arc<Page> =
                Arc::new(move |r: &mut Router, at, out: &mut Answers| serve(r, &message, at, out));
            Ok((lead, page))
        };
        if let Some(entry) = self.entries.get_mut(usize::from(M::ID)) {
            *entry = Some(Box::new(decode));
        }
    }

    /// A request whose reply says only how it went.
    pub fn ack<M: Message + Send + Sync + 'static>(&mut self, f: fn(&mut Router, &M) -> Done<()>) {
        self.put(move |r, m: &M, _, out| {
            whole(r, |r| f(r, m))?;
            if let Some(reply) = error_reply(M::info(), out.context, 0) {
                out.raw(&reply);
            }
            Ok(None)
        });
    }

    /// A request with a reply of its own.
    pub fn answer<M: Message + Send + Sync + 'static, A: Message + 'static>(
        &mut self,
        f: fn(&mut Router, &M) -> Done<A>,
    ) {
        self.put(move |r, m: &M, _, out| {
            out.send(&whole(r, |r| f(r, m))?);
            Ok(None)
        });
    }

    /// A dump of things that there are few of.
    pub fn dump<M: Message + Send + Sync + 'static>(&mut self, f: fn(&Router, &M, &mut Answers)) {
        self.put(move |r, m: &M, _, out| {
            f(r, m, out);
            Ok(None)
        });
    }

    /// A dump of interfaces, or of what hangs on them.
    pub fn each_interface<M: Message + Send + Sync + 'static>(
        &mut self,
        f: fn(&Router, &M, &Interface, &mut Answers),
    ) {
        self.put(move |r, m: &M, at, out| Ok(interfaces(r, at, |r, i| f(r, m, i, out))));
    }

    /// Any other.
    pub fn pages<M: Message + Send + Sync + 'static>(
        &mut self,
        f: fn(&mut Router, &M, Cursor, &mut Answers) -> Done<Option<Cursor>>,
    ) {
        self.put(f);
    }
}

/// Interfaces of one page.
const PAGE: usize = 1024;

fn interfaces(r: &Router, at: Cursor, mut f: impl FnMut(&Router, &Interface)) -> Option<Cursor> {
    let first = match at {
        Cursor::After(index) => index.saturating_add(1),
        _ => 0,
    };
    let mut last = None;
    for i in r
        .interfaces()
        .iter()
        .filter(|i| i.index >= first)
        .take(PAGE)
    {
        f(r, i);
        last = Some(i.index);
    }
    let more = r
        .interfaces()
        .iter()
        .any(|i| last.is_some_and(|l| i.index > l));
    last.filter(|_| more).map(Cursor::After)
}

/// Does it whole or not at all.
fn whole<T>(r: &mut Router, f: impl FnOnce(&mut Router) -> Done<T>) -> Done<T> {
    let mut refusal = None;
    let done = r.atomically(|r| {
        f(r).map_err(|e| {
            let why = Error::refused(e.why.clone());
            refusal = Some(e);
            why
        })
    });
    done.map_err(|e| refusal.unwrap_or_else(|| e.into()))
}
