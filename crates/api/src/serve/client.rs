//! One client: its frames come in, its requests are served in order, its answers and events go out, all by one thread.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parshall_vpp_wire::msg::*;
use parshall_vpp_wire::{
    FrameError, Frames, Header, Lead, MESSAGES, MODULES, Message, Reader, all_json, error_reply,
    frame, message,
};

use super::Shared;
use super::events::Mailbox;
use super::neighbors::{Watched, want};
use crate::registry::{Answers, Cursor, Refusal};
use crate::retval;

/// Bytes read at a time.
const PIECE: usize = 64 << 10;

/// Why a client is sent away.
pub(super) enum Leave {
    /// It said good-bye or hung up, or the router ended.
    Gone,
    /// The stream cannot be read any further.
    Frame(FrameError),
    /// It does not read.
    Slow,
    /// It never introduced itself.
    Silent,
}

impl fmt::Display for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leave::Gone => write!(f, "gone"),
            Leave::Frame(e) => write!(f, "{e}; the connection is closed"),
            Leave::Slow => write!(f, "does not read what it is sent; the connection is closed"),
            Leave::Silent => write!(
                f,
                "has not sent sockclnt_create in time; the connection is closed"
            ),
        }
    }
}

impl From<io::Error> for Leave {
    fn from(e: io::Error) -> Leave {
        match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Leave::Slow,
            _ => Leave::Gone,
        }
    }
}

/// A connection.
pub(super) struct Session<'s> {
    shared: &'s Shared,
    stream: &'s UnixStream,
    mailbox: &'s Arc<Mailbox>,
    index: u32,
    name: String,
    since: Instant,
    introduced: bool,
}

