//! The rules of `parshall sflow lint`: one table, of which the reference page is made too.
//!
//! References: `v5` is `sflow_version_5.txt` of sflow.org and `errata` its errata, `drops` is `sflow_drops.txt`, `host` is
//! `sflow_host.txt`, `tunnels`, `delay` and `registry` are the later structures of sflow.org; XDR is RFC 4506.

use std::fmt::Write;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; no violation.
    Note,
    /// Against a recommendation, or a fault that lies perhaps on the way and not in the agent.
    Warning,
    /// Against the specification.
    Error,
}

impl Severity {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// What the table says of a rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleInfo {
    /// Its name, in output and in `--ignore`.
    pub id: &'static str,
    /// How bad it is to break it.
    pub severity: Severity,
    /// What was found.
    pub text: &'static str,
    /// Where it is written.
    pub reference: &'static str,
    /// What it does to a collector.
    pub meaning: &'static str,
}

macro_rules! rules {
    ($( $group:literal { $( $rule:ident $id:literal $severity:ident $text:literal, $reference:literal, $meaning:literal; )* } )*) => {
        /// A rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($( #[doc = $text] $rule, )*)* }

        /// Every rule with what the table says of it, in the order of [`Rule`].
        pub const RULES: &[(Rule, RuleInfo)] = &[$($(
            (Rule::$rule, RuleInfo {
                id: $id,
                severity: Severity::$severity,
                text: $text,
                reference: $reference,
                meaning: $meaning,
            }),
        )*)*];

        /// The headings of the reference page, each with its rules.
        const GROUPS: &[(&str, &[Rule])] = &[$( ($group, &[$( Rule::$rule, )*]), )*];
    };
}

