//! The memory of a pluggable module as the SFP record (sFlow optical interface structures, 0:10).
//!
//! Understood are SFP modules that measure (SFF-8472) and QSFP modules (SFF-8636). Limits of power are the module's alarm
//! thresholds. Modules of other kinds, and those that measure nothing, give no record.

use parshall_sflow_wire::record::SfpLane;

/// What a module says.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Millivolt.
    pub supply_voltage: u32,
    /// Thousandths of a degree Celsius.
    pub temperature: i32,
    /// Its lanes.
    pub lanes: Vec<SfpLane>,
}

/// Identifiers of SFF-8024 table 4-1.
const SFP: u8 = 0x03;
const QSFP: [u8; 3] = [0x0C, 0x0D, 0x11];
/// Where the page with the measurements of an SFP module begins.
const DIAGNOSTICS: usize = 256;
/// Where the page with the thresholds of a QSFP module lies: pages of 128 bytes from byte 128 on.
const THRESHOLDS: usize = 128 + 3 * 128;

/// Reads a module's memory.
pub fn read(memory: &[u8]) -> Option<Module> {
    match memory.first()? {
        &SFP => sfp(memory),
        id if QSFP.contains(id) => qsfp(memory),
        _ => None,
    }
}

fn word(memory: &[u8], at: usize) -> Option<u16> {
    let bytes = memory.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*bytes))
}

/// A temperature in 1/256 degree.
fn temperature(raw: i32) -> i32 {
    (i64::from(raw) * 1000 / 256) as i32
}

/// Microwatts of a number of tenths.
fn microwatts(tenths: u32) -> u32 {
    (tenths + 5) / 10
}

/// SFF-8472: identification in the first 256 bytes, measurements in the second.
fn sfp(memory: &[u8]) -> Option<Module> {
    // Byte 92: bit 6 it measures, bit 5 values are right as they are, bit 4 they need its constants.
    let kind = *memory.get(92)?;
    if kind & 0x40 == 0 {
        return None;
    }
    let page = memory.get(DIAGNOSTICS..)?;
    let raw = |at| word(page, at).map(f64::from);
    let external = kind & 0x10 != 0;
    // Slopes are numbers of 1/256, offsets whole.
    let linear = |raw: f64, slope: usize| {
        let offset = word(page, slope + 2).map_or(0, |w| w as i16);
        match word(page, slope) {
            Some(s) if external => raw * f64::from(s) / 256.0 + f64::from(offset),
            _ => raw,
        }
    };
    let received = |raw: f64| if external { polynomial(page, raw) } else { raw };
    let limit = |at| word(page, at).map_or(0, |w| microwatts(w.into()));
    let wavelength = word(memory, 60).map_or(0, u32::from);
    let signed = f64::from(word(page, 96)? as i16);
    // Casts of floats to integers saturate; nothing negative is measured but temperature.
    Some(Module {
        supply_voltage: (linear(raw(98)?, 88) / 10.0).round() as u32,
        temperature: temperature(linear(signed, 84).round() as i32),
        lanes: vec![SfpLane {
            index: 1,
            tx_bias_current: (linear(raw(100)?, 76) * 2.0).round() as u32,
            tx_power: microwatts(linear(raw(102)?, 80).round() as u32),
            tx_power_min: limit(26),
            tx_power_max: limit(24),
            tx_wavelength: wavelength,
            rx_power: microwatts(received(raw(104)?).round() as u32),
            rx_power_min: limit(34),
            rx_power_max: limit(32),
            rx_wavelength: wavelength,
        }],
    })
}

/// Received power of a module with constants: a polynomial of degree 4, the highest coefficient first.
fn polynomial(page: &[u8], raw: f64) -> f64 {
    let coefficients = page.get(56..76).unwrap_or(&[]).chunks_exact(4);
    coefficients.fold(0.0, |sum, c| {
        let c = c.first_chunk().map_or(0.0, |b| f32::from_be_bytes(*b));
        sum * raw + f64::from(c)
    })
}