impl<'s> Session<'s> {
    pub fn new(
        shared: &'s Shared,
        stream: &'s UnixStream,
        index: u32,
        mailbox: &'s Arc<Mailbox>,
    ) -> Session<'s> {
        Session {
            shared,
            stream,
            mailbox,
            index,
            name: String::new(),
            since: Instant::now(),
            introduced: false,
        }
    }

    /// What it calls itself, for the log.
    pub fn name(&self) -> String {
        let own: String = self.name.chars().filter(|c| c.is_ascii_graphic()).collect();
        let number = self.index & 0x7fff_ffff;
        if own.is_empty() {
            format!("{number}")
        } else {
            format!("{number} ({own})")
        }
    }

    /// Serves it until it goes; an error is worth a line in the log.
    pub fn run(&mut self) -> Result<(), Leave> {
        match self.serve() {
            Err(Leave::Gone) => Ok(()),
            other => other,
        }
    }

    fn serve(&mut self) -> Result<(), Leave> {
        let mut frames = Frames::new(self.shared.config.max_message);
        let mut piece = vec![0; PIECE];
        loop {
            if !self.wait()? {
                continue;
            }
            let n = match (&mut &*self.stream).read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Ok(()),
            };
            frames.push(&piece[..n]);
            while let Some(bytes) = frames.next_message().map_err(Leave::Frame)? {
                self.take(bytes)?;
            }
        }
    }

    /// Waits for the client; tells it events meanwhile. True = it sent something.
    fn wait(&mut self) -> Result<bool, Leave> {
        let timeout = if self.introduced {
            PollTimeout::NONE
        } else {
            let left = self
                .shared
                .config
                .handshake_timeout
                .saturating_sub(self.since.elapsed());
            if left.is_zero() {
                return Err(Leave::Silent);
            }
            PollTimeout::from(u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX))
        };
        let mut fds = [
            PollFd::new(self.stream.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.mailbox.woken.as_fd(), PollFlags::POLLIN),
        ];
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, timeout);
        let ready = |fd: &PollFd| fd.revents().is_some_and(|r| !r.is_empty());
        if ready(&fds[1]) {
            self.tell_events()?;
        }
        Ok(ready(&fds[0]))
    }

    fn tell_events(&mut self) -> Result<(), Leave> {
        let events = self.mailbox.take().ok_or(Leave::Slow)?;
        let mut bytes = Vec::new();
        for event in events {
            let pid = self.mailbox.pid(&event);
            bytes.extend(frame(&event.encode(self.index, pid)));
        }
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Leave> {
        Ok((&mut &*self.stream).write_all(bytes)?)
    }

    /// Serves one message. What cannot be understood is logged and dropped, as VPP does: the client may know more than we.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Leave> {
        let Some(id) = bytes.first_chunk::<2>().map(|b| u16::from_be_bytes(*b)) else {
            self.shared
                .complain(format_args!("client {}: an empty message", self.name()));
            return Ok(());
        };
        let Some(info) = message(id) else {
            self.shared.complain(format_args!(
                "client {}: no message has the number {id}",
                self.name()
            ));
            return Ok(());
        };
        let known = match self.shared.registry.get(id) {
            Some(decode) => match decode(bytes) {
                Ok((lead, page)) => return self.ask(info, lead.context, &page),
                Err(e) => Err(e),
            },
            None => self.own(id, bytes),
        };
        match known {
            Ok(Own::Send(answer)) => self.write(&frame(&answer)),
            Ok(Own::Close(answer)) => {
                self.write(&frame(&answer))?;
                Err(Leave::Gone)
            }
            Ok(Own::Unknown) => self.refuse_unknown(info, bytes),
            Err(e) => {
                self.shared
                    .complain(format_args!("client {}: {} {e}", self.name(), info.name));
                Ok(())
            }
        }
    }

    /// A message that is in the table and has no handler.
    fn refuse_unknown(
        &mut self,
        info: &parshall_vpp_wire::MessageInfo,
        bytes: &[u8],
    ) -> Result<(), Leave> {
        let mut r = Reader::new(&bytes[2..]);
        let lead = Lead::get(info.header, &mut r);
        self.shared.complain(format_args!(
            "client {}: {} is not served",
            self.name(),
            info.name
        ));
        let reply = match (info.header, lead) {
            (Header::Request, Ok(lead)) => error_reply(info, lead.context, retval::UNIMPLEMENTED),
            _ => None,
        };
        reply.map_or(Ok(()), |reply| self.write(&frame(&reply)))
    }

    /// Has the router serve it, page by page.
    fn ask(
        &mut self,
        info: &parshall_vpp_wire::MessageInfo,
        context: u32,
        page: &Arc<crate::registry::Page>,
    ) -> Result<(), Leave> {
        let mut at = Cursor::Start;
        loop {
            let page = page.clone();
            let job = move |r: &mut parshall_control::Router| {
                let mut answers = Answers {
                    context,
                    bytes: Vec::new(),
                };
                let next = page(r, at, &mut answers);
                (answers.bytes, next)
            };
            let (bytes, next) = self.shared.asker.ask(job).ok_or(Leave::Gone)?;
            self.write(&bytes)?;
            match next {
                Ok(Some(next)) => at = next,
                Ok(None) => return Ok(()),
                Err(refusal) => return self.refuse(info, context, &refusal),
            }
        }
    }

    fn refuse(
        &mut self,
        info: &parshall_vpp_wire::MessageInfo,
        context: u32,
        refusal: &Refusal,
    ) -> Result<(), Leave> {
        self.shared.complain(format_args!(
            "client {}: {} refused with {}: {}",
            self.name(),
            info.name,
            refusal.retval,
            refusal.why
        ));
        if let Some(reply) = retval_last(info.name, refusal.retval, context) {
            return self.write(&frame(&reply));
        }
        let reply = error_reply(info, context, refusal.retval);
        reply.map_or(Ok(()), |reply| self.write(&frame(&reply)))
    }

    /// Messages about the connection itself, which the router has nothing to do with.
    fn own(&mut self, id: u16, bytes: &[u8]) -> Result<Own, parshall_vpp_wire::DecodeError> {
        Ok(match id {
            SockclntCreate::ID => self.introduce(&SockclntCreate::decode(bytes)?.1),
            SockclntDelete::ID => {
                let (lead, m) = SockclntDelete::decode(bytes)?;
                // VPP says 1 where it worked.
                let ours = m.index == self.index;
                let reply = SockclntDeleteReply {
                    response: if ours { 1 } else { -1 },
                }
                .encode(lead);
                if ours {
                    Own::Close(reply)
                } else {
                    Own::Send(reply)
                }
            }
            ControlPing::ID => {
                let lead = ControlPing::decode(bytes)?.0;
                let reply = ControlPingReply {
                    retval: 0,
                    client_index: self.index,
                    vpe_pid: std::process::id(),
                };
                Own::Send(reply.encode(lead))
            }
            MemclntKeepalive::ID => {
                let lead = MemclntKeepalive::decode(bytes)?.0;
                Own::Send(MemclntKeepaliveReply { retval: 0 }.encode(lead))
            }
            GetFirstMsgId::ID => {
                let (lead, m) = GetFirstMsgId::decode(bytes)?;
                Own::Send(first_of(&m.name).encode(lead))
            }
            ApiVersions::ID => Own::Send(versions().encode(ApiVersions::decode(bytes)?.0)),
            GetApiJson::ID => {
                let lead = GetApiJson::decode(bytes)?.0;
                let json = self.shared.json.get_or_init(all_json).clone();
                Own::Send(GetApiJsonReply { retval: 0, json }.encode(lead))
            }
            WantInterfaceEvents::ID => {
                let (lead, m) = WantInterfaceEvents::decode(bytes)?;
                self.mailbox.want_interfaces(m.enable_disable != 0, m.pid);
                Own::Send(WantInterfaceEventsReply { retval: 0 }.encode(lead))
            }
            WantIpNeighborEvents::ID => {
                let (lead, m) = WantIpNeighborEvents::decode(bytes)?;
                let retval =
                    self.want_neighbors(m.enable, watched(false, m.pid, &m.ip, m.sw_if_index));
                Own::Send(WantIpNeighborEventsReply { retval }.encode(lead))
            }
            WantIpNeighborEventsV2::ID => {
                let (lead, m) = WantIpNeighborEventsV2::decode(bytes)?;
                let retval =
                    self.want_neighbors(m.enable, watched(true, m.pid, &m.ip, m.sw_if_index));
                Own::Send(WantIpNeighborEventsV2Reply { retval }.encode(lead))
            }
            WantL2MacsEvents::ID => {
                let (lead, m) = WantL2MacsEvents::decode(bytes)?;
                // How much is learned has no limit of its own: only what cannot be one is refused.
                let sense = m.learn_limit != 0 && m.scan_delay != 0;
                let most = if sense { m.max_macs_in_event } else { 0 };
                let retval = self.want_macs(m.enable_disable, most, m.pid);
                if m.enable_disable && retval == 0 {
                    self.set_scan_delay(m.scan_delay.into());
                }
                Own::Send(WantL2MacsEventsReply { retval }.encode(lead))
            }
            WantL2MacsEvents2::ID => {
                let (lead, m) = WantL2MacsEvents2::decode(bytes)?;
                let retval = self.want_macs(m.enable_disable, m.max_macs_in_event, m.pid);
                Own::Send(WantL2MacsEvents2Reply { retval }.encode(lead))
            }
            L2fibSetScanDelay::ID => {
                let (lead, m) = L2fibSetScanDelay::decode(bytes)?;
                let retval = match m.scan_delay {
                    0 => self.wrong("l2fib_set_scan_delay: a delay is above 0"),
                    delay => self.set_scan_delay(delay),
                };
                Own::Send(L2fibSetScanDelayReply { retval }.encode(lead))
            }
            _ => Own::Unknown,
        })
    }

    /// Neighbours are told of, or not any more.
    fn want_neighbors(&self, on: bool, wanted: Watched) -> i32 {
        want(self.shared, self.mailbox, on, wanted)
    }

    /// Stations are told of, ten times `tens` of them in a message at most, or not any more.
    fn want_macs(&self, on: bool, tens: u8, pid: u32) -> i32 {
        if on && tens == 0 {
            return self
                .wrong("want_l2_macs_events: the delay and the numbers of stations are above 0");
        }
        let most = if on { 10 * usize::from(tens) } else { 0 };
        self.mailbox.want_macs(most, pid);
        0
    }

    /// Time between two looks at stations, in VPP's steps of 10 ms, for all clients.
    fn set_scan_delay(&self, steps: u16) -> i32 {
        let delay = 10 * u32::from(steps);
        self.shared.scan_delay.store(delay, Ordering::Release);
        0
    }

    /// Says what a value cannot be.
    fn wrong(&self, why: &str) -> i32 {
        self.shared
            .complain(format_args!("client {}: {why}", self.name()));
        retval::VALUE
    }

    fn introduce(&mut self, m: &SockclntCreate) -> Own {
        self.introduced = true;
        self.name = m.name.clone();
        tracing::debug!("binary API: client {} is here", self.name());
        let reply = SockclntCreateReply {
            client_index: 0,
            context: m.context,
            response: 0,
            index: self.index,
            message_table: table(),
        };
        Own::Send(reply.encode(Lead::default()))
    }
}