rules! {
    "Datagrams" {
        DatagramTruncated "datagram-truncated" Error "the datagram ends within its header",
            "v5 section 5, sample_datagram_v5", "nothing of it can be used";
        Version "version" Error "the version is not 5",
            "v5 section 5, datagram_version", "collectors of version 5 throw the datagram away";
        AgentAddressType "agent-address-type" Error "the agent's address is of a type other than IPv4 and IPv6",
            "v5 section 5, address; v5 section 4.3, sFlowAgentAddress", "the agent has no name; sflowtool gives the datagram up";
        AgentAddress "agent-address" Warning "the agent's address is not that of a host",
            "v5 section 4.3, sFlowAgentAddress", "agents cannot be told apart, and none can be asked by SNMP";
        DatagramTooLarge "datagram-too-large" Warning "the datagram is larger than the MTU",
            "v5 section 4.3, sFlowRcvrMaximumDatagramSize", "it is fragmented on its way: one lost fragment loses all, and firewalls drop fragments";
        DatagramEmpty "datagram-empty" Note "the datagram has no sample",
            "v5 section 5", "it tells that the agent lives, and nothing else";
        TrailingBytes "trailing-bytes" Warning "bytes follow the last sample",
            "v5 section 5, sample_datagram_v5", "they are ignored; a count or length in front of them may be wrong";
        GluedDatagrams "glued-datagrams" Note "the capture shows several datagrams as one: they were captured before segmentation offload took them apart",
            "none: an artefact of capturing at the sender", "none; on the wire they are separate, and they were checked as such";
        DatagramGap "datagram-gap" Warning "numbers of datagrams are missing",
            "v5 section 5, sequence_number of the datagram", "datagrams were lost on the way: estimates without the pool are low by the share lost";
        DatagramDuplicate "datagram-duplicate" Warning "a datagram came twice",
            "v5 section 5, sequence_number of the datagram", "counted twice, it doubles its traffic; often a second path or a forwarder's loop";
        DatagramReordered "datagram-reordered" Note "a datagram came behind a later one",
            "v5 section 5, sequence_number of the datagram", "collectors that take a step back for a restart count a loss";
        DatagramRestart "datagram-restart" Warning "the numbers of datagrams start again while the uptime goes on",
            "v5 section 5, sequence_number and uptime", "the step looks like a datagram that is very late, or like a great loss";
        AgentRestart "agent-restart" Note "the agent started again",
            "v5 section 5, uptime", "differences of counters and pools begin anew";
        UptimeBackwards "uptime-backwards" Error "the uptime falls while the numbers of datagrams go on",
            "v5 section 5, uptime", "collectors see a restart that was none and throw differences away";
        UptimeRate "uptime-rate" Warning "the uptime does not run with the clock: it must count milliseconds",
            "v5 section 5, uptime", "rates computed over the agent's time are wrong by that factor";
    }
    "XDR, lengths and counts" {
        SampleCount "sample-count" Error "the datagram announces more samples than it has",
            "v5 section 5, samples<>", "most collectors report a broken datagram; samples may have been cut off";
        SampleLength "sample-length" Error "a sample's length reaches beyond the datagram",
            "v5 section 5, data_format", "the sample and all behind it are lost";
        SampleTruncated "sample-truncated" Error "a sample is shorter than its fixed part",
            "v5 section 5, flow_sample and counters_sample", "the sample is lost";
        SampleTrailing "sample-trailing" Warning "bytes follow the last record of a sample",
            "v5 section 5, opaque sample_data", "they are skipped; a count in front of them may be wrong";
        RecordCount "record-count" Error "a sample announces more records than it has",
            "v5 section 5, flow_records<> and counter records", "most collectors give up the rest of the datagram";
        RecordLength "record-length" Error "a record's length reaches beyond its sample",
            "v5 section 5, data_format", "the record is lost, with sflowtool the rest of the datagram too";
        RecordTruncated "record-truncated" Error "a record is shorter than its structure",
            "v5 section 5, opaque flow_data", "the record is lost, with sflowtool the rest of the datagram too";
        RecordTrailing "record-trailing" Note "a record is longer than its structure as known here",
            "v5 section 5: structures may be extended at the end", "newer fields that are skipped, or a wrong length";
        ListCount "list-count" Error "a count of items needs more bytes than there are",
            "XDR section 4.13", "careless collectors ask for gigabytes of memory here";
        HeaderBeyondRecord "header-beyond-record" Error "the sampled header is longer than its record",
            "v5 section 5, sampled_header", "the packet is lost; careless collectors read beyond the buffer";
        LengthUnaligned "length-unaligned" Warning "a length is not a multiple of four",
            "XDR section 3; v5 section 5", "collectors that do not round it up lose their place in the datagram";
        PaddingNonzero "padding-nonzero" Error "padding is not zero",
            "XDR sections 4.10 and 4.11", "none by itself, but bytes of the agent's memory leak, or the fields are misplaced";
        AddressType "address-type" Error "an address in a record is of an unknown type",
            "v5 section 5, address_type", "its length is not known, so the rest of the record is lost";
        StringLimit "string-limit" Error "a string is longer than its structure allows",
            "v5, host, drops: string name<n>", "collectors cut it off, or worse";
    }
    "Forms, tags and sources" {
        MixedForms "mixed-forms" Error "compact and expanded samples of one agent",
            "v5 section 5: an agent must not mix compact/expanded encodings", "the same interface is two sources to collectors that keep the forms apart";
        CompactLargeIndex "compact-large-index" Error "an ifIndex of 2^24 or more in the compact form",
            "v5 section 5: if ifIndex numbers may be >= 2^24 then the expanded must be used", "the source id has 24 bits: interfaces get mixed up";
        SampleUnknown "sample-unknown" Note "a sample of an unknown format",
            "v5 section 5, data_format", "skipped";
        SampleEmpty "sample-empty" Warning "a sample without records",
            "v5 section 5, flow_sample and counters_sample", "it tells nothing but its number";
        RecordUnknown "record-unknown" Note "a record of an unknown format",
            "v5 section 5, data_format; registry", "skipped";
        RecordDuplicate "record-duplicate" Warning "a record stands in a sample twice",
            "v5 section 5, flow_records<>", "which one counts differs from collector to collector";
        SourceClass "source-class" Error "the class of a data source is not defined",
            "v5 section 4.3, SFlowDataSource; v5 section 5, sflow_data_source", "the source cannot be found in any table";
        SourceZero "source-zero" Warning "the data source is ifIndex 0",
            "v5 section 4.3, SFlowDataSource", "samples of different interfaces are taken for one source";
        SourceTwoSubAgents "source-two-sub-agents" Error "a data source is reported by two sub-agents",
            "v5 section 5: each sFlowDataSource must be associated with only one sub-agent", "numbers, pools and counters of the two contradict each other, or traffic counts twice";
        InterfaceFormat "interface-format" Error "an interface of the undefined format 3",
            "v5 section 5, interface", "the interface is not known";
        InputFormat "input-format" Error "the input is not a single interface",
            "v5 section 5, interface: formats 1 and 2 describe an output", "the interface is not known";
        InternalForm "internal-form" Note "internal is written 0xFFFFFFFF in the expanded form",
            "errata; widely used agents write 0x3FFFFFFF", "some collectors know only 0x3FFFFFFF and lose the flow";
        SourceNotOnPath "source-not-on-path" Note "neither input nor output is the data source",
            "v5 section 3.1", "direction cannot be told; usual for members of a bond and for VLANs";
        NotFollowed "not-followed" Note "more agents or sources than are followed; their numbers are not checked",
            "none: a limit of this program", "none";
        CaptureCut "capture-cut" Note "the capture holds only a part of the packet",
            "none: capture with a larger snap length", "none";
    }
    "Sequences, pool and drops" {
        SampleStart "sample-start" Error "a source's samples do not start at 1 although its datagrams do",
            "v5 section 5, sequence_number of the sample", "it looks as if the first samples were lost";
        SampleGap "sample-gap" Error "numbers of samples are missing although no datagram is",
            "v5 section 5, sequence_number of the sample", "collectors scale up for a loss that they take to be on the way";
        SampleBack "sample-back" Error "the number of a sample goes back, but not to 1",
            "v5 section 5, sequence_number of the sample", "collectors take it for a restart or for four thousand million lost samples";
        SampleRestart "sample-restart" Note "the numbers of a source start again, but its pool does not",
            "v5 section 5, sequence_number of the sample", "a difference is thrown away that could have been used";
        RateZero "rate-zero" Error "the sampling rate is 0",
            "v5 section 5, sampling_rate", "the sample stands for no packet: traffic is lost, or divided by zero";
        RateChanged "rate-changed" Note "the sampling rate changed",
            "v5 sections 4.2.2 and 5, sampling_rate", "totals must use the rate of each sample";
        PoolMissing "pool-missing" Warning "the pool does not grow",
            "v5 section 5, sample_pool", "losses cannot be told from quiet; estimates hang on the rate alone";
        PoolFell "pool-fell" Error "the pool falls although the sequence goes on",
            "v5 section 5: if the agent resets the sample_pool then it must also reset the sequence_number", "the difference of two pools looks like four thousand million packets";
        PoolShort "pool-short" Error "the pool grew by less than the samples taken from it",
            "v5 section 5: sample_pool is packets skipped plus samples", "ratios of samples to packets exceed 1";
        PoolRate "pool-rate" Warning "the pool does not agree with the rate and the number of samples",
            "v5 section 5, sampling_rate and sample_pool; v5 section 4.3: the samples must approach 1/N of the packets",
            "the rate told is not the rate in force: scaled traffic is wrong by that factor";
        DropsFell "drops-fell" Error "drops fall although the sequence goes on",
            "v5 section 5, drops", "the difference looks like four thousand million lost samples";
    }
    "Flow samples" {
        NoPacket "no-packet" Error "a flow sample of an interface without packet information",
            "v5 section 5: a flow_sample must contain packet header information", "the sample counts for the interface and for nothing else";
        NoSwitch "no-switch" Note "no flow sample of the source had a switch record",
            "v5 section 5, extended_switch: must always be reported by switches", "VLANs are not known";
        HeaderProtocol "header-protocol" Error "the protocol of the sampled header is not defined",
            "v5 section 5, header_protocol; registry", "the packet cannot be decoded";
        HeaderEmpty "header-empty" Warning "the sampled header has no bytes",
            "v5 section 5, sampled_header", "the packet counts, but nobody knows what it was";
        HeaderLength "header-length" Error "header and stripped bytes are more than the frame",
            "v5 section 5, sampled_header: frame_length is the original length", "bytes are undercounted; lengths computed from it are negative";
        FrameShort "frame-short" Warning "the IP packet is longer than the frame that carries it",
            "v5 section 5, frame_length", "bytes are undercounted: often the captured length was given for the frame's";
        Stripped "stripped" Warning "Ethernet with less than 4 bytes stripped: the frame check sequence is not in the header",
            "v5 section 5: in the case of a non-encapsulated 802.3 packet stripped >= 4", "frame lengths are 4 bytes off";
        MaskLength "mask-length" Error "a prefix length is longer than the address",
            "v5 section 5, extended_router", "the route cannot be named";
        NextHopUnknown "next-hop-unknown" Note "the next hop is of type unknown",
            "v5 section 5, next_hop", "sflowtool gives the datagram up; 0.0.0.0 says the same to all";
        VlanRange "vlan-range" Error "a VLAN above 4095 or a priority above 7",
            "v5 section 5, extended_switch; IEEE 802.1Q", "the VLAN is not known";
        FieldRange "field-range" Error "a field has a value that its structure does not define",
            "v5 section 5 and the later structures", "the value means nothing";
        TimestampLate "timestamp-late" Warning "a sample came more than a second after its packet",
            "v5 section 5: the agent may delay a sample by 1 second at most", "traffic is put into the wrong interval; or the clocks differ";
        TimestampFuture "timestamp-future" Warning "a sample's timestamp lies in the future",
            "registry, extended_timestamp", "traffic is put into the wrong interval; the clocks differ";
    }
    "Counter samples" {
        IfIndexMismatch "ifindex-mismatch" Error "the ifIndex of the generic counters is not that of the data source",
            "v5 section 5, if_counters", "counters and samples of one interface are put to two";
        CounterFell "counter-fell" Error "a counter falls although the sequence goes on",
            "v5 section 5: if the agent resets any of the counters then it must also reset the sequence_number", "the difference is a burst of thousands of millions";
        CounterAvailability "counter-availability" Warning "a counter is known at one time and unknown at another",
            "v5 section 5: a particular counter must be always available, or always unavailable", "the difference between known and unknown is a burst";
        CounterLate "counter-late" Warning "counters came later than the polling interval allows",
            "v5 section 4.3, sFlowCpInterval: the maximum number of seconds between successive samples", "graphs have holes, and collectors declare the source dead";
    }
    "Discarded packets" {
        DropCode "drop-code" Warning "an output discarded for a reason that is not registered",
            "v5 section 5, interface format 1; errata; registry", "shown as a number";
        DiscardReason "discard-reason" Warning "a discard for a reason that is not registered",
            "drops, drop_reason; registry", "shown as a number";
        DiscardUnknown "discard-unknown" Note "a discard for the reason unknown",
            "drops, drop_reason 256", "the operator learns that packets are lost, not why";
        DiscardIfIndex "discard-ifindex" Warning "an interface of a discard has format bits",
            "drops, discarded_packet: plain ifIndex", "the interface is not known";
    }
}

