//! Counter records about interfaces and switches.
//!
//! `sflow_version_5.txt` section 5.4, `sflow_lag.txt`, `sflow_optics.txt`, `sflow_openflow.txt`, `sflow_pfc.txt`, and the
//! structures that Broadcom and Open vSwitch agents send.

use super::field::{List, Mac, Percent, PortStates, Show, Text, records};

records! {
    /// Generic interface counters (0:1), RFC 2863. All ones is unknown.
    IfCounters {
        /// Interface number.
        if_index: u32 => "ifIndex";
        /// IANA ifType, 6 is Ethernet.
        if_type: u32 => "networkType";
        /// Bits per second.
        if_speed: u64 => "ifSpeed";
        /// 0 unknown, 1 full duplex, 2 half duplex, 3 in, 4 out.
        if_direction: u32 => "ifDirection";
        /// Bit 0 administratively up, bit 1 operationally up.
        if_status: u32 => "ifStatus";
        /// RFC 2863 ifInOctets.
        in_octets: u64 => "ifInOctets";
        /// RFC 2863 ifInUcastPkts.
        in_ucast_pkts: u32 => "ifInUcastPkts";
        /// RFC 2863 ifInMulticastPkts.
        in_multicast_pkts: u32 => "ifInMulticastPkts";
        /// RFC 2863 ifInBroadcastPkts.
        in_broadcast_pkts: u32 => "ifInBroadcastPkts";
        /// RFC 2863 ifInDiscards.
        in_discards: u32 => "ifInDiscards";
        /// RFC 2863 ifInErrors.
        in_errors: u32 => "ifInErrors";
        /// RFC 2863 ifInUnknownProtos.
        in_unknown_protos: u32 => "ifInUnknownProtos";
        /// RFC 2863 ifOutOctets.
        out_octets: u64 => "ifOutOctets";
        /// RFC 2863 ifOutUcastPkts.
        out_ucast_pkts: u32 => "ifOutUcastPkts";
        /// RFC 2863 ifOutMulticastPkts.
        out_multicast_pkts: u32 => "ifOutMulticastPkts";
        /// RFC 2863 ifOutBroadcastPkts.
        out_broadcast_pkts: u32 => "ifOutBroadcastPkts";
        /// RFC 2863 ifOutDiscards.
        out_discards: u32 => "ifOutDiscards";
        /// RFC 2863 ifOutErrors.
        out_errors: u32 => "ifOutErrors";
        /// 1 if promiscuous.
        promiscuous: u32 => "ifPromiscuousMode";
    }

    /// Ethernet counters (0:2), RFC 3635.
    EthernetCounters {
        /// RFC 3635 dot3StatsAlignmentErrors.
        alignment_errors: u32 => "dot3StatsAlignmentErrors";
        /// RFC 3635 dot3StatsFCSErrors.
        fcs_errors: u32 => "dot3StatsFCSErrors";
        /// RFC 3635 dot3StatsSingleCollisionFrames.
        single_collision_frames: u32 => "dot3StatsSingleCollisionFrames";
        /// RFC 3635 dot3StatsMultipleCollisionFrames.
        multiple_collision_frames: u32 => "dot3StatsMultipleCollisionFrames";
        /// RFC 3635 dot3StatsSQETestErrors.
        sqe_test_errors: u32 => "dot3StatsSQETestErrors";
        /// RFC 3635 dot3StatsDeferredTransmissions.
        deferred_transmissions: u32 => "dot3StatsDeferredTransmissions";
        /// RFC 3635 dot3StatsLateCollisions.
        late_collisions: u32 => "dot3StatsLateCollisions";
        /// RFC 3635 dot3StatsExcessiveCollisions.
        excessive_collisions: u32 => "dot3StatsExcessiveCollisions";
        /// RFC 3635 dot3StatsInternalMacTransmitErrors.
        internal_mac_transmit_errors: u32 => "dot3StatsInternalMacTransmitErrors";
        /// RFC 3635 dot3StatsCarrierSenseErrors.
        carrier_sense_errors: u32 => "dot3StatsCarrierSenseErrors";
        /// RFC 3635 dot3StatsFrameTooLongs.
        frame_too_longs: u32 => "dot3StatsFrameTooLongs";
        /// RFC 3635 dot3StatsInternalMacReceiveErrors.
        internal_mac_receive_errors: u32 => "dot3StatsInternalMacReceiveErrors";
        /// RFC 3635 dot3StatsSymbolErrors.
        symbol_errors: u32 => "dot3StatsSymbolErrors";
    }

    /// Token ring counters (0:3), RFC 1748.
    TokenRingCounters {
        /// RFC 1748 dot5StatsLineErrors.
        line_errors: u32 => "dot5StatsLineErrors";
        /// RFC 1748 dot5StatsBurstErrors.
        burst_errors: u32 => "dot5StatsBurstErrors";
        /// RFC 1748 dot5StatsACErrors.
        ac_errors: u32 => "dot5StatsACErrors";
        /// RFC 1748 dot5StatsAbortTransErrors.
        abort_trans_errors: u32 => "dot5StatsAbortTransErrors";
        /// RFC 1748 dot5StatsInternalErrors.
        internal_errors: u32 => "dot5StatsInternalErrors";
        /// RFC 1748 dot5StatsLostFrameErrors.
        lost_frame_errors: u32 => "dot5StatsLostFrameErrors";
        /// RFC 1748 dot5StatsReceiveCongestions.
        receive_congestions: u32 => "dot5StatsReceiveCongestions";
        /// RFC 1748 dot5StatsFrameCopiedErrors.
        frame_copied_errors: u32 => "dot5StatsFrameCopiedErrors";
        /// RFC 1748 dot5StatsTokenErrors.
        token_errors: u32 => "dot5StatsTokenErrors";
        /// RFC 1748 dot5StatsSoftErrors.
        soft_errors: u32 => "dot5StatsSoftErrors";
        /// RFC 1748 dot5StatsHardErrors.
        hard_errors: u32 => "dot5StatsHardErrors";
        /// RFC 1748 dot5StatsSignalLoss.
        signal_loss: u32 => "dot5StatsSignalLoss";
        /// RFC 1748 dot5StatsTransmitBeacons.
        transmit_beacons: u32 => "dot5StatsTransmitBeacons";
        /// RFC 1748 dot5StatsRecoverys.
        recoverys: u32 => "dot5StatsRecoverys";
        /// RFC 1748 dot5StatsLobeWires.
        lobe_wires: u32 => "dot5StatsLobeWires";
        /// RFC 1748 dot5StatsRemoves.
        removes: u32 => "dot5StatsRemoves";
        /// RFC 1748 dot5StatsSingles.
        singles: u32 => "dot5StatsSingles";
        /// RFC 1748 dot5StatsFreqErrors.
        freq_errors: u32 => "dot5StatsFreqErrors";
    }

    /// 100VG-AnyLAN counters (0:4), RFC 2020.
    VgCounters {
        /// RFC 2020 dot12InHighPriorityFrames.
        in_high_priority_frames: u32 => "dot12InHighPriorityFrames";
        /// RFC 2020 dot12InHighPriorityOctets.
        in_high_priority_octets: u64 => "dot12InHighPriorityOctets";
        /// RFC 2020 dot12InNormPriorityFrames.
        in_norm_priority_frames: u32 => "dot12InNormPriorityFrames";
        /// RFC 2020 dot12InNormPriorityOctets.
        in_norm_priority_octets: u64 => "dot12InNormPriorityOctets";
        /// RFC 2020 dot12InIPMErrors.
        in_ipm_errors: u32 => "dot12InIPMErrors";
        /// RFC 2020 dot12InOversizeFrameErrors.
        in_oversize_frame_errors: u32 => "dot12InOversizeFrameErrors";
        /// RFC 2020 dot12InDataErrors.
        in_data_errors: u32 => "dot12InDataErrors";
        /// RFC 2020 dot12InNullAddressedFrames.
        in_null_addressed_frames: u32 => "dot12InNullAddressedFrames";
        /// RFC 2020 dot12OutHighPriorityFrames.
        out_high_priority_frames: u32 => "dot12OutHighPriorityFrames";
        /// RFC 2020 dot12OutHighPriorityOctets.
        out_high_priority_octets: u64 => "dot12OutHighPriorityOctets";
        /// RFC 2020 dot12TransitionIntoTrainings.
        transition_into_trainings: u32 => "dot12TransitionIntoTrainings";
        /// RFC 2020 dot12HCInHighPriorityOctets.
        hc_in_high_priority_octets: u64 => "dot12HCInHighPriorityOctets";
        /// RFC 2020 dot12HCInNormPriorityOctets.
        hc_in_norm_priority_octets: u64 => "dot12HCInNormPriorityOctets";
        /// RFC 2020 dot12HCOutHighPriorityOctets.
        hc_out_high_priority_octets: u64 => "dot12HCOutHighPriorityOctets";
    }

    /// VLAN counters (0:5).
    VlanCounters {
        /// VLAN.
        vlan_id: u32 => "in_vlan";
        /// Bytes.
        octets: u64 => "octets";
        /// Unicast packets.
        ucast: u32 => "ucastPkts";
        /// Multicast packets.
        multicast: u32 => "multicastPkts";
        /// Broadcast packets.
        broadcast: u32 => "broadcastPkts";
        /// Discarded packets.
        discards: u32 => "discards";
    }

    /// Member port of a link aggregation (0:7), IEEE 802.1AX.
    LagPort {
        /// System of this end.
        actor_system: Mac => "actorSystemID";
        /// System of the other end.
        partner_system: Mac => "partnerSystemID";
        /// ifIndex of the aggregation.
        attached_agg_id: u32 => "attachedAggID";
        /// Flags of both ends.
        states: PortStates => "portStates";
        /// Frames.
        lacpdus_rx: u32 => "LACPDUsRx";
        /// Frames.
        marker_rx: u32 => "markerPDUsRx";
        /// Frames.
        marker_response_rx: u32 => "markerResponsePDUsRx";
        /// Frames.
        unknown_rx: u32 => "unknownRx";
        /// Frames.
        illegal_rx: u32 => "illegalRx";
        /// Frames.
        lacpdus_tx: u32 => "LACPDUsTx";
        /// Frames.
        marker_tx: u32 => "markerPDUsTx";
        /// Frames.
        marker_response_tx: u32 => "markerResponsePDUsTx";
    }

    /// Packets that took the slow path (0:8).
    SlowPathCounters {
        /// Reason not known.
        unknown: u32 => "slow_path_unknown";
        /// Other reasons.
        other: u32 => "slow_path_other";
        /// Not in the lookup table.
        cam_miss: u32 => "slow_path_cam_miss";
        /// Lookup table full.
        cam_full: u32 => "slow_path_cam_full";
        /// Not supported by the hardware.
        no_hw_support: u32 => "slow_path_no_hw_support";
        /// Sent to the CPU by configuration.
        cpu: u32 => "slow_path_cpu";
    }

    /// Optical module (0:10).
    Sfp<'a> {
        /// Number of the module.
        module_id: u32 => "sfp_module_id";
        /// Lanes of the module.
        total_lanes: u32 => "sfp_module_total_lanes";
        /// Millivolt.
        supply_voltage: u32 => "sfp_module_supply_voltage";
        /// Thousandths of a degree Celsius.
        temperature: i32 => "sfp_module_temperature";
        /// Active lanes.
        lanes: List<'a, SfpLane> => "sfp_lanes" show Show::Rows(SfpLane::LAYOUT.items);
    }

    /// One lane of an optical module. Bias in microampere, power in microwatt, wavelength in nanometre.
    SfpLane {
        /// Number.
        index: u32 => "index";
        /// Transmit bias.
        tx_bias_current: u32 => "tx_bias_current_uA";
        /// Transmit power.
        tx_power: u32 => "tx_power_uW";
        /// Least transmit power.
        tx_power_min: u32 => "tx_power_min_uW";
        /// Greatest transmit power.
        tx_power_max: u32 => "tx_power_max_uW";
        /// Transmit wavelength.
        tx_wavelength: u32 => "tx_wavelength_nM";
        /// Receive power.
        rx_power: u32 => "rx_power_uW";
        /// Least receive power.
        rx_power_min: u32 => "rx_power_min_uW";
        /// Greatest receive power.
        rx_power_max: u32 => "rx_power_max_uW";
        /// Receive wavelength.
        rx_wavelength: u32 => "rx_wavelength_nM";
    }

    /// Priority flow control (0:11), IEEE 802.1Qbb.
    Pfc {
        /// Requests sent.
        requests: u32 => "PFC_requests";
        /// Indications received.
        indications: u32 => "PFC_indications";
        /// Microseconds paused.
        pause_duration: u32 => "PFC_pause_duration";
        /// Storms detected.
        storm_detected: u32 => "PFC_storm_detected";
        /// Storms restored.
        storm_restored: u32 => "PFC_storm_restored";
    }

    /// Processor of the device (0:1001).
    Processor {
        /// Over 5 seconds.
        cpu_5s: Percent => "5s_cpu";
        /// Over a minute.
        cpu_1m: Percent => "1m_cpu";
        /// Over 5 minutes.
        cpu_5m: Percent => "5m_cpu";
        /// Bytes.
        total_memory: u64 => "total_memory_bytes";
        /// Bytes.
        free_memory: u64 => "free_memory_bytes";
    }

    /// Port of an OpenFlow datapath (0:1004).
    OpenflowPort {
        /// Datapath.
        datapath_id: u64 => "openflow_datapath_id" show Show::Hex64;
        /// Port.
        port: u32 => "openflow_port";
    }

    /// Name of the interface (0:1005).
    PortName<'a> {
        /// ifName.
        name: Text<'a> => "ifName" show Show::Name(254);
    }

    /// Open vSwitch datapath (0:2207).
    OvsDatapath {
        /// Lookups that found a flow.
        hits: u32 => "OVS_dp_hits";
        /// Lookups that did not.
        misses: u32 => "OVS_dp_misses";
        /// Lost on the way to user space.
        lost: u32 => "OVS_dp_lost";
        /// Masks looked at.
        mask_hits: u32 => "OVS_dp_mask_hits";
        /// Flows.
        flows: u32 => "OVS_dp_flows";
        /// Masks.
        masks: u32 => "OVS_dp_masks";
    }

    /// Buffers in use of a Broadcom switch at their peak (4413:1).
    BstDeviceBuffers {
        /// For unicast.
        unicast: Percent => "bst_device_uc_pc";
        /// For multicast.
        multicast: Percent => "bst_device_mc_pc";
    }

    /// Buffers in use of a port of a Broadcom switch at their peak (4413:2).
    BstPortBuffers<'a> {
        /// On ingress, for unicast.
        ingress_unicast: Percent => "bst_port_ingress_uc_pc";
        /// On ingress, for multicast.
        ingress_multicast: Percent => "bst_port_ingress_mc_pc";
        /// On egress, for unicast.
        egress_unicast: Percent => "bst_port_egress_uc_pc";
        /// On egress, for multicast.
        egress_multicast: Percent => "bst_port_egress_mc_pc";
        /// Of each egress queue, for unicast.
        queue_unicast: List<'a, BstQueue> => "bst_port_egress_queue_uc_pc" show Show::Rows(BstQueue::LAYOUT.items);
        /// Of each egress queue, for multicast.
        queue_multicast: List<'a, BstQueue> => "bst_port_egress_queue_mc_pc" show Show::Rows(BstQueue::LAYOUT.items);
    }

    /// Buffers in use of one egress queue.
    BstQueue {
        /// At their peak.
        used: Percent => "pc";
    }

    /// Sizes and uses of the tables of a Broadcom switch (4413:3).
    BcmTables {
        /// In use.
        asic_host_entries: u32 => "bcm_asic_host_entries";
        /// Capacity.
        host_entries_max: u32 => "bcm_host_entries_max";
        /// In use.
        ipv4_entries: u32 => "bcm_ipv4_entries";
        /// Capacity.
        ipv4_entries_max: u32 => "bcm_ipv4_entries_max";
        /// In use.
        ipv6_entries: u32 => "bcm_ipv6_entries";
        /// Capacity.
        ipv6_entries_max: u32 => "bcm_ipv6_entries_max";
        /// In use.
        ipv4_ipv6_entries: u32 => "bcm_ipv4_ipv6_entries";
        /// Capacity.
        ipv4_ipv6_entries_max: u32 => "bcm_ipv4_ipv6_entries_max";
        /// In use.
        long_ipv6_entries: u32 => "bcm_long_ipv6_entries";
        /// Capacity.
        long_ipv6_entries_max: u32 => "bcm_long_ipv6_entries_max";
        /// In use.
        total_routes: u32 => "bcm_total_routes";
        /// Capacity.
        total_routes_max: u32 => "bcm_total_routes_max";
        /// In use.
        ecmp_nexthops: u32 => "bcm_ecmp_nexthops";
        /// Capacity.
        ecmp_nexthops_max: u32 => "bcm_ecmp_nexthops_max";
        /// In use.
        mac_entries: u32 => "bcm_mac_entries";
        /// Capacity.
        mac_entries_max: u32 => "bcm_mac_entries_max";
        /// In use.
        ipv4_neighbors: u32 => "bcm_ipv4_neighbors";
        /// In use.
        ipv6_neighbors: u32 => "bcm_ipv6_neighbors";
        /// In use.
        ipv4_routes: u32 => "bcm_ipv4_routes";
        /// In use.
        ipv6_routes: u32 => "bcm_ipv6_routes";
        /// In use.
        acl_ingress_entries: u32 => "bcm_acl_ingress_entries";
        /// Capacity.
        acl_ingress_entries_max: u32 => "bcm_acl_ingress_entries_max";
        /// In use.
        acl_ingress_counters: u32 => "bcm_acl_ingress_counters";
        /// Capacity.
        acl_ingress_counters_max: u32 => "bcm_acl_ingress_counters_max";
        /// In use.
        acl_ingress_meters: u32 => "bcm_acl_ingress_meters";
        /// Capacity.
        acl_ingress_meters_max: u32 => "bcm_acl_ingress_meters_max";
        /// In use.
        acl_ingress_slices: u32 => "bcm_acl_ingress_slices";
        /// Capacity.
        acl_ingress_slices_max: u32 => "bcm_acl_ingress_slices_max";
        /// In use.
        acl_egress_entries: u32 => "bcm_acl_egress_entries";
        /// Capacity.
        acl_egress_entries_max: u32 => "bcm_acl_egress_entries_max";
        /// In use.
        acl_egress_counters: u32 => "bcm_acl_egress_counters";
        /// Capacity.
        acl_egress_counters_max: u32 => "bcm_acl_egress_counters_max";
        /// In use.
        acl_egress_meters: u32 => "bcm_acl_egress_meters";
        /// Capacity.
        acl_egress_meters_max: u32 => "bcm_acl_egress_meters_max";
        /// In use.
        acl_egress_slices: u32 => "bcm_acl_egress_slices";
        /// Capacity.
        acl_egress_slices_max: u32 => "bcm_acl_egress_slices_max";
    }
}
