//! Counters of the machine the router runs on, as the host records of sFlow carry them (`sflow_host.txt`,
//! `sflow_host_ip.txt`, `sflow_application.txt`).
//!
//! [`parse`] turns the text of `/proc` files (proc(5)) into records and is pure; [`ProcReader`] is the thin layer that opens the
//! files. What a machine or container does not tell is left at the value that means unknown: all ones in counters, 0 in
//! gauges, -1 in loads.

pub mod parse;
mod read;

use parshall_sflow_wire::CounterRecord;
use parshall_sflow_wire::record::{
    Adapter, AppResources, HostAdapters, HostCpu, HostDescr, HostDisk, HostIcmp, HostIp,
    HostMemory, HostNetIo, HostTcp, HostUdp, List, Mac, Percent, Processor, Uuid,
};

use crate::records::{RecordKind, Records};

pub use read::ProcReader;

/// Where the agent gets the host's counters from.
pub trait HostSource: Send {
    /// Reads them now. Must not wait for anything slower than the kernel's own memory.
    fn read(&mut self) -> HostReport;

    /// Looks at what is told over a time: called every five seconds, at `now` (ns, monotonic).
    fn look(&mut self, _now: u64) {}
}

/// Most adapters reported, as hsflowd does.
pub const MAX_ADAPTERS: usize = 32;

/// Everything reported about the host.
#[derive(Clone, Debug)]
pub struct HostReport {
    /// Host name, at most 64 bytes.
    pub hostname: String,
    /// Identity of the machine, zeros = unknown.
    pub uuid: [u8; 16],
    /// Kernel release, at most 32 bytes.
    pub os_release: String,
    /// Machine type by the number in `sflow_host.txt`.
    pub machine_type: u32,
    /// ifIndex and address of each network adapter, at most [`MAX_ADAPTERS`].
    pub adapters: Vec<(u32, Mac)>,
    /// Record 2003.
    pub cpu: HostCpu,
    /// Record 2004.
    pub memory: HostMemory,
    /// Record 2005.
    pub disk: HostDisk,
    /// Record 2006.
    pub net: HostNetIo,
    /// Record 2007.
    pub ip: HostIp,
    /// Record 2008.
    pub icmp: HostIcmp,
    /// Record 2009.
    pub tcp: HostTcp,
    /// Record 2010.
    pub udp: HostUdp,
    /// Record 1001.
    pub processor: Processor,
    /// Record 2203, about this process.
    pub app: AppResources,
}

const NO32: u32 = u32::MAX;
const NO64: u64 = u64::MAX;

impl Default for HostReport {
    /// A host of which nothing is known.
    fn default() -> Self {
        HostReport {
            hostname: String::new(),
            uuid: [0; 16],
            os_release: String::new(),
            machine_type: 0,
            adapters: Vec::new(),
            cpu: unknown_cpu(),
            memory: unknown_memory(),
            disk: unknown_disk(),
            net: HostNetIo {
                bytes_in: NO64,
                pkts_in: NO32,
                errs_in: NO32,
                drops_in: NO32,
                bytes_out: NO64,
                pkts_out: NO32,
                errs_out: NO32,
                drops_out: NO32,
            },
            ip: parse::snmp_ip(""),
            icmp: parse::snmp_icmp(""),
            tcp: parse::snmp_tcp(""),
            udp: parse::snmp_udp(""),
            processor: Processor {
                cpu_5s: Percent(None),
                cpu_1m: Percent(None),
                cpu_5m: Percent(None),
                total_memory: 0,
                free_memory: 0,
            },
            app: AppResources {
                user_ms: NO32,
                system_ms: NO32,
                mem_used: 0,
                mem_max: 0,
                fd_open: 0,
                fd_max: 0,
                conn_open: 0,
                conn_max: 0,
            },
        }
    }
}

fn unknown_cpu() -> HostCpu {
    HostCpu {
        load_one: -1.0,
        load_five: -1.0,
        load_fifteen: -1.0,
        proc_run: 0,
        proc_total: 0,
        cpu_num: 0,
        cpu_speed: 0,
        uptime: 0,
        user: NO32,
        nice: NO32,
        system: NO32,
        idle: NO32,
        wio: NO32,
        intr: NO32,
        sintr: NO32,
        interrupts: NO32,
        contexts: NO32,
        guest: None,
    }
}

fn unknown_memory() -> HostMemory {
    HostMemory {
        total: 0,
        free: 0,
        shared: 0,
        buffers: 0,
        cached: 0,
        swap_total: 0,
        swap_free: 0,
        page_in: NO32,
        page_out: NO32,
        swap_in: NO32,
        swap_out: NO32,
    }
}

