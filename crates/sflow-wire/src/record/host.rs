//! Counter records about hosts and virtual machines: `sflow_host.txt`, `sflow_host_ip.txt`, `sflow_nvml.txt`.

use super::field::{List, Mac, Percent, Show, Text, Uuid, records};

records! {
    /// Who the host is (0:2000).
    HostDescr<'a> {
        /// Host name, at most 64 bytes.
        hostname: Text<'a> => "hostname" show Show::Name(63);
        /// Identity.
        uuid: Uuid => "UUID";
        /// 0 unknown, 1 other, 2 x86, 3 x86_64, 4 ia64, 5 sparc, 6 alpha, 7 powerpc, 8 m68k, 9 mips, 10 arm, 11 hppa, 12 s390.
        machine_type: u32 => "machine_type";
        /// 0 unknown, 1 other, 2 linux, 3 windows, 4 darwin, ... 8 freebsd.
        os_name: u32 => "os_name";
        /// Release, at most 32 bytes.
        os_release: Text<'a> => "os_release" show Show::Name(31);
    }

    /// Network adapters of the host (0:2001).
    HostAdapters<'a> {
        /// The adapters.
        adapters: List<'a, Adapter<'a>> => "adaptor_list" show Show::Rows(Adapter::LAYOUT.items);
    }

    /// A network adapter.
    Adapter<'a> {
        /// Interface number.
        if_index: u32 => "ifIndex";
        /// Its addresses.
        macs: List<'a, Mac> => "mac_list" show Show::Macs;
    }

    /// The host that a guest or container runs on (0:2002).
    HostParent {
        /// Data source class.
        class: u32 => "parent_dsClass";
        /// Data source index.
        index: u32 => "parent_dsIndex";
    }

    /// Processors of the host (0:2003). Times in milliseconds.
    HostCpu {
        /// Load over a minute.
        load_one: f32 => "cpu_load_one";
        /// Load over 5 minutes.
        load_five: f32 => "cpu_load_five";
        /// Load over 15 minutes.
        load_fifteen: f32 => "cpu_load_fifteen";
        /// Running processes.
        proc_run: u32 => "cpu_proc_run";
        /// All processes.
        proc_total: u32 => "cpu_proc_total";
        /// Number of processors.
        cpu_num: u32 => "cpu_num";
        /// Megahertz.
        cpu_speed: u32 => "cpu_speed";
        /// Seconds since boot.
        uptime: u32 => "cpu_uptime";
        /// In user mode.
        user: u32 => "cpu_user";
        /// In user mode at low priority.
        nice: u32 => "cpu_nice";
        /// In system mode.
        system: u32 => "cpu_system";
        /// Idle.
        idle: u32 => "cpu_idle";
        /// Waiting for disks.
        wio: u32 => "cpu_wio";
        /// In interrupts.
        intr: u32 => "cpuintr";
        /// In soft interrupts.
        sintr: u32 => "cpu_sintr";
        /// Number of interrupts.
        interrupts: u32 => "cpuinterrupts";
        /// Number of context switches.
        contexts: u32 => "cpu_contexts";
        /// Time given to or taken by guests; since 2014.
        guest: Option<HostCpuGuest> => "guest" show Show::Tail(68, HostCpuGuest::LAYOUT.items);
    }

    /// Processor time that virtual machines took, in milliseconds.
    HostCpuGuest {
        /// Taken by other guests.
        steal: u32 => "cpu_steal";
        /// Given to guests.
        guest: u32 => "cpu_guest";
        /// Given to guests at low priority.
        guest_nice: u32 => "cpu_guest_nice";
    }

    /// Memory of the host (0:2004).
    HostMemory {
        /// Bytes.
        total: u64 => "mem_total";
        /// Bytes.
        free: u64 => "mem_free";
        /// Bytes.
        shared: u64 => "mem_shared";
        /// Bytes.
        buffers: u64 => "mem_buffers";
        /// Bytes.
        cached: u64 => "mem_cached";
        /// Bytes.
        swap_total: u64 => "swap_total";
        /// Bytes.
        swap_free: u64 => "swap_free";
        /// Pages.
        page_in: u32 => "page_in";
        /// Pages.
        page_out: u32 => "page_out";
        /// Pages.
        swap_in: u32 => "swap_in";
        /// Pages.
        swap_out: u32 => "swap_out";
    }

    /// Disks of the host (0:2005).
    HostDisk {
        /// Bytes.
        total: u64 => "disk_total";
        /// Bytes.
        free: u64 => "disk_free";
        /// Use of the fullest partition.
        part_max_used: Percent => "disk_partition_max_used";
        /// Reads.
        reads: u32 => "disk_reads";
        /// Bytes read.
        bytes_read: u64 => "disk_bytes_read";
        /// Milliseconds reading.
        read_time: u32 => "disk_read_time";
        /// Writes.
        writes: u32 => "disk_writes";
        /// Bytes written.
        bytes_written: u64 => "disk_bytes_written";
        /// Milliseconds writing.
        write_time: u32 => "disk_write_time";
    }

    /// Network adapters of the host, summed (0:2006).
    HostNetIo {
        /// Bytes.
        bytes_in: u64 => "nio_bytes_in";
        /// Packets.
        pkts_in: u32 => "nio_pkts_in";
        /// Errors.
        errs_in: u32 => "nio_errs_in";
        /// Drops.
        drops_in: u32 => "nio_drops_in";
        /// Bytes.
        bytes_out: u64 => "nio_bytes_out";
        /// Packets.
        pkts_out: u32 => "nio_pkts_out";
        /// Errors.
        errs_out: u32 => "nio_errs_out";
        /// Drops.
        drops_out: u32 => "nio_drops_out";
    }

    /// Network adapters of a guest, summed (0:2104).
    VirtNetIo {
        /// Bytes.
        bytes_in: u64 => "vnio_bytes_in";
        /// Packets.
        pkts_in: u32 => "vnio_pkts_in";
        /// Errors.
        errs_in: u32 => "vnio_errs_in";
        /// Drops.
        drops_in: u32 => "vnio_drops_in";
        /// Bytes.
        bytes_out: u64 => "vnio_bytes_out";
        /// Packets.
        pkts_out: u32 => "vnio_pkts_out";
        /// Errors.
        errs_out: u32 => "vnio_errs_out";
        /// Drops.
        drops_out: u32 => "vnio_drops_out";
    }

    /// IP counters of the host (0:2007), RFC 4293.
    HostIp {
        /// ipForwarding.
        forwarding: u32 => "ipForwarding";
        /// ipDefaultTTL.
        default_ttl: u32 => "ipDefaultTTL";
        /// ipInReceives.
        in_receives: u32 => "ipInReceives";
        /// ipInHdrErrors.
        in_hdr_errors: u32 => "ipInHdrErrors";
        /// ipInAddrErrors.
        in_addr_errors: u32 => "ipInAddrErrors";
        /// ipForwDatagrams.
        forw_datagrams: u32 => "ipForwDatagrams";
        /// ipInUnknownProtos.
        in_unknown_protos: u32 => "ipInUnknownProtos";
        /// ipInDiscards.
        in_discards: u32 => "ipInDiscards";
        /// ipInDelivers.
        in_delivers: u32 => "ipInDelivers";
        /// ipOutRequests.
        out_requests: u32 => "ipOutRequests";
        /// ipOutDiscards.
        out_discards: u32 => "ipOutDiscards";
        /// ipOutNoRoutes.
        out_no_routes: u32 => "ipOutNoRoutes";
        /// ipReasmTimeout.
        reasm_timeout: u32 => "ipReasmTimeout";
        /// ipReasmReqds.
        reasm_reqds: u32 => "ipReasmReqds";
        /// ipReasmOKs.
        reasm_oks: u32 => "ipReasmOKs";
        /// ipReasmFails.
        reasm_fails: u32 => "ipReasmFails";
        /// ipFragOKs.
        frag_oks: u32 => "ipFragOKs";
        /// ipFragFails.
        frag_fails: u32 => "ipFragFails";
        /// ipFragCreates.
        frag_creates: u32 => "ipFragCreates";
    }

    /// ICMP counters of the host (0:2008), RFC 4293. The wire has no InTimestampReps.
    HostIcmp {
        /// icmpInMsgs.
        in_msgs: u32 => "icmpInMsgs";
        /// icmpInErrors.
        in_errors: u32 => "icmpInErrors";
        /// icmpInDestUnreachs.
        in_dest_unreachs: u32 => "icmpInDestUnreachs";
        /// icmpInTimeExcds.
        in_time_excds: u32 => "icmpInTimeExcds";
        /// icmpInParamProbs.
        in_param_probs: u32 => "icmpInParamProbs";
        /// icmpInSrcQuenchs.
        in_src_quenchs: u32 => "icmpInSrcQuenchs";
        /// icmpInRedirects.
        in_redirects: u32 => "icmpInRedirects";
        /// icmpInEchos.
        in_echos: u32 => "icmpInEchos";
        /// icmpInEchoReps.
        in_echo_reps: u32 => "icmpInEchoReps";
        /// icmpInTimestamps.
        in_timestamps: u32 => "icmpInTimestamps";
        /// icmpInAddrMasks.
        in_addr_masks: u32 => "icmpInAddrMasks";
        /// icmpInAddrMaskReps.
        in_addr_mask_reps: u32 => "icmpInAddrMaskReps";
        /// icmpOutMsgs.
        out_msgs: u32 => "icmpOutMsgs";
        /// icmpOutErrors.
        out_errors: u32 => "icmpOutErrors";
        /// icmpOutDestUnreachs.
        out_dest_unreachs: u32 => "icmpOutDestUnreachs";
        /// icmpOutTimeExcds.
        out_time_excds: u32 => "icmpOutTimeExcds";
        /// icmpOutParamProbs.
        out_param_probs: u32 => "icmpOutParamProbs";
        /// icmpOutSrcQuenchs.
        out_src_quenchs: u32 => "icmpOutSrcQuenchs";
        /// icmpOutRedirects.
        out_redirects: u32 => "icmpOutRedirects";
        /// icmpOutEchos.
        out_echos: u32 => "icmpOutEchos";
        /// icmpOutEchoReps.
        out_echo_reps: u32 => "icmpOutEchoReps";
        /// icmpOutTimestamps.
        out_timestamps: u32 => "icmpOutTimestamps";
        /// icmpOutTimestampReps.
        out_timestamp_reps: u32 => "icmpOutTimestampReps";
        /// icmpOutAddrMasks.
        out_addr_masks: u32 => "icmpOutAddrMasks";
        /// icmpOutAddrMaskReps.
        out_addr_mask_reps: u32 => "icmpOutAddrMaskReps";
    }

    /// TCP counters of the host (0:2009), RFC 4022.
    HostTcp {
        /// tcpRtoAlgorithm.
        rto_algorithm: u32 => "tcpRtoAlgorithm";
        /// tcpRtoMin.
        rto_min: u32 => "tcpRtoMin";
        /// tcpRtoMax.
        rto_max: u32 => "tcpRtoMax";
        /// tcpMaxConn.
        max_conn: u32 => "tcpMaxConn";
        /// tcpActiveOpens.
        active_opens: u32 => "tcpActiveOpens";
        /// tcpPassiveOpens.
        passive_opens: u32 => "tcpPassiveOpens";
        /// tcpAttemptFails.
        attempt_fails: u32 => "tcpAttemptFails";
        /// tcpEstabResets.
        estab_resets: u32 => "tcpEstabResets";
        /// tcpCurrEstab.
        curr_estab: u32 => "tcpCurrEstab";
        /// tcpInSegs.
        in_segs: u32 => "tcpInSegs";
        /// tcpOutSegs.
        out_segs: u32 => "tcpOutSegs";
        /// tcpRetransSegs.
        retrans_segs: u32 => "tcpRetransSegs";
        /// tcpInErrs.
        in_errs: u32 => "tcpInErrs";
        /// tcpOutRsts.
        out_rsts: u32 => "tcpOutRsts";
        /// tcpInCsumErrors.
        in_csum_errors: u32 => "tcpInCsumErrors";
    }

    /// UDP counters of the host (0:2010), RFC 4113.
    HostUdp {
        /// udpInDatagrams.
        in_datagrams: u32 => "udpInDatagrams";
        /// udpNoPorts.
        no_ports: u32 => "udpNoPorts";
        /// udpInErrors.
        in_errors: u32 => "udpInErrors";
        /// udpOutDatagrams.
        out_datagrams: u32 => "udpOutDatagrams";
        /// udpRcvbufErrors.
        rcvbuf_errors: u32 => "udpRcvbufErrors";
        /// udpSndbufErrors.
        sndbuf_errors: u32 => "udpSndbufErrors";
        /// udpInCsumErrors.
        in_csum_errors: u32 => "udpInCsumErrors";
    }

    /// Virtual machines of a hypervisor (0:2100).
    VirtNode {
        /// Megahertz.
        mhz: u32 => "vnode_mhz";
        /// Processors.
        cpus: u32 => "vnode_cpus";
        /// Bytes.
        memory: u64 => "vnode_memory";
        /// Bytes.
        memory_free: u64 => "vnode_memory_free";
        /// Virtual machines.
        num_domains: u32 => "vnode_num_domains";
    }

    /// Processors of a guest (0:2101).
    VirtCpu {
        /// libvirt virDomainState.
        state: u32 => "vcpu_state";
        /// Milliseconds of processor time.
        cpu_ms: u32 => "vcpu_cpu_mS";
        /// Processors.
        cpu_count: u32 => "vcpu_cpuCount";
    }

    /// Memory of a guest (0:2102).
    VirtMemory {
        /// Bytes.
        memory: u64 => "vmem_memory";
        /// Bytes.
        max_memory: u64 => "vmem_maxMemory";
    }

    /// Disks of a guest (0:2103).
    VirtDisk {
        /// Bytes.
        capacity: u64 => "vdsk_capacity";
        /// Bytes.
        allocation: u64 => "vdsk_allocation";
        /// Bytes.
        available: u64 => "vdsk_available";
        /// Read requests.
        rd_req: u32 => "vdsk_rd_req";
        /// Bytes read.
        rd_bytes: u64 => "vdsk_rd_bytes";
        /// Write requests.
        wr_req: u32 => "vdsk_wr_req";
        /// Bytes written.
        wr_bytes: u64 => "vdsk_wr_bytes";
        /// Errors.
        errs: u32 => "vdsk_errs";
    }

    /// Graphics processors of a host (5703:1).
    Nvml {
        /// Devices.
        device_count: u32 => "nvml_device_count";
        /// Processes.
        processes: u32 => "nvml_processes";
        /// Milliseconds the processor was busy.
        gpu_ms: u32 => "nvml_gpu_mS";
        /// Milliseconds the memory was busy.
        mem_ms: u32 => "nvml_mem_mS";
        /// Bytes.
        mem_total: u64 => "nvml_mem_bytes_total";
        /// Bytes.
        mem_free: u64 => "nvml_mem_bytes_free";
        /// Memory errors.
        ecc_errors: u32 => "nvml_ecc_errors";
        /// Millijoule.
        energy_mj: u32 => "nvml_energy_mJ";
        /// Degree Celsius of the hottest.
        temperature: u32 => "nvml_temperature_C";
        /// Percent of the fastest.
        fan_speed: u32 => "nvml_fan_speed_pc";
    }
}
