//! 802.11 flow and counter records: `sflow_80211.txt`.

use super::field::{Framed, List, Mac, Show, Text, records};

records! {
    /// Payload of an 802.11 frame as it was before encryption (0:1013).
    WifiPayload<'a> ["extendedType" "wifi_payload"] {
        /// Cipher suite, OUI and type.
        cipher_suite: u32 => "cipher_suite";
        /// The bytes.
        data: &'a [u8] => "payload";
    }

    /// Reception of an 802.11 frame (0:1014).
    WifiRx<'a> {
        /// Network name.
        ssid: Text<'a> => "rx_SSID";
        /// Base station.
        bssid: Mac => "rx_BSSID";
        /// 1 a, 2 b, 3 g, 4 n.
        version: u32 => "rx_version";
        /// Channel number.
        channel: u32 => "rx_channel";
        /// Bits per second.
        speed: u64 => "rx_speed";
        /// Received signal to noise ratio.
        rsni: u32 => "rx_rsni";
        /// Received channel power.
        rcpi: u32 => "rx_rcpi";
        /// Microseconds on the air.
        duration_us: u32 => "rx_packet_uS";
    }

    /// Transmission of an 802.11 frame (0:1015).
    WifiTx<'a> {
        /// Network name.
        ssid: Text<'a> => "tx_SSID";
        /// Base station.
        bssid: Mac => "tx_BSSID";
        /// 1 a, 2 b, 3 g, 4 n.
        version: u32 => "tx_version";
        /// Number of transmissions.
        transmissions: u32 => "tx_transmissions";
        /// Microseconds of the successful transmission.
        duration_us: u32 => "tx_packet_uS";
        /// Microseconds of failed transmissions.
        retrans_us: u32 => "tx_retrans_uS";
        /// Channel number.
        channel: u32 => "tx_channel";
        /// Bits per second.
        speed: u64 => "tx_speed";
        /// Power in milliwatt.
        power_mw: u32 => "tx_power_mW";
    }

    /// Frames that were sent as one (0:1016).
    WifiAggregation<'a> ["extendedType" "wifi_aggregation"] {
        /// The frames.
        pdus: List<'a, WifiPdu<'a>> => "pdus" show Show::Special;
    }

    /// One frame of an aggregation.
    WifiPdu<'a> {
        /// What is known of it.
        records: List<'a, Framed<'a>> => "elements" show Show::Special;
    }

    /// 802.11 interface counters (0:6).
    WifiCounters {
        /// dot11TransmittedFragmentCount.
        transmitted_fragments: u32 => "dot11TransmittedFragmentCount";
        /// dot11MulticastTransmittedFrameCount.
        multicast_transmitted: u32 => "dot11MulticastTransmittedFrameCount";
        /// dot11FailedCount.
        failed: u32 => "dot11FailedCount";
        /// dot11RetryCount.
        retries: u32 => "dot11RetryCount";
        /// dot11MultipleRetryCount.
        multiple_retries: u32 => "dot11MultipleRetryCount";
        /// dot11FrameDuplicateCount.
        duplicates: u32 => "dot11FrameDuplicateCount";
        /// dot11RTSSuccessCount.
        rts_success: u32 => "dot11RTSSuccessCount";
        /// dot11RTSFailureCount.
        rts_failure: u32 => "dot11RTSFailureCount";
        /// dot11ACKFailureCount.
        ack_failure: u32 => "dot11ACKFailureCount";
        /// dot11ReceivedFragmentCount.
        received_fragments: u32 => "dot11ReceivedFragmentCount";
        /// dot11MulticastReceivedFrameCount.
        multicast_received: u32 => "dot11MulticastReceivedFrameCount";
        /// dot11FCSErrorCount.
        fcs_errors: u32 => "dot11FCSErrorCount";
        /// dot11TransmittedFrameCount.
        transmitted_frames: u32 => "dot11TransmittedFrameCount";
        /// dot11WEPUndecryptableCount.
        wep_undecryptable: u32 => "dot11WEPUndecryptableCount";
        /// dot11QoSDiscardedFragmentCount.
        qos_discarded_fragments: u32 => "dot11QoSDiscardedFragmentCount";
        /// dot11AssociatedStationCount.
        associated_stations: u32 => "dot11AssociatedStationCount";
        /// dot11QoSCFPollsReceivedCount.
        qos_cf_polls_received: u32 => "dot11QoSCFPollsReceivedCount";
        /// dot11QoSCFPollsUnusedCount.
        qos_cf_polls_unused: u32 => "dot11QoSCFPollsUnusedCount";
        /// dot11QoSCFPollsUnusableCount.
        qos_cf_polls_unusable: u32 => "dot11QoSCFPollsUnusableCount";
        /// dot11QoSCFPollsLostCount.
        qos_cf_polls_lost: u32 => "dot11QoSCFPollsLostCount";
    }

    /// Use of a radio channel (0:1002).
    RadioUtilization {
        /// Milliseconds elapsed.
        elapsed_ms: u32 => "radio_elapsed_time";
        /// Milliseconds on the channel.
        on_channel_ms: u32 => "radio_on_channel_time";
        /// Milliseconds on the channel and busy.
        on_channel_busy_ms: u32 => "radio_on_channel_busy_time";
    }
}
