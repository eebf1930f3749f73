//! `pcap`: an interface made of files, and the pcap files of everybody else.
//!
//! What the interface receives is replayed from one file, what it transmits is written to another. The
//! work is that of a generator interface with one stream and a capture. [`mod@file`] reads and writes the
//! format, [`mod@ng`] writes pcapng, [`Recording`] is a file ready for replay, [`CaptureWriter`] writes captures of any source.

mod capture;
pub mod file;
pub mod ng;
mod recording;

use std::path::PathBuf;

use parshall_device::{Device, DeviceError, DeviceInfo, Queues};

use crate::pg::{PgDevice, PgHandle, SinkTotals, Source, Speed, StreamInfo, StreamSpec};

pub use capture::{
    CaptureOptions, CaptureReport, CaptureSlot, CaptureSource, CaptureTap, CaptureWriter, Captured,
    SLOT_BYTES, SLOTS,
};
pub use recording::{MAX_BYTES, Recording};

/// What a file interface reads and writes.
#[derive(Clone, Debug, PartialEq)]
pub struct PcapOptions {
    /// File that is received; `None` = nothing is.
    pub rx: Option<PathBuf>,
    /// File that what is transmitted is written to; `None` = it is only counted.
    pub tx: Option<PathBuf>,
    /// Start again at the end of the received file, for ever.
    pub looping: bool,
    /// How fast it is received.
    pub speed: Speed,
    /// Address of the interface.
    pub mac: [u8; 6],
}

/// Name of the one stream.
const STREAM: &str = "file";

/// An interface made of files. The replay starts when the interface is brought up for the first time,
/// and pauses while it is down.
pub struct PcapDevice {
    inner: PgDevice,
    options: PcapOptions,
    started: bool,
}

impl PcapDevice {
    /// Makes the interface; the files are opened by [`Device::queues`].
    ///
    /// # Errors
    /// When the speed is out of range.
    pub fn new(options: PcapOptions) -> Result<PcapDevice, DeviceError> {
        if let Some(rx) = &options.rx {
            StreamSpec::from_pcap(STREAM, rx, options.speed)
                .validate()
                .map_err(|e| DeviceError(e.0))?;
        }
        let mut inner = PgDevice::with_mac("pcap", options.mac);
        inner.set_admin(false)?;
        Ok(PcapDevice {
            inner,
            options,
            started: false,
        })
    }

    fn handle(&self) -> &PgHandle {
        self.inner.handle()
    }

    /// How far the replay is; `None` when nothing is received.
    pub fn replay(&self) -> Option<StreamInfo> {
        self.handle().streams().pop()
    }

    /// What has been transmitted.
    pub fn transmitted(&self) -> SinkTotals {
        self.handle().sink()
    }

    /// How far the written file is; `None` when there is none.
    pub fn written(&self) -> Option<CaptureReport> {
        self.handle().capture_report()
    }
}

impl Device for PcapDevice {
    fn info(&self) -> DeviceInfo {
        let name = |path: &Option<PathBuf>| {
            path.as_ref()
                .map_or("nothing".into(), |p| p.display().to_string())
        };
        let (rx, tx) = (name(&self.options.rx), name(&self.options.tx));
        DeviceInfo {
            detail: format!("receives {rx}, writes {tx}"),
            ..self.inner.info()
        }
    }

    fn queues(&mut self, if_index: u32, workers: usize) -> Result<Queues, DeviceError> {
        let queues = self.inner.queues(if_index, workers)?;
        if let Some(path) = &self.options.rx {
            let source = Source::Replay {
                path: path.clone(),
                looping: self.options.looping,
                speed: self.options.speed,
            };
            self.handle().add(&StreamSpec {
                source,
                ..StreamSpec::from_pcap(STREAM, path, self.options.speed)
            })?;
        }
        if let Some(path) = &self.options.tx {
            self.handle().capture(&CaptureOptions::new(path))?;
        }
        Ok(queues)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), DeviceError> {
        if up && !self.started {
            self.handle().enable(None)?;
            self.started = true;
        }
        self.inner.set_admin(up)
    }

    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), DeviceError> {
        self.inner.set_mac(mac)
    }

    fn set_max_frame(&mut self, bytes: u32) -> Result<(), DeviceError> {
        self.inner.set_max_frame(bytes)
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), DeviceError> {
        self.inner.set_promiscuous(on)
    }
}
