//! What was received and what was lost, for people and for programs.

use std::fmt;

use parshall_sflow_wire::sequence::AgentTotals;
use parshall_sflow_wire::{Faults, Tracker};
use serde::Serialize;

/// What one reader has seen.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Datagrams that came.
    pub datagrams: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Datagrams that could not be decoded whole.
    pub malformed: u64,
    /// What was wrong with them.
    pub errors: Faults,
    /// Times that the kernel found the socket's buffer full.
    pub socket_drops: u64,
    /// Datagrams of more agents than are followed.
    pub untracked: u64,
    /// By agent.
    pub agents: Vec<AgentTotals>,
}

impl Counts {
    /// A datagram came.
    #[inline]
    pub fn arrived(&mut self, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes as u64;
    }

    /// Takes over what a tracker knows.
    pub fn take_in(&mut self, tracker: &Tracker) {
        self.agents = tracker.agents();
        self.untracked = tracker.untracked();
    }
}

/// What all readers have seen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Seconds since the start.
    pub seconds: f64,
    /// Datagrams that came.
    pub datagrams: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Datagrams that were selected and printed.
    pub printed: u64,
    /// Datagrams that could not be decoded whole.
    pub malformed: u64,
    /// What was wrong in them, by class: a datagram can have several errors.
    pub errors: Faults,
    /// Datagrams that the agents' numbers say are missing, wherever they were lost.
    pub lost_datagrams: u64,
    /// Datagrams that came twice.
    pub duplicate_datagrams: u64,
    /// Times that the kernel found a socket's buffer full. It counts a row of glued datagrams as one.
    pub socket_drops: u64,
    /// Flow samples that came.
    pub flow_samples: u64,
    /// Flow samples that their numbers say are missing.
    pub lost_flow_samples: u64,
    /// Flow samples that the agents say they could not take.
    pub agent_drops: u64,
    /// Counter samples that came.
    pub counter_samples: u64,
    /// Datagrams of more agents than are followed; losses among them are not known.
    pub untracked: u64,
    /// Sockets that received.
    pub sockets: u64,
    /// Bytes of receive buffer that the kernel granted each.
    pub socket_buffer: u64,
    /// By agent and sub-agent.
    pub agents: Vec<AgentTotals>,
}

impl Status {
    /// The sum of what readers have seen.
    pub fn of(readers: impl IntoIterator<Item = Counts>) -> Status {
        let mut s = Status::default();
        let mut lists = Vec::new();
        for c in readers {
            s.datagrams += c.datagrams;
            s.bytes += c.bytes;
            s.malformed += c.malformed;
            s.errors.add(&c.errors);
            s.socket_drops += c.socket_drops;
            s.untracked += c.untracked;
            lists.push(c.agents);
        }
        s.agents = AgentTotals::join(lists);
        for a in &s.agents {
            s.lost_datagrams += a.datagrams.lost;
            s.duplicate_datagrams += a.datagrams.duplicates;
            s.flow_samples += a.flow.samples.received;
            s.lost_flow_samples += a.flow.samples.lost;
            s.agent_drops += a.flow.drops;
            s.counter_samples += a.counter_samples;
        }
        s
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        // Numbers, text and lists of them always have a form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} datagrams of {} agents with {} flow and {} counter samples; lost on the way: {} datagrams, {} flow samples",
            self.datagrams,
            self.agents.len(),
            self.flow_samples,
            self.counter_samples,
            self.lost_datagrams,
            self.lost_flow_samples,
        )?;
        if self.socket_drops > 0 {
            write!(
                f,
                "; the receive buffer was full {} times (more --sockets, or a larger net.core.rmem_max, help)",
                self.socket_drops
            )?;
        }
        if self.agent_drops > 0 {
            write!(f, "; the agents lost {} samples", self.agent_drops)?;
        }
        if self.malformed > 0 {
            write!(f, "; malformed: {}", self.malformed)?;
            let mut before = " (";
            for (name, n) in self.errors.iter() {
                write!(f, "{before}{name} {n}")?;
                before = ", ";
            }
            f.write_str(if before == ", " { ")" } else { "" })?;
        }
        if self.untracked > 0 {
            write!(f, "; not followed: {}", self.untracked)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::{Datagram, DatagramBuilder};

    #[test]
    fn readers_are_added_up_and_losses_named() {
        let counts = |numbers: &[u32]| {
            let (mut t, mut c) = (Tracker::default(), Counts::default());
            let mut b = DatagramBuilder::new(1400);
            for n in numbers {
                b.begin([192, 0, 2, 1].into(), 0, *n, 1);
                t.observe(&Datagram::parse(b.finish()).unwrap());
                c.arrived(b.len());
            }
            c.take_in(&t);
            c
        };
        let full = Counts {
            socket_drops: 2,
            ..counts(&[9])
        };
        let s = Status::of([counts(&[1, 2, 5]), full]);
        assert_eq!((s.datagrams, s.lost_datagrams, s.agents.len()), (4, 2, 1));
        assert_eq!(s.bytes, 4 * 28);
        let text = s.to_string();
        assert!(
            text.starts_with("4 datagrams of 1 agents") && text.contains("full 2 times"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&s.json()).unwrap();
        assert_eq!(json["agents"][0]["agent"], "192.0.2.1");
        assert_eq!(json["agents"][0]["datagrams"]["lost"], 2);
    }
}
