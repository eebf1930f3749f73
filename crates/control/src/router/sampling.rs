//! Sampling of interfaces: what each is told, rates that follow links and traffic, and the numbers they are
//! exported under.

use std::path::{Path, PathBuf};

use parshall_agent::Router as _;
use parshall_agent::discover::MAX_SPEEDS;
use parshall_nodes::{SflowSettings, SflowTxSettings};
use parshall_sample::{MAX_HEADER, MAX_RATE, MAX_TARGET, NO_QUEUE};

use super::Router;
use crate::error::{Error, Result};
use crate::ifindex::{self, IfIndexKind, IfNumbers, MAX_FILE, Numbers};
use crate::interface::Interface;
use crate::sampling::{
    Adaptive, RateSource, SampleDirection, SflowPort, SpeedRates, Tuner, rate_for_speed,
};

/// Fewest header bytes: Ethernet, a tag, IPv6 and ports are in them.
const MIN_HEADER: u16 = 64;
/// How often traffic is looked at, in ns.
const TUNE_PERIOD: u64 = 100_000_000;
/// How often the speed of links is looked at, in ns.
const SPEED_PERIOD: u64 = 1_000_000_000;

/// What holds on an interface that is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Which packets.
    pub direction: SampleDirection,
    /// 1-in-N.
    pub rate: u32,
    /// Where N comes from.
    pub source: RateSource,
    /// Header bytes of a sample.
    pub header_bytes: u16,
}

impl Sampling {
    /// What the receive sampler is told.
    fn received(&self, if_index: u32) -> SflowSettings {
        self.settings(if_index, self.direction.rx())
    }
    /// What the transmit sampler is told.
    fn sent(&self, if_index: u32) -> SflowSettings {
        self.settings(if_index, self.direction.tx())
    }
    fn settings(&self, if_index: u32, on: bool) -> SflowSettings {
        SflowSettings {
            if_index,
            rate: if on { self.rate } else { 0 },
            header_bytes: self.header_bytes,
        }
    }
}

fn check_rate(rate: u32) -> Result<()> {
    if (1..=MAX_RATE).contains(&rate) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "a sampling rate of 1-in-{rate}: N is 1 to {MAX_RATE}"
    )))
}

fn check_header(bytes: u16) -> Result<()> {
    if (MIN_HEADER..=MAX_HEADER as u16).contains(&bytes) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{bytes} header bytes: {MIN_HEADER} to {MAX_HEADER} are possible"
    )))
}

fn check_adaptive(a: &Adaptive) -> Result<()> {
    check_rate(a.min)?;
    check_rate(a.max)?;
    if a.min > a.max {
        return Err(Error::refused(format!(
            "an adaptive rate from 1-in-{} to 1-in-{}: the least N (min-rate) must not be above the greatest (max-rate)",
            a.min, a.max
        )));
    }
    if !(1..=MAX_TARGET).contains(&a.target) {
        return Err(Error::refused(format!(
            "{} samples a second: 1 to {MAX_TARGET} are possible",
            a.target
        )));
    }
    Ok(())
}