/// SFF-8636: measurements of four lanes in the lower page, wavelength in page 0, thresholds in page 3.
fn qsfp(memory: &[u8]) -> Option<Module> {
    // In twentieths of a nanometre.
    let wavelength = word(memory, 186).map_or(0, |w| u32::from(w) / 20);
    let limit = |at: usize| {
        let w = word(memory, THRESHOLDS + at - 128);
        w.map_or(0, |w| microwatts(w.into()))
    };
    let lane = |n: usize| {
        Some(SfpLane {
            index: n as u32 + 1,
            tx_bias_current: u32::from(word(memory, 42 + 2 * n)?) * 2,
            tx_power: microwatts(word(memory, 50 + 2 * n)?.into()),
            tx_power_min: limit(194),
            tx_power_max: limit(192),
            tx_wavelength: wavelength,
            rx_power: microwatts(word(memory, 34 + 2 * n)?.into()),
            rx_power_min: limit(178),
            rx_power_max: limit(176),
            rx_wavelength: wavelength,
        })
    };
    Some(Module {
        supply_voltage: u32::from(word(memory, 26)?) / 10,
        temperature: temperature(i32::from(word(memory, 22)? as i16)),
        lanes: (0..4).map(lane).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(memory: &mut [u8], at: usize, words: &[u16]) {
        for (i, w) in words.iter().enumerate() {
            memory[at + 2 * i..at + 2 * i + 2].copy_from_slice(&w.to_be_bytes());
        }
    }

    /// An SFP+ module for 1310 nm at 35.5 degrees, 3.301 V, 33.5 mA, 0.6123 mW out and 0.4 mW in.
    fn golden_sfp(kind: u8) -> Vec<u8> {
        let mut m = vec![0; 512];
        (m[0], m[92]) = (SFP, kind);
        put(&mut m, 60, &[1310]);
        put(&mut m, 256 + 24, &[15_849, 1585, 12_589, 1995]);
        put(&mut m, 256 + 32, &[12_589, 100, 10_000, 158]);
        put(&mut m, 256 + 96, &[0x2380, 33_010, 16_750, 6123, 4004]);
        m
    }

    fn golden_lane() -> SfpLane {
        SfpLane {
            index: 1,
            tx_bias_current: 33_500,
            tx_power: 612,
            tx_power_min: 159,
            tx_power_max: 1585,
            tx_wavelength: 1310,
            rx_power: 400,
            rx_power_min: 10,
            rx_power_max: 1259,
            rx_wavelength: 1310,
        }
    }

    #[test]
    fn golden_sfp_module() {
        let m = read(&golden_sfp(0x60)).unwrap();
        assert_eq!((m.supply_voltage, m.temperature), (3301, 35_500));
        assert_eq!(m.lanes, [golden_lane()]);
    }

    #[test]
    fn a_module_with_constants_is_calibrated() {
        let mut memory = golden_sfp(0x50);
        // Slope 1 and offset 0 for current, power and voltage; half and 5 degrees for temperature; received power is 2 x + 3.
        for (i, f) in [0.0f32, 0.0, 0.0, 2.0, 3.0].iter().enumerate() {
            memory[256 + 56 + 4 * i..][..4].copy_from_slice(&f.to_be_bytes());
        }
        put(
            &mut memory,
            256 + 76,
            &[256, 0, 256, 0, 128, 5 * 256, 256, 0],
        );
        let m = read(&memory).unwrap();
        assert_eq!((m.supply_voltage, m.temperature), (3301, 22_750));
        let rx_power = 801;
        assert_eq!(
            m.lanes,
            [SfpLane {
                rx_power,
                ..golden_lane()
            }]
        );
        // Below zero.
        put(&mut memory, 256 + 84, &[256, (-40i16 * 256) as u16]);
        assert_eq!(read(&memory).unwrap().temperature, -4500);
    }

    #[test]
    fn golden_qsfp_module() {
        let mut m = vec![0; 640];
        m[0] = 0x11;
        put(&mut m, 22, &[0xFB80]);
        put(&mut m, 26, &[32_500]);
        put(
            &mut m,
            34,
            &[
                10_000, 9000, 8000, 7000, 20_000, 20_001, 20_002, 20_003, 5000, 5100, 5200, 5300,
            ],
        );
        put(&mut m, 186, &[26_200]);
        put(&mut m, 512 + 48, &[22_387, 363]);
        put(&mut m, 512 + 64, &[19_953, 1148]);
        let got = read(&m).unwrap();
        assert_eq!(
            (got.supply_voltage, got.temperature, got.lanes.len()),
            (3250, -4500, 4)
        );
        let third = SfpLane {
            index: 3,
            tx_bias_current: 40_004,
            tx_power: 520,
            tx_power_min: 115,
            tx_power_max: 1995,
            tx_wavelength: 1310,
            rx_power: 800,
            rx_power_min: 36,
            rx_power_max: 2239,
            rx_wavelength: 1310,
        };
        assert_eq!(got.lanes[2], third);
        // A short dump has no thresholds, but all else.
        let short = read(&m[..256]).unwrap();
        assert_eq!(
            (short.lanes[2].rx_power, short.lanes[2].rx_power_max),
            (800, 0)
        );
    }

    #[test]
    fn what_measures_nothing_gives_nothing() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&golden_sfp(0)), None);
        assert_eq!(read(&golden_sfp(0x60)[..256]), None);
        assert_eq!(read(&[0x18; 640]), None);
        for memory in [golden_sfp(0x50), [vec![0x0D], vec![0xFF; 639]].concat()] {
            for n in 0..memory.len() {
                let _ = read(&memory[..n]);
            }
            assert!(read(&memory).is_some());
        }
    }
}
