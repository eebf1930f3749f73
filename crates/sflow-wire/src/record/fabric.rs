//! Flow records of fabrics other than Ethernet and of drafts that some agents still send: InfiniBand, Fibre Channel, OpenFlow 1.0, queue length.
//!
//! `draft_sflow_infiniband_2.txt`, RFC 4625 and the CEE/FCoE draft, `draft-sflow-openflow.txt`, and the sFlow mailing list (queue length).

use core::net::Ipv6Addr;

use super::field::records;

records! {
    /// OpenFlow 1.0 (0:1017).
    ExtendedOpenflowV1 ["extendedType" "openflow_v1"] {
        /// Cookie that the controller gave the flow.
        cookie: u64 => "openflow_cookie";
        /// Fields that form the key, as bits of `ofp_flow_wildcards`.
        flow_match: u32 => "openflow_match";
        /// Actions taken, as bits by `ofp_action_type`.
        actions: u32 => "openflow_actions";
    }

    /// Fibre Channel route (0:1018).
    ExtendedFc ["extendedType" "fc"] {
        /// Bits of the source's mask.
        src_mask_len: u32 => "fc_src_mask";
        /// Bits of the destination's mask.
        dst_mask_len: u32 => "fc_dst_mask";
        /// Address of the next hop, 24 bits.
        next_hop: u32 => "fc_next_hop";
        /// Type of route, protocol and metric in one word.
        metric: u32 => "fc_metric";
    }

    /// Length of the queue when the packet came (0:1019).
    QueueLength ["extendedType" "queue_length"] {
        /// Queue of the port.
        queue: u32 => "queue_length_queue";
        /// Segments in it.
        segments: u32 => "queue_length_segments";
    }

    /// InfiniBand local routing headers, received and sent (0:1031).
    IbLrh ["extendedType" "ib_lrh"] {
        /// Virtual lane, received.
        src_vl: u32 => "ib_src_vl";
        /// Service level, received.
        src_sl: u32 => "ib_src_sl";
        /// Destination local identifier, received.
        src_dlid: u32 => "ib_src_dlid";
        /// Source local identifier, received.
        src_slid: u32 => "ib_src_slid";
        /// Link next header, received.
        src_lnh: u32 => "ib_src_lnh";
        /// Virtual lane, sent.
        dst_vl: u32 => "ib_dst_vl";
        /// Service level, sent.
        dst_sl: u32 => "ib_dst_sl";
        /// Destination local identifier, sent.
        dst_dlid: u32 => "ib_dst_dlid";
        /// Source local identifier, sent.
        dst_slid: u32 => "ib_dst_slid";
        /// Link next header, sent.
        dst_lnh: u32 => "ib_dst_lnh";
    }

    /// InfiniBand global routing header (0:1032). A GID has the form of an IPv6 address.
    IbGrh ["extendedType" "ib_grh"] {
        /// Flow label.
        flow_label: u32 => "ib_flow_label";
        /// Traffic class.
        traffic_class: u32 => "ib_traffic_class";
        /// Source.
        src_gid: Ipv6Addr => "ib_src_gid";
        /// Destination.
        dst_gid: Ipv6Addr => "ib_dst_gid";
        /// Type of the next header.
        next_header: u32 => "ib_next_header";
        /// Bytes of payload.
        length: u32 => "ib_length";
    }

    /// InfiniBand base transport header (0:1033).
    IbBth ["extendedType" "ib_bth"] {
        /// Partition key.
        partition_key: u32 => "ib_partition_key";
        /// Destination queue pair.
        dst_qp: u32 => "ib_dst_qp";
        /// Type of packet.
        opcode: u32 => "ib_opcode";
    }
}