impl Router {
    /// Samples an interface.
    ///
    /// # Errors
    /// When a value is out of range or there is no such interface.
    pub fn enable_sflow(&mut self, name: &str, port: SflowPort) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        port.rate.map_or(Ok(()), check_rate)?;
        port.header_bytes.map_or(Ok(()), check_header)?;
        if let Some(a) = &port.adaptive {
            check_adaptive(a)?;
            if port.rate.is_some() {
                return Err(Error::refused(
                    "a rate is either given (sampling-rate) or follows the traffic (adaptive)",
                ));
            }
        }
        self.apply_sflow(index, Some(port))
    }

    /// Stops sampling an interface.
    ///
    /// # Errors
    /// When it is not sampled.
    pub fn disable_sflow(&mut self, name: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let on = |i: &Interface| i.sflow.is_some();
        if !self.interfaces.get(index).is_some_and(on) {
            return Err(Error::Interface {
                name: name.into(),
                why: "has no sFlow enabled".into(),
            });
        }
        self.apply_sflow(index, None)
    }

    fn apply_sflow(&mut self, index: u32, port: Option<SflowPort>) -> Result<()> {
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = std::mem::replace(&mut i.sflow, port);
        let speed = i.speed;
        match port.and_then(|p| p.adaptive) {
            // It goes on from where it was when only other settings change.
            Some(a) if was.and_then(|w| w.adaptive).is_none() => {
                let first = a.bound(rate_for_speed(speed).0);
                self.sflow.tuners.insert(index, Tuner::new(first));
            }
            Some(_) => {}
            None => drop(self.sflow.tuners.remove(&index)),
        }
        self.switch_samplers(index)?;
        self.publish();
        self.start_agent()?;
        self.hand_rings_over()?;
        if port.is_none() {
            self.take_last_samples()?;
        }
        self.undo(move |r| r.apply_sflow(index, was));
        Ok(())
    }

    /// Tells the samplers of an interface what holds now. A packet passes a sampler only while that has a rate: what is
    /// switched off goes first, what is switched on comes last.
    fn switch_samplers(&mut self, index: u32) -> Result<()> {
        let wanted = self.sampling(index).filter(|s| s.rate != 0);
        let wanted = wanted.map(|s| s.direction);
        // What has no device is shown to samplers elsewhere.
        let device = |i: &Interface| i.device.is_some();
        let device = self.interfaces.get(index).is_some_and(device);
        let rx = device && wanted.is_some_and(SampleDirection::rx);
        let tx = wanted.is_some_and(SampleDirection::tx);
        let nodes = [("sflow", rx), ("sflow-output", tx)];
        for (node, _) in nodes.iter().filter(|(_, on)| !on) {
            self.engine.set_feature(node, index, false)?;
        }
        self.tell_sampler(index)?;
        for (node, _) in nodes.iter().filter(|(_, on)| *on) {
            self.engine.set_feature(node, index, true)?;
        }
        Ok(())
    }

    /// Lets the agent have every sample that was taken before: after this, none of an interface that was switched off
    /// is on its way.
    pub(super) fn take_last_samples(&mut self) -> Result<()> {
        if let Some(p) = &mut self.pending {
            p.samples = true;
            return Ok(());
        }
        if self.sflow.is_running() {
            self.engine.settle()?;
            self.sflow.take_samples();
        }
        Ok(())
    }

    /// How an interface is sampled, if it is.
    pub fn sampling(&self, index: u32) -> Option<Sampling> {
        let i = self.interfaces.get(index)?;
        let port = i.sflow?;
        let tuner = port
            .adaptive
            .and_then(|a| Some(a.bound(self.sflow.tuners.get(&index)?.rate())));
        let given = tuner
            .map(|n| (n, RateSource::Adaptive))
            .or(port.rate.map(|n| (n, RateSource::Set)))
            .or_else(|| Some((self.discovered_rate(i)?, RateSource::Dns)))
            .or_else(|| Some((self.sflow.speed_rates.rate(i.speed)?, RateSource::Speed)))
            .or(self.sflow.rate.map(|n| (n, RateSource::All)));
        let (rate, source) = given.unwrap_or_else(|| rate_for_speed(i.speed));
        Some(Sampling {
            direction: port.direction.unwrap_or(self.sflow.direction),
            rate,
            source,
            header_bytes: port
                .header_bytes
                .or_else(|| self.discovered_header())
                .unwrap_or(self.sflow.header_bytes),
        })
    }

    fn tell_sampler(&mut self, index: u32) -> Result<()> {
        let off = Sampling {
            direction: SampleDirection::Both,
            rate: 0,
            source: RateSource::Set,
            header_bytes: self.sflow.header_bytes,
        };
        let s = self.sampling(index).unwrap_or(off);
        self.sflow.told.insert(index, s.rate);
        let i = self.interfaces.get(index);
        let queues = i.map_or(0, |i| i.tx_queues);
        let bare = i.is_some_and(Interface::is_point_to_point);
        self.engine.message("sflow", &s.received(index))?;
        self.tell_receivers(&s.received(index))?;
        let sampling = s.sent(index);
        self.engine
            .message_each("sflow-output", |worker| SflowTxSettings {
                sampling,
                // As transmit queues are given out: worker n has the n-th, those beyond the last share.
                queue: worker
                    .checked_rem(queues)
                    .map_or(NO_QUEUE, |q| u16::try_from(q).unwrap_or(NO_QUEUE)),
                bare,
            })
    }

    fn sampled(&self) -> Vec<u32> {
        let all = self.interfaces.iter().filter(|i| i.sflow.is_some());
        all.map(|i| i.index).collect()
    }

    pub(super) fn tell_samplers(&mut self) -> Result<()> {
        for index in self.sampled() {
            self.switch_samplers(index)?;
        }
        self.publish();
        Ok(())
    }

    /// Sets 1-in-N for interfaces without a rate of their own; `None` = each by the speed of its link, 0 = they are not sampled
    /// for now.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn set_sflow_rate(&mut self, rate: Option<u32>) -> Result<()> {
        rate.filter(|n| *n != 0).map_or(Ok(()), check_rate)?;
        let was = std::mem::replace(&mut self.sflow.rate, rate);
        self.undo(move |r| r.set_sflow_rate(was));
        self.tell_samplers()
    }

    /// Sets the rates that follow from the speed of a link.
    ///
    /// # Errors
    /// When one is out of range, or there are too many.
    pub fn set_speed_rates(&mut self, rates: SpeedRates) -> Result<()> {
        let given = rates.by_speed.values().filter(|n| **n != 0);
        given.copied().try_for_each(check_rate)?;
        if rates.by_speed.len() > MAX_SPEEDS {
            return Err(Error::Full(format!(
                "rates of {MAX_SPEEDS} speeds are possible"
            )));
        }
        let was = std::mem::replace(&mut self.sflow.speed_rates, rates);
        self.undo(move |r| r.set_speed_rates(was));
        self.tell_samplers()
    }

    /// Sets the direction for interfaces without one of their own.
    ///
    /// # Errors
    /// When a sampler cannot be told.
    pub fn set_sflow_direction(&mut self, direction: SampleDirection) -> Result<()> {
        let was = std::mem::replace(&mut self.sflow.direction, direction);
        self.undo(move |r| r.set_sflow_direction(was));
        self.tell_samplers()
    }

    /// Sets the header bytes for interfaces without a number of their own.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn set_sflow_header(&mut self, bytes: u16) -> Result<()> {
        check_header(bytes)?;
        let was = std::mem::replace(&mut self.sflow.header_bytes, bytes);
        self.undo(move |r| r.set_sflow_header(was));
        self.tell_samplers()
    }

    /// Follows links and traffic: rates that depend on them are reckoned anew.
    pub(super) fn tune_sampling(&mut self) {
        if self.now.saturating_sub(self.sflow.tuned) < TUNE_PERIOD {
            return;
        }
        self.sflow.tuned = self.now;
        let look_at_speed = self.now.saturating_sub(self.sflow.speeds_seen) >= SPEED_PERIOD;
        if look_at_speed {
            self.sflow.speeds_seen = self.now;
        }
        let mut changed = false;
        for index in self.sampled() {
            if look_at_speed {
                self.look_at_speed(index);
            }
            self.look_at_traffic(index);
            let rate = self.sampling(index).map_or(0, |s| s.rate);
            if self.sflow.told.get(&index) != Some(&rate) {
                changed = true;
                if let Err(e) = self.tell_sampler(index) {
                    tracing::error!("{e}");
                }
            }
        }
        if changed {
            self.publish_view();
        }
    }

    /// A link that is gone has no speed: that of when it was there goes on to count.
    fn look_at_speed(&mut self, index: u32) {
        let Some(i) = self.interfaces.get_mut(index) else {
            return;
        };
        if let Some(info) = i.device.as_ref().map(|d| d.info())
            && (info.link_up || info.speed != 0)
        {
            i.speed = info.speed;
        }
    }

    fn look_at_traffic(&mut self, index: u32) {
        let port = self.interfaces.get(index).and_then(|i| i.sflow);
        if let Some(a) = port.and_then(|p| p.adaptive)
            && let Some(tuner) = self.sflow.tuners.get_mut(&index)
        {
            let (pool, _) = self.sflow.view.pool(index);
            tuner.look(self.now, pool, &a);
        }
    }

    /// Chooses whose numbers collectors see.
    pub fn set_ifindex_kind(&mut self, kind: IfIndexKind) {
        let was = std::mem::replace(&mut self.sflow.ifindex, kind);
        self.undo(move |r| {
            r.set_ifindex_kind(was);
            Ok(())
        });
        self.publish_view();
    }

    /// Finds out under which ifIndex each interface is exported.
    pub(super) fn number_interfaces(&mut self) {
        let kind = self.sflow.ifindex;
        let numbers: Vec<Numbers> = self.interfaces.iter().map(|i| numbers(i, kind)).collect();
        let exported = ifindex::exported(kind, &numbers);
        for (i, n) in self.interfaces.iter_mut().zip(exported) {
            i.exported = n;
        }
    }

    /// The number that goes with the name of an interface to be made under `index`.
    pub(super) fn number_for(&mut self, name: &str, index: u32) -> u32 {
        let interfaces = &self.interfaces;
        let there = |name: &str| interfaces.iter().any(|i| i.name == name);
        self.sflow.numbers.number(name, index, there)
    }

    /// Writes down numbers that were given out.
    pub(super) fn keep_numbers(&mut self) {
        let changed = self.sflow.numbers.take_changed();
        let Some(path) = self.sflow.number_file.as_ref().filter(|_| changed) else {
            return;
        };
        if let Err(e) = write_whole(path, &self.sflow.numbers.render()) {
            tracing::error!(
                "{}: {e}; interfaces may have other ifIndexes after a restart",
                path.display()
            );
        }
    }
}