/// What is to be done about a message that concerns the connection.
enum Own {
    /// Answer.
    Send(Vec<u8>),
    /// Answer and hang up.
    Close(Vec<u8>),
    /// It is none of these.
    Unknown,
}

/// The refusal of the few messages whose reply has its return value last.
fn retval_last(name: &str, retval: i32, context: u32) -> Option<Vec<u8>> {
    let lead = Lead {
        client_index: 0,
        context,
    };
    let acl_index = u32::MAX;
    let is = |info: &parshall_vpp_wire::MessageInfo| info.name == name;
    if is(AclAddReplace::info()) {
        return Some(AclAddReplaceReply { acl_index, retval }.encode(lead));
    }
    if is(MacipAclAddReplace::info()) {
        return Some(MacipAclAddReplaceReply { acl_index, retval }.encode(lead));
    }
    is(MacipAclAdd::info()).then(|| MacipAclAddReply { acl_index, retval }.encode(lead))
}

/// The neighbours that a message names; all addresses where it names none.
fn watched(v2: bool, pid: u32, ip: &Address, if_index: u32) -> Watched {
    let ip = ip.ip().filter(|ip| !ip.is_unspecified());
    Watched {
        v2,
        pid,
        ip,
        if_index,
    }
}

/// All messages with their numbers. The Go client takes the last one that begins with "sockclnt_delete_" for the request, so its reply
/// stands before it.
fn table() -> Vec<MessageTableEntry> {
    let entry = |(m, index): (&parshall_vpp_wire::MessageInfo, u16)| MessageTableEntry {
        index,
        name: m.tagged(),
    };
    let mut all: Vec<MessageTableEntry> = MESSAGES.iter().zip(1..).map(entry).collect();
    let (request, reply) = (
        usize::from(SockclntDelete::ID),
        usize::from(SockclntDeleteReply::ID),
    );
    all.swap(request - 1, reply - 1);
    all
}

