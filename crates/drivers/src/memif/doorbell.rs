//! Waking a sleeping peer: adding one to an eventfd that the peer has, too, without ever waiting.
//!
//! A plain write(2) to an eventfd waits while its counter is full, unless the descriptor is non-blocking, and
//! both the counter and that flag belong to whoever has the descriptor: a hostile peer could stop a worker
//! for good. The kernel's own signalling of eventfds never waits, and there is one way to have it done:
//! the completion of an asynchronous operation (`IOCB_FLAG_RESFD` of io_submit(2)). The operation is to read
//! nothing from a file in memory, and is complete when it is submitted. It also refuses any descriptor that is
//! no eventfd. Where the kernel has no such operations, the write is all there is.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Completions that wait to be taken out at most.
const DEPTH: usize = 64;
const PREAD: u16 = 0;
const SIGNAL_EVENTFD: u32 = 1;

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Default)]
struct Operation {
    data: u64,
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Completion {
    data: u64,
    operation: u64,
    results: [i64; 2],
}

/// An eventfd to be signalled.
#[derive(Debug)]
pub(super) struct Doorbell {
    fd: OwnedFd,
    /// Where operations are submitted, and the file they are on.
    queue: Option<(Queue, OwnedFd)>,
}

/// A context of asynchronous operations.
#[derive(Debug)]
struct Queue(libc::c_ulong);

impl Queue {
    fn new() -> io::Result<Queue> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one number into a local.
        match unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) } {
            0 => Ok(Queue(context)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Submits an operation that is complete when this returns.
    fn submit(&self, operation: &mut Operation) -> bool {
        let mut list = [&raw mut *operation];
        // SAFETY: one pointer to one operation, both of which outlive the call; it has no buffer.
        unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, list.as_mut_ptr()) == 1 }
    }

    /// Takes out what is complete.
    fn clear(&self) {
        let mut events = [Completion::default(); DEPTH];
        let mut no_time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: as many events as the array holds; the time is a local.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.0,
                0,
                DEPTH,
                events.as_mut_ptr(),
                &raw mut no_time,
            )
        };
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the context is ours; nothing is under way in it.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

impl Doorbell {
    /// Takes an eventfd.
    pub fn new(fd: OwnedFd) -> Doorbell {
        let queue = Queue::new().and_then(|q| Ok((q, empty_file()?))).ok();
        if queue.is_none() {
            // The peer can take this back, but one that means no harm does not.
            // SAFETY: fcntl with F_SETFL takes a number; it fails or not.
            unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        }
        Doorbell { fd, queue }
    }

    /// Signals.
    pub fn ring(&self) {
        let Some((queue, file)) = &self.queue else {
            return super::signal(&self.fd);
        };
        let mut operation = Operation {
            opcode: PREAD,
            file: file.as_raw_fd().cast_unsigned(),
            flags: SIGNAL_EVENTFD,
            eventfd: self.fd.as_raw_fd().cast_unsigned(),
            ..Operation::default()
        };
        if !queue.submit(&mut operation) {
            // Full of completions that nobody wants.
            queue.clear();
            queue.submit(&mut operation);
        }
    }
}

fn empty_file() -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string literal.
    let fd = unsafe { libc::memfd_create(c"parshall-doorbell".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eventfd(flags: libc::c_int) -> OwnedFd {
        // SAFETY: eventfd takes no pointers, and nobody else knows the descriptor.
        unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, flags | libc::EFD_CLOEXEC)) }
    }

    fn count(fd: &OwnedFd) -> u64 {
        let mut n = [0; 8];
        // SAFETY: eight bytes into a local.
        let got = unsafe { libc::read(fd.as_raw_fd(), n.as_mut_ptr().cast(), 8) };
        assert_eq!(got, 8);
        u64::from_ne_bytes(n)
    }

    #[test]
    fn it_signals_as_often_as_it_is_rung() {
        let theirs = eventfd(libc::EFD_NONBLOCK);
        let bell = Doorbell::new(theirs.try_clone().unwrap());
        for n in [1, 5, 1000] {
            (0..n).for_each(|_| bell.ring());
            assert_eq!(count(&theirs), n);
        }
    }

    #[test]
    fn a_full_counter_of_a_blocking_eventfd_stops_nobody() {
        let theirs = eventfd(0);
        let bell = Doorbell::new(theirs.try_clone().unwrap());
        assert!(
            bell.queue.is_some(),
            "this kernel has no asynchronous operations"
        );
        let full = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: eight bytes from a local.
        let n = unsafe { libc::write(theirs.as_raw_fd(), full.as_ptr().cast(), 8) };
        assert_eq!(n, 8);
        bell.ring();
        bell.ring();
        assert!(count(&theirs) >= u64::MAX - 1);
    }

    #[test]
    fn what_is_no_eventfd_is_left_alone() {
        let file = empty_file().unwrap();
        let bell = Doorbell::new(file.try_clone().unwrap());
        bell.ring();
        assert_eq!(std::fs::File::from(file).metadata().unwrap().len(), 0);
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn operations_have_the_size_of_the_kernels() {
        assert_eq!((size_of::<Operation>(), size_of::<Completion>()), (64, 32));
    }
}