/// What an interface is called; Linux is asked only where its numbers count.
fn numbers(i: &Interface, kind: IfIndexKind) -> Numbers {
    let linux = match kind {
        IfIndexKind::Parshall => None,
        IfIndexKind::Linux => i.device.as_ref().and_then(|d| d.info().os_index),
    };
    Numbers {
        own: i.if_index,
        linux,
        elsewhere: i.namespace().is_some(),
    }
}

/// Reads the numbers that were given out before. What cannot be read is said, and counts for nothing.
pub(super) fn read_numbers(path: Option<&PathBuf>) -> IfNumbers {
    let Some(path) = path else {
        return IfNumbers::default();
    };
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return IfNumbers::default(),
        Err(e) => {
            tracing::error!("{}: {e}; interfaces get new ifIndexes", path.display());
            return IfNumbers::default();
        }
    };
    let (numbers, wrong) = IfNumbers::parse(&text);
    for w in wrong {
        tracing::warn!("{}: {w}; the line is not used", path.display());
    }
    numbers
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(MAX_FILE)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file by one that is whole, whenever the machine stops.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    std::fs::rename(&beside, path)
}

/// The range of header bytes, for help and configuration.
pub const fn header_range() -> (u16, u16) {
    (MIN_HEADER, MAX_HEADER as u16)
}
