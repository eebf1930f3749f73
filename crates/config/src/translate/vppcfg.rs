//! vppcfg's sections.

/// Whether a name is one that VPP gives to hardware: such an interface is there or is not, and a file cannot make it.
pub fn is_hardware(name: &str) -> bool {
    let stem = name.split(|c: char| c.is_ascii_digit()).next().unwrap_or("");
    stem.ends_with("Ethernet") && stem != "BondEthernet" && name.contains('/')
}
