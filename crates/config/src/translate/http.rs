//! The section `http`: where metrics and the API are served, and for whom.

use std::net::SocketAddr;

use super::Builder;
use crate::plan::HttpSettings;
use crate::scalar::quoted;

impl Builder<'_, '_> {
    /// The settings of the section; what excludes one another or is of no use is reported.
    pub(super) fn http(&mut self) -> HttpSettings {
        let Some(r) = self.file.record("http") else {
            return HttpSettings::default();
        };
        let listen = r.text("listen").map(str::to_owned);
        let address: Option<SocketAddr> = listen.as_ref().and_then(|t| t.parse().ok());
        if let Some(text) = listen.filter(|_| address.is_none()) {
            let message = format!(
                "{} will not do: write an address with a port, such as 127.0.0.1:9481 or [::1]:9481",
                quoted(&text)
            );
            self.error(r, "listen", message);
        }
        let settings = HttpSettings {
            listen: address,
            socket: r.text("socket").map(Into::into),
            group: r.text("group").map(str::to_owned),
            token_file: r.text("token-file").map(Into::into),
            commands: r.bool("commands"),
        };
        if !settings.is_on() && !r.has("listen") && !r.flawed {
            self.error(
                r,
                "",
                "nothing is listened on: add `listen`, `socket` or both",
            );
        }
        if settings.group.is_some() && settings.socket.is_none() {
            self.error(r, "group", "it may open the `socket`, and there is none");
        }
        if settings.commands
            && settings.socket.is_none()
            && settings.token_file.is_none()
            && !r.flawed
        {
            let message = "nobody may give commands: add a `token-file`, or a `socket`";
            self.error(r, "commands", message);
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn wrong(text: &str) -> String {
        parse(text, "f").map_or_else(|e| e.to_string(), |_| String::new())
    }

    #[test]
    fn the_section_is_read() {
        let text = "http: {listen: '[::1]:9481', socket: /run/x.sock, group: net, token-file: /t, commands: true}";
        let http = parse(text, "f").unwrap().http;
        assert_eq!(http.listen.unwrap().port(), 9481);
        assert!(http.commands && http.is_on());
        assert_eq!(http.group.as_deref(), Some("net"));
        assert!(!parse("workers: 1", "f").unwrap().http.is_on());
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (text, want) in [
            (
                "http: {listen: 9481}",
                "f:1:16: http.listen: `9481` will not do",
            ),
            ("http: {listen: localhost:9481}", "with a port"),
            ("http: {}", "nothing is listened on"),
            (
                "http: {commands: true, listen: '127.0.0.1:1'}",
                "nobody may give commands",
            ),
            ("http: {group: x, listen: '127.0.0.1:1'}", "there is none"),
        ] {
            let got = wrong(text);
            assert!(got.contains(want), "{text}: {got}");
        }
    }
}
