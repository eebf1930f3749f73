//! Memory and disks: `/proc/meminfo`, `vmstat`, `diskstats`, `mounts` (proc(5)).

use parshall_sflow_wire::record::{HostDisk, HostMemory};

use super::{number, wrap};

/// `/proc/meminfo`, whose unit is 1024 bytes.
pub fn meminfo(text: &str, m: &mut HostMemory) {
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let Some(kib) = number::<u64>(value.split_ascii_whitespace().next()) else {
            continue;
        };
        let field = match key {
            "MemTotal" => &mut m.total,
            "MemFree" => &mut m.free,
            "Shmem" => &mut m.shared,
            "Buffers" => &mut m.buffers,
            "Cached" => &mut m.cached,
            "SwapTotal" => &mut m.swap_total,
            "SwapFree" => &mut m.swap_free,
            _ => continue,
        };
        *field = kib.saturating_mul(1024);
    }
}

/// `/proc/vmstat`: paging.
pub fn vmstat(text: &str, m: &mut HostMemory) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let field = match words.next() {
            Some("pgpgin") => &mut m.page_in,
            Some("pgpgout") => &mut m.page_out,
            Some("pswpin") => &mut m.swap_in,
            Some("pswpout") => &mut m.swap_out,
            _ => continue,
        };
        *field = number(words.next()).map_or(*field, wrap);
    }
}

/// `/proc/diskstats` (`Documentation/admin-guide/iostats.rst`), summed over the devices for which `counts` holds: whole
/// disks, not their partitions. Sectors are 512 bytes there whatever the disk's are.
pub fn diskstats(text: &str, counts: impl Fn(&str) -> bool, d: &mut HostDisk) {
    let mut sum = [0u64; 6];
    let mut any = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [
            _,
            _,
            name,
            reads,
            _,
            sectors_read,
            read_ms,
            writes,
            _,
            sectors_written,
            write_ms,
            ..,
        ] = words[..]
        else {
            continue;
        };
        if !counts(name) {
            continue;
        }
        any = true;
        for (s, w) in sum.iter_mut().zip([
            reads,
            sectors_read,
            read_ms,
            writes,
            sectors_written,
            write_ms,
        ]) {
            *s = s.wrapping_add(number(Some(w)).unwrap_or(0));
        }
    }
    if any {
        d.reads = wrap(sum[0]);
        d.bytes_read = sum[1].wrapping_mul(512);
        d.read_time = wrap(sum[2]);
        d.writes = wrap(sum[3]);
        d.bytes_written = sum[4].wrapping_mul(512);
        d.write_time = wrap(sum[5]);
    }
}

/// Mount points in `/proc/mounts` of file systems on local block devices, one for each device.
///
/// Others are left out on purpose: asking a network file system for its size may wait for a dead server.
pub fn local_mounts(text: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut points = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(device), Some(point), Some(kind)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if !device.starts_with("/dev/") || kind.starts_with("fuse") || seen.contains(&device) {
            continue;
        }
        seen.push(device);
        points.push(unescape(point));
    }
    points
}

/// Undoes the octal escapes (`\040` is a blank) of `/proc/mounts`.
fn unescape(s: &str) -> String {
    let mut out = Vec::with_capacity(s.len());
    let mut rest = s.as_bytes();
    while let Some((&b, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|d| d.iter().all(|c| (b'0'..=b'7').contains(c)));
        match octal {
            Some(d) if b == b'\\' => {
                out.push(
                    d.iter()
                        .fold(0u8, |v, c| v.wrapping_mul(8).wrapping_add(c - b'0')),
                );
                rest = &tail[3..];
            }
            _ => {
                out.push(b);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
