//! Packet generator streams, by name over all generator interfaces.

use std::path::PathBuf;

use parshall_drivers::pcap::{CaptureOptions, CaptureReport};
use parshall_drivers::pg::{PgHandle, StreamChange, StreamInfo, StreamSpec};

use super::Router;
use crate::error::{Error, Result};

/// A stream as it was asked for.
#[derive(Clone, Debug)]
pub struct StreamText {
    /// The text in braces.
    pub text: String,
    /// It was started.
    pub enabled: bool,
}

impl Router {
    /// Makes a stream from the text of `packet-generator new`, stopped.
    ///
    /// # Errors
    /// When the text is not one, the interface is no generator, or the name is taken.
    pub fn add_stream(&mut self, text: &str) -> Result<()> {
        let spec = StreamSpec::parse_vpp(text).map_err(|e| Error::Parse(e.to_string()))?;
        let Some(interface) = spec.interface.clone() else {
            return Err(Error::refused(format!(
                "stream {} names no interface: say `interface pg0`",
                spec.name
            )));
        };
        let index = self.interfaces.find_real(&interface)?;
        if self.streams.contains_key(&spec.name) {
            return Err(Error::refused(format!(
                "a stream called {} exists already",
                spec.name
            )));
        }
        let handle = self.generator(index)?;
        spec.validate().map_err(|e| Error::refused(e.to_string()))?;
        if !self.is_model() {
            handle.add(&spec)?;
        }
        let name = spec.name;
        self.streams.insert(name.clone(), index);
        let told = StreamText {
            text: text.trim().to_owned(),
            enabled: false,
        };
        self.stream_texts.insert(name.clone(), told);
        self.undo(move |r| r.delete_stream(&name));
        Ok(())
    }

    /// Takes a stream away.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn delete_stream(&mut self, name: &str) -> Result<()> {
        let index = self.stream_interface(name)?;
        let handle = self.generator(index)?;
        let info = handle.streams().into_iter().find(|s| s.spec.name == name);
        if !self.is_model() {
            handle.delete(name)?;
        }
        self.streams.remove(name);
        let told = self.stream_texts.remove(name);
        let name = name.to_owned();
        self.undo(move |r| {
            r.streams.insert(name.clone(), index);
            if let Some(told) = told {
                r.stream_texts.insert(name.clone(), told);
            }
            if r.is_model() {
                return Ok(());
            }
            match info {
                Some(StreamInfo { spec, enabled, .. }) => {
                    let handle = r.generator(index)?;
                    handle.add(&spec)?;
                    if enabled {
                        handle.enable(Some(&name))?;
                    }
                    Ok(())
                }
                None => Ok(()),
            }
        });
        Ok(())
    }

    /// Starts or stops one stream or all. As in VPP, starting one brings its interface up: a stream of an interface that is down
    /// would wait for ever.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn switch_stream(&mut self, name: Option<&str>, on: bool) -> Result<()> {
        let chosen: Vec<(String, u32)> = match name {
            Some(n) => vec![(n.to_owned(), self.stream_interface(n)?)],
            None => self.streams.iter().map(|(n, i)| (n.clone(), *i)).collect(),
        };
        for (name, index) in chosen {
            if on {
                self.set_state(&self.interfaces.name(index), true)?;
            }
            self.switch_one(&name, index, on)?;
        }
        Ok(())
    }

    fn switch_one(&mut self, name: &str, index: u32, on: bool) -> Result<()> {
        if !self.is_model() {
            let handle = self.generator(index)?;
            if on {
                handle.enable(Some(name))?;
            } else {
                handle.disable(Some(name))?;
            }
        }
        if let Some(told) = self.stream_texts.get_mut(name) {
            told.enabled = on;
        }
        let name = name.to_owned();
        self.undo(move |r| r.switch_one(&name, index, !on));
        Ok(())
    }

    /// Changes a stream.
    ///
    /// # Errors
    /// When there is none of that name or the change is not possible.
    pub fn configure_stream(&mut self, name: &str, change: &StreamChange) -> Result<()> {
        let handle = self.generator(self.stream_interface(name)?)?;
        if !self.is_model() {
            handle.configure(name, change)?;
        }
        Ok(())
    }

    /// Writes what a generator interface transmits to a file.
    ///
    /// # Errors
    /// When the interface is no generator or the file cannot be made.
    pub fn start_sink_capture(&mut self, interface: &str, file: &str, limit: u64) -> Result<()> {
        let index = self.interfaces.find_real(interface)?;
        let handle = self.generator(index)?;
        if !self.is_model() {
            let options = CaptureOptions {
                limit,
                ..CaptureOptions::new(PathBuf::from(file))
            };
            handle.capture(&options)?;
        }
        self.undo(move |r| {
            r.generator(index)?.capture_off()?;
            Ok(())
        });
        Ok(())
    }

    /// Ends that.
    ///
    /// # Errors
    /// When the interface is no generator or the file could not be written.
    pub fn stop_sink_capture(&mut self, interface: &str) -> Result<Option<CaptureReport>> {
        let index = self.interfaces.find_real(interface)?;
        Ok(self.generator(index)?.capture_off()?)
    }

    /// Waits until what streams that have ended brought in has left the workers, with the answers of the router's own,
    /// and is in the files of captures.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub fn finish_streams(&mut self) -> Result<()> {
        let generators: Vec<PgHandle> = self
            .interfaces
            .iter()
            .filter_map(|i| i.pg.clone())
            .collect();
        if generators.is_empty() || self.is_model() {
            return Ok(());
        }
        self.engine.settle()?;
        // What a neighbour is asked for, and what waited for one that is known now.
        if self.handle_events() {
            self.engine.settle()?;
        }
        for generator in generators {
            if !generator.sync_capture() {
                tracing::warn!("a capture is slow: its file lacks packets");
            }
        }
        Ok(())
    }

    /// All streams with the number of their interface.
    pub fn stream_infos(&self) -> Vec<(u32, StreamInfo)> {
        self.interfaces
            .iter()
            .filter_map(|i| Some((i.index, i.pg.as_ref()?)))
            .flat_map(|(index, pg)| pg.streams().into_iter().map(move |s| (index, s)))
            .collect()
    }

    pub(super) fn delete_streams_of(&mut self, index: u32) -> Result<()> {
        let of = |(n, i): (&String, &u32)| (*i == index).then(|| n.clone());
        let names: Vec<String> = self.streams.iter().filter_map(of).collect();
        names.iter().try_for_each(|n| self.delete_stream(n))
    }

    fn stream_interface(&self, name: &str) -> Result<u32> {
        self.streams
            .get(name)
            .copied()
            .ok_or_else(|| Error::refused(format!("no stream is called {name}")))
    }

    fn generator(&self, index: u32) -> Result<PgHandle> {
        let i = self.interfaces.get(index);
        i.and_then(|i| i.pg.clone())
            .ok_or_else(|| Error::Interface {
                name: self.interfaces.name(index),
                why: "is not a packet generator".into(),
            })
    }
}
