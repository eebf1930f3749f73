//! Records about applications on a host: sockets, TCP state, HTTP, memcache, Java, transactions, virtual desktops.
//!
//! `sflow_host.txt`, `sflow_application.txt`, `sflow_http.txt`, `sflow_memcache.txt`, `sflow_jvm.txt`, `sflow_tcp_info.txt`.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::field::{Show, Text, records};

records! {
    /// IPv4 socket of the packet (0:2100).
    Socket4 ["extendedType" "socket4"] {
        /// IP protocol.
        protocol: u32 => "socket4_ip_protocol";
        /// Local address.
        local: Ipv4Addr => "socket4_local_ip", need 8;
        /// Remote address.
        remote: Ipv4Addr => "socket4_remote_ip";
        /// Local port.
        local_port: u32 => "socket4_local_port";
        /// Remote port.
        remote_port: u32 => "socket4_remote_port";
    }

    /// IPv6 socket of the packet (0:2101).
    Socket6 ["extendedType" "socket6"] {
        /// IP protocol.
        protocol: u32 => "socket6_ip_protocol";
        /// Local address.
        local: Ipv6Addr => "socket6_local_ip", need 32;
        /// Remote address.
        remote: Ipv6Addr => "socket6_remote_ip";
        /// Local port.
        local_port: u32 => "socket6_local_port";
        /// Remote port.
        remote_port: u32 => "socket6_remote_port";
    }

    /// IPv4 socket between a proxy and the server (0:2102).
    ProxySocket4 ["extendedType" "proxy_socket4"] {
        /// IP protocol.
        protocol: u32 => "proxy_socket4_ip_protocol";
        /// Local address.
        local: Ipv4Addr => "proxy_socket4_local_ip", need 8;
        /// Remote address.
        remote: Ipv4Addr => "proxy_socket4_remote_ip";
        /// Local port.
        local_port: u32 => "proxy_socket4_local_port";
        /// Remote port.
        remote_port: u32 => "proxy_socket4_remote_port";
    }

    /// IPv6 socket between a proxy and the server (0:2103).
    ProxySocket6 ["extendedType" "proxy_socket6"] {
        /// IP protocol.
        protocol: u32 => "proxy_socket6_ip_protocol";
        /// Local address.
        local: Ipv6Addr => "proxy_socket6_local_ip", need 32;
        /// Remote address.
        remote: Ipv6Addr => "proxy_socket6_remote_ip";
        /// Local port.
        local_port: u32 => "proxy_socket6_local_port";
        /// Remote port.
        remote_port: u32 => "proxy_socket6_remote_port";
    }

    /// State of the TCP connection (0:2209).
    TcpInfo {
        /// 0 unknown, 1 received, 2 sent.
        direction: u32 => "tcpinfo_direction" show Show::Direction;
        /// Send maximum segment size.
        snd_mss: u32 => "tcpinfo_send_mss";
        /// Receive maximum segment size.
        rcv_mss: u32 => "tcpinfo_receive_mss";
        /// Unacknowledged segments.
        unacked: u32 => "tcpinfo_unacked_pkts";
        /// Lost segments.
        lost: u32 => "tcpinfo_lost_pkts";
        /// Retransmitted segments.
        retrans: u32 => "tcpinfo_retrans_pkts";
        /// Path MTU.
        pmtu: u32 => "tcpinfo_path_mtu";
        /// Smoothed round trip, microseconds.
        rtt_us: u32 => "tcpinfo_rtt_uS";
        /// Variation of the round trip, microseconds.
        rttvar_us: u32 => "tcpinfo_rtt_uS_var";
        /// Congestion window, segments.
        snd_cwnd: u32 => "tcpinfo_send_congestion_win";
        /// Reordering, segments.
        reordering: u32 => "tcpinfo_reordering";
        /// Least round trip, microseconds.
        min_rtt_us: u32 => "tcpinfo_rtt_uS_min";
    }

    /// Entities at both ends (0:2210).
    Entities ["extendedType" "entities"] {
        /// Data source class of the source.
        src_class: u32 => "entities_src_class";
        /// Data source index of the source.
        src_index: u32 => "entities_src_index";
        /// Data source class of the destination.
        dst_class: u32 => "entities_dst_class";
        /// Data source index of the destination.
        dst_index: u32 => "entities_dst_index";
    }

    /// Memcache operation (0:2200).
    MemcacheOperation<'a> ["flowSampleType" "memcache"] {
        /// 0 other, 1 ASCII, 2 binary.
        protocol: u32 => "memcache_op_protocol";
        /// Command number.
        command: u32 => "memcache_op_cmd";
        /// Key.
        key: Text<'a> => "memcache_op_key" show Show::UrlEncoded(254);
        /// Number of keys.
        nkeys: u32 => "memcache_op_nkeys";
        /// Bytes of the value.
        value_bytes: u32 => "memcache_op_value_bytes";
        /// Microseconds.
        duration_us: u32 => "memcache_op_duration_uS";
        /// Status number.
        status: u32 => "memcache_op_status";
    }

    /// HTTP request, first form (0:2201).
    HttpRequestOld<'a> ["flowSampleType" "http"] {
        /// 0 other, 1 OPTIONS, 2 GET, 3 HEAD, 4 POST, 5 PUT, 6 DELETE, 7 TRACE, 8 CONNECT.
        method: u32 => "http_method";
        /// 1000 × major + minor version.
        protocol: u32 => "http_protocol";
        /// URI.
        uri: Text<'a> => "http_uri" show Show::Name(254);
        /// Host header.
        host: Text<'a> => "http_host" show Show::Name(63);
        /// Referer header.
        referrer: Text<'a> => "http_referrer" show Show::Name(254);
        /// User-Agent header.
        useragent: Text<'a> => "http_useragent" show Show::Name(127);
        /// User.
        authuser: Text<'a> => "http_authuser" show Show::Name(31);
        /// MIME type of the response.
        mimetype: Text<'a> => "http_mimetype" show Show::Name(63);
        /// Bytes of the response.
        bytes: u64 => "http_bytes";
        /// Microseconds.
        duration_us: u32 => "http_duration_uS";
        /// Status code.
        status: u32 => "http_status";
    }

    /// HTTP request (0:2206; 0:2207 between a proxy and the server).
    HttpRequest<'a> ["flowSampleType" "http"] {
        /// 0 other, 1 OPTIONS, 2 GET, 3 HEAD, 4 POST, 5 PUT, 6 DELETE, 7 TRACE, 8 CONNECT.
        method: u32 => "http_method";
        /// 1000 × major + minor version.
        protocol: u32 => "http_protocol";
        /// URI.
        uri: Text<'a> => "http_uri" show Show::Name(254);
        /// Host header.
        host: Text<'a> => "http_host" show Show::Name(63);
        /// Referer header.
        referrer: Text<'a> => "http_referrer" show Show::Name(254);
        /// User-Agent header.
        useragent: Text<'a> => "http_useragent" show Show::Name(127);
        /// X-Forwarded-For header.
        xff: Text<'a> => "http_xff" show Show::Name(63);
        /// User.
        authuser: Text<'a> => "http_authuser" show Show::Name(31);
        /// MIME type of the response.
        mimetype: Text<'a> => "http_mimetype" show Show::Name(63);
        /// Bytes of the request.
        request_bytes: u64 => "http_request_bytes";
        /// Bytes of the response.
        bytes: u64 => "http_bytes";
        /// Microseconds.
        duration_us: u32 => "http_duration_uS";
        /// Status code.
        status: u32 => "http_status";
    }

    /// Application operation (0:2202).
    AppOperation<'a> ["flowSampleType" "applicationOperation"] {
        /// Application.
        application: Text<'a> => "application" show Show::Name(31);
        /// Operation.
        operation: Text<'a> => "operation" show Show::Name(31);
        /// Attributes.
        attributes: Text<'a> => "attributes" show Show::Name(254);
        /// Status in words.
        status_descr: Text<'a> => "status_descr" show Show::Name(31);
        /// Bytes of the request.
        request_bytes: u64 => "request_bytes";
        /// Bytes of the response.
        response_bytes: u64 => "response_bytes";
        /// Microseconds.
        duration_us: u32 => "duration_uS";
        /// Status number, 0 is success.
        status: u32 => "status" show Show::AppStatus;
    }

    /// Operation in whose course this one happened (0:2203).
    AppContext<'a> {
        /// Application.
        application: Text<'a> => "server_context_application" show Show::Name(31);
        /// Operation.
        operation: Text<'a> => "server_context_operation" show Show::Name(31);
        /// Attributes.
        attributes: Text<'a> => "server_context_attributes" show Show::Name(254);
    }

    /// Who asked for the operation (0:2204).
    AppInitiator<'a> {
        /// The actor.
        actor: Text<'a> => "actor_initiator" show Show::Name(63);
    }

    /// On whom the operation was done (0:2205).
    AppTarget<'a> {
        /// The actor.
        actor: Text<'a> => "actor_target" show Show::Name(63);
    }

    /// Java virtual machine (0:2105).
    JvmRuntime<'a> {
        /// Name.
        name: Text<'a> => "jvm_name" show Show::Name(63);
        /// Vendor.
        vendor: Text<'a> => "jvm_vendor" show Show::Name(31);
        /// Version.
        version: Text<'a> => "jvm_version" show Show::Name(31);
    }

    /// Java virtual machine statistics (0:2106).
    JvmStatistics {
        /// Bytes.
        heap_initial: u64 => "heap_mem_initial";
        /// Bytes.
        heap_used: u64 => "heap_mem_used";
        /// Bytes.
        heap_committed: u64 => "heap_mem_committed";
        /// Bytes.
        heap_max: u64 => "heap_mem_max";
        /// Bytes.
        non_heap_initial: u64 => "non_heap_mem_initial";
        /// Bytes.
        non_heap_used: u64 => "non_heap_mem_used";
        /// Bytes.
        non_heap_committed: u64 => "non_heap_mem_committed";
        /// Bytes.
        non_heap_max: u64 => "non_heap_mem_max";
        /// Collections.
        gc_count: u32 => "gc_count";
        /// Milliseconds.
        gc_ms: u32 => "gc_mS";
        /// Classes.
        classes_loaded: u32 => "classes_loaded";
        /// Classes.
        classes_total: u32 => "classes_total";
        /// Classes.
        classes_unloaded: u32 => "classes_unloaded";
        /// Milliseconds.
        compilation_ms: u32 => "compilation_mS";
        /// Threads.
        threads_live: u32 => "threads_live";
        /// Threads.
        threads_daemon: u32 => "threads_daemon";
        /// Threads.
        threads_started: u32 => "threads_started";
        /// File descriptors, in the newer form.
        fds: Option<JvmFds> => "fds" show Show::Tail(100, JvmFds::LAYOUT.items);
    }

    /// File descriptors of a Java virtual machine.
    JvmFds {
        /// Open.
        open: u32 => "fds_open";
        /// Limit.
        max: u32 => "fds_max";
    }

    /// Operations of an application by outcome (0:2202).
    AppOperations<'a> {
        /// Application.
        application: Text<'a> => "application" show Show::Name(31);
        /// Operations.
        success: u32 => "status_OK";
        /// Operations.
        other: u32 => "errors_OTHER";
        /// Operations.
        timeout: u32 => "errors_TIMEOUT";
        /// Operations.
        internal_error: u32 => "errors_INTERNAL_ERROR";
        /// Operations.
        bad_request: u32 => "errors_BAD_REQUEST";
        /// Operations.
        forbidden: u32 => "errors_FORBIDDEN";
        /// Operations.
        too_large: u32 => "errors_TOO_LARGE";
        /// Operations.
        not_implemented: u32 => "errors_NOT_IMPLEMENTED";
        /// Operations.
        not_found: u32 => "errors_NOT_FOUND";
        /// Operations.
        unavailable: u32 => "errors_UNAVAILABLE";
        /// Operations.
        unauthorized: u32 => "errors_UNAUTHORIZED";
    }

    /// Resources of an application (0:2203).
    AppResources {
        /// Milliseconds in user mode.
        user_ms: u32 => "user_time";
        /// Milliseconds in system mode.
        system_ms: u32 => "system_time";
        /// Bytes of memory in use.
        mem_used: u64 => "memory_used";
        /// Bytes of memory at most.
        mem_max: u64 => "memory_max";
        /// Open file descriptors.
        fd_open: u32 => "files_open";
        /// File descriptors at most.
        fd_max: u32 => "files_max";
        /// Open connections.
        conn_open: u32 => "connections_open";
        /// Connections at most.
        conn_max: u32 => "connections_max";
    }

    /// Workers of an application (0:2206).
    AppWorkers {
        /// Workers.
        active: u32 => "workers_active";
        /// Workers.
        idle: u32 => "workers_idle";
        /// Workers.
        max: u32 => "workers_max";
        /// Requests.
        req_delayed: u32 => "requests_delayed";
        /// Requests.
        req_dropped: u32 => "requests_dropped";
    }

    /// HTTP requests by method and status (0:2201).
    HttpCounters {
        /// Requests.
        options: u32 => "http_method_option_count";
        /// Requests.
        get: u32 => "http_method_get_count";
        /// Requests.
        head: u32 => "http_method_head_count";
        /// Requests.
        post: u32 => "http_method_post_count";
        /// Requests.
        put: u32 => "http_method_put_count";
        /// Requests.
        delete: u32 => "http_method_delete_count";
        /// Requests.
        trace: u32 => "http_method_trace_count";
        /// Requests (sflowtool spells it so).
        connect: u32 => "http_methd_connect_count";
        /// Requests.
        other_method: u32 => "http_method_other_count";
        /// Responses.
        status_1xx: u32 => "http_status_1XX_count";
        /// Responses.
        status_2xx: u32 => "http_status_2XX_count";
        /// Responses.
        status_3xx: u32 => "http_status_3XX_count";
        /// Responses.
        status_4xx: u32 => "http_status_4XX_count";
        /// Responses.
        status_5xx: u32 => "http_status_5XX_count";
        /// Responses.
        other_status: u32 => "http_status_other_count";
    }

    /// Memcache server, first form (0:2200).
    MemcacheCountersOld {
        /// As `stats` of memcached names it.
        uptime: u32 => "memcache_uptime";
        /// As `stats` of memcached names it.
        rusage_user: u32 => "memcache_rusage_user";
        /// As `stats` of memcached names it.
        rusage_system: u32 => "memcache_rusage_system";
        /// As `stats` of memcached names it.
        curr_connections: u32 => "memcache_curr_connections";
        /// As `stats` of memcached names it.
        total_connections: u32 => "memcache_total_connections";
        /// As `stats` of memcached names it.
        connection_structures: u32 => "memcache_connection_structures";
        /// As `stats` of memcached names it.
        cmd_get: u32 => "memcache_cmd_get";
        /// As `stats` of memcached names it.
        cmd_set: u32 => "memcache_cmd_set";
        /// As `stats` of memcached names it.
        cmd_flush: u32 => "memcache_cmd_flush";
        /// As `stats` of memcached names it.
        get_hits: u32 => "memcache_get_hits";
        /// As `stats` of memcached names it.
        get_misses: u32 => "memcache_get_misses";
        /// As `stats` of memcached names it.
        delete_misses: u32 => "memcache_delete_misses";
        /// As `stats` of memcached names it.
        delete_hits: u32 => "memcache_delete_hits";
        /// As `stats` of memcached names it.
        incr_misses: u32 => "memcache_incr_misses";
        /// As `stats` of memcached names it.
        incr_hits: u32 => "memcache_incr_hits";
        /// As `stats` of memcached names it.
        decr_misses: u32 => "memcache_decr_misses";
        /// As `stats` of memcached names it.
        decr_hits: u32 => "memcache_decr_hits";
        /// As `stats` of memcached names it.
        cas_misses: u32 => "memcache_cas_misses";
        /// As `stats` of memcached names it.
        cas_hits: u32 => "memcache_cas_hits";
        /// As `stats` of memcached names it.
        cas_badval: u32 => "memcache_cas_badval";
        /// As `stats` of memcached names it.
        auth_cmds: u32 => "memcache_auth_cmds";
        /// As `stats` of memcached names it.
        auth_errors: u32 => "memcache_auth_errors";
        /// As `stats` of memcached names it.
        bytes_read: u64 => "memcache_bytes_read";
        /// As `stats` of memcached names it.
        bytes_written: u64 => "memcache_bytes_written";
        /// As `stats` of memcached names it.
        limit_maxbytes: u32 => "memcache_limit_maxbytes";
        /// As `stats` of memcached names it.
        accepting_conns: u32 => "memcache_accepting_conns";
        /// As `stats` of memcached names it.
        listen_disabled_num: u32 => "memcache_listen_disabled_num";
        /// As `stats` of memcached names it.
        threads: u32 => "memcache_threads";
        /// As `stats` of memcached names it.
        conn_yields: u32 => "memcache_conn_yields";
        /// As `stats` of memcached names it.
        bytes: u64 => "memcache_bytes";
        /// As `stats` of memcached names it.
        curr_items: u32 => "memcache_curr_items";
        /// As `stats` of memcached names it.
        total_items: u32 => "memcache_total_items";
        /// As `stats` of memcached names it.
        evictions: u32 => "memcache_evictions";
    }

    /// Memcache server (0:2204).
    MemcacheCounters {
        /// As `stats` of memcached names it.
        cmd_set: u32 => "memcache_cmd_set";
        /// As `stats` of memcached names it.
        cmd_touch: u32 => "memcache_cmd_touch";
        /// As `stats` of memcached names it.
        cmd_flush: u32 => "memcache_cmd_flush";
        /// As `stats` of memcached names it.
        get_hits: u32 => "memcache_get_hits";
        /// As `stats` of memcached names it.
        get_misses: u32 => "memcache_get_misses";
        /// As `stats` of memcached names it.
        delete_hits: u32 => "memcache_delete_hits";
        /// As `stats` of memcached names it.
        delete_misses: u32 => "memcache_delete_misses";
        /// As `stats` of memcached names it.
        incr_hits: u32 => "memcache_incr_hits";
        /// As `stats` of memcached names it.
        incr_misses: u32 => "memcache_incr_misses";
        /// As `stats` of memcached names it.
        decr_hits: u32 => "memcache_decr_hits";
        /// As `stats` of memcached names it.
        decr_misses: u32 => "memcache_decr_misses";
        /// As `stats` of memcached names it.
        cas_hits: u32 => "memcache_cas_hits";
        /// As `stats` of memcached names it.
        cas_misses: u32 => "memcache_cas_misses";
        /// As `stats` of memcached names it.
        cas_badval: u32 => "memcache_cas_badval";
        /// As `stats` of memcached names it.
        auth_cmds: u32 => "memcache_auth_cmds";
        /// As `stats` of memcached names it.
        auth_errors: u32 => "memcache_auth_errors";
        /// As `stats` of memcached names it.
        threads: u32 => "memcache_threads";
        /// As `stats` of memcached names it.
        conn_yields: u32 => "memcache_conn_yields";
        /// As `stats` of memcached names it.
        listen_disabled_num: u32 => "memcache_listen_disabled_num";
        /// As `stats` of memcached names it.
        curr_connections: u32 => "memcache_curr_connections";
        /// As `stats` of memcached names it.
        rejected_connections: u32 => "memcache_rejected_connections";
        /// As `stats` of memcached names it.
        total_connections: u32 => "memcache_total_connections";
        /// As `stats` of memcached names it.
        connection_structures: u32 => "memcache_connection_structures";
        /// As `stats` of memcached names it.
        evictions: u32 => "memcache_evictions";
        /// As `stats` of memcached names it.
        reclaimed: u32 => "memcache_reclaimed";
        /// As `stats` of memcached names it.
        curr_items: u32 => "memcache_curr_items";
        /// As `stats` of memcached names it.
        total_items: u32 => "memcache_total_items";
        /// As `stats` of memcached names it.
        bytes_read: u64 => "memcache_bytes_read";
        /// As `stats` of memcached names it.
        bytes_written: u64 => "memcache_bytes_written";
        /// As `stats` of memcached names it.
        bytes: u64 => "memcache_bytes";
        /// As `stats` of memcached names it.
        limit_maxbytes: u64 => "memcache_limit_maxbytes";
    }

    /// Virtual desktops (0:2205).
    Vdi {
        /// Of the sessions now or, where it counts, so far.
        sessions_current: u32 => "vdi_sessions_current";
        /// Of the sessions now or, where it counts, so far.
        sessions_total: u32 => "vdi_sessions_total";
        /// Of the sessions now or, where it counts, so far.
        sessions_duration: u32 => "vdi_sessions_duration";
        /// Of the sessions now or, where it counts, so far.
        rx_bytes: u32 => "vdi_rx_bytes";
        /// Of the sessions now or, where it counts, so far.
        tx_bytes: u32 => "vdi_tx_bytes";
        /// Of the sessions now or, where it counts, so far.
        rx_packets: u32 => "vdi_rx_packets";
        /// Of the sessions now or, where it counts, so far.
        tx_packets: u32 => "vdi_tx_packets";
        /// Of the sessions now or, where it counts, so far.
        rx_packets_lost: u32 => "vdi_rx_packets_lost";
        /// Of the sessions now or, where it counts, so far.
        tx_packets_lost: u32 => "vdi_tx_packets_lost";
        /// Of the sessions now or, where it counts, so far.
        rtt_min_ms: u32 => "vdi_rtt_min_ms";
        /// Of the sessions now or, where it counts, so far.
        rtt_max_ms: u32 => "vdi_rtt_max_ms";
        /// Of the sessions now or, where it counts, so far.
        rtt_avg_ms: u32 => "vdi_rtt_avg_ms";
        /// Of the sessions now or, where it counts, so far.
        audio_rx_bytes: u32 => "vdi_audio_rx_bytes";
        /// Of the sessions now or, where it counts, so far.
        audio_tx_bytes: u32 => "vdi_audio_tx_bytes";
        /// Of the sessions now or, where it counts, so far.
        audio_tx_limit: u32 => "vdi_audio_tx_limit";
        /// Of the sessions now or, where it counts, so far.
        img_rx_bytes: u32 => "vdi_img_rx_bytes";
        /// Of the sessions now or, where it counts, so far.
        img_tx_bytes: u32 => "vdi_img_tx_bytes";
        /// Of the sessions now or, where it counts, so far.
        img_frames: u32 => "vdi_img_frames";
        /// Of the sessions now or, where it counts, so far.
        img_qual_min: u32 => "vdi_img_qual_min";
        /// Of the sessions now or, where it counts, so far.
        img_qual_max: u32 => "vdi_img_qual_max";
        /// Of the sessions now or, where it counts, so far.
        img_qual_avg: u32 => "vdi_img_qual_avg";
        /// Of the sessions now or, where it counts, so far.
        usb_rx_bytes: u32 => "vdi_usb_rx_bytes";
        /// Of the sessions now or, where it counts, so far.
        usb_tx_bytes: u32 => "vdi_usb_tx_bytes";
    }
}
