//! Which records samples carry: each can be switched on and off.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! kinds {
    ($( $(#[$meta:meta])* $kind:ident $name:literal $on:literal; )*) => {
        /// A record, or a group of records that belong together, that can be switched.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum RecordKind {
            $( $(#[$meta])* $kind, )*
        }

        impl RecordKind {
            /// All of them: those of flow samples first.
            pub const ALL: &'static [RecordKind] = &[ $( RecordKind::$kind, )* ];

            /// The word in settings.
            pub const fn name(self) -> &'static str {
                match self {
                    $( RecordKind::$kind => $name, )*
                }
            }

            /// Whether it is on until told otherwise.
            pub const fn is_default(self) -> bool {
                match self {
                    $( RecordKind::$kind => $on, )*
                }
            }
        }
    };
}

kinds! {
    /// VLANs in and out (1001).
    Switch "switch" true;
    /// Next hop and prefix lengths (1002).
    Router "router" true;
    /// AS path and communities (1003).
    Gateway "gateway" true;
    /// Label stacks in and out (1006).
    Mpls "mpls" true;
    /// Outer VLAN tags (1012).
    VlanTunnel "vlan-tunnel" false;
    /// Tunnels that the packet comes out of or goes into (1023 to 1030).
    Tunnel "tunnel" false;
    /// Transmit queue (1036).
    EgressQueue "egress-queue" false;
    /// Time in the router (1039).
    TransitDelay "transit-delay" false;
    /// When the packet was seen (1043).
    Timestamp "timestamp" false;
    /// Counters of Ethernet (2).
    Ethernet "ethernet" true;
    /// Counters of a VLAN (5).
    Vlan "vlan" true;
    /// State of a bond's member (7).
    Lag "lag" true;
    /// State of the optical module (10).
    Sfp "sfp" true;
    /// Name of the interface (1005).
    PortName "port-name" true;
    /// Load of the machine's processors (1001).
    Processor "processor" true;
    /// What this process uses (2203).
    App "app" true;
    /// Everything else about the machine (2000 to 2010).
    Host "host" true;
}

/// A set of records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Records(u32);

impl Records {
    /// No record that can be left out.
    pub const NONE: Records = Records(0);

    /// Whether this one is in it.
    #[inline]
    pub const fn has(self, kind: RecordKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// The same with this one, or without it.
    #[must_use]
    pub const fn with(self, kind: RecordKind, on: bool) -> Records {
        let bit = 1 << kind as u8;
        Records(if on { self.0 | bit } else { self.0 & !bit })
    }

    /// Those in it.
    pub fn iter(self) -> impl Iterator<Item = RecordKind> {
        let all = RecordKind::ALL.iter().copied();
        all.filter(move |k| self.has(*k))
    }
}

impl Default for Records {
    /// Those that cost little and are widely understood: Wireshark knows neither queue, delay nor time, and loses its way
    /// after the first two of them in a sample.
    fn default() -> Self {
        let all = RecordKind::ALL.iter();
        all.fold(Records::NONE, |set, k| set.with(*k, k.is_default()))
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(RecordKind::name))
            .finish()
    }
}

impl Serialize for Records {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.iter().map(RecordKind::name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_switched_by_itself() {
        for &kind in RecordKind::ALL {
            let only = Records::NONE.with(kind, true);
            assert_eq!(only.iter().collect::<Vec<_>>(), [kind]);
            assert_eq!(only.with(kind, false), Records::NONE);
            assert_eq!(Records::default().has(kind), kind.is_default());
        }
        assert_eq!(
            format!("{:?}", Records::NONE.with(RecordKind::Sfp, true)),
            "[\"sfp\"]"
        );
    }
}
