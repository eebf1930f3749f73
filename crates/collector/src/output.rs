//! The output of all readers: what each has gathered is written at once, so that no datagram's lines are torn apart.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use parshall_linux::clock;
use parshall_sflow_wire::Faults;
use parshall_sflow_wire::print::{Fault, Format, Meta, Printer};

use crate::args::DecodeArgs;
use crate::decode::DecodeError;
use crate::status::Status;

/// Output is written when so many bytes have gathered.
const WRITE_AT: usize = 1 << 16;

/// What all readers of one run share.
pub struct Shared<'s> {
    /// The options.
    pub args: &'s DecodeArgs,
    /// Set from outside: the end.
    pub stop: &'s AtomicBool,
    out: Mutex<&'s mut (dyn Write + Send)>,
    log: Mutex<&'s mut (dyn Write + Send)>,
    printed: AtomicU64,
    /// Set from inside: a reader failed, or all that was wanted is printed.
    ended: AtomicBool,
}

impl<'s> Shared<'s> {
    /// For this run.
    pub fn new(
        args: &'s DecodeArgs,
        out: &'s mut (dyn Write + Send),
        log: &'s mut (dyn Write + Send),
        stop: &'s AtomicBool,
    ) -> Shared<'s> {
        Shared {
            args,
            stop,
            out: Mutex::new(out),
            log: Mutex::new(log),
            printed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Whether it is time to end.
    pub fn done(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.ended.load(Ordering::Relaxed)
    }

    /// Lets all readers end.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether it ended by itself and not by request.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Datagrams printed.
    pub fn printed(&self) -> u64 {
        self.printed.load(Ordering::Relaxed)
    }

    /// Says something to the user. That nobody may be there to read it is no reason to end.
    pub fn say(&self, text: std::fmt::Arguments<'_>) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(log, "{text}");
    }

    /// Tells what was received and lost, in the form that was asked for.
    pub fn report(&self, status: &Status) {
        if self.args.wants_status() {
            self.say(format_args!("{}", status.json()));
        } else {
            self.say(format_args!("{status}"));
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let written = out.write_all(bytes).and_then(|()| out.flush());
        written.map_err(DecodeError::Output)
    }

    /// Takes one of the datagrams that may be printed.
    fn take_one(&self) -> bool {
        let before = self.printed.fetch_add(1, Ordering::Relaxed);
        let Some(most) = self.args.count else {
            return true;
        };
        if before + 1 >= most {
            self.end();
        }
        if before >= most {
            self.printed.fetch_sub(1, Ordering::Relaxed);
        }
        before < most
    }
}

/// One reader's printer and what it has gathered.
pub struct Output<'a, 's> {
    shared: &'a Shared<'s>,
    printer: Printer,
    buf: Vec<u8>,
    offset: LocalOffset,
    shows_old: bool,
}

impl<'a, 's> Output<'a, 's> {
    /// An empty one.
    pub fn new(shared: &'a Shared<'s>) -> Output<'a, 's> {
        Output {
            shared,
            shows_old: takes_to_end(&shared.args.format()),
            printer: Printer::new(&shared.args.format(), shared.args.selection()),
            buf: Vec::with_capacity(2 * WRITE_AT),
            offset: LocalOffset::default(),
        }
    }

    /// Writes what stands before everything else; for one of the readers to do, before the others start.
    pub fn begin(&mut self) -> Result<(), DecodeError> {
        self.printer.begin(&mut self.buf);
        self.flush()
    }

    /// Seconds east of UTC at that time.
    pub fn utc_offset(&mut self, seconds: u32) -> i32 {
        self.offset.at(seconds)
    }

    /// Counts what is wrong with a datagram and says whether nothing is. Versions 2 and 4 are not looked into where they are shown.
    pub fn is_sound(&self, bytes: &[u8], errors: &mut Faults) -> bool {
        let old = matches!(bytes.first_chunk(), Some([0, 0, 0, 2 | 4]));
        (old && self.shows_old) || errors.observe(bytes) == 0
    }

    /// Prints a datagram; the inner error is what was wrong with it.
    pub fn datagram(
        &mut self,
        meta: &Meta,
        bytes: &[u8],
    ) -> Result<Result<(), Fault>, DecodeError> {
        let before = self.buf.len();
        let result = self.printer.print(meta, bytes, &mut self.buf);
        if !matches!(result, Ok(false)) && !self.shared.take_one() {
            self.buf.truncate(before);
            return Ok(Ok(()));
        }
        if self.buf.len() >= WRITE_AT {
            self.flush()?;
        }
        Ok(result.map(|_| ()))
    }

    /// Writes what has gathered.
    pub fn flush(&mut self) -> Result<(), DecodeError> {
        if self.buf.is_empty() {
            return Ok(());
        }
        let written = self.shared.write(&self.buf);
        self.buf.clear();
        written
    }
}

/// Whether everything up to the end of a captured frame is taken for the datagram, as sflowtool does.
pub fn takes_to_end(format: &Format) -> bool {
    !matches!(
        format,
        Format::Json { .. } | Format::Packets | Format::Nothing
    )
}

/// A closed pipe on the output is a normal end.
pub fn unless_closed(result: Result<(), DecodeError>) -> Result<(), DecodeError> {
    match result {
        Err(DecodeError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Remembers the offset of local time for the quarter of an hour it was asked for last: it never changes within one.
#[derive(Debug, Default)]
struct LocalOffset {
    known: Option<(u32, i32)>,
}

impl LocalOffset {
    fn at(&mut self, seconds: u32) -> i32 {
        let quarter = seconds / 900;
        match self.known {
            Some((q, offset)) if q == quarter => offset,
            _ => {
                let offset = clock::local_offset(i64::from(seconds));
                self.known = Some((quarter, offset));
                offset
            }
        }
    }
}
