//! Where captured datagrams come from: a file that may be a pipe, and can be waited on without missing the request to stop.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How often a waiting reader looks whether it should stop, in milliseconds. A signal ends the wait at once; this is for stop requests
/// from other threads.
const WAIT_MS: u16 = 200;

/// Waits a while for something to read; says whether there is.
fn wait_readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::from(WAIT_MS)) {
        Ok(n) => Ok(n > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// A file or standard input, whose end comes early when it is asked to stop.
#[derive(Debug)]
pub struct FileInput<'s> {
    file: File,
    stop: &'s AtomicBool,
    buf: Vec<u8>,
    at: usize,
}

impl<'s> FileInput<'s> {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path, stop: &'s AtomicBool) -> io::Result<Self> {
        let file = if path == Path::new("-") {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            File::open(path)?
        };
        Ok(FileInput {
            file,
            stop,
            buf: Vec::new(),
            at: 0,
        })
    }

    /// Says whether the next read may have to wait: a good moment to show what there is.
    pub fn is_drained(&self) -> bool {
        self.at == self.buf.len()
    }

    /// Fills the buffer anew; leaves it empty at the end.
    fn refill(&mut self) -> io::Result<()> {
        self.at = 0;
        self.buf.clear();
        while !self.stop.load(Ordering::Relaxed) {
            if !wait_readable(self.file.as_fd())? {
                continue;
            }
            self.buf.resize(1 << 18, 0);
            let read = self.file.read(&mut self.buf);
            self.buf.truncate(*read.as_ref().unwrap_or(&0));
            match read {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(|_| ()),
            }
        }
        Ok(())
    }
}

impl Read for FileInput<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.is_drained() {
            self.refill()?;
        }
        let rest = self.buf.get(self.at..).unwrap_or(&[]);
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopping_ends_a_pipe_that_never_ends() {
        let (reader, _writer) = io::pipe().unwrap();
        let stop = AtomicBool::new(false);
        let mut input = FileInput {
            file: File::from(std::os::fd::OwnedFd::from(reader)),
            stop: &stop,
            buf: Vec::new(),
            at: 0,
        };
        std::thread::scope(|s| {
            let reader = s.spawn(move || input.read(&mut [0; 10]).unwrap());
            stop.store(true, Ordering::Relaxed);
            assert_eq!(reader.join().unwrap(), 0);
        });
    }
}
