//! sysctl settings, of one namespace (`/proc/sys/net` shows the settings of whoever looks).

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::{Error, NetNs, Result};

impl NetNs {
    /// Writes a setting inside the namespace, for instance `net.ipv4.ip_forward` = `1`. Interface
    /// names that contain dots want the slash form: `net/ipv4/conf/eth0.7/rp_filter`.
    ///
    /// # Errors
    /// When there is no such setting, or it may not be written.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<()> {
        let path = path_of(key)?;
        let object = format!("sysctl {key} to \"{value}\" in {}", self.label());
        self.run(|| fs::write(&path, value).map_err(|e| Error::io("set", object, &e)))?
    }

    /// Reads a setting inside the namespace, without the line end.
    ///
    /// # Errors
    /// When there is no such setting.
    pub fn sysctl(&self, key: &str) -> Result<String> {
        let path = path_of(key)?;
        let object = format!("sysctl {key} in {}", self.label());
        let text =
            self.run(|| fs::read_to_string(&path).map_err(|e| Error::io("read", object, &e)))??;
        Ok(text.trim_end().to_owned())
    }
}

fn path_of(key: &str) -> Result<PathBuf> {
    let relative = if key.contains('/') {
        key.to_owned()
    } else {
        key.replace('.', "/")
    };
    let plain = Path::new(&relative)
        .components()
        .all(|c| matches!(c, Component::Normal(_)));
    if relative.is_empty() || !plain {
        return Err(Error::other(
            "name",
            format!("a sysctl \"{key}\""),
            "not a setting's name",
        ));
    }
    Ok(Path::new("/proc/sys").join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_belong_to_the_namespace() {
        let (a, b) = (NetNs::anonymous().unwrap(), NetNs::anonymous().unwrap());
        a.set_sysctl("net.ipv4.ip_forward", "1").unwrap();
        assert_eq!(a.sysctl("net/ipv4/ip_forward").unwrap(), "1");
        assert_eq!(b.sysctl("net.ipv4.ip_forward").unwrap(), "0");
        let e = a
            .set_sysctl("net.ipv4.no_such_thing", "1")
            .unwrap_err()
            .to_string();
        assert!(e.contains("net.ipv4.no_such_thing"), "{e}");
        assert!(a.set_sysctl("../kernel/hostname", "x").is_err());
        assert!(a.sysctl("").is_err());
    }
}