fn versions() -> ApiVersionsReply {
    let one = |m: &parshall_vpp_wire::ModuleInfo| ModuleVersion {
        major: m.version[0],
        minor: m.version[1],
        patch: m.version[2],
        name: format!("{}.api", m.name),
    };
    ApiVersionsReply {
        retval: 0,
        api_versions: MODULES.iter().map(one).collect(),
    }
}

/// The first number of a module, asked for as NAME_CRC.
fn first_of(name: &str) -> GetFirstMsgIdReply {
    let found = MODULES
        .iter()
        .find(|m| format!("{}_{:08x}", m.name, m.crc) == name);
    match found {
        Some(m) => GetFirstMsgIdReply {
            retval: 0,
            first_msg_id: m.first,
        },
        None => GetFirstMsgIdReply {
            retval: retval::VALUE,
            first_msg_id: u16::MAX,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_vpp_wire::id_of;

    #[test]
    fn the_go_client_finds_the_request_to_leave() {
        let table = table();
        let of = |t: &&MessageTableEntry| t.name.starts_with("sockclnt_delete_");
        let last = table.iter().rfind(of).expect("there");
        assert_eq!(Some(last.index), id_of("sockclnt_delete"));
        assert_eq!(table.len(), MESSAGES.len());
    }

    #[test]
    fn modules_are_found_by_name_and_crc() {
        let found = first_of("sflow_273ad146");
        assert_eq!(Some(found.first_msg_id), id_of("sflow_enable_disable"));
        assert_eq!((found.retval, first_of("sflow_1").retval), (0, -7));
        assert!(
            versions()
                .api_versions
                .iter()
                .any(|v| v.name == "sflow.api" && v.minor == 1)
        );
    }
}