fn unknown_disk() -> HostDisk {
    HostDisk {
        total: 0,
        free: 0,
        part_max_used: Percent(None),
        reads: NO32,
        bytes_read: NO64,
        read_time: NO32,
        writes: NO32,
        bytes_written: NO64,
        write_time: NO32,
    }
}

impl HostReport {
    /// Hands those of the records that are wanted to `f` in the order hsflowd puts them on the wire: the process's first,
    /// then the adapters, the protocol counters and the machine's resources, its description last.
    pub fn with_records<R>(&self, wanted: Records, f: impl FnOnce(&[CounterRecord<'_>]) -> R) -> R {
        // An `Adapter` borrows its list of addresses, and the list of adapters borrows them.
        let macs: Vec<[Mac; 1]> = self
            .adapters
            .iter()
            .take(MAX_ADAPTERS)
            .map(|a| [a.1])
            .collect();
        let adapters: Vec<Adapter<'_>> = self
            .adapters
            .iter()
            .zip(&macs)
            .map(|((if_index, _), m)| Adapter {
                if_index: *if_index,
                macs: List::new(m),
            })
            .collect();
        let all = [
            CounterRecord::AppResources(self.app),
            CounterRecord::Processor(self.processor),
            CounterRecord::HostAdapters(HostAdapters {
                adapters: List::new(&adapters),
            }),
            CounterRecord::HostUdp(self.udp),
            CounterRecord::HostTcp(self.tcp),
            CounterRecord::HostIcmp(self.icmp),
            CounterRecord::HostIp(self.ip),
            CounterRecord::HostDisk(self.disk),
            CounterRecord::HostMemory(self.memory),
            CounterRecord::HostCpu(self.cpu),
            CounterRecord::HostNetIo(self.net),
            CounterRecord::HostDescr(self.descr()),
        ];
        let kind = |r: &CounterRecord<'_>| match r {
            CounterRecord::AppResources(_) => RecordKind::App,
            CounterRecord::Processor(_) => RecordKind::Processor,
            _ => RecordKind::Host,
        };
        let some: Vec<CounterRecord<'_>> =
            all.into_iter().filter(|r| wanted.has(kind(r))).collect();
        f(&some)
    }

    fn descr(&self) -> HostDescr<'_> {
        HostDescr {
            hostname: cut(&self.hostname, 64).into(),
            uuid: Uuid(self.uuid),
            machine_type: self.machine_type,
            os_name: 2,
            os_release: cut(&self.os_release, 32).into(),
        }
    }
}

/// The longest beginning of `s` of at most `most` bytes that ends between characters.
pub(crate) fn cut(s: &str, most: usize) -> &str {
    s.get(..s.floor_char_boundary(most)).unwrap_or(s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::{
        CounterSampleHead, DataSource, Datagram, DatagramBuilder, Sample, SampleToSend,
    };

    /// Tags in the order they lie on the wire.
    fn tags(report: &HostReport) -> (usize, Vec<u32>) {
        let mut b = DatagramBuilder::new(1396);
        b.begin("192.0.2.1".parse().unwrap(), 0, 1, 0);
        let head = CounterSampleHead {
            sequence: 1,
            source: DataSource::HOST,
        };
        report
            .with_records(Records::default(), |r| {
                b.try_push(&SampleToSend::Counters(head, r))
            })
            .unwrap();
        let bytes = b.finish();
        let d = Datagram::parse(bytes).unwrap();
        let Some(Ok(Sample::Counters(c))) = d.samples().next() else {
            panic!("no counter sample")
        };
        (
            bytes.len(),
            c.counter_records()
                .map(|r| r.unwrap().tag().format())
                .collect(),
        )
    }

    #[test]
    fn the_wire_order_is_hsflowds() {
        let want = [
            2203, 1001, 2001, 2010, 2009, 2008, 2007, 2005, 2004, 2003, 2006, 2000,
        ];
        assert_eq!(tags(&HostReport::default()).1, want);
    }

    #[test]
    fn the_largest_report_fits_a_default_datagram() {
        let report = HostReport {
            hostname: "h".repeat(300),
            os_release: "r".repeat(300),
            adapters: vec![(1, Mac([2; 6])); 100],
            ..HostReport::default()
        };
        let (len, tags) = tags(&report);
        assert_eq!(tags.len(), 12);
        assert!(len <= 1396, "{len}");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 3), "");
    }
}