impl Rule {
    /// What the table says of it.
    pub fn info(self) -> &'static RuleInfo {
        // The table has a row for each variant in their order, which a test checks.
        &RULES[self as usize].1
    }

    /// The rule of this name.
    pub fn of(id: &str) -> Option<Rule> {
        RULES.iter().find(|r| r.1.id == id).map(|r| r.0)
    }
}

/// The reference page.
pub fn markdown() -> String {
    let mut out = String::from(
        "# What `parshall sflow lint` checks\n\n\
         Made from the table that the program itself uses. *v5* is `sflow_version_5.txt` of sflow.org, *errata* its errata, *drops* \
         `sflow_drops.txt`, *registry* the list of structures there; XDR is RFC 4506. Errors are against the specification, warnings against a \
         recommendation or faults that may lie on the way, notes are no violations: the exit status is 1 when there was an error or a warning \
         (`--fail-on` chooses otherwise, `--ignore RULE` leaves a rule out).\n",
    );
    for (group, rules) in GROUPS {
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "\n## {group}\n\n| rule | severity | what was found | where it is written | what it means for a collector |\n|---|---|---|---|---|\n"
        );
        for rule in *rules {
            let i = rule.info();
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} | {} |",
                i.id,
                i.severity.name(),
                i.text,
                i.reference,
                i.meaning
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_rules_and_names_are_distinct() {
        for (i, (rule, info)) in RULES.iter().enumerate() {
            assert_eq!(*rule as usize, i);
            assert_eq!(Rule::of(info.id), Some(*rule), "{} is twice", info.id);
            let plain = |t: &str| !t.is_empty() && !t.contains('|');
            assert!(plain(info.text) && plain(info.reference) && plain(info.meaning));
        }
    }

    #[test]
    fn the_reference_page_is_up_to_date() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/sflow-lint.md"
        );
        let want = markdown();
        if std::env::var_os("PARSHALL_BLESS").is_some() {
            std::fs::write(path, &want).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap_or_default() == want,
            "docs/reference/sflow-lint.md is out of date: PARSHALL_BLESS=1 cargo test -p parshall-collector writes it"
        );
    }
}
